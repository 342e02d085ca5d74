"""`jaxrl serve` where something goes wrong: a browser that leaves in the middle, a full disk, a damaged file."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from jaxrl.serve.connection import Connection
from jaxrl.serve.player_catalog import PERSON
from jaxrl.serve.server import Server, ServerSettings
from jaxrl.serve.tables.game import GameRecord
from jaxrl.serve.tables.ratings import PeopleRatings
from jaxrl.serve.tables.record import TableRecord
from jaxrl.serve.tables.table import LiveTable
from tests.support.serving import GAMES, HIGH_CARD


def kept_table(id: str = "a" * 12, **more) -> TableRecord:
    """A person against two agents."""
    specs, record = [PERSON, "bot:lowest", "bot:lowest"], GameRecord(HIGH_CARD, {}, [1, 2], [3, 4], [])
    made = {"names": ["p", "x", "y"], "keys": ["key", "", ""], "people": ["anna", "", ""], "made": time.time()}
    return TableRecord(**{"id": id, "record": record, "specs": specs, "pace": 0.0, **made, **more})


def live_table(tmp_path, save=lambda kept: None) -> LiveTable:
    server = Server(ServerSettings(folder=tmp_path, runs=tmp_path / "runs", games=GAMES))
    return LiveTable(server, kept_table(), save, lambda table: None)


async def seated(table: LiveTable) -> Connection:
    """A person at the table, whose turn it is."""
    connection = Connection(None, table)
    table.greet(connection, {"key": "key"})
    while table.game is None or not table.game.waits:
        assert not table.trouble
        await asyncio.sleep(0.01)
    return connection


def move(table: LiveTable) -> dict:
    legal = next(action for action in range(12) if table.game.is_legal(action))
    return {"do": "play", "action": legal, "at": table.game.time}


def test_a_move_is_made_though_the_browser_leaves_in_the_middle(tmp_path):
    async def leave():
        saved = []
        table = live_table(tmp_path, lambda kept: saved.append(len(kept.record.actions)))
        anna = await seated(table)
        take, now = table.game.take, table.game.time

        def slowly(action):
            time.sleep(0.3)
            take(action)

        table.game.take = slowly
        answering = asyncio.create_task(table.answer(anna, move(table)))
        await asyncio.sleep(0.1)
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        assert table.game.time == now and table._lock.locked(), "no other seat moves meanwhile"
        table.leave(anna)
        await table.close()
        assert table.game.time > now and saved[-1] == table.game.time

    asyncio.run(leave())


def test_one_saving_at_a_time_and_a_failed_one_is_tried_again(tmp_path):
    busy, tries = [], []

    def save(kept):
        assert not busy, "two savings at once"
        busy.append(True)
        time.sleep(0.05)
        busy.pop()
        tries.append(len(kept.record.actions))
        if len(tries) == 1:
            raise OSError("the disk is full")

    async def play():
        table = live_table(tmp_path, save)
        anna = await seated(table)
        while not tries or table._saving.locked():
            await asyncio.sleep(0.01)
        await asyncio.gather(*(table._settle() for _ in range(5)))
        assert not table.trouble and tries == [tries[0]] * 2, "the second saves what the first did not"
        await table.answer(anna, move(table))
        table.leave(anna)
        await table.close()
        assert tries[-1] == table.game.time

    asyncio.run(play())


def test_ratings_are_kept_one_after_another(tmp_path):
    game = "skull_king"
    ratings = PeopleRatings(tmp_path / "ratings.json")
    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(ratings.add, f"p{i}", game, [("hard", 1.0)]) for i in range(100)]:
            each.result()
    again = PeopleRatings(tmp_path / "ratings.json")
    assert len({again.of(f"p{i}", game) for i in range(100)}) == 1 and again.of("p0", game) != again.of("absent", game)


def test_a_record_that_does_not_play_is_kept_whole(tmp_path):
    async def look():
        table = live_table(tmp_path)
        table.kept.record.actions[:] = [99, 1, 2]
        table.greet(Connection(None, table), {})
        while not table.trouble:
            await asyncio.sleep(0.01)
        assert "not a game by the rules" in table.trouble and table.kept.record.actions == [99, 1, 2]
        await asyncio.wait({table._task})
        del table.kept.record.actions[:]  # mended
        connection = Connection(None, table)
        table.greet(connection, {"key": "key"})
        assert not table.trouble
        while table.game is None or not table.game.waits:
            await asyncio.sleep(0.01)
        for each in list(table.connections):
            table.leave(each)
        await table.close()

    asyncio.run(look())
