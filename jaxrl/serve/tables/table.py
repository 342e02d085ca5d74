"""A live table: its game, its connections, and the task in which the agents play."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jaxrl.matches.interactive import SavedGame
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import Connection, Visit
from jaxrl.serve.player_catalog import PERSON, GameContext, game_title
from jaxrl.serve.server import Server
from jaxrl.serve.tables.game import Agent, Question, ShownDecision, TableGame
from jaxrl.serve.tables.record import NAME, TableRecord, checked_pace, is_person
from jaxrl.serve.tables.timed_search import TimedSearch
from jaxrl_envs.shared.errors import UserError

SEARCHED = 2.0  # seconds of a hint by search
SAVED = 2.0  # seconds between two savings while agents play
VISIT = 50.0  # seconds that a plain request waits for its seat's turn


class LiveTable:
    """A table with players or spectators connected."""

    def __init__(
        self, server: Server, kept: TableRecord, save: Callable[[TableRecord], None], rate: Callable[[LiveTable], None]
    ):
        """Opens nothing yet; `save` and `rate` are called in threads, for changes and when the game is over."""
        self.kept, self._server, self._save, self._rate = kept, server, save, rate
        self.used = time.monotonic()
        self.connections: set[Connection] = set()
        self.game: TableGame | None = None
        self.context: GameContext | None = None
        self.paused, self._once = False, False
        self.trouble, self.doing = "", ""
        self.decision: ShownDecision | None = None
        self._views: dict[tuple[int | None, bool], dict[str, Any]] = {}  # by seat and form of the screen
        self._missing = False  # the views of newcomers are being made
        self._changed = 0.0  # when something changed that is not saved
        self._lock, self._showing, self._saving = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._whole: set[asyncio.Task[None]] = set()  # background tasks that must finish
        self._hints: dict[Connection, asyncio.Task[None]] = {}  # asked for, not yet given

    @property
    def public(self) -> bool:
        """Whether spectators may see everything: only agents play here."""
        return PERSON not in self.kept.specs

    # ---- people come and go -----------------------------------------------------------------------------------------

    def greet(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Seats a person or a spectator. Raises ValueError: the key fits no seat."""
        if key := str(hello.get("key") or ""):
            fits = [hmac.compare_digest(own.encode(), key.encode()) for own in self.kept.keys]
            if not any(fits):
                raise ValueError("this link is of no seat of this table")
            connection.seat = fits.index(True)
            self._introduce(connection.seat, hello)
        connection.upright = hello.get("upright") is True
        self.connections.add(connection)
        self.used = time.monotonic()
        if self._task is None or self._task.done():
            self.trouble = ""
            self._task = asyncio.create_task(self._run())
        self._wake.set()
        self._refresh()

    def _introduce(self, seat: int, hello: dict[str, Any]) -> None:
        name = "".join(filter(str.isprintable, str(hello.get("name", "")))).strip()[:NAME]
        self.kept.names[seat] = name or self.kept.names[seat]
        if is_person(person := hello.get("person", "")):
            self.kept.people[seat] = self.kept.people[seat] or person

    def leave(self, connection: Connection) -> None:
        """Removes a connection."""
        self.connections.discard(connection)
        self._cancel_hints(connection)
        self.used = time.monotonic()
        self._refresh()

    async def close(self) -> None:
        """Stops the task and saves."""
        self._cancel_hints(*self._hints)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for connection in list(self.connections):
            await connection.close(1012, "the server ends")
        while self._whole:
            await asyncio.gather(*self._whole, return_exceptions=True)
        if self._changed:
            await self._store()

    def _to_its_end(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Starts work that is not cancelled with the caller who awaits it, because its thread goes on anyway."""
        task = asyncio.get_running_loop().create_task(work)
        self._whole.add(task)
        task.add_done_callback(self._whole.discard)
        return asyncio.shield(task)

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
            catalog, specs = self._server.catalog, self.kept.specs
            context = catalog.context(record.game, record.options)
            agents = [None if spec == PERSON else catalog.agent(context, spec) for spec in specs]
            people = [seat for seat, spec in enumerate(specs) if spec == PERSON]
            adviser = catalog.adviser(context, specs) if people else None
            advisers = {seat: adviser for seat in people if adviser}
            game = TableGame(context.env, context.programs, record, agents, advisers)
            game.open()
            return context, game

        self.context, self.game = await self._server.run("build", make)
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
            pool = "think" if self.game.search else "work"
            decision, after = await self._server.run(pool, self.game.decide, told=self.public)
            await self._to_its_end(self._carry_out(decision, after))
            self.decision = decision if self.public else None
        await self._moved()
        if not self.paused:
            await asyncio.sleep(max(0.0, self.kept.pace - (time.monotonic() - began)))

    async def _carry_out(self, decision: ShownDecision, after: SavedGame) -> None:
        assert self.game is not None
        await self._server.run("work", self.game.play, decision, after)
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
            await self._to_its_end(self._server.run("work", self._rate, self))
        if self._changed:
            await self._to_its_end(self._store())

    async def _store(self) -> None:
        """Saves, one write at a time; a failed write is tried again with the next change and at the end."""
        async with self._saving:
            changed, self._changed = self._changed, 0.0
            if not changed:
                return
            try:
                await self._server.run("work", self._save, self.kept)
            except Exception as error:  # a full disk: the game goes on
                self._changed = changed
                LOG.error("table %s cannot be saved: %s", self.kept.id, error)

    async def _show(self) -> None:
        """Makes new views for all connections and notifies them."""
        async with self._showing:
            self._missing, game = False, self.game
            assert game is not None
            forms = {(connection.seat, connection.upright) for connection in self.connections}
            wanted = [form for form in forms if form[0] is not None or self._shows_all()]
            self._views = await self._server.run("work", lambda: {form: game.view(*form) for form in wanted})
        self._refresh()

    def _shows_all(self) -> bool:
        return self.public or self.game is not None and self.game.over

    def _refresh(self) -> None:
        for connection in self.connections:
            connection.refresh()

    # ---- what browsers ask ------------------------------------------------------------------------------------------

    async def visit(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Plays an action for a seat, if one is brought, and waits until the seat is asked again or the game is over.

        Args:
          asked: "key" of the seat; "action" to play, and "at", the "time" of the view that it answers (default: now).

        Returns:
          The view, without drawings; the newest one, "late", if the others take too long.

        Raises:
          UserError: no such seat, or not a legal action of this seat now.
        """
        guest = Visit(self)
        try:
            self.greet(guest, asked)
        except ValueError as error:
            raise UserError(f"{error}.") from None
        try:
            if guest.seat is None:
                raise UserError("name the key of a seat.")
            view = await self._view_when_asked(guest)
            if asked.get("action") is not None and not view["late"]:
                move = {"do": "play", "action": asked["action"], "at": asked.get("at", view["time"])}
                await self._to_its_end(self._obey(guest, move))
                self._wake.set()
                view = await self._view_when_asked(guest)
            return view
        finally:
            self.leave(guest)

    async def _view_when_asked(self, guest: Visit) -> dict[str, Any]:
        view: dict[str, Any] = {}
        try:
            async with asyncio.timeout(VISIT):
                while not (view.get("legal") or view.get("over")):
                    if view:
                        await guest.news()
                    if self.trouble:
                        raise UserError(self.trouble)
                    guest.told, guest.board, guest.scores = 0, None, None  # each view is whole
                    view = self.compose(guest) or {"over": False}
        except TimeoutError:
            return view | {"late": True}
        finally:
            view.pop("board", None)
            view.pop("settled", None)
        return view | {"late": False}

    async def answer(self, connection: Connection, message: dict[str, Any]) -> None:
        """Handles one message; an error is reported to that browser alone. A move that has begun is finished even if
        the browser leaves."""
        self.used = time.monotonic()
        await self._to_its_end(self._answer(connection, message))

    async def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        try:
            await self._obey(connection, message)
        except UserError as error:
            return connection.note(kind="error", text=str(error))
        self._wake.set()
        self._refresh()

    async def _obey(self, connection: Connection, message: dict[str, Any]) -> None:
        wish = str(message.get("do"))
        if wish == "turn":  # its screen
            connection.upright = message.get("upright") is True
            return
        of_game = {"play": self._play, "hint": self._hint, "undo": self._undo}.get(wish)
        if of_game is None and wish not in ("pace", "pause", "go", "one"):
            raise UserError("this is not understood.")
        if of_game is not None and self.game is None:
            raise UserError(self.trouble or "the table is still being laid.")
        if connection.seat is None and not self.public:
            raise UserError("you look on: the people at the table decide.")
        if of_game is not None:
            await of_game(connection, message)
        elif wish == "pace":
            self.kept.pace = checked_pace(message.get("seconds"))
        else:
            self.paused, self._once = wish != "go", wish == "one"

    async def _play(self, connection: Connection, message: dict[str, Any]) -> None:
        action, at = message.get("action"), message.get("at")
        async with self._lock:
            game = self._asked(connection)
            if at != game.time:
                raise UserError("the game has gone on: look again.")
            if type(action) is not int or not game.is_legal(action):
                raise UserError("this cannot be played now.")
            await self._server.run("work", game.take, action)
            self._cancel_hints(*self._hints)
        await self._moved()

    async def _hint(self, connection: Connection, message: dict[str, Any]) -> None:
        """Begins a hint, which takes the place of one begun before; the table goes on, and a move cancels it."""
        self._asked(connection)  # while an agent decides, the lock is not waited for
        async with self._lock:
            question = await self._server.run("work", self._asked(connection).question)
        self._cancel_hints(connection)
        give = self._search if message.get("by") == "search" else self._advise
        self._hints[connection] = asyncio.create_task(self._give(connection, give, question))

    async def _give(
        self,
        connection: Connection,
        work: Callable[[Connection, Question], Coroutine[Any, Any, ShownDecision]],
        question: Question,
    ) -> None:
        assert self.game is not None
        try:
            found = await work(connection, question)
            connection.note(kind="hint", at=question.time, **_told(found, self.game))
        except UserError as error:
            connection.note(kind="error", text=str(error))
        except Exception:  # of a game's own code: the table goes on
            LOG.exception("a hint at table %s", self.kept.id)
            connection.note(kind="error", text="this hint failed: the server's log says why.")
        del self._hints[connection]

    async def _search(self, connection: Connection, question: Question) -> ShownDecision:
        context = self.context
        assert context is not None and self.game is not None
        search = await self._server.run("ponder", lambda: context.search)
        if not search.compiled:
            connection.note(kind="doing", text="searching (compiling first) …")
            await self._compile(search, question)
        connection.note(kind="doing", text="searching …")
        return await self._server.run("think", self.game.hint, Agent("a search", None, search, SEARCHED), question)

    async def _advise(self, connection: Connection, question: Question) -> ShownDecision:
        assert self.game is not None
        adviser = self.game.advisers.get(int(question.saved.state.current_player))
        if adviser is None:
            raise UserError("no agent here can give a hint.")
        connection.note(kind="doing", text="asking …")
        return await self._server.run("work", self.game.hint, adviser, question)

    async def _compile(self, search: TimedSearch, question: Question) -> None:
        await self._server.build_once(search, lambda: search.compile(question.saved.state, question.key))

    def _cancel_hints(self, *connections: Connection) -> None:
        for connection in connections:
            if (asked := self._hints.pop(connection, None)) is not None:
                asked.cancel()

    async def _undo(self, connection: Connection, message: dict[str, Any]) -> None:
        seat = connection.seat
        if seat is None or self.kept.specs.count(PERSON) > 1:
            raise UserError("moves are taken back only where one person plays against agents.")
        async with self._lock:
            assert self.game is not None
            if self.kept.rated or not await self._server.run("work", self.game.undo, seat):
                raise UserError("there is nothing to take back.")
            self.kept.undone = True
            self._cancel_hints(*self._hints)
            for each in self.connections:
                each.told = min(each.told, self.game.time)
        await self._moved()

    def _asked(self, connection: Connection) -> TableGame:
        assert self.game is not None
        if connection.seat not in self.game.asked or self.game.env.simultaneous:
            raise UserError("it is not your turn.")
        return self.game

    # ---- what they are shown ----------------------------------------------------------------------------------------

    def compose(self, connection: Connection) -> dict[str, Any] | None:
        """Returns the newest view for a connection: of the position only what `TableGame.view` gives its seat."""
        seat, form = connection.seat, (connection.seat, connection.upright)
        message = {"kind": "view", "you": seat, "trouble": self.trouble, "paused": self.paused, "doing": self.doing}
        message |= self._about()
        if self.game is None:
            return message | {"opening": True}
        if form not in self._views:
            if seat is not None or self._shows_all():
                if not self._missing:
                    self._missing = True
                    self._to_its_end(self._show())
                return None
            return message | {"opening": False, "time": self.game.time, "over": self.game.over, "hidden": True}
        view = dict(self._views[form])
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
        if not first:
            view["rules"] = self.game.env.how_to_play
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
