"""The pages of training runs: list, curves, checkpoints, and commands such as evaluate and compare."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from jaxrl.serve.jobs import Jobs
from jaxrl.serve.runs.run_watcher import RunWatcher, signature, trainer_of
from jaxrl.serve.server import Server, body_of, page
from jaxrl_envs.shared.errors import UserError

BEAT, SILENCE = 1.0, 15.0  # seconds between two looks at the files, and after which a stream says that it is there
MOST_TAGS = 60  # of one request
NAME = r"(zoo:|bot:)?[A-Za-z0-9_-]{1,60}"  # of an opponent: no path, no module
NAMES = re.compile(rf"{NAME}(,{NAME}){{0,19}}")


def as_json(content: Any) -> Response:
    """Returns a JSON response; NaN and infinities become null."""
    return Response(orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS), media_type="application/json")


class RunRoutes:
    """The endpoints and what they share."""

    def __init__(self, server: Server):
        """Reads nothing yet."""
        self._server = server
        self.watching = RunWatcher(server.settings.runs)
        self.jobs = Jobs()

    def _run(self, request: Request) -> Path:
        return self.watching.find(request.path_params["name"])

    async def one(self, request: Request) -> Response:
        """GET: a run without its curves."""
        run = self._run(request)
        found = await self._server.run("read", lambda: self.watching.state(run) | self.watching.details(run))
        return as_json(found | {"name": run.name, "jobs": self.jobs.about(run.name)})

    async def curves(self, request: Request) -> Response:
        """GET ?tags=a,b&after=: curves of a run, see `Rows.curves`."""
        run, tags = self._run(request), request.query_params.get("tags", "").split(",")[:MOST_TAGS]
        try:
            after = float(request.query_params.get("after", "-1"))
        except ValueError:
            raise UserError("after must be a number of updates.") from None
        return as_json(await self._server.run("read", self.watching.curves, run, tags, after))

    async def all_events(self, request: Request) -> Response:
        """GET: a stream of the list of runs, an event for every change."""
        return self._stream(request, self.watching.listed, lambda found: found)

    async def events(self, request: Request) -> Response:
        """GET: a stream of a run's state while it trains."""
        run = self._run(request)

        def look() -> dict[str, Any]:
            return {"jobs": self.jobs.about(run.name), "files": signature(run)}

        return self._stream(request, look, lambda found: self.watching.state(run) | {"jobs": found["jobs"]})

    def _stream(self, request: Request, look: Callable[[], Any], tell: Callable[[Any], Any]) -> Response:
        """Sends server-sent events: `tell` of `look()` whenever its value has changed."""

        async def lines() -> AsyncIterator[bytes]:
            last: Any = None
            silent = 0.0
            while not await request.is_disconnected():
                seen = await self._server.run("read", look)
                if seen != last:
                    last, silent = seen, 0.0
                    yield b"data: " + orjson.dumps(await self._server.run("read", tell, seen)) + b"\n\n"
                elif silent >= SILENCE:
                    silent = 0.0
                    yield b": here\n\n"
                await asyncio.sleep(BEAT)
                silent += BEAT

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def stop(self, request: Request) -> Response:
        """POST: interrupts a training as Ctrl-C does; it saves a checkpoint first."""
        run = self._run(request)
        pid = await self._server.run("read", trainer_of, run)
        os.kill(pid, signal.SIGINT)
        return as_json({"said": f"process {pid} was asked to stop: it saves a checkpoint after the update in hand."})

    async def evaluate(self, request: Request) -> Response:
        """POST {"checkpoint", "opponents", "deals"}: starts `jaxrl evaluate`."""
        run, wanted = self._run(request), await body_of(request)
        checkpoint, opponents = str(wanted.get("checkpoint") or "newest"), str(wanted.get("opponents") or "")
        deals = str(wanted.get("deals") or "")
        if not re.fullmatch(r"newest|best|\d{1,18}", checkpoint):
            raise UserError("checkpoint must be newest, best, or a number of updates.")
        if opponents and not _are_names(opponents):
            raise UserError("opponents must be names such as bots,zoo:NAME, separated by commas.")
        if deals and not re.fullmatch(r"\d{1,6}", deals):
            raise UserError("deals must be a whole number.")
        words = ["evaluate", str(run.absolute()), "--checkpoint", checkpoint]
        words += ["--opponents", opponents] if opponents else []
        words += ["--deals", deals] if deals else []
        words += [word for each in self._server.settings.allow for word in ("--allow", each)]
        return as_json(self.jobs.begin(words, run.name).told())

    async def verdict(self, request: Request) -> Response:
        """POST {"before", "after"}: starts `jaxrl compare`; the page shows its output."""
        wanted = await body_of(request)
        before, after = (self.watching.find(str(wanted.get(name, ""))) for name in ("before", "after"))
        words = ["compare", str(before.absolute()), str(after.absolute())]
        return as_json(self.jobs.begin(words, f"{before.name} {after.name}").told())

    async def job(self, request: Request) -> Response:
        """GET ?about=: commands that concern one run or two. POST {"stop": number}: stops one."""
        if request.method == "POST":
            number = (await body_of(request)).get("stop")
            if type(number) is not int:
                raise UserError("stop must be the number of a command.")
            self.jobs.stop(number)
            return as_json({})
        return as_json(self.jobs.about(request.query_params.get("about", "")))


def _are_names(opponents: str) -> bool:
    """Returns whether these are plain names of players: a name of a file could be read as one."""
    plain = NAMES.fullmatch(opponents) is not None and not opponents.startswith("-")
    return plain and not any(os.path.lexists(name) for name in opponents.split(","))


def routes(server: Server) -> list[BaseRoute]:
    """Returns the routes of these pages."""
    room = RunRoutes(server)
    server.closing.append(room.jobs.close)
    return [
        Route("/runs", page("runs", look=True)),
        Route("/runs/compare", page("compare", look=True)),
        Route("/runs/events", room.all_events),
        Route("/runs/jobs", room.job, methods=["GET", "POST"]),
        Route("/runs/verdict", room.verdict, methods=["POST"]),
        Route("/runs/view/{name}", page("run", look=True)),
        Route("/runs/of/{name}", room.one),
        Route("/runs/of/{name}/curves", room.curves),
        Route("/runs/of/{name}/events", room.events),
        Route("/runs/of/{name}/stop", room.stop, methods=["POST"]),
        Route("/runs/of/{name}/evaluate", room.evaluate, methods=["POST"]),
    ]
