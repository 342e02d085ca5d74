"""Where one can click in the drawing of a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Spot(NamedTuple):
    """A rectangle of a drawing, in its units, that stands for actions: one, or several to choose from."""

    x: float
    y: float
    width: float
    height: float
    actions: tuple[int, ...]


class Clickable:
    """The part of `jaxrl_envs.contract.env.Env` for people with a mouse or a finger."""

    def spots(self, state: Any, seat: int) -> Sequence[Spot]:
        """Where the drawing that `seat`, who is asked, is shown (`render_svg`) can be clicked; legal actions only.
        Actions without a spot are chosen from a list."""
        return ()
