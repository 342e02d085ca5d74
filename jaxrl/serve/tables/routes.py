"""The pages of tables, where people and agents play or agents alone are watched.

A table is a file of `ServerSettings.folder`: its game is the words of its keys and its actions, so that a server that
is started again goes on where it was.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from jaxrl import xla
from jaxrl.matches.recording import replays
from jaxrl.players.spec import BOT, parse
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import Connection, serve_connection
from jaxrl.serve.player_catalog import PERSON, GameContext, game_title
from jaxrl.serve.server import Server, body_of, page
from jaxrl.serve.tables.game import GameRecord
from jaxrl.serve.tables.ratings import PeopleRatings
from jaxrl.serve.tables.record import SLOWEST, SUFFIX, TableRecord, is_person, new_id, new_keys, read_table
from jaxrl.serve.tables.table import LiveTable
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, printable

NEAR = "near"  # a seat for an agent of about the person's strength
IDLE = 600.0  # seconds after which a table without anybody is put away
UNUSED = 7 * 86400.0  # seconds after which a game that is not finished may make room for another
SWEEP = 30.0  # seconds between two looks for those, and for memory that is free
REPLAYS = "replays"  # the folder of games that people kept, in the folder of tables
BAD = 100  # bad files that are listed


def routes(server: Server) -> list[BaseRoute]:
    """Returns the routes of these pages."""
    room = TableRoutes(server)
    server.opening.append(room.open)
    server.closing.append(room.close)
    return [
        Route("/", page("index", "play")),
        Route("/table/{id}", page("table", wide=True)),
        Route("/api/games", room.games),
        Route("/api/players", room.players, methods=["POST"]),
        Route("/api/tables", room.listing),
        Route("/api/tables", room.create, methods=["POST"]),
        Route("/api/tables/{id}/replay", room.replay),
        Route("/api/tables/{id}/keep", room.keep, methods=["POST"]),
        WebSocketRoute("/api/tables/{id}/socket", room.socket),
    ]


class TableRoutes:
    """The endpoints and tables of a server."""

    def __init__(self, server: Server):
        """Reads no file yet."""
        self._server, self._folder = server, server.settings.folder
        self._packing = asyncio.Lock()
        self._catalog = server.catalog
        self._ratings: PeopleRatings | None = None
        self._kept: dict[str, TableRecord] = {}
        self._bad: dict[str, str] = {}  # why files of the folder are no tables, by their names
        self._used: dict[str, float] = {}  # Unix time at which those that are not live were saved last
        self._making = asyncio.Lock()
        self._live: dict[str, LiveTable] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Reads the stored tables."""

        def read() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._ratings = PeopleRatings(self._folder / "ratings.json")
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                try:
                    kept = read_table(path, [*self._server.settings.allow, *self._server.settings.games])
                    self._used[kept.id] = path.stat().st_mtime
                except (UserError, OSError) as error:  # the file stays as it is
                    self._bad[path.name] = printable(str(error))
                    LOG.warning("%s: %s", self._folder, self._bad[path.name])
                else:
                    self._kept[kept.id] = kept

        await self._server.work(read)
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Saves all tables."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for id, said in zip(
            list(self._live),
            await asyncio.gather(*(table.close() for table in self._live.values()), return_exceptions=True),
            strict=False,
        ):
            if isinstance(said, BaseException):
                LOG.error("table %s: %s", id, said)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            await self._server.work(xla.trim_memory)
            for id, table in list(self._live.items()):
                if not table.connections and time.monotonic() - table.used > IDLE:
                    self._used[id] = time.time() - (time.monotonic() - table.used)
                    del self._live[id]
                    try:
                        await table.close()
                    except Exception:  # one that breaks: the others are looked at all the same
                        LOG.exception("table %s", id)

    # ---- what pages ask ---------------------------------------------------------------------------------------------

    async def games(self, request: Request) -> Response:
        """GET: the games on offer."""
        found = await self._server.ponder(self._catalog.describe)
        return JSONResponse(found, headers={"cache-control": "no-cache"})

    async def players(self, request: Request) -> Response:
        """POST {"game", "options", "person"}: the game's seats and the players for them."""
        asked = await body_of(request)
        return JSONResponse(await self._server.ponder(self._players, asked))

    def _players(self, asked: dict[str, Any]) -> dict[str, Any]:
        context = self._context(asked)
        offered = self._catalog.offered(context)
        rating = None
        if self._ratings is not None and (person := _person(asked)):
            rating = self._ratings.of(person, context.id)
        return {
            "seats": context.env.num_players,
            "sides": list(context.env.sides),
            "people": not context.env.simultaneous,
            "players": offered,
            "rules": context.env.how_to_play,
            "rating": rating,
        }

    async def listing(self, request: Request) -> Response:
        """GET: all tables, newest first, with public facts only, and the files that are no tables."""
        found = sorted(self._kept.values(), key=lambda kept: -kept.made)
        bad = [{"id": printable(name), "bad": why} for name, why in list(self._bad.items())[:BAD]]
        return JSONResponse([self._listed(kept) for kept in found] + bad)

    def _listed(self, kept: TableRecord) -> dict[str, Any]:
        try:
            return self._public(kept)
        except UserError as error:  # e.g. the library of its game is not installed; others are listed all the same
            return {"id": kept.id, "bad": printable(str(error))}

    def _public(self, kept: TableRecord) -> dict[str, Any]:
        live = self._live.get(kept.id)
        return {
            "id": kept.id,
            "game": kept.record.game,
            "title": game_title(kept.record.game),
            "names": kept.shown_names,
            "people": kept.specs.count(PERSON),
            "here": len(live.connections) if live else 0,
            "time": len(kept.record.actions),
            "over": kept.rated,
            "made": kept.made,
        }

    async def create(self, request: Request) -> Response:
        """{"game", "options", "seats", "person", "beside", "pace"} -> {"id", "keys", "beside", "guest"}, a token.
        Without "seats" a person, where people can play, sits down with agents of the game's usual kind."""
        asked = await body_of(request)
        tables = await self._server.ponder(self._lay, asked)
        async with self._making:
            await self._make_room(len(tables))
            self._kept |= {kept.id: kept for kept in tables}
            try:
                for kept in tables:
                    await self._server.work(self._write, kept)
            except OSError:  # a full disk, for instance
                for kept in tables:
                    del self._kept[kept.id]
                raise
        first = tables[0]
        guest = await self._server.work(self._server.guests.token, first.id) if self._server.settings.token else ""
        return JSONResponse({"id": first.id, "keys": first.keys, "beside": first.beside, "guest": guest})

    def _lay(self, asked: dict[str, Any]) -> list[TableRecord]:
        """Makes a table, or two with the same deal and the players moved by one seat."""
        context, person = self._context(asked), _person(asked)
        seats, pace = asked.get("seats", self._catalog.seats(context)), asked.get("pace", 1.0)
        if type(pace) not in (int, float) or not 0.0 <= pace <= SLOWEST:
            raise UserError(f"pace must be 0 to {SLOWEST:g} seconds.")
        if not isinstance(seats, list) or len(seats) != context.env.num_players:
            raise UserError(f"name who sits on each of the {context.env.num_players} seats.")
        specs = [self._resolved(context, str(spec), person) for spec in seats]
        if context.env.simultaneous and PERSON in specs:
            raise UserError(f"{context.id} asks all seats at once: agents can be watched, people cannot play here.")
        words = [secrets.randbits(32) for _ in range(4)]
        first = _table(context, specs, person, words, float(pace))
        if not asked.get("beside"):
            return [first]
        if PERSON in specs:
            raise UserError("a deal is played side by side by agents alone.")
        second = _table(context, specs[-1:] + specs[:-1], "", words, float(pace))
        first.beside = second.id
        return [first, second]

    def _resolved(self, context: GameContext, spec: str, person: str) -> str:
        if spec == PERSON:
            return spec
        if spec == NEAR:
            assert self._ratings is not None
            spec = f"{BOT}{self._ratings.nearest(person, context.id, context.env.bots)}"
        self._catalog.agent(context, spec)
        return spec

    async def replay(self, request: Request) -> Response:
        """GET: the finished game as a replay file."""
        found = await self._replay(request.path_params["id"])
        name = f"attachment; filename=table_{request.path_params['id']}{replays.SUFFIX}"
        return Response(found, media_type="application/gzip", headers={"content-disposition": name})

    async def keep(self, request: Request) -> Response:
        """POST -> {"path", "file"}: stores the finished game among the replays; the file's name in the library, if any
        of its folders holds it."""
        id = request.path_params["id"]
        found = await self._replay(id)
        path = self._folder / REPLAYS / f"{id}{replays.SUFFIX}"

        def write() -> None:
            path.parent.mkdir(exist_ok=True)
            files.write(path, found)

        await self._server.work(write)
        folders = enumerate(folder.expanduser().absolute() for folder in self._server.settings.replays)
        at = ((number, folder) for number, folder in folders if path.absolute().is_relative_to(folder))
        file = next((f"{number}/{path.absolute().relative_to(folder)}" for number, folder in at), "")
        return JSONResponse({"path": str(path), "file": file})

    async def _replay(self, id: str) -> bytes:
        table = self._table(id)
        game, context = (table.game, table.context) if table else (None, None)
        if table is None or game is None or context is None or not game.over:
            raise UserError("only a finished game that is open in a browser can be kept as a replay.")
        async with self._packing:  # one at a time: the threads that build are for tables, too
            return await self._server.build(
                lambda: game.replay(context.config, context.lanes, table.kept.names).packed()
            )

    async def socket(self, socket: WebSocket) -> None:
        """The socket of a seat or a spectator: see `LiveTable.answer`."""
        table = self._table(socket.path_params["id"])
        if table is None:
            await socket.accept()
            await socket.close(4404, "there is no such table")
            return
        connection = Connection(socket, table.compose)
        await serve_connection(socket, connection, table.greet, table.answer, table.leave)

    # ---- what is kept -----------------------------------------------------------------------------------------------

    def _context(self, asked: dict[str, Any]) -> GameContext:
        options = asked.get("options") or {}
        if not isinstance(options, dict):
            raise UserError("options must be an object.")
        return self._catalog.context(str(asked.get("game")), options)

    def _table(self, id: str) -> LiveTable | None:
        if id not in self._live and id in self._kept:
            self._live[id] = LiveTable(
                self._server, self._catalog, self._kept[id], lambda t: self._write(t.kept), self._rate
            )
        return self._live.get(id)

    async def _make_room(self, count: int) -> None:
        """Closes tables if there are too many. Raises UserError: too few may be closed; then all stay."""
        too_many = len(self._kept) + count - self._server.settings.tables
        if len(self._spare()) < too_many:
            raise UserError("there is no room for another table: finish one, or start the server with more.")
        while len(self._kept) + count > self._server.settings.tables:
            if not (spare := self._spare()):  # a person has sat down meanwhile
                raise UserError("there is no room for another table: finish one, or start the server with more.")
            oldest = min(spare, key=lambda kept: (not kept.rated, PERSON in kept.specs, kept.made))
            del self._kept[oldest.id]
            self._used.pop(oldest.id, None)
            if (table := self._live.pop(oldest.id, None)) is not None:
                await table.close()
            await self._server.work((self._folder / f"{oldest.id}{SUFFIX}").unlink, missing_ok=True)

    def _spare(self) -> list[TableRecord]:
        """Tables that may be closed: no person is there, and the game is finished, played by agents alone, or long
        unused."""
        found = []
        for kept in self._kept.values():
            table = self._live.get(kept.id)
            used = time.time() - (time.monotonic() - table.used) if table else self._used.get(kept.id, kept.made)
            old = kept.rated or PERSON not in kept.specs or time.time() - used > UNUSED
            if old and not (table and table.connections):
                found.append(kept)
        return found

    def _write(self, kept: TableRecord) -> None:
        if kept.id in self._kept:
            files.write(self._folder / f"{kept.id}{SUFFIX}", json.dumps(dataclasses.asdict(kept)).encode())

    def _rate(self, table: LiveTable) -> None:
        """Rates the people who played a finished game."""
        assert table.game is not None and self._ratings is not None
        kept = table.kept
        agents = {i: parse(spec).label for i, spec in enumerate(kept.specs) if spec != PERSON}
        for seat, person in enumerate(kept.people):
            if person and not kept.undone:
                points = [(agents[i], won) for i, won in table.game.points(seat).items() if i in agents]
                try:
                    self._ratings.add(person, kept.record.game, points)
                except OSError as error:  # they are written with the next game
                    LOG.error("ratings cannot be saved: %s", error)


def _table(context: GameContext, specs: list[str], person: str, words: list[int], pace: float) -> TableRecord:
    record = GameRecord(context.id, dict(context.config.env.options), words[:2], words[2:], [])
    names = ["Person" if spec == PERSON else parse(spec).label for spec in specs]
    first = specs.index(PERSON) if PERSON in specs else -1
    people = [person if seat == first else "" for seat in range(len(specs))]
    return TableRecord(new_id(), record, specs, names, new_keys(specs), people, time.time(), pace)


def _person(asked: dict[str, Any]) -> str:
    """Returns the random number by which a browser identifies its person, or ""."""
    person = asked.get("person", "")
    return person if is_person(person) else ""
