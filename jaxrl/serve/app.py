"""The Starlette application: the routes of all pages behind the guard."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.driving import routes as driving
from jaxrl.serve.gate import Gate, GatedHTTP, GatedSocket
from jaxrl.serve.guard import Guard
from jaxrl.serve.replays import routes as replays
from jaxrl.serve.runs import routes as runs
from jaxrl.serve.server import STATIC, Server
from jaxrl.serve.tables import routes as tables
from jaxrl_envs.shared.errors import UserError

ROOMS = (tables, driving, replays, runs)
FRAME = 1 << 14  # bytes of a message from a browser


def make_server(server: Server) -> uvicorn.Server:
    """Makes the uvicorn server for a socket that listens: `run(sockets=[...])`; it ends by a signal or by
    `should_exit`."""
    gate = Gate(server.settings.connections)
    config = uvicorn.Config(
        make_app(server, gate),
        log_level="error",  # a stranger fills no log with what is no request
        access_log=False,
        server_header=False,
        loop="asyncio",  # uvloop, which uvicorn would take where it is installed, forks to start a process
        proxy_headers=False,
        use_colors=False,
        http=functools.partial(GatedHTTP, gate),  # type: ignore[arg-type]
        ws=functools.partial(GatedSocket, gate),  # type: ignore[arg-type]
        ws_max_size=FRAME,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


def make_app(server: Server, gate: Gate) -> Starlette:
    """Makes the application; a `UserError` of any route is answered as {"error": sentence} with status 400, an
    `OSError` (a full disk, for instance) with status 507."""

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        for begin in server.opening:
            await begin()
        yield
        for end in server.closing:
            await end()
        server.close()

    return Starlette(
        routes=[
            *(route for room in ROOMS for route in room.routes(server)),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, settings=server.settings, guests=server.guests, gate=gate)],
        exception_handlers={UserError: _refuse, OSError: _give_up},
        lifespan=life,
    )


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _give_up(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    LOG.error("%s %s: %s", request.method, request.url.path, error)
    return JSONResponse({"error": f"the server's disk refuses: {error.strerror or error}."}, status_code=507)
