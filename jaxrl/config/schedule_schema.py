"""A value that changes over a run."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxrl_envs.shared.options import option


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A value that may change over the run: from `start` at the first update to `end`."""

    kind: str = option("constant", "shape of the schedule", choices=("constant", "linear", "cosine"))
    start: float = option(0.0, "value at the first update", minimum=0.0)
    end: float = option(0.0, "value at the last update; not used by constant", minimum=0.0)
    until: float = option(1.0, "share of the run after which it stays at its end", above=0.0, maximum=1.0)

    @staticmethod
    def of_number(value: float) -> dict[str, Any]:
        """What a number stands for: itself, all the time."""
        return {"kind": "constant", "start": value, "end": value}
