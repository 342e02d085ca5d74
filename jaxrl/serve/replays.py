"""Replays in a browser: recorded games, moment by moment."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from jaxrl.envs.errors import UserError
from jaxrl.serve.house import House, page
from jaxrl.serve.opening import Opening, Shelf
from jaxrl.serve.shelves import LARGEST, Shelves

MOST_GAMES = 100_000  # the number of a game in its file is below that
FILM = {  # a film is shown in a frame of our page; nothing in it runs
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-same-origin; "
    "frame-ancestors 'self'"
}
TYPES = {"pictures": "image/svg+xml", "film": "image/svg+xml", "text": "text/plain; charset=utf-8"}


class ReplayRoom:
    """What the endpoints share."""

    def __init__(self, house: House):
        """Nothing is open."""
        self._house = house
        self.shelves = Shelves(house.settings.replays)
        self._shelf: Shelf | None = None

    @property
    def shelf(self) -> Shelf:
        """The open games; made within the server's loop."""
        if self._shelf is None:
            self._shelf = Shelf(self._house.settings.allow, self._house.settings.cache_dir)
        return self._shelf

    async def close(self) -> None:
        """Ends what is running."""
        if self._shelf is not None:
            await self._shelf.close()
        self.shelves.close()

    async def listed(self, request: Request) -> Response:
        """GET: the recordings that there are."""
        return JSONResponse(await self._house.work(self.shelves.listed))

    async def open(self, request: Request) -> Response:
        """GET ?file=&game=: how far the opening of a game is; the first such request begins it."""
        number = request.query_params.get("game", "0")
        if not number.isdecimal() or int(number) >= MOST_GAMES:
            raise UserError("game must be the number of a game in its file.")
        path = await self._house.work(self.shelves.find, request.query_params.get("file", ""))
        found = self.shelf.open(path, int(number))
        return JSONResponse({"id": found.key, "state": found.state, "error": found.why, "head": _age(found)})

    async def part(self, request: Request) -> Response:
        """GET a part of an open game: head, games, or the number of a frame; 202 as long as it is not there."""
        name = request.path_params["name"]
        found = self.shelf.get(request.path_params["id"])
        file = found.file(name)
        if file is None:
            over = found.state in ("open", "failed")
            return JSONResponse({"error": found.why or "it is not there (yet)"}, status_code=404 if over else 202)
        kind = TYPES.get(request.query_params.get("as", ""), "application/json")
        kept = "no-cache" if name == "head" else "private, max-age=3600"
        headers = {"content-encoding": "gzip", "cache-control": kept} | (FILM if kind == TYPES["film"] else {})
        return FileResponse(file, media_type=kind, headers=headers)

    async def bring(self, request: Request) -> Response:
        """POST ?name=: the body is a recording."""
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > LARGEST:
                break
        name = request.query_params.get("name", "")
        return JSONResponse({"file": await self._house.work(self.shelves.bring, name, bytes(data))})


def _age(found: Opening) -> int:
    """When the head was written last, in nanoseconds; 0 if it was not."""
    file = found.file("head")
    return file.stat().st_mtime_ns if file is not None else 0


def routes(house: House) -> list[BaseRoute]:
    """Of this room."""
    room: Any = ReplayRoom(house)
    house.closing.append(room.close)
    return [
        Route("/replays", page("replays", look=True)),
        Route("/replays/view", page("replay", look=True)),
        Route("/replays/list", room.listed),
        Route("/replays/open", room.open),
        Route("/replays/bring", room.bring, methods=["POST"]),
        Route("/replays/open/{id}/{name}", room.part),
    ]
