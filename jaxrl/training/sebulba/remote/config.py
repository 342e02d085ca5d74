"""The section `fleet`: workers on other machines that play the games of the host."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env


@dataclasses.dataclass(frozen=True)
class FleetConfig(Section):
    """Games on the host on the machines of a Ray cluster; policy and learner stay here."""

    workers: int = option(
        0, "processes that play, shared evenly by sebulba.actors; 0: games run in this process", minimum=0
    )
    cpus: float = option(1.0, "cores requested for each worker, and its engine threads", above=0.0)
    address: str = option(
        "", "Ray cluster to join: auto, or HOST:PORT of its head node; empty: a private one on this machine"
    )

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects compiled games, and games that the workers cannot share evenly."""
        if not self.workers:
            return
        if not getattr(env, "host", False):
            raise UserError(f"fleet.workers plays games on the host, which {config.env.id} is not: set it to 0.")
        sebulba = config.sebulba
        if sebulba.profile:
            raise UserError(
                "sebulba.profile measures engines of this process, but fleet.workers play elsewhere: "
                "set sebulba.profile to false or fleet.workers to 0."
            )
        divides(self.workers, sebulba.actors, "fleet.workers", "sebulba.actors")
        parts = sebulba.groups * self.workers
        divides(config.train.num_envs, parts, "train.num_envs", "sebulba.groups * fleet.workers")

    def without_deployment(self) -> FleetConfig:
        """Returns the defaults: they change no result."""
        return FleetConfig()
