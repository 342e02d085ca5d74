"""Tables in a browser: people and agents play, or agents alone are watched."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from jaxrl.serve.house import House, page


def routes(house: House) -> list[BaseRoute]:
    """Of this room."""
    return [Route("/", page("index.html"))]
