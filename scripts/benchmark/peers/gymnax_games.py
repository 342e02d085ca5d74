"""Games of gymnax (Lange 2022, https://github.com/RobertTLange/gymnax) stepped as gymnax describes it: vmap, scan, its
own auto-reset, random actions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.shared import prng

GAMES = ("CartPole-v1", "Breakout-MinAtar")


def contestants(*, batch: int = 4096, steps: int = 64, games: tuple[str, ...] = GAMES) -> list[Contestant]:
    """One contestant per game; a unit is one decision of one game."""
    return [_contestant(game, batch, steps) for game in games]


def _contestant(game: str, batch: int, steps: int) -> Contestant:
    import gymnax

    env, params = gymnax.make(game)
    actions = env.action_space(params).n
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def play(states: Any, seed: jax.Array) -> tuple[Any, jax.Array]:
        key = prng.fast_key(seed)

        def one(states: Any, time: jax.Array) -> tuple[Any, jax.Array]:
            action_key, step_key = jax.random.split(jax.random.fold_in(key, time))
            action = jax.random.randint(action_key, (batch,), 0, actions)
            _, states, reward, _, _, _ = step(jax.random.split(step_key, batch), states, action, params)
            return states, reward

        return jax.lax.scan(one, states, jnp.arange(steps))

    reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    _, states = jax.block_until_ready(reset(jax.random.split(jax.random.key(0), batch), params))
    program = jax.jit(play)
    counter = iter(range(1, 2**31))

    def block() -> None:
        jax.block_until_ready(program(states, next(counter)))

    return Contestant(f"gymnax {game}, batch {batch}", float(batch * steps), block, {"batch": batch, "steps": steps})
