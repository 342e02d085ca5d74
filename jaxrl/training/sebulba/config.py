"""The section `sebulba`: actors and learner side by side."""

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
class SebulbaConfig(Section):
    """Actors and learner side by side, for games on the host (Hessel et al. 2021, https://arxiv.org/abs/2104.06272)."""

    actors: int = option(1, "actor threads, which share the games (train.num_envs) evenly", minimum=1)
    groups: int = option(
        2,
        "groups of an actor's games: one is stepped while the device acts for another; 1 for few or fast games",
        minimum=1,
    )
    threads: int = option(
        0, "engine threads over all actors; 0: one per core, or per game for engines in other processes", minimum=0
    )
    lag: int = option(
        1,
        "updates by which acting may lag behind learning; 0: they take turns; above 1, for games of "
        "very uneven length, V-trace corrects (https://arxiv.org/abs/1802.01561)",
        minimum=0,
    )
    timeout: float = option(
        60.0, "seconds after which a silent engine or actor ends the run; a slow learner is waited for", above=0.0
    )
    profile: bool = option(False, "time every part of acting and learning (time/ms_per_1000_steps/...), for tuning")

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects, for host games, several seeds, and games that the actors cannot share evenly."""
        if not getattr(env, "host", False):
            return
        if config.run.seeds > 1:
            raise UserError(
                f"run.seeds is {config.run.seeds}, but a game on the host trains one seed at a time: "
                "start a run for each run.seed."
            )
        slots = max(1, config.league.snapshots)
        name = "sebulba.actors * sebulba.groups" + (" * league.snapshots" if slots > 1 else "")
        divides(config.train.num_envs, self.actors * self.groups * slots, "train.num_envs", name)

    def without_deployment(self) -> SebulbaConfig:
        """Returns the section without threads, timeouts and profiles."""
        return dataclasses.replace(self, threads=0, timeout=1.0, profile=False)
