"""Speed of a game: uniformly random legal play of many games at once, finished games replaced at once.

Views of the same loop:

- ``lean``: nothing reads observation or mask, so XLA leaves them out of the program; every other leaf of the state is
  returned and therefore really computed;
- ``observed``: the observation as rollouts store it (packed) and the legal-action mask are written to a [T, B, ...]
  buffer;
- ``endless``: ``lean`` without the reset: finished games stay finished, which costs the same as playing. The extra time
  of ``lean`` is the cost of the reset.

The first game of every lane is counted before anything is timed, so that steps become games per second. The same loop
with a scripted player instead of the random one tells what opponents cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.conformance.gpu_checks import equations
from jaxrl_envs.contract.env import Bot, Env, PyTree, State
from jaxrl_envs.contract.wrappers import AutoReset, Final, auto_reset
from jaxrl_envs.shared import prng

VIEWS = ("lean", "observed", "endless")
BUFFER_BYTES = 64 * 2**20  # what one block of `observed` may write
MIXING_STEPS = 64  # untimed steps after the deal at least, so that lanes are not all in the same phase
LONGEST_GAME = 2048  # untimed steps at most; where a first game takes longer, game lengths are not reported


class Endless(AutoReset):
    """A wrapper that leaves finished games as they are."""

    def fresh(self, stepped: State, key: jax.Array) -> State:
        """Returns the stepped state itself."""
        return stepped


def contestant(
    env: Env, *, batch: int, view: str, steps: int = 128, devices: int = 1, name: str = "", player: str = "random"
) -> Contestant:
    """Returns a contestant that plays `batch` games in lock step, `steps` steps per block.

    Args:
      env: the game.
      batch: games over all devices; divisible by `devices`.
      view: one of `VIEWS`.
      steps: T; shortened where the buffer of the view would not fit in `BUFFER_BYTES`.
      devices: local devices that share the games.
      name: name in the report.
      player: the bot of the game that holds all seats.
    """
    steps = min(steps, max(1, BUFFER_BYTES // max(1, batch * view_bytes(env, view))))
    play, states, lengths = playing(env, batch=batch, steps=steps, view=view, devices=devices, player=player)
    counter = iter(range(1, 2**31))

    def block() -> None:
        jax.block_until_ready(play(states, next(counter)))

    info = {"batch": batch, "view": view, "steps": steps, "devices": devices, "bytes": view_bytes(env, view)}
    if view != "endless" and jnp.all(lengths > 0):
        info["decisions_per_game"] = float(jnp.mean(lengths))
    return Contestant(name or f"{env.id} {view}", float(batch * steps), block, info)


def playing(
    env: Env, *, batch: int, steps: int, view: str, devices: int = 1, player: str = "random"
) -> tuple[Any, State, jax.Array]:
    """Returns (the compiled program ``(states, seed) -> outputs``, the states of `batch` running games, the steps
    i32[batch] that the first game of each lane took, 0 where it has not ended)."""
    if batch % devices:
        raise ValueError(f"{batch} games cannot be shared by {devices} devices")
    mesh = Mesh(jax.local_devices()[:devices], ("env",))
    lanes, everywhere = PartitionSpec("env"), PartitionSpec()
    auto, act = auto_reset(env), env.bots[player]

    def start(seed: jax.Array) -> tuple[State, jax.Array]:
        key = jax.random.fold_in(prng.fast_key(seed), jax.lax.axis_index("env"))
        states = jax.vmap(auto.init)(jax.random.split(key, batch // devices))
        return play_first_games(auto, act, states, key)

    def play(states: State, seed: jax.Array) -> PyTree:
        key = jax.random.fold_in(prng.fast_key(seed), jax.lax.axis_index("env"))
        return play_steps(Endless(env) if view == "endless" else auto, act, states, key, steps, view)

    over_time = PartitionSpec(None, "env")
    outputs = (lanes, lanes, over_time)
    sharded_start = jax.shard_map(start, mesh=mesh, in_specs=everywhere, out_specs=(lanes, lanes), check_vma=False)
    sharded_play = jax.shard_map(play, mesh=mesh, in_specs=(lanes, everywhere), out_specs=outputs, check_vma=False)
    return jax.jit(sharded_play), *jax.block_until_ready(jax.jit(sharded_start)(0))


def play_first_games(auto: AutoReset, act: Bot, states: State, key: jax.Array) -> tuple[State, jax.Array]:
    """Plays from the deals [B] until every first game has ended; returns the states and the games' lengths i32[B]."""
    time, lengths = jnp.int32(0), jnp.zeros(states.terminated.shape, jnp.int32)

    def unfinished(carry: tuple[State, jax.Array, jax.Array]) -> jax.Array:
        _, time, lengths = carry
        return (time < MIXING_STEPS) | (jnp.any(lengths == 0) & (time < LONGEST_GAME))

    def step(carry: tuple[State, jax.Array, jax.Array]) -> tuple[State, jax.Array, jax.Array]:
        states, time, lengths = carry
        states, final = _step_lanes(auto, act, states, jax.random.fold_in(key, time))
        ended = final.over & (lengths == 0)
        return states, time + 1, jnp.where(ended, time + 1, lengths)

    states, _, lengths = jax.lax.while_loop(unfinished, step, (states, time, lengths))
    return states, lengths


def play_steps(
    auto: AutoReset,
    act: Bot,
    states: State,
    key: jax.Array,
    steps: int,
    view: str,
    over_lanes: Callable[[Callable], Callable] = jax.vmap,
) -> tuple[State, jax.Array, PyTree]:
    """Plays `steps` steps with one bot on all seats.

    Args:
      auto: the game.
      act: the bot.
      states: [B].
      key: the randomness of all steps and lanes.
      steps: T.
      view: one of `VIEWS`.
      over_lanes: transformation by which a function of one lane runs for all of them.

    Returns:
      (states [B] without observation and mask, f32[B] reward of seat 0 per lane, the buffer [T, B, ...] of the view).
    """

    def step(carry: tuple[State, jax.Array], time: jax.Array) -> tuple[tuple[State, jax.Array], PyTree]:
        states, total = carry
        seen = _seen(states, view)
        states, final = _step_lanes(auto, act, states, jax.random.fold_in(key, time), over_lanes)
        return (states, total + final.rewards[:, 0]), seen

    nothing = jnp.zeros(states.terminated.shape)
    (states, total), buffer = jax.lax.scan(step, (states, nothing), jnp.arange(steps))
    return states.replace(observation=None, legal_action_mask=None), total, buffer


def _step_lanes(
    auto: AutoReset, act: Bot, states: State, key: jax.Array, over_lanes: Callable[[Callable], Callable] = jax.vmap
) -> tuple[State, Final]:
    """Steps every lane once."""

    def of_lane(state: State, lane: jax.Array) -> tuple[State, Final]:
        lane_key = jax.random.fold_in(key, lane)
        return auto.step(state, act(state, lane_key), jax.random.fold_in(lane_key, 1))

    lanes = jnp.arange(states.terminated.shape[0], dtype=jnp.uint32)
    return over_lanes(of_lane)(states, lanes)


def _seen(states: State, view: str) -> PyTree:
    return (states.observation, states.legal_action_mask) if view == "observed" else None


def program_size(env: Env) -> int:
    """Counts the equations of one auto-reset step, each once: the size of what is traced and compiled."""
    auto = auto_reset(env)
    state, key = jax.eval_shape(lambda: (auto.init(jax.random.key(0)), jax.random.key(0)))
    action = jax.eval_shape(env.random_action, state, key)
    return sum(1 for _ in equations(jax.make_jaxpr(auto.step)(state, action, key).jaxpr))


def view_bytes(env: Env, view: str) -> int:
    """Counts the bytes that one decision writes to the buffer of a view."""
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(_seen(state, view)))
