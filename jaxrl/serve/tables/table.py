"""A live table: its game, its connections, and the task in which the agents play."""

from __future__ import annotations

import asyncio
import hmac
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jaxrl.matches.interactive import SavedGame
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import Connection
from jaxrl.serve.player_catalog import PERSON, GameContext, PlayerCatalog, game_title
from jaxrl.serve.server import Server
from jaxrl.serve.tables.game import Agent, Question, ShownDecision, TableGame
from jaxrl.serve.tables.record import NAME, SLOWEST, TableRecord, is_person
from jaxrl.serve.tables.timed_search import TimedSearch
from jaxrl.serve.tables.views import position
from jaxrl_envs.shared.errors import UserError

SEARCHED = 2.0  # seconds of a hint by search
SAVED = 2.0  # seconds between two savings while agents play


class LiveTable:
    """A table with players or spectators connected."""

    def __init__(
        self,
        server: Server,
        catalog: PlayerCatalog,
        kept: TableRecord,
        save: Callable[[LiveTable], None],
        rate: Callable[[LiveTable], None],
    ):
        """Opens nothing yet.

        Args:
          server: its threads compute.
          catalog: the players for the seats.
          kept: the stored form of the table.
          save, rate: called in a thread: something has changed; the game is over.
        """
        self.kept, self._server, self._catalog, self._save, self._rate = kept, server, catalog, save, rate
        self.used = time.monotonic()
        self.connections: set[Connection] = set()
        self.game: TableGame | None = None
        self.context: GameContext | None = None
        self.paused, self._once = False, False
        self.trouble, self.doing = "", ""
        self.decision: ShownDecision | None = None
        self._views: dict[int | None, tuple[int, dict[str, Any]]] = {}  # with the number of the time they were made
        self._serial = 0
        self._missing = False  # the views of newcomers are being made
        self._making: asyncio.Task[None] | None = None
        self._changed = 0.0  # when something changed that is not saved
        self._lock, self._saving, self._wake = asyncio.Lock(), asyncio.Lock(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._whole: set[asyncio.Task[None]] = set()  # background tasks that must finish
        self._hints: dict[Connection, tuple[asyncio.Task[None], threading.Event]] = {}  # asked for, not yet given

    @property
    def public(self) -> bool:
        """Whether spectators may see everything: only agents play here."""
        return PERSON not in self.kept.specs

    # ---- people come and go -----------------------------------------------------------------------------------------

    def greet(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Seats a person or a spectator. Raises ValueError: the key fits no seat."""
        key = hello.get("key")
        if key:
            found = [i for i, own in enumerate(self.kept.keys) if own and _equal(own, str(key))]
            if not found:
                raise ValueError("this link is of no seat of this table")
            connection.seat = found[0]
            self._introduce(connection.seat, hello)
        self.connections.add(connection)
        self.used = time.monotonic()
        if self._task is None or self._task.done():
            self.trouble = ""
            self._task = asyncio.create_task(self._run())
        self._wake.set()
        self._refresh()

    def _introduce(self, seat: int, hello: dict[str, Any]) -> None:
        name = "".join(letter for letter in str(hello.get("name", "")) if letter.isprintable()).strip()[:NAME]
        if name:
            self.kept.names[seat] = name
        person = hello.get("person", "")
        if is_person(person) and not self.kept.people[seat]:
            self.kept.people[seat] = person

    def leave(self, connection: Connection) -> None:
        """Removes a connection."""
        self.connections.discard(connection)
        self._cancel_hint(connection)
        self.used = time.monotonic()
        self._refresh()

    async def close(self) -> None:
        """Stops the task and saves."""
        self._cancel_hints()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for connection in list(self.connections):
            await connection.close(1012, "the server ends")
        while self._whole:
            await asyncio.gather(*self._whole, return_exceptions=True)
        if self._changed:
            await self._store()

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for work that must not be cancelled with its caller, because its thread goes on anyway."""
        task = asyncio.create_task(work)
        self._whole.add(task)
        task.add_done_callback(self._whole.discard)
        await asyncio.shield(task)

    # ---- the agents' task -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            if self.game is None:
                await self._open()
            while True:
                await self._turn()
        except UserError as error:
            self.trouble = str(error)
        except Exception:  # a table that breaks takes no other with it
            LOG.exception("table %s", self.kept.id)
            self.trouble = "this table is broken: the server's log says why."
        self._refresh()

    async def _open(self) -> None:
        def make() -> tuple[GameContext, TableGame]:
            record = self.kept.record
            context = self._catalog.context(record.game, record.options)
            agents = [None if spec == PERSON else self._catalog.agent(context, spec) for spec in self.kept.specs]
            people = [seat for seat, spec in enumerate(self.kept.specs) if spec == PERSON]
            adviser = self._catalog.adviser(context, self.kept.specs) if people else None
            game = TableGame(
                context.env, context.programs, record, agents, {seat: adviser for seat in people if adviser}
            )
            game.open()
            return context, game

        self.context, self.game = await self._server.build(make)
        await self._show()

    async def _turn(self) -> None:
        """Makes one move of an agent, or waits for a person's."""
        assert self.game is not None
        self._wake.clear()
        idle = self.paused and not self._once or not self.connections
        if self.game.over or self.game.waits or idle:
            await self._settle()
            await self._wake.wait()
            return
        if (search := self.game.search) is not None and not search.compiled:
            self.doing = "searching (compiling first)"
            self._refresh()
            try:
                return await self._compile(search, self.game.question())
            finally:
                self.doing = ""
        self._once, began = False, time.monotonic()
        async with self._lock:
            if self.game.over or self.game.waits:
                return
            work = self._server.think if self.game.search else self._server.work
            decision, after = await work(self.game.decide, told=self.public)
            await self._to_its_end(self._carry_out(decision, after))
            self.decision = decision if self.public else None
        await self._moved()
        if not self.paused:
            await asyncio.sleep(max(0.0, self.kept.pace - (time.monotonic() - began)))

    async def _carry_out(self, decision: ShownDecision, after: SavedGame) -> None:
        assert self.game is not None
        await self._server.work(self.game.play, decision, after)
        self._changed = self._changed or time.monotonic()

    async def _moved(self) -> None:
        self._changed = self._changed or time.monotonic()
        await self._show()
        assert self.game is not None
        if self.game.over or self.game.waits or time.monotonic() - self._changed > SAVED:
            await self._settle()

    async def _settle(self) -> None:
        """Saves unsaved changes; rates a finished game once."""
        assert self.game is not None
        if self.game.over and not self.kept.rated:
            self.kept.rated, self._changed = True, time.monotonic()
            await self._to_its_end(self._server.work(self._rate, self))
        if self._changed:
            await self._to_its_end(self._store())

    async def _store(self) -> None:
        """Saves, one write at a time; a failed write is tried again with the next change and at the end."""
        async with self._saving:
            changed, self._changed = self._changed, 0.0
            if not changed:
                return
            try:
                await self._server.work(self._save, self)
            except Exception as error:  # a full disk: the game goes on
                self._changed = changed
                LOG.error("table %s cannot be saved: %s", self.kept.id, error)

    async def _show(self) -> None:
        """Makes new views for all connections and notifies them."""
        game = self.game
        assert game is not None
        seats = {connection.seat for connection in self.connections}
        wanted = [seat for seat in seats if seat is not None or self._shows_all()]

        def make() -> dict[int | None, dict[str, Any]]:
            moments = {seat: (*game.moment(seat), game.settled(seat), game.scores()) for seat in wanted}
            return {
                seat: position(game.env, state, seat)
                | {"time": len(lines), "lines": lines, "settled": settled, "scores": scores}
                for seat, (state, lines, settled, scores) in moments.items()
            }

        self._missing = False
        self._serial += 1
        serial = self._serial
        made = {seat: (serial, view) for seat, view in (await self._server.work(make)).items()}
        newer = {seat: entry for seat, entry in self._views.items() if entry[0] > serial}
        self._views = made | newer  # a later view may have been ready sooner; unread ones are out of date
        self._refresh()

    def _lay_out(self) -> None:
        """Makes the views of new connections in one go."""
        if not self._missing:
            self._missing = True
            self._making = asyncio.get_running_loop().create_task(self._show())

    def _shows_all(self) -> bool:
        return self.public or self.game is not None and self.game.over

    def _refresh(self) -> None:
        for connection in self.connections:
            connection.refresh()

    # ---- what browsers ask ------------------------------------------------------------------------------------------

    async def answer(self, connection: Connection, message: dict[str, Any]) -> None:
        """Handles one message; an error is reported to that browser alone. A move that has begun is finished even if
        the browser leaves."""
        self.used = time.monotonic()
        await self._to_its_end(self._answer(connection, message))

    async def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        wish = {
            "play": self._play,
            "hint": self._hint,
            "undo": self._undo,
            "pace": self._pace,
            "pause": self._pause,
            "go": self._go,
            "one": self._one,
        }.get(str(message.get("do")))
        try:
            if wish is None:
                raise UserError("this is not understood.")
            if self.game is None and wish in (self._play, self._hint, self._undo):
                raise UserError(self.trouble or "the table is still being laid.")
            if connection.seat is None and not self.public:
                raise UserError("you look on: the people at the table decide.")
            await wish(connection, message)
        except UserError as error:
            connection.note(kind="error", text=str(error))

    async def _play(self, connection: Connection, message: dict[str, Any]) -> None:
        action, at = message.get("action"), message.get("at")
        async with self._lock:
            game = self._asked(connection)
            if at != game.time:
                raise UserError("the game has gone on: look again.")
            if type(action) is not int or not game.is_legal(action):
                raise UserError("this cannot be played now.")
            await self._server.work(game.take, action)
            self._cancel_hints()
        await self._moved()
        self._wake.set()

    async def _hint(self, connection: Connection, message: dict[str, Any]) -> None:
        """Begins a hint, which takes the place of one begun before; the table goes on, and a move cancels it."""
        self._asked(connection)  # while an agent decides, the lock is not waited for
        async with self._lock:
            game = self._asked(connection)
            question = await self._server.work(game.question)
        self._cancel_hint(connection)
        cancelled = threading.Event()
        work = self._search if message.get("by") == "search" else self._advise
        task = asyncio.create_task(self._give(connection, work, question, cancelled))
        self._hints[connection] = task, cancelled

    async def _give(
        self,
        connection: Connection,
        work: Callable[[Connection, Question, threading.Event], Coroutine[Any, Any, dict[str, Any]]],
        question: Question,
        cancelled: threading.Event,
    ) -> None:
        try:
            connection.note(**await work(connection, question, cancelled))
        except UserError as error:
            connection.note(kind="error", text=str(error))
        except Exception:  # of a game's own code: the table goes on
            LOG.exception("a hint at table %s", self.kept.id)
            connection.note(kind="error", text="this hint failed: the server's log says why.")
        del self._hints[connection]

    async def _search(self, connection: Connection, question: Question, cancelled: threading.Event) -> dict[str, Any]:
        assert self.context is not None and self.game is not None
        search = await self._server.ponder(self._catalog.search, self.context)
        if search is None:
            raise UserError("this game cannot be searched.")
        if not search.compiled:
            connection.note(kind="doing", text="searching (compiling first) …")
            await self._compile(search, question)
        connection.note(kind="doing", text="searching …")
        agent = Agent("a search", None, search, SEARCHED)
        found = await self._server.think(self.game.hint, agent, question, cancelled)
        return {"kind": "hint", "at": question.time, **_told(found, self.game)}

    async def _advise(self, connection: Connection, question: Question, cancelled: threading.Event) -> dict[str, Any]:
        assert self.game is not None
        adviser = self.game.adviser(int(question.saved.state.current_player))
        if adviser is None:
            raise UserError("no agent here can give a hint.")
        connection.note(kind="doing", text="asking …")
        found = await self._server.work(self.game.hint, adviser, question)
        return {"kind": "hint", "at": question.time, **_told(found, self.game)}

    async def _compile(self, search: TimedSearch, question: Question) -> None:
        await self._server.build_once(search, lambda: search.compile(question.saved.state, question.key))

    def _cancel_hint(self, connection: Connection) -> None:
        if (asked := self._hints.pop(connection, None)) is not None:
            task, cancelled = asked
            cancelled.set()
            task.cancel()

    def _cancel_hints(self) -> None:
        for connection in list(self._hints):
            self._cancel_hint(connection)

    async def _undo(self, connection: Connection, message: dict[str, Any]) -> None:
        seat = connection.seat
        if seat is None or self.kept.specs.count(PERSON) > 1:
            raise UserError("moves are taken back only where one person plays against agents.")
        async with self._lock:
            assert self.game is not None
            if self.kept.rated or not await self._server.work(self.game.undo, seat):
                raise UserError("there is nothing to take back.")
            self.kept.undone = True
            self._cancel_hints()
            for each in self.connections:
                each.told = min(each.told, self.game.time)
        await self._moved()
        self._wake.set()

    async def _pace(self, connection: Connection, message: dict[str, Any]) -> None:
        seconds: Any = message.get("seconds")
        if type(seconds) not in (int, float) or not 0.0 <= seconds <= SLOWEST:
            raise UserError(f"the pace is 0 to {SLOWEST:g} seconds.")
        self.kept.pace = float(seconds)
        self._refresh()

    async def _pause(self, connection: Connection, message: dict[str, Any]) -> None:
        self.paused = True
        self._refresh()

    async def _go(self, connection: Connection, message: dict[str, Any]) -> None:
        self.paused = False
        self._wake.set()
        self._refresh()

    async def _one(self, connection: Connection, message: dict[str, Any]) -> None:
        self.paused = self._once = True
        self._wake.set()
        self._refresh()

    def _asked(self, connection: Connection) -> TableGame:
        assert self.game is not None
        if connection.seat not in self.game.asked or self.game.env.simultaneous:
            raise UserError("it is not your turn.")
        return self.game

    # ---- what they are shown ----------------------------------------------------------------------------------------

    def compose(self, connection: Connection) -> dict[str, Any] | None:
        """The newest view for a connection: of the position only what `jaxrl.serve.tables.views` gives its seat."""
        seat = connection.seat
        message = {"kind": "view", "you": seat, "trouble": self.trouble, "paused": self.paused, "doing": self.doing}
        message |= self._about()
        if self.game is None:
            return message | {"opening": True}
        if seat not in self._views:
            if seat is not None or self._shows_all():
                self._lay_out()
                return None
            return message | {"opening": False, "time": self.game.time, "over": self.game.over, "hidden": True}
        view = dict(self._views[seat][1])
        board, lines, settled = view.pop("board"), view.pop("lines"), view.pop("settled")
        if board != connection.board:
            connection.board, view["board"] = board, board
        if view["scores"] == connection.scores:
            del view["scores"]
        else:
            connection.scores = view["scores"]
        first, connection.told = min(connection.told, len(lines)), len(lines)
        if settled and settled["time"] > first:
            view["settled"] = settled
        view |= {"story": {"from": first, "lines": lines[first:]}, "opening": False}
        if self.decision is not None and self.public:
            view["decision"] = _told(self.decision, self.game)
        if view["over"]:
            view["returns"], view["won"] = self.game.returns().tolist(), self.game.outcome()
        return message | view

    def _about(self) -> dict[str, Any]:
        """Returns the facts of the table that every connection may know."""
        here = {connection.seat for connection in self.connections}
        people = self.kept.specs.count(PERSON)
        sides = list(self.game.env.sides) if self.game else []
        return {
            "table": self.kept.id,
            "game": self.kept.record.game,
            "title": game_title(self.kept.record.game),
            "options": self.kept.record.options,
            "seats": [
                {"name": name, "person": spec == PERSON, "here": spec != PERSON or seat in here, "spec": spec}
                for seat, (name, spec) in enumerate(zip(self.kept.shown_names, self.kept.specs, strict=True))
            ],
            "sides": sides,
            "pace": self.kept.pace,
            "undo": people == 1 and not self.kept.rated,
            "watch": self.public,
            "beside": self.kept.beside,
        }


def _told(decision: ShownDecision, game: TableGame) -> dict[str, Any]:
    """Returns a decision as a message for the page."""
    names = decision._asdict()
    if not game.env.simultaneous:
        names["name"] = game.env.action_name(int(decision.action))
    return names


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
