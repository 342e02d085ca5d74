"""Pgx games (Koyamada et al. 2023, https://arxiv.org/abs/2303.17503) stepped as Pgx describes it: vmap and scan, its
own auto-reset, random legal actions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.shared import prng

GAMES = ("sparrow_mahjong", "leduc_holdem", "connect_four")  # hidden tiles, hidden cards, the usual yardstick


def contestants(*, batch: int = 4096, steps: int = 64, games: tuple[str, ...] = GAMES) -> list[Contestant]:
    """One contestant per game; a unit is one decision of one game."""
    return [_contestant(game, batch, steps) for game in games]


def _contestant(game: str, batch: int, steps: int) -> Contestant:
    import pgx
    from pgx.experimental import auto_reset

    env = pgx.make(game)
    step = jax.vmap(auto_reset(env.step, env.init))

    def play(states: Any, seed: jax.Array) -> tuple[Any, jax.Array]:
        key = prng.fast_key(seed)

        def one(carry: Any, time: jax.Array) -> tuple[Any, jax.Array]:
            keys = jax.random.split(jax.random.fold_in(key, time), (2, batch))
            score = jax.vmap(lambda each: jax.random.uniform(each, carry.legal_action_mask.shape[1:]))(keys[0])
            action = jnp.argmax(jnp.where(carry.legal_action_mask, score, -1.0), axis=-1)
            carry = step(carry, action, keys[1])
            return carry, carry.rewards[:, 0]

        states, rewards = jax.lax.scan(one, states, jnp.arange(steps))
        return states.replace(observation=None, legal_action_mask=None), rewards

    states = jax.block_until_ready(jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch)))
    return _blocks(f"Pgx {game}, batch {batch}", jax.jit(play), states, batch, steps)


def _blocks(name: str, play: Any, states: Any, batch: int, steps: int) -> Contestant:
    counter = iter(range(1, 2**31))

    def block() -> None:
        jax.block_until_ready(play(states, next(counter)))

    return Contestant(name, float(batch * steps), block, {"batch": batch, "steps": steps})
