"""The keys of the section `ppo.belief`."""

from __future__ import annotations

import dataclasses

from jaxrl_envs.shared.options import option


@dataclasses.dataclass(frozen=True)
class BeliefConfig:
    """A network of its own that guesses who holds what; actions depend on it only in a search that asks for it."""

    learned: bool = option(
        False,
        "it learns who holds each hidden card from what the seat sees, in compiled games that tell; search draws its "
        "worlds by it (--search-belief learned); false: none",
    )
    hidden: tuple[int, ...] = option((256, 256), "widths of its dense layers", minimum=1)
