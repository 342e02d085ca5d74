"""The physics of car soccer alone: ticks of arenas, random controls, no observation, mask or reward."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.physics.state import Arena
from jaxrl_envs.car_soccer.physics.tick import ticks

HELD, CALLS = 8, 8  # ticks for which controls are held; calls that a block makes
WARM = 128  # calls before anything is timed: no arena is still where it began


def contestants(env: CarSoccer, batches: list[int]) -> tuple[list[Contestant], dict[str, Any]]:
    """One contestant per number of arenas, a unit is one tick of one arena; and what XLA says of the largest program.

    Returns:
      contestants; `flops_per_tick` and `bytes_per_arena`.
    """

    def play(arenas: Arena, seed: jax.Array) -> Arena:
        shape = (arenas.tick.shape[0], env.num_players)
        rows = jax.random.randint(jax.random.key(seed), (CALLS, *shape), 0, actions.NUM_ACTIONS)
        act = jax.vmap(lambda arena, controls: ticks(env.geometry, env.settings, arena, controls, HELD))

        def call(arenas: Arena, rows: jax.Array) -> tuple[Arena, None]:
            return act(arenas, jnp.asarray(actions.TABLE)[rows]), None

        return jax.lax.scan(call, arenas, rows)[0]

    def begin(key: jax.Array) -> Arena:
        state: Any = env.init(key)
        return state.game.arena

    made, facts = [], {}
    for batch in batches:
        arenas = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(batch), batch))
        program = jax.jit(play).lower(arenas, 0).compile()
        for seed in range(WARM // CALLS):
            arenas = program(arenas, seed)
        made.append(_contestant(program, jax.block_until_ready(arenas), batch))
        facts = {
            "flops_per_tick": _flops(env, arenas) / batch,
            "bytes_per_arena": sum(leaf.nbytes for leaf in jax.tree.leaves(arenas)) // batch,
        }
    return made, facts


def _flops(env: CarSoccer, arenas: Arena) -> float:
    """Of one tick of all arenas, as XLA counts before it optimises: of every loop one round."""
    one = jax.vmap(lambda arena, controls: ticks(env.geometry, env.settings, arena, controls, 1))
    idle = jnp.zeros((arenas.tick.shape[0], env.num_players, 8))
    return (jax.jit(one).lower(arenas, idle).cost_analysis() or {}).get("flops", np.nan)


def _contestant(program: Any, arenas: Arena, batch: int) -> Contestant:
    seeds = iter(range(2**31))

    def block() -> None:
        jax.block_until_ready(program(arenas, next(seeds)))

    return Contestant(f"ticks, {batch} arenas", float(batch * HELD * CALLS), block, {"batch": batch})
