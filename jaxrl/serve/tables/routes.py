"""The pages of tables, where people and agents play or agents alone are watched.

A table is a file of `ServerSettings.folder`: its game is the words of its keys and its actions, so that a server that
is started again goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import secrets
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from jaxrl import xla
from jaxrl.matches.recording import replays
from jaxrl.players.spec import BOT, parse
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import serve_connection
from jaxrl.serve.player_catalog import PERSON, GameContext, game_title
from jaxrl.serve.server import Server, body_of, page
from jaxrl.serve.tables.game import GameRecord
from jaxrl.serve.tables.ratings import PeopleRatings
from jaxrl.serve.tables.record import ID, SUFFIX, TableRecord, checked_pace, is_person, read_table
from jaxrl.serve.tables.table import LiveTable
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, printable

NEAR = "near"  # a seat for an agent of about the person's strength
IDLE = 600.0  # seconds after which a table without connections is put away
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
        Route("/api/tables/{id}/seat", room.seat, methods=["POST"]),
        WebSocketRoute("/api/tables/{id}/socket", room.socket),
    ]


class TableRoutes:
    """The endpoints and tables of a server."""

    def __init__(self, server: Server):
        """Reads the ratings of people."""
        self._server, self._folder, self._catalog = server, server.settings.folder, server.catalog
        self._packing = asyncio.Lock()
        self._ratings = PeopleRatings(self._folder / "ratings.json")
        self._kept: dict[str, TableRecord] = {}
        self._bad: dict[str, str] = {}  # why files of the folder are no tables, by their names
        self._making = asyncio.Lock()
        self._live: dict[str, LiveTable] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Reads the stored tables."""

        def read() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                try:
                    kept = read_table(path, [*self._server.settings.allow, *self._server.settings.games])
                except UserError as error:  # the file stays as it is
                    self._bad[path.name] = printable(str(error))
                    LOG.warning("%s: %s", self._folder, self._bad[path.name])
                else:
                    self._kept[kept.id] = kept

        await self._server.run("work", read)
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Saves all tables."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*map(self._put_away, list(self._live)))

    async def _put_away(self, id: str) -> None:
        """Closes a live table; one that breaks hinders no other."""
        try:
            if (table := self._live.pop(id, None)) is not None:
                await table.close()
        except Exception:
            LOG.exception("table %s", id)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            await self._server.run("work", xla.trim_memory)
            for id, table in list(self._live.items()):
                if not table.connections and time.monotonic() - table.used > IDLE:
                    await self._put_away(id)

    # ---- what pages ask ---------------------------------------------------------------------------------------------

    async def games(self, request: Request) -> Response:
        """GET: the games on offer."""
        found = await self._server.run("ponder", self._catalog.describe)
        return JSONResponse(found, headers={"cache-control": "no-cache"})

    async def players(self, request: Request) -> Response:
        """POST {"game", "options", "person"}: the game's seats and the players for them."""
        asked = await body_of(request)
        return JSONResponse(await self._server.run("ponder", self._players, asked))

    def _players(self, asked: dict[str, Any]) -> dict[str, Any]:
        context = self._context(asked)
        person = _person(asked)
        return {
            "seats": context.env.num_players,
            "sides": list(context.env.sides),
            "people": not context.env.simultaneous,
            "players": self._catalog.offered(context),
            "rules": context.env.how_to_play,
            "rating": self._ratings.of(person, context.id) if person else None,
        }

    async def listing(self, request: Request) -> Response:
        """GET: all tables, unfinished and newest first, with public facts only, and the files that are no tables."""
        found = sorted(self._kept.values(), key=lambda kept: (kept.rated, -kept.made))
        bad = [{"id": printable(name), "bad": why} for name, why in list(self._bad.items())[:BAD]]
        return JSONResponse([self._listed(kept) for kept in found] + bad)

    def _listed(self, kept: TableRecord) -> dict[str, Any]:
        try:
            shown = {"title": game_title(kept.record.game), "names": kept.shown_names}
        except UserError as error:  # e.g. the library of its game is not installed; others are listed all the same
            return {"id": kept.id, "bad": printable(str(error))}
        here = len(self._live[kept.id].connections) if kept.id in self._live else 0
        return {"id": kept.id, "people": kept.specs.count(PERSON), "here": here, "over": kept.rated} | shown

    async def create(self, request: Request) -> Response:
        """{"game", "options", "seats", "person", "beside", "pace"} -> {"id", "keys", "beside", "guest"}, a token.
        Without "seats" a person, where people can play, sits down with agents of the game's usual kind."""
        asked = await body_of(request)
        tables = await self._server.run("ponder", self._lay, asked)
        async with self._making:
            await self._make_room(len(tables))
            self._kept |= {kept.id: kept for kept in tables}
            try:
                for kept in tables:
                    await self._server.run("work", self._write, kept)
            except OSError:  # a full disk, for instance
                for kept in tables:
                    del self._kept[kept.id]
                raise
        first = tables[0]
        guest = self._server.guests.token(first.id) if self._server.settings.token else ""
        return JSONResponse({"id": first.id, "keys": first.keys, "beside": first.beside, "guest": guest})

    def _lay(self, asked: dict[str, Any]) -> list[TableRecord]:
        """Makes a table, or two with the same deal and the players moved by one seat."""
        context, person = self._context(asked), _person(asked)
        seats, pace = asked.get("seats", self._catalog.seats(context)), checked_pace(asked.get("pace", 1.0))
        if not isinstance(seats, list) or len(seats) != context.env.num_players:
            raise UserError(f"name who sits on each of the {context.env.num_players} seats.")
        specs = [self._resolved(context, str(spec), person) for spec in seats]
        if context.env.simultaneous and PERSON in specs:
            raise UserError(f"{context.id} asks all seats at once: agents can be watched, people cannot play here.")
        words = [secrets.randbits(32) for _ in range(4)]
        first = _table(context, specs, person, words, pace)
        if not asked.get("beside"):
            return [first]
        if PERSON in specs:
            raise UserError("a deal is played side by side by agents alone.")
        second = _table(context, specs[-1:] + specs[:-1], "", words, pace)
        first.beside = second.id
        return [first, second]

    def _resolved(self, context: GameContext, spec: str, person: str) -> str:
        if spec == PERSON:
            return spec
        if spec == NEAR:
            spec = f"{BOT}{self._ratings.nearest(person, context.id, context.env.bots)}"
        self._catalog.agent(context, spec)
        return spec

    async def replay(self, request: Request) -> Response:
        """GET: the finished game as a replay file."""
        found = await self._replay(request.path_params["id"])
        name = f"attachment; filename=table_{request.path_params['id']}{replays.SUFFIX}"
        return Response(found, media_type="application/gzip", headers={"content-disposition": name})

    async def keep(self, request: Request) -> Response:
        """POST -> {"file"}: stores the finished game among the replays; its name there, if a folder of theirs holds
        it."""
        id = request.path_params["id"]
        found = await self._replay(id)
        path = (self._folder / REPLAYS / f"{id}{replays.SUFFIX}").absolute()

        def write() -> None:
            path.parent.mkdir(exist_ok=True)
            files.write(path, found)

        await self._server.run("work", write)
        folders = enumerate(folder.expanduser().absolute() for folder in self._server.settings.replays)
        known = (f"{number}/{path.relative_to(folder)}" for number, folder in folders if path.is_relative_to(folder))
        return JSONResponse({"file": next(known, "")})

    async def _replay(self, id: str) -> bytes:
        table = self._table(id)
        game, context = (table.game, table.context) if table else (None, None)
        if table is None or game is None or context is None or not game.over:
            raise UserError("only a finished game that is open in a browser can be kept as a replay.")

        def pack() -> bytes:
            return game.replay(context.config, context.lanes, table.kept.names).packed()

        async with self._packing:  # one at a time: the threads that build are for tables, too
            return await self._server.run("build", pack)

    async def seat(self, request: Request) -> Response:
        """POST {"key", "action"} -> the view in which the seat is asked, or the game is over: see `LiveTable.visit`."""
        if (table := self._table(request.path_params["id"])) is None:
            raise UserError("there is no such table.")
        return JSONResponse(await table.visit(await body_of(request)))

    async def socket(self, socket: WebSocket) -> None:
        """The socket of a seat or a spectator: see `LiveTable.answer`."""
        await serve_connection(socket, self._table(socket.path_params["id"]), "there is no such table")

    # ---- what is kept -----------------------------------------------------------------------------------------------

    def _context(self, asked: dict[str, Any]) -> GameContext:
        options = asked.get("options") or {}
        if not isinstance(options, dict):
            raise UserError("options must be an object.")
        return self._catalog.context(str(asked.get("game")), options)

    def _table(self, id: str) -> LiveTable | None:
        if id not in self._live and id in self._kept:
            self._live[id] = LiveTable(self._server, self._kept[id], self._write, self._rate)
        return self._live.get(id)

    async def _make_room(self, count: int) -> None:
        """Closes tables if there are too many. Raises UserError: too few may be closed; then all stay."""
        while (too_many := len(self._kept) + count - self._server.settings.tables) > 0:
            if len(spare := list(filter(self._may_go, self._kept.values()))) < too_many:
                raise UserError("there is no room for another table: finish one, or start the server with more.")
            oldest = min(spare, key=lambda kept: (not kept.rated, PERSON in kept.specs, kept.made))
            del self._kept[oldest.id]
            await self._put_away(oldest.id)
            await self._server.run("work", self._file(oldest).unlink, missing_ok=True)

    def _may_go(self, kept: TableRecord) -> bool:
        """Returns whether a table may be closed: no person is there, and the game is finished, played by agents alone,
        or was not saved for long."""
        old = False
        with contextlib.suppress(OSError):  # it could not be saved yet
            old = time.time() - self._file(kept).stat().st_mtime > UNUSED
        there = kept.id in self._live and self._live[kept.id].connections
        return not there and (kept.rated or PERSON not in kept.specs or old)

    def _file(self, kept: TableRecord) -> Path:
        return self._folder / f"{kept.id}{SUFFIX}"

    def _write(self, kept: TableRecord) -> None:
        if kept.id in self._kept:
            files.write(self._file(kept), json.dumps(dataclasses.asdict(kept)).encode())

    def _rate(self, table: LiveTable) -> None:
        """Rates the people who played a finished game."""
        assert table.game is not None
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
    keys = [secrets.token_urlsafe(9) if spec == PERSON else "" for spec in specs]
    return TableRecord(secrets.token_hex(ID), record, specs, names, keys, people, time.time(), pace)


def _person(asked: dict[str, Any]) -> str:
    """Returns the random number by which a browser identifies its person, or ""."""
    person = asked.get("person", "")
    return person if is_person(person) else ""
