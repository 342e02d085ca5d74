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

from jaxrl import zoo
from jaxrl.players.player import Player
from jaxrl.serve.connection import Connection, serve_connection
from jaxrl.serve.driving.session import Drive
from jaxrl.serve.player_catalog import BOT, PERSON, RUN, Hall, make_hall
from jaxrl.serve.server import House, body_of, page
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.display.driving import Driven
from jaxrl_envs.shared.errors import UserError

MOST = 4  # matches at once: each wants a good part of a core
RATE = 80.0  # messages a second that are read: controls of every frame that is drawn, and some more


@dataclasses.dataclass
class DrivenHall:
    """One kind of match, and its players."""

    hall: Hall
    driven: Driven


class DrivingRoom:
    """All matches that people drive in."""

    def __init__(self, house: House):
        """Makes nothing yet."""
        self._house, self._cast = house, house.cast
        self._halls: dict[tuple[str, str, str], DrivenHall] = {}
        self._drives: dict[str, Drive] = {}
        self._making = asyncio.Lock()

    async def close(self) -> None:
        """Ends all."""
        await asyncio.gather(*(self._house.work(drive.end) for drive in self._drives.values()))

    async def offers(self, request: Request) -> Response:
        """GET: matches of games, and who can drive in them."""
        return JSONResponse(await self._house.ponder(self._offers))

    def _offers(self) -> list[dict[str, Any]]:
        found = []
        modules = [(game, registry.find_module(game, "driving")) for game in self._cast.games]
        for game, match in [(game, match) for game, module in modules if module for match in module.MATCHES]:
            with contextlib.suppress(UserError):  # what it needs is not installed
                hall = self._hall(game, match).hall
                players = [[each, each] for each in self._cast.known() if self._fits(game, match, each)]
                players += [[BOT + name, name] for name in reversed(list(hall.env.bots))]
                about = {"game": game, "match": match, "sides": list(hall.env.sides)}
                found.append(about | {"players": players, "rules": hall.env.how_to_play})
        return found

    def _fits(self, game: str, match: str, spec: str) -> bool:
        try:
            return self._cast.fits(self._hall(game, match, self._cast.view(game, spec)).hall, spec)
        except UserError:
            return False

    def _hall(self, game: str, match: str, view: dict[str, Any] | None = None) -> DrivenHall:
        """A match as some policy sees it, by default as the game is seen by default."""
        key = game, match, json.dumps(view or {}, sort_keys=True, default=str)
        if key not in self._halls:
            module = registry.find_module(game, "driving") if game in self._cast.games else None
            if module is None or match not in module.MATCHES:
                raise UserError(f"this server has no match {match[:60]!r} of {game[:60]!r} to drive in.")
            hall = make_hall(game, (view or {}) | module.MATCHES[match])
            self._halls.setdefault(key, DrivenHall(hall, module.drive(hall.env)))
        return self._halls[key]

    async def begin(self, request: Request) -> Response:
        """POST {"game", "match", "seats": who sits where, one of them "person"} -> {"id"}."""
        asked = await body_of(request)
        async with self._making:
            self._drives = {id: drive for id, drive in self._drives.items() if drive.alive}
            if len(self._drives) >= MOST:
                raise UserError(f"{MOST} matches are being driven already: wait until one ends.")
            drive = Drive(*await self._house.ponder(self._seated, asked))
            self._drives[drive.id] = drive
        return JSONResponse({"id": drive.id})

    def _seated(self, asked: dict[str, Any]) -> tuple[Hall, Driven, list[Player | None], list[str]]:
        found, seats = self._hall(str(asked.get("game")), str(asked.get("match"))), asked.get("seats")
        if not isinstance(seats, list) or len(seats) != found.hall.env.num_players or seats.count(PERSON) != 1:
            raise UserError(f"name who sits on the {found.hall.env.num_players} seats, one of them a person.")
        views = [self._cast.view(found.hall.id, str(spec)) for spec in seats if str(spec).startswith((RUN, zoo.PREFIX))]
        if any(view != views[0] for view in views):
            raise UserError(
                "these policies see the game in different ways: choose one of them for all seats, and bots."
            )
        if views:
            found = self._hall(found.hall.id, str(asked.get("match")), views[0])
        agents = [None if spec == PERSON else self._cast.agent(found.hall, str(spec)) for spec in seats]
        if any(agent is not None and agent.player is None for agent in agents):
            raise UserError("a search takes too long to drive.")
        names = [agent.name if agent else "you" for agent in agents]
        return found.hall, found.driven, [agent.player if agent else None for agent in agents], names

    async def socket(self, socket: WebSocket) -> None:
        """The browser that steers: see `Drive.answer`."""
        drive = self._drives.get(socket.path_params["id"])
        if drive is None:
            await socket.accept()
            return await socket.close(4404, "there is no such match")
        connection = Connection(socket, drive.compose, RATE)
        await serve_connection(socket, connection, drive.greet, drive.answer, drive.leave)


def routes(house: House) -> list[BaseRoute]:
    """Of this room."""
    room = DrivingRoom(house)
    house.closing.append(room.close)
    return [
        Route("/drive", page("drive", look=True)),
        Route("/api/drive", room.offers),
        Route("/api/drive", room.begin, methods=["POST"]),
        WebSocketRoute("/api/drive/{id}", room.socket),
    ]
