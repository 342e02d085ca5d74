"""Driving by hand in a browser: matches of games that offer it (`jaxrl_envs.shared.display.driving`), one person
against agents."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from jaxrl import xla
from jaxrl.players.player import Player
from jaxrl.players.spec import BOT, RUN, ZOO, parse
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import serve_connection
from jaxrl.serve.driving.session import DrivingSession, compile_ahead
from jaxrl.serve.player_catalog import PERSON, GameContext, described, make_context
from jaxrl.serve.server import Server, body_of, page
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.display.driving import Driven
from jaxrl_envs.shared.errors import UserError

MOST = 4  # matches at once: each wants a good part of a core
SOON = 20.0  # seconds after the start of a server in which its pages and tables go first
RATE = 80.0  # messages a second that are read: controls of every frame that is drawn, and some more


class DrivenGame(NamedTuple):
    """A kind of match: the game and how a person drives in it."""

    context: GameContext
    driven: Driven


class DrivingRoutes:
    """The endpoints of driving by hand, and the matches in progress."""

    def __init__(self, server: Server):
        """Creates no game or player yet."""
        self._server, self._catalog = server, server.catalog
        self._matches: dict[tuple[str, str, str], DrivenGame] = {}
        self._sessions: dict[str, DrivingSession] = {}
        self._making = asyncio.Lock()
        self._compiling: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    async def open(self) -> None:
        """Begins to wait for a person."""
        self._compiling = asyncio.create_task(self._compile())

    async def _compile(self) -> None:
        """Compiles the usual match once a person is about to drive, or a while after the start; GPUs are shared."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), SOON if xla.on_cpu() else None)
        await self._server.run("build", self.compile_usual)

    def compile_usual(self) -> None:
        """Compiles the first match that is offered, against its usual opponents."""
        for game, match in self._names()[:1]:
            try:
                context, driven, players, _ = self._seated({"game": game, "match": match})
                compile_ahead(context, driven, players)
            except Exception:  # of a game's own code: a match says so when it is begun
                LOG.exception("a match that is compiled ahead")

    async def close(self) -> None:
        """Ends all matches."""
        if self._compiling is not None:
            self._compiling.cancel()
            await asyncio.gather(self._compiling, return_exceptions=True)
        await asyncio.gather(*(self._server.run("work", each.end) for each in self._sessions.values()))

    async def names(self, request: Request) -> Response:
        """GET: the matches that games offer, before any game is made."""
        found = await self._server.run("read", self._names)
        return JSONResponse([{"game": game, "match": match} for game, match in found])

    def _names(self) -> list[tuple[str, str]]:
        modules = [(game, registry.find_module(game, "driving")) for game in self._catalog.games]
        return [(game, match) for game, module in modules if module for match in module.MATCHES]

    async def offers(self, request: Request) -> Response:
        """GET: the matches that games offer, and the players for their seats. The usual match is made ready, since a
        person with that page is about to drive."""
        self._wanted.set()
        return JSONResponse(await self._server.run("ponder", self._offers))

    def _offers(self) -> list[dict[str, Any]]:
        found = []
        for game, match in self._names():
            with contextlib.suppress(UserError):  # what it needs is not installed
                context = self._context(game, match).context
                trained = [each for each in self._catalog.known() if self._fits(game, match, each)]
                players = described([*trained, *(BOT + name for name in reversed(list(context.env.bots)))], game)
                about = {"game": game, "match": match, "sides": list(context.env.sides)}
                found.append(about | {"players": players, "rules": context.env.how_to_play})
        return found

    def _fits(self, game: str, match: str, spec: str) -> bool:
        try:
            return self._catalog.fits(self._context(game, match, self._catalog.view(game, spec)).context, spec)
        except UserError:
            return False

    def usual(self, context: GameContext, match: str) -> str:
        """Returns the default opponent: the zoo's policy that sees this match as in its training, else the strongest
        bot."""
        fitting = (each for each in self._catalog.of_the_zoo() if self._fits(context.id, match, each))
        return next(fitting, self._catalog.usual(context))

    def _context(self, game: str, match: str, view: dict[str, Any] | None = None) -> DrivenGame:
        """Returns the game of a match, with the options under which a policy was trained; by default the game's own."""
        key = game, match, json.dumps(view or {}, sort_keys=True, default=str)
        if key not in self._matches:
            module = registry.find_module(game, "driving") if game in self._catalog.games else None
            if module is None or match not in module.MATCHES:
                raise UserError(f"this server has no match {match[:60]!r} of {game[:60]!r} to drive in.")
            context = make_context(game, (view or {}) | module.MATCHES[match], quick=True)
            self._matches.setdefault(key, DrivenGame(context, module.drive(context.env)))
        return self._matches[key]

    async def begin(self, request: Request) -> Response:
        """POST {"game", "match", "seats": players by seat, one of them "person"} -> {"id"}: begins a match; without
        "seats" the person drives the first car, against and beside agents of the game's usual kind."""
        asked = await body_of(request)
        async with self._making:
            self._sessions = {id: each for id, each in self._sessions.items() if each.alive}
            if len(self._sessions) >= MOST:
                raise UserError(f"{MOST} matches are being driven already: wait until one ends.")
            session = DrivingSession(*await self._server.run("ponder", self._seated, asked))
            self._sessions[session.id] = session
        return JSONResponse({"id": session.id})

    def _seated(self, asked: dict[str, Any]) -> tuple[GameContext, Driven, list[Player | None], list[str]]:
        game, match = str(asked.get("game")), str(asked.get("match"))
        found = self._context(game, match)
        count = found.context.env.num_players
        seats = asked["seats"] if "seats" in asked else [PERSON, *[self.usual(found.context, match)] * (count - 1)]
        if not isinstance(seats, list) or len(seats) != count or seats.count(PERSON) != 1:
            raise UserError(f"name who sits on the {count} seats, one of them a person.")
        specs = list(map(str, seats))
        views = [self._catalog.view(game, spec) for spec in specs if parse(spec).kind in (RUN, ZOO)]
        if any(view != views[0] for view in views):
            raise UserError(
                "these policies see the game in different ways: choose one of them for all seats, and bots."
            )
        if views:
            found = self._context(game, match, views[0])
        agents = [None if spec == PERSON else self._catalog.agent(found.context, spec) for spec in specs]
        if any(agent is not None and agent.player is None for agent in agents):
            raise UserError("a search takes too long to drive.")
        names = [agent.name if agent else "You" for agent in agents]
        return *found, [agent.player if agent else None for agent in agents], names

    async def socket(self, socket: WebSocket) -> None:
        """The websocket of the browser that steers, see `DrivingSession.answer`."""
        session = self._sessions.get(socket.path_params["id"])
        await serve_connection(socket, session, "there is no such match", RATE)


def routes(server: Server) -> list[BaseRoute]:
    """Returns the routes of these pages."""
    room = DrivingRoutes(server)
    server.opening.append(room.open)
    server.closing.append(room.close)
    return [
        Route("/drive", page("drive", look=True)),
        Route("/api/drive", room.offers),
        Route("/api/drive/names", room.names),
        Route("/api/drive", room.begin, methods=["POST"]),
        WebSocketRoute("/api/drive/{id}", room.socket),
    ]
