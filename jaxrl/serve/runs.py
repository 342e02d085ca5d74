"""Runs in a browser: what there is of them, and how they go."""

from __future__ import annotations

from starlette.routing import BaseRoute

from jaxrl.serve.house import House


def routes(house: House) -> list[BaseRoute]:
    """Of this room."""
    return []
