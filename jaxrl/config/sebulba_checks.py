"""Checks of the section `sebulba`, for games on the host."""

from __future__ import annotations

from envs.errors import UserError
from jaxrl.config.league_checks import divides
from jaxrl.config.schema import Config


def check_sebulba(config: Config) -> None:
    """Compares the sections `sebulba` and `ppo`; only for trainings with actors.

    Raises:
      UserError: several seeds, or games that cannot be shared evenly.
    """
    if config.run.seeds > 1:
        raise UserError(
            f"run.seeds is {config.run.seeds}, but a game on the host trains one seed at a time: "
            "start a run for each run.seed."
        )
    sebulba, train, slots = config.sebulba, config.train, max(1, config.league.snapshots)
    blocks, name = sebulba.actors * sebulba.groups, "sebulba.actors * sebulba.groups"
    if slots > 1:
        divides(train.num_envs, blocks * slots, "train.num_envs", f"{name} * league.snapshots")
    divides(train.num_envs, blocks, "train.num_envs", name)
