"""The section `fleet`: workers on other machines that play the games of the host."""

from __future__ import annotations

import dataclasses

from jaxrl_envs.shared.options import option


@dataclasses.dataclass(frozen=True)
class FleetConfig:
    """Games on the host on the machines of a Ray cluster; policy and learner stay here."""

    workers: int = option(
        0, "processes that play, shared evenly by sebulba.actors; 0: the games are played in this one", minimum=0
    )
    cpus: float = option(1.0, "processor cores that each of them asks for, and whose threads play", above=0.0)
    memory: float = option(0.0, "GiB that each of them asks for; 0: it does not say", minimum=0.0)
    address: str = option(
        "", "of the cluster: auto, or HOST:PORT of its head node; empty: one on this machine, for it alone"
    )
    patience: float = option(
        120.0,
        "seconds beyond sebulba.timeout after which a worker that says nothing is started again; if none found a "
        "place, the run ends",
        above=0.0,
    )
