"""`python -m scripts.benchmark.peers.jax_games`: games of Pgx and gymnax beside Skull King, random play.

Pgx (Koyamada et al. 2023, https://arxiv.org/abs/2303.17503) and gymnax (Lange 2022,
https://github.com/RobertTLange/gymnax) are stepped as their authors describe it: vmap and scan, their own auto-reset,
random (legal) actions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl import cli, xla
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.adapters import require
from jaxrl_envs.shared import prng
from scripts.benchmark.peers import our_random_play
from scripts.benchmark.report import compare

PGX = ("sparrow_mahjong", "leduc_holdem", "connect_four")  # hidden tiles, hidden cards, the usual yardstick
GYMNAX = ("CartPole-v1", "Breakout-MinAtar")
Step = Callable[[Any, jax.Array], tuple[Any, jax.Array]]  # (states [B], key) -> states [B], rewards [B]


def pgx_game(game: str, batch: int, steps: int) -> Contestant:
    """Returns a game of Pgx; a unit is one decision of one game."""
    auto_reset = require("pgx.experimental", "games of Pgx", "jaxrl[games]").auto_reset
    env = require("pgx", "games of Pgx", "jaxrl[games]").make(game)
    step = jax.vmap(auto_reset(env.step, env.init))

    def one(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        keys = jax.random.split(key, (2, batch))
        score = jax.vmap(lambda each: jax.random.uniform(each, states.legal_action_mask.shape[1:]))(keys[0])
        states = step(states, jnp.argmax(jnp.where(states.legal_action_mask, score, -1.0), axis=-1), keys[1])
        return states, states.rewards[:, 0]

    states = _compiled(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch))
    return _contestant(
        f"Pgx {game}", one, states, batch, steps, lambda s: s.replace(observation=None, legal_action_mask=None)
    )


def gymnax_game(game: str, batch: int, steps: int) -> Contestant:
    """Returns a game of gymnax; a unit is one decision of one game."""
    env, params = require("gymnax", "games of gymnax", "jaxrl[games]").make(game)
    actions, step = env.action_space(params).n, jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def one(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (batch,), 0, actions)
        _, states, reward, *_ = step(jax.random.split(step_key, batch), states, action, params)
        return states, reward

    reset = _compiled(jax.vmap(env.reset, in_axes=(0, None)))
    _, states = reset(jax.random.split(jax.random.key(0), batch), params)
    return _contestant(f"gymnax {game}", one, states, batch, steps, lambda s: s)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles as XLA does by itself, whatever our own game in the same process asks for."""
    return jax.jit(function, compiler_options=xla.plain_options())


def _contestant(name: str, one: Step, states: Any, batch: int, steps: int, kept: Callable[[Any], Any]) -> Contestant:
    """Scans `one` over steps; `kept` is what the program returns of the states."""

    def play(states: Any, seed: jax.Array) -> tuple[Any, jax.Array]:
        key = prng.fast_key(seed)
        states, rewards = jax.lax.scan(lambda s, t: one(s, jax.random.fold_in(key, t)), states, jnp.arange(steps))
        return kept(states), rewards

    program, counter = _compiled(play), iter(range(1, 2**31))
    return Contestant(
        f"{name}, {batch:,} games", float(batch * steps), lambda: jax.block_until_ready(program(states, next(counter)))
    )


def contestants(batch: int = 4096, steps: int = 64) -> list[Contestant]:
    """Returns all games of both."""
    return [pgx_game(game, batch, steps) for game in PGX] + [gymnax_game(game, batch, steps) for game in GYMNAX]


def main() -> int:
    """Measures and prints."""
    compare("environment steps", our_random_play("skull_king"), contestants())
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
