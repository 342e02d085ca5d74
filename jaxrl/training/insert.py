"""Snapshots put into a pool from outside of the compiled loop: earlier checkpoints, and best responses."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from jaxrl.envs.core import PyTree
from jaxrl.league.pool import add_snapshot
from jaxrl.runs.directory import each_seed
from jaxrl.training.program import Program
from jaxrl.training.state import TrainState


def insert_snapshot(program: Program, state: TrainState, params: PyTree, born: int) -> TrainState:
    """The training state with `params` in the next slot of its pool.

    Args:
      program: the training, with at least one slot.
      state: its state; not donated.
      params: of the network, with a leading axis [S] if there are several seeds.
      born: the update they were taken at.
    """
    pool, params = jax.device_get((state.pool, params))
    # Seed by seed: this is rare, and needs no program of its own.
    pools = [add_snapshot(*both, born) for both in each_seed((pool, params), program.config.run.seeds)]
    pool = pools[0] if len(pools) == 1 else jax.tree.map(lambda *leaves: np.stack(leaves), *pools)
    return dataclasses.replace(state, pool=jax.device_put(pool, program.shardings.pool))
