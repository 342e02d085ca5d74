"""The pages of recorded games, and their endpoints."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from jaxrl.serve.jobs import WorkQueue
from jaxrl.serve.replays import annotation, state_store
from jaxrl.serve.replays.library import LARGEST, RecordingLibrary
from jaxrl.serve.replays.open_recording import Opening, OpenRecordings
from jaxrl.serve.server import Server, body_of, bytes_of, page
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

MOST_GAMES = 100_000  # the number of a game in its file is below that
GLANCES = 50  # files of one request
JUDGING = 8  # annotations that wait, beside one that is made
UNKNOWN = "It cannot be annotated: recordings of this kind do not say what the seats saw when they decided."
NO_POLICY = "It cannot be annotated: no policy of the zoo and no run plays this game as it was recorded."
FILM = {  # a film may be a stranger's: nothing in it runs or is loaded, and only a frame of our page shows it
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-same-origin; "
    "frame-ancestors 'self'"
}
TYPES = {"pictures": "image/svg+xml", "film": "image/svg+xml", "text": "text/plain; charset=utf-8"}


class ReplayRoutes:
    """The endpoints and what they share."""

    def __init__(self, server: Server):
        """Opens no recording yet."""
        self._server = server
        self.library = RecordingLibrary(server.settings.replays)
        self.recordings = OpenRecordings(server.settings.allow, server.settings.cache_dir)
        self._queue = WorkQueue(1, JUDGING)

    async def close(self) -> None:
        """Stops what is running."""
        await self._queue.close()
        await self.recordings.close()
        self.library.close()

    async def listed(self, request: Request) -> Response:
        """GET: all recordings."""
        return JSONResponse(await self._server.run("work", self.library.listed))

    async def glances(self, request: Request) -> Response:
        """POST {"files": names of replays} -> their results and last positions, see `render_recording.glance`."""
        names = (await body_of(request)).get("files")
        if not isinstance(names, list) or not 0 < len(names) <= GLANCES:
            raise UserError(f"files must be 1 to {GLANCES} names.")
        paths = [await self._server.run("work", self.library.find, str(name)) for name in names]
        return JSONResponse(await self.recordings.glances(paths))

    async def open(self, request: Request) -> Response:
        """GET ?file=&game=: how far the opening of a game is; the first such request begins it."""
        number = files.number(request.query_params.get("game", "0"))
        if number is None or number >= MOST_GAMES:
            raise UserError("game must be the number of a game in its file.")
        path = await self._server.run("work", self.library.find, request.query_params.get("file", ""))
        found = self.recordings.open(path, number)
        head = found.file("head")
        age = head.stat().st_mtime_ns if head is not None else 0  # of what is told of it so far
        return JSONResponse({"id": found.key, "state": found.state, "error": found.why, "head": age})

    async def part(self, request: Request) -> Response:
        """GET a part of an open game: head, games, or the number of a frame; 202 as long as it is not there."""
        name = request.path_params["name"]
        found = self.recordings.get(request.path_params["id"])
        file = found.file(name)
        if file is None:
            over = found.state in ("open", "failed")
            return JSONResponse({"error": found.why or "it is not there (yet)"}, status_code=404 if over else 202)
        kind = TYPES.get(request.query_params.get("as", ""), "application/json")
        kept = "no-cache" if name == "head" else "private, max-age=3600"
        headers = {"content-encoding": "gzip", "cache-control": kept} | (FILM if kind == "image/svg+xml" else {})
        return FileResponse(file, media_type=kind, headers=headers)

    async def judges(self, request: Request) -> Response:
        """GET: the policies that can annotate an open game, {"judges": [names], "why": a sentence if the list is
        empty}."""
        found = self.recordings.get(request.path_params["id"])
        judges = await self._server.run("ponder", self._judges, found.folder) if _known(found) else []
        return JSONResponse({"judges": judges, "why": "" if judges else NO_POLICY if _known(found) else UNKNOWN})

    def _judges(self, folder: Path) -> list[str]:
        try:
            asked = state_store.read(folder)
            return self._server.catalog.trained(self._server.catalog.recorded(asked.game, asked.options))
        except UserError:  # this server does not offer its game
            return []

    async def annotated(self, request: Request) -> Response:
        """GET ?by=: an open game annotated by a policy; annotations are cached."""
        found, by = self.recordings.get(request.path_params["id"]), request.query_params.get("by", "")
        if not _known(found):
            raise UserError(UNKNOWN)
        key = by, await self._server.run("work", self._server.catalog.newest, by)
        if key not in found.judged:
            found.judged[key] = self._queue.begin(self._server.run, "build", self._annotate, found.folder, by)
        try:
            said = await asyncio.shield(found.judged[key])  # which goes on though the browser leaves
        except Exception:
            found.judged.pop(key, None)
            raise
        return Response(said, media_type="application/json", headers={"content-encoding": "gzip"})

    def _annotate(self, folder: Path, by: str) -> bytes:
        asked = state_store.read(folder)
        context = self._server.catalog.recorded(asked.game, asked.options)
        if by not in self._server.catalog.trained(context):
            raise UserError(f"there is no policy {by[:60]!r} here that could judge this game.")
        agent = self._server.catalog.agent(context, by)
        assert agent.player is not None
        env = agent.env or context.env
        found = annotation.annotate(context.env, agent.player, asked)
        told = {
            "by": by,
            "judgements": [each._asdict() | {"worth": env.worth(each.value)} for each in found],
            "values": annotation.curve(found, context.env.num_players),
            "doubted": annotation.doubted(found),
        }
        return gzip.compress(json.dumps(told, separators=(",", ":"), allow_nan=False).encode(), 3)

    async def bring(self, request: Request) -> Response:
        """POST ?name=: the body is a recording."""
        data, name = await bytes_of(request, LARGEST), request.query_params.get("name", "")
        return JSONResponse({"file": await self._server.run("work", self.library.bring, name, data)})


def _known(found: Opening) -> bool:
    """Returns whether the recording holds the players' decisions."""
    return (found.folder / state_store.NAME).is_file()


def routes(server: Server) -> list[BaseRoute]:
    """Returns the routes of these pages."""
    room: Any = ReplayRoutes(server)
    server.closing.append(room.close)
    return [
        Route("/replays", page("replays", look=True)),
        Route("/replays/view", page("replay", look=True)),
        Route("/replays/list", room.listed),
        Route("/replays/glances", room.glances, methods=["POST"]),
        Route("/replays/open", room.open),
        Route("/replays/bring", room.bring, methods=["POST"]),
        Route("/replays/open/{id}/judges", room.judges),
        Route("/replays/open/{id}/judged", room.annotated),
        Route("/replays/open/{id}/{name}", room.part),
    ]
