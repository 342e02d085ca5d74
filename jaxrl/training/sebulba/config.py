"""The section `sebulba`: actors and learner side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides


@dataclasses.dataclass(frozen=True)
class SebulbaConfig(Section):
    """Actors and learner side by side, for games on the host (Hessel et al. 2021, https://arxiv.org/abs/2104.06272)."""

    actors: int = option(1, "threads that play; the games (train.num_envs) are shared evenly", minimum=1)
    groups: int = option(
        2, "parts of an actor's games: one part is stepped while the device chooses for another", minimum=1
    )
    threads: int = option(
        0,
        "engine threads, over all actors; 0: one for each core; engines of another process: one for each game",
        minimum=0,
    )
    lag: int = option(
        1,
        "updates between the parameters that play and those that learn; 0: playing and learning take turns; above 1, "
        "where playing takes very uneven times, V-trace corrects (https://arxiv.org/abs/1802.01561)",
        minimum=0,
    )
    timeout: float = option(
        60.0, "seconds after which a silent engine or actor stops the run; a slow learner is waited for", above=0.0
    )
    profile: bool = option(
        False, "measure every part of playing and learning (time/ms_per_1000_steps/...), to see what to tune"
    )

    def check_game(self, config: Any, env: Any) -> None:
        """Games on the host: one seed, and games that the actors share evenly."""
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
        """Without threads, timeouts and profiles."""
        return dataclasses.replace(self, threads=0, timeout=1.0, profile=False)
