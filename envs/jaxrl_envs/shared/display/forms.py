"""Games that are drawn in two forms, for wide screens and for those that are taller than wide."""

from __future__ import annotations

import copy
from typing import Any, Self

from jaxrl_envs.contract.env import Env


class TwoForms(Env):
    """A game whose drawings are those of one of two modules, with `draw(table)` and `click_areas(table, ...)`.

    Attributes:
      wide, tall: modules; `tall` draws what a seat sees.
    """

    wide: Any
    tall: Any
    _is_upright = False

    @property
    def upright(self) -> Self:
        other = copy.copy(self)
        other._is_upright = True
        return other

    def form(self, observer: int | None) -> Any:
        """Returns the module that draws for an observer, a seat or None for everyone."""
        return self.tall if self._is_upright and observer is not None else self.wide
