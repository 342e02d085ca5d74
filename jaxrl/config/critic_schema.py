"""The keys of the section `ppo.critic`."""

from __future__ import annotations

import dataclasses

from jaxrl_envs.shared.options import option


@dataclasses.dataclass(frozen=True)
class CriticConfig:
    """A network of its own for the advantages, in training only; actions never depend on it."""

    privileged: bool = option(
        False,
        "it sees all of the position, hidden cards too: advantages with less noise, in compiled games that tell what "
        "is hidden; false: none, the policy network's value serves",
    )
    hidden: tuple[int, ...] = option((256, 256), "widths of its dense layers", minimum=1)
