"""The web application: the routes of all rooms behind the guard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from jaxrl.envs.errors import UserError
from jaxrl.serve import replays, runs, tables
from jaxrl.serve.guard import Guard
from jaxrl.serve.house import STATIC, House

ROOMS = (tables, runs, replays)


def make_app(house: House) -> Starlette:
    """The application of a server; `UserError` of any room is answered with its sentence as {"error": ...}."""

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        for begin in house.opening:
            await begin()
        yield
        for end in house.closing:
            await end()
        house.close()

    return Starlette(
        routes=[
            *(route for room in ROOMS for route in room.routes(house)),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, settings=house.settings)],
        exception_handlers={UserError: _refuse},
        lifespan=life,
    )


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)
