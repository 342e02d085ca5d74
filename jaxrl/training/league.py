"""What a training does with its league between two compiled calls: exploiters join it, and it is shown.

Main agents and exploiters take turns: every `exploit.every` updates the main agent rests while exploiters are trained
against it alone (`jaxrl.training.best_response`). The best one joins the pool, so that from then on the main agent
meets it.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jaxrl.league.pool import EXPLOITER, League
from jaxrl.matches.members import members_table
from jaxrl.runs.directory import each_seed, seed_names
from jaxrl.training.best_response import Exploit
from jaxrl.training.program import Program
from jaxrl.training.snapshots import insert_snapshot
from jaxrl.training.state import TrainState


def join(program: Program, state: TrainState, found: Sequence[Exploit], update: int) -> TrainState:
    """The training state with best responses in the pool: of each seed, unless it is not `league.margin` better.

    Args:
      program: the training, with at least one slot.
      state: after `update` updates.
      found: by seed.
      update: when they were trained.
    """
    params = jax.tree.map(lambda *leaves: np.stack(leaves), *[exploit.params for exploit in found])
    params = params if len(found) > 1 else found[0].params
    margin = program.config.league.margin
    leads = [exploit.lead if not margin or exploit.lead >= margin else None for exploit in found]
    return insert_snapshot(program, state, params, update, role=EXPLOITER, leads=leads)


def tables(program: Program, state: TrainState, name: str, update: int) -> list[str]:
    """The members of the league of every seed, for people; none without a league."""
    seats, seeds = program.setup.seats, program.config.run.seeds
    if not isinstance(seats, League) or state.pool is None:
        return []
    pools = each_seed(jax.device_get(state.pool.replace(snapshots=None)), seeds)
    return [
        f"the league of {each} after update {update}\n{members_table(seats, pool)}"
        for each, pool in zip(seed_names(name, seeds), pools, strict=True)
    ]
