"""Snapshots put into a pool from outside of the compiled loop: earlier checkpoints, and best responses."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from envs.core import PyTree
from jaxrl.anakin import Anakin
from jaxrl.league.pool import add_snapshot
from jaxrl.ppo.state import TrainState


def insert_snapshot(anakin: Anakin, state: TrainState, params: PyTree, born: int) -> TrainState:
    """The training state with `params` in the next slot of its pool.

    Args:
      anakin: the training, with at least one slot.
      state: its state; not donated.
      params: of the network, with a leading axis [S] if there are several seeds.
      born: the update they were taken at.
    """
    pool, params = jax.device_get((state.pool, params))
    seeds = anakin.config.run.seeds
    if seeds == 1:
        pool = add_snapshot(pool, params, born)
    else:  # one by one: this is rare, and needs no program of its own
        each = [add_snapshot(*jax.tree.map(lambda x, i=i: x[i], (pool, params)), born) for i in range(seeds)]
        pool = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    return dataclasses.replace(state, pool=jax.device_put(pool, anakin.shardings.pool))
