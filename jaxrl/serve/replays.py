"""Replays in a browser: recorded games, moment by moment."""

from __future__ import annotations

from starlette.routing import BaseRoute

from jaxrl.serve.house import House


def routes(house: House) -> list[BaseRoute]:
    """Of this room."""
    return []
