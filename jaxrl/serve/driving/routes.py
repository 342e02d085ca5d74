"""Driving by hand in a browser: matches of games that offer it (`jaxrl_envs.shared.display.driving`), one person
against agents."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from jaxrl.players.player import Player
from jaxrl.players.spec import BOT, RUN, ZOO, parse
from jaxrl.serve.connection import Connection, serve_connection
from jaxrl.serve.driving.session import DrivingSession
from jaxrl.serve.player_catalog import PERSON, GameContext, described, make_context
from jaxrl.serve.server import Server, body_of, page
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.display.driving import Driven
from jaxrl_envs.shared.errors import UserError

MOST = 4  # matches at once: each wants a good part of a core
RATE = 80.0  # messages a second that are read: controls of every frame that is drawn, and some more


@dataclasses.dataclass
class DrivenGame:
    """A kind of match: the game and how a person drives in it."""

    context: GameContext
    driven: Driven


class DrivingRoutes:
    """The endpoints of driving by hand, and the matches in progress."""

    def __init__(self, server: Server):
        """Creates no game or player yet."""
        self._server, self._catalog = server, server.catalog
        self._halls: dict[tuple[str, str, str], DrivenGame] = {}
        self._drives: dict[str, DrivingSession] = {}
        self._making = asyncio.Lock()

    async def close(self) -> None:
        """Ends all matches."""
        await asyncio.gather(*(self._server.work(drive.end) for drive in self._drives.values()))

    async def offers(self, request: Request) -> Response:
        """GET: the matches that games offer, and the players for their seats."""
        return JSONResponse(await self._server.ponder(self._offers))

    def _offers(self) -> list[dict[str, Any]]:
        found = []
        modules = [(game, registry.find_module(game, "driving")) for game in self._catalog.games]
        for game, match in [(game, match) for game, module in modules if module for match in module.MATCHES]:
            with contextlib.suppress(UserError):  # what it needs is not installed
                context = self._context(game, match).context
                trained = [each for each in self._catalog.known() if self._fits(game, match, each)]
                players = described([*trained, *(BOT + name for name in reversed(list(context.env.bots)))])
                about = {"game": game, "match": match, "sides": list(context.env.sides)}
                found.append(about | {"players": players, "rules": context.env.how_to_play})
        return found

    def _fits(self, game: str, match: str, spec: str) -> bool:
        try:
            return self._catalog.fits(self._context(game, match, self._catalog.view(game, spec)).context, spec)
        except UserError:
            return False

    def usual(self, context: GameContext, match: str) -> str:
        """The specification of the opponent for a stranger: the zoo's policy that sees this match as in its training,
        else the strongest bot."""
        policies = [each for each in self._catalog.known() if parse(each).kind == ZOO]
        fitting = (each for each in policies if self._fits(context.id, match, each))
        return next(fitting, self._catalog.usual(context))

    def _context(self, game: str, match: str, view: dict[str, Any] | None = None) -> DrivenGame:
        """Returns the game of a match, with the options under which a policy was trained; by default the game's own."""
        key = game, match, json.dumps(view or {}, sort_keys=True, default=str)
        if key not in self._halls:
            module = registry.find_module(game, "driving") if game in self._catalog.games else None
            if module is None or match not in module.MATCHES:
                raise UserError(f"this server has no match {match[:60]!r} of {game[:60]!r} to drive in.")
            context = make_context(game, (view or {}) | module.MATCHES[match])
            self._halls.setdefault(key, DrivenGame(context, module.drive(context.env)))
        return self._halls[key]

    async def begin(self, request: Request) -> Response:
        """POST {"game", "match", "seats": players by seat, one of them "person"} -> {"id"}: begins a match; without
        "seats" the person drives the first car, against and beside agents of the game's usual kind."""
        asked = await body_of(request)
        async with self._making:
            self._drives = {id: drive for id, drive in self._drives.items() if drive.alive}
            if len(self._drives) >= MOST:
                raise UserError(f"{MOST} matches are being driven already: wait until one ends.")
            drive = DrivingSession(*await self._server.ponder(self._seated, asked))
            self._drives[drive.id] = drive
        return JSONResponse({"id": drive.id})

    def _seated(self, asked: dict[str, Any]) -> tuple[GameContext, Driven, list[Player | None], list[str]]:
        found = self._context(str(asked.get("game")), str(asked.get("match")))
        env = found.context.env
        if "seats" in asked:
            seats = asked["seats"]
        else:
            seats = [PERSON, *[self.usual(found.context, str(asked["match"]))] * (env.num_players - 1)]
        if not isinstance(seats, list) or len(seats) != env.num_players or seats.count(PERSON) != 1:
            raise UserError(f"name who sits on the {env.num_players} seats, one of them a person.")
        views = [
            self._catalog.view(found.context.id, str(spec)) for spec in seats if parse(str(spec)).kind in (RUN, ZOO)
        ]
        if any(view != views[0] for view in views):
            raise UserError(
                "these policies see the game in different ways: choose one of them for all seats, and bots."
            )
        if views:
            found = self._context(found.context.id, str(asked.get("match")), views[0])
        agents = [None if spec == PERSON else self._catalog.agent(found.context, str(spec)) for spec in seats]
        if any(agent is not None and agent.player is None for agent in agents):
            raise UserError("a search takes too long to drive.")
        names = [agent.name if agent else "You" for agent in agents]
        return found.context, found.driven, [agent.player if agent else None for agent in agents], names

    async def socket(self, socket: WebSocket) -> None:
        """The websocket of the browser that steers, see `DrivingSession.answer`."""
        drive = self._drives.get(socket.path_params["id"])
        if drive is None:
            await socket.accept()
            return await socket.close(4404, "there is no such match")
        connection = Connection(socket, drive.compose, RATE)
        await serve_connection(socket, connection, drive.greet, drive.answer, drive.leave)


def routes(server: Server) -> list[BaseRoute]:
    """Returns the routes of these pages."""
    room = DrivingRoutes(server)
    server.closing.append(room.close)
    return [
        Route("/drive", page("drive", look=True)),
        Route("/api/drive", room.offers),
        Route("/api/drive", room.begin, methods=["POST"]),
        WebSocketRoute("/api/drive/{id}", room.socket),
    ]
