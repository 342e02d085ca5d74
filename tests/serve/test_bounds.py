"""`jaxrl serve`: guests see one table, searches hold up no page, players are as new as their run, memory has an end."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from jaxrl import cli
from jaxrl.matches import interactive
from jaxrl.players.player import bot_player
from jaxrl.policies.find import Lookup
from jaxrl.serve import player_catalog
from jaxrl.serve.guard import COOKIE
from jaxrl.serve.player_catalog import PlayerCatalog
from jaxrl.serve.runs import run_watcher
from jaxrl.serve.server import GUEST, Server, ServerSettings
from jaxrl.serve.tables import game
from jaxrl.serve.tables.game import Agent, GameRecord, TableGame
from jaxrl.serve.tables.timed_search import TimedSearch
from jaxrl_envs.contract import registry
from tests.support.serving import HIGH_CARD, KUHN, serving

# ---- guests ---------------------------------------------------------------------------------------------------------


def test_a_guest_gets_to_one_table_alone_also_after_a_restart(tmp_path):
    owner = {"Cookie": f"{COOKIE}=secret"}
    with serving(tmp_path, token="secret", names=frozenset()) as client:
        wanted = {"game": HIGH_CARD, "seats": ["person", "bot:lowest", "person"], "pace": 0}
        mine, other = (json.loads(client.request("/api/tables", wanted, **owner)[1]) for _ in range(2))
    assert "secret" not in json.dumps(mine) and mine["guest"] != other["guest"]
    assert (tmp_path / ".key").stat().st_mode & 0o777 == 0o600
    with serving(tmp_path, token="another", names=frozenset()) as client:
        id, guest = mine["id"], {"Cookie": f"{COOKIE}{mine['id']}={mine['guest']}"}
        assert client.request(f"/table/{id}?token={mine['guest']}x")[0] == 401
        assert client.request(f"/table/{other['id']}?token={mine['guest']}")[0] == 401
        assert client.request(f"/?token={mine['guest']}")[0] == client.request("/static/table.js")[0] == 401
        status, page = client.request(f"/table/{id}", **guest)
        assert status == 200 and b"data-guest" in page
        assert client.request("/static/table.js", **guest)[0] == 200
        assert client.request(f"/api/tables/{id}/replay", **guest)[0] == 400, "it is not finished"
        for path in (f"/table/{other['id']}", f"/api/tables/{other['id']}/replay", f"/table/{id}/../{other['id']}"):
            assert client.request(path, **guest)[0] == 401, path
        for path in (f"/table/{id}", f"/api/tables/{id}/keep", "/static/table.js"):
            assert client.request(path, {}, **guest)[0] == 401, path
        seat = {"key": mine["keys"][2]}
        assert client.request(f"/api/tables/{other['id']}/seat", seat, **guest)[0] == 401
        assert client.request(f"/api/tables/{id}/seat", seat, **guest, Origin="http://elsewhere")[0] == 403
        assert client.request(f"/api/tables/{id}/seat", seat | {"key": "other"}, **guest)[0] == 400
        with client.socket(id, additional_headers=guest) as socket:
            socket.send(json.dumps({"key": mine["keys"][2]}))
            assert json.loads(socket.recv(30))["you"] == 2
        for headers in (guest | {"Cookie": f"{COOKIE}{other['id']}={mine['guest']}"}, guest):
            with pytest.raises(InvalidStatus), client.socket(other["id"], additional_headers=headers):
                pass
        assert b"data-guest" not in client.request(f"/table/{id}", Cookie=f"{COOKIE}=another")[1]


def test_a_damaged_key_is_told_before_the_server_listens(tmp_path, capsys):
    (tmp_path / ".key").write_bytes(b"short")
    command = ["serve", "--host", "0.0.0.0", "--port", "0", "--runs", str(tmp_path), "--folder", str(tmp_path)]
    assert cli.main(command) == cli.USER_ERROR
    assert "is no key of invitations" in capsys.readouterr().err


# ---- who waits for whom ---------------------------------------------------------------------------------------------


def test_searches_hold_up_no_page_and_no_table(tmp_path, monkeypatch):
    begun, end = threading.Semaphore(0), threading.Event()

    def think(*_):
        begun.release()
        end.wait(60)
        raise RuntimeError("it never found anything")

    monkeypatch.setattr(TimedSearch, "think", think)
    with serving(tmp_path) as client:
        tables = [client.open_table(KUHN, "search:20", "search:20") for _ in range(3)]
        with client.sit(tables[0]["id"]), client.sit(tables[1]["id"]), client.sit(tables[2]["id"]):
            assert begun.acquire(timeout=60) and begun.acquire(timeout=60)
            assert client.request("/api/games")[0] == 200
            assert client.post("/api/players", {"game": KUHN})["seats"] == 2
            played = client.open_table(HIGH_CARD, "bot:lowest", "bot:lowest", "bot:lowest")
            with client.sit(played["id"]) as watcher:
                watcher.until(lambda m: m.get("over", False))
            assert not end.is_set()
            end.set()


def test_guests_hold_half_of_the_threads_at_most(tmp_path):
    server, end = Server(ServerSettings(folder=tmp_path)), threading.Event()

    async def guest() -> None:
        GUEST.set(True)
        await server.run("work", end.wait)

    async def owner() -> str:
        guests = [asyncio.create_task(guest()) for _ in range(9)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(server.run("work", lambda: "served"), 30)
        finally:
            end.set()
            await asyncio.gather(*guests)

    assert asyncio.run(owner()) == "served"
    server.close()


# ---- players of runs ------------------------------------------------------------------------------------------------


def test_a_run_that_trains_on_is_played_as_it_is_now(tmp_path, monkeypatch):
    run = tmp_path / "mine"
    (run / "checkpoints" / "3").mkdir(parents=True)
    (run / "config.yaml").touch()
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    (tmp_path / "begun" / "config.yaml").touch()
    library = PlayerCatalog([HIGH_CARD], tmp_path, ())
    assert "run:mine" in library.known() and "run:begun" not in library.known()
    context = library.context(HIGH_CARD, {})
    read = []

    def find(name: str, lookup: Lookup):
        read.append((name, lookup.checkpoint))
        return SimpleNamespace(config=context.config, env=context.env, players=[bot_player(context.env, "lowest")])

    monkeypatch.setattr(player_catalog, "find_player", find)
    first = library.agent(context, "run:mine")
    assert library.agent(context, "run:mine") is first and read == [(str(run), "newest")]
    (run / "checkpoints" / "12").mkdir()
    (run / "checkpoints" / "13.orbax-checkpoint-tmp").mkdir()
    second = library.agent(context, "run:mine")
    assert second is not first and len(read) == 2 and len(context.agents) == 1, "the one before is forgotten"
    assert library.agent(context, "run:mine@3") is library.agent(context, "run:mine@3") and read[2:] == [
        (str(run), "3")
    ]


def test_a_run_whose_game_breaks_is_offered_nowhere_and_hides_no_other_player(tmp_path, monkeypatch, caplog):
    (tmp_path / "mine" / "checkpoints" / "1").mkdir(parents=True)
    (tmp_path / "mine" / "config.yaml").write_text(f"env: {{id: {HIGH_CARD}}}")
    library = PlayerCatalog([HIGH_CARD], tmp_path, ("tests.support.games",))
    context = library.context(HIGH_CARD, {})
    monkeypatch.setattr(player_catalog, "make_games", lambda config: 1 / 0)
    assert ["bot:lowest", "Lowest bot"] in library.offered(context) and library.trained(context) == []
    assert "run:mine fits" in caplog.text and "ZeroDivisionError" in caplog.text


# ---- memory ---------------------------------------------------------------------------------------------------------


def opened_game() -> TableGame:
    """An agent and two people."""
    env = registry.make(HIGH_CARD)
    agent = Agent("x", bot_player(env, "lowest"))
    table = TableGame(env, interactive.Programs(env), GameRecord("", {}, [1, 2], [3, 4], []), [agent, None, None], {})
    table.open()
    return table


def play_on(table: TableGame) -> list[np.ndarray]:
    """Legal actions to the end; what the seats had earned after each."""
    earned = []
    while not table.over:
        table.take(int(np.flatnonzero(np.asarray(table.state.legal_action_mask))[0]))
        earned.append(table.returns())
    return earned


def test_of_a_long_game_the_newest_moments_are_kept(monkeypatch):
    whole = opened_game()
    earned = play_on(whole)
    asked, story = list(whole._askers), whole.moment(0)[1]
    monkeypatch.setattr(game, "PAST", 2)
    monkeypatch.setattr(game, "STORY", 4)
    short = opened_game()
    assert short.moment(0)[1] == []
    told = []
    while not short.over:
        short.take(int(np.flatnonzero(np.asarray(short.state.legal_action_mask))[0]))
        told = short.moment(0)[1]
        assert len(short._past) <= 4
    assert told[-4:] == story[-4:] and set(told[:-4]) == {""} and len(told) == len(story) == len(earned)
    np.testing.assert_array_equal(short.returns(), earned[-1])
    for _ in range(asked.count(1)):  # back to the first decision of a person, far beyond what is kept
        last = max(t for t in range(short.time) if asked[t] == 1)
        assert short.undo(1) and short.time == last and short.asked == [1] and len(short.moment(0)[1]) == last
        expected = earned[last - 1] if last else np.zeros_like(earned[0])
        np.testing.assert_array_equal(short.returns(), expected)
    assert not short.undo(1)
    for before, after in zip(earned[short.time :], play_on(short), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_table_keeps_few_arrays_of_its_past():
    """An array of jax takes 1.6 KB, and a table of Skull King had 19,000 of them for as long as it was open."""
    short = opened_game()
    began = len(jax.live_arrays())
    play_on(short)
    assert len(jax.live_arrays()) <= began
    leaves = [leaf for past in short._past for leaf in jax.tree.leaves(past.saved.state)]
    assert len({id(leaf) for leaf in leaves}) < len(leaves), "equal ones are shared"


def test_unused_programs_are_forgotten(monkeypatch):
    monkeypatch.setattr(interactive, "PROGRAMS", 3)
    programs = interactive.Programs(registry.make(KUHN))
    functions = [lambda x, i=i: x + i for i in range(5)]
    first = programs(functions[0])
    for function in functions[1:]:
        assert int(programs(function)(1)) == 1 + functions.index(function)
        assert programs(functions[0]) is first, "it is used all the time"
    assert len(programs._known) == 3


def test_rows_of_many_runs_are_bounded_and_the_newest_stay(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).mkdir()
        rows = [{"update": i, "steps": i, "x": 1.0} for i in range(10)]  # three numbers each
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(run_watcher, "CELLS", 60)
    runs = run_watcher.RunWatcher(tmp_path)
    for name in "abca":
        assert len(runs.curves(tmp_path / name, ["x"], -1)["steps"]) == 10
    assert list(runs._rows) == ["c", "a"]


def test_a_run_whose_game_breaks_is_listed_with_the_others(tmp_path, monkeypatch):
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("{}")
    brief = run_watcher.status.brief

    def breaks(run):
        if run.name == "bad":
            raise ZeroDivisionError("an option of the game")
        return brief(run)

    monkeypatch.setattr(run_watcher.status, "brief", breaks)
    runs = run_watcher.RunWatcher(tmp_path)
    found = {each["name"]: each["why"] for each in runs.listed()}
    assert found["bad"] == "ZeroDivisionError: an option of the game" and found["good"] == ""
    assert runs.state(tmp_path / "bad")["status"]["why"] == found["bad"]
