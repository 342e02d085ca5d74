"""Inserts members into a pool between compiled calls: earlier checkpoints, and best responses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from jaxrl.league.pool import PAST, add_snapshot
from jaxrl.runs import distributed
from jaxrl.runs.directory import each_seed
from jaxrl.training.program import Program
from jaxrl.training.state import TrainState
from jaxrl_envs.contract.env import PyTree


def insert_snapshot(
    program: Program,
    state: TrainState,
    params: PyTree,
    born: int,
    *,
    role: int = PAST,
    leads: Sequence[float | None] | None = None,
) -> TrainState:
    """Puts `params` into the next slot of the pool.

    Args:
      program: the training, with at least one slot.
      state: its state; not donated.
      params: of the network, with a leading axis [S] if there are several seeds.
      born: the update they were taken at.
      role: `PAST` or `EXPLOITER`.
      leads: by seed, initial rating points above the policy; None: no member joins this seed's pool; 0 by default.
    """
    pool, params = jax.device_get((state.pool, params))
    # Seed by seed: this is rare, and needs no program of its own.
    seeds = program.config.run.seeds
    each = zip(each_seed((pool, params), seeds), leads or [0.0] * seeds, strict=True)
    pools = [
        pool if lead is None else add_snapshot(pool, params, born, np.int8(role), np.float32(lead))
        for (pool, params), lead in each
    ]
    pool = pools[0] if len(pools) == 1 else jax.tree.map(lambda *leaves: np.stack(leaves), *pools)
    return dataclasses.replace(state, pool=distributed.place(pool, program.shardings.pool))
