"""The rollout's two forms for a GPU, where kernels count: lanes and transitions carried as words, and a whole step but
for the networks in one kernel.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Decision, Transition, remember
from jaxrl.networks.base import Memory
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.anakin.packing import Packed, pack, pack_lane, unpack, unpack_lane
from jaxrl.training.anakin.rollout import Carry, Play, RolloutStep, decisions, play, play_steps
from jaxrl.training.episodes import over_lanes
from jaxrl.training.state import Lanes
from jaxrl_envs.shared import kernels


def form_of(setup: RolloutSetup) -> Play:
    """Returns the function that plays rollouts of a setup on the device that is compiled for."""
    if setup.over_lanes is not jax.vmap:
        return play_in_kernel
    return play_packed if kernels.on_gpu() else play_steps


def play_packed(step: RolloutStep, carry: Carry, steps: jax.Array) -> tuple[Carry, Transition]:
    """`play_steps` with lanes and transitions as words; the games of a lane are summed before those of all lanes."""
    traced = jax.jit(step, inline=True)  # traced once, for the shapes and for the loop
    shape, transition_shape, ended_shape = jax.eval_shape(traced, carry[0], steps[0])
    lanes_shape = (shape, ended_shape)

    def one(packed: Packed, t: jax.Array) -> tuple[Packed, Packed]:
        lanes, sums = unpack(packed, lanes_shape)
        lanes, transition, ended = traced(lanes, t)
        return pack((lanes, jax.tree.map(jnp.add, sums, ended))), pack(transition)

    packed, rows = jax.lax.scan(one, pack((carry[0], _zeros(ended_shape))), steps)
    lanes, ended = unpack(packed, lanes_shape)
    transitions = jax.vmap(lambda row: unpack(row, transition_shape))(rows)
    return (lanes, jax.tree.map(jnp.add, carry[1], over_lanes(ended))), transitions


def play_in_kernel(step: RolloutStep, carry: Carry, steps: jax.Array) -> tuple[Carry, Transition]:
    """Plays as `play_packed` with all of a step but the networks in one kernel, which reads and writes words."""
    (lanes, sums), setup, opponents = carry, step.setup, step.opponents
    _, transition_shape, ended_shape = jax.eval_shape(step, lanes, steps[0])
    first = lanes.replace(memory=()), _zeros(ended_shape)

    def play_lane(packed: Packed, decision: Decision, key: jax.Array, odds: Any) -> tuple[Packed, Packed]:
        lane, sums = unpack_lane(packed, first)
        asked, (_, bot_key, env_key, seat_key) = setup.asked(lane.env_state), jax.random.split(key, 4)
        controller = lane.controllers[asked.seat]
        lane, transition, ended = play(setup, lane, asked, controller, decision, bot_key, env_key, seat_key, odds)
        return pack_lane((lane, jax.tree.map(jnp.add, sums, ended))), pack_lane(transition)

    def one(carry: tuple[Packed, Memory], t: jax.Array) -> tuple[tuple[Packed, Memory], Packed]:
        packed, memory, keys = *carry, step.keys(t)
        lanes: Lanes = unpack(packed, first)[0].replace(memory=memory)
        act_keys = jax.vmap(lambda key: jax.random.split(key, 4)[0])(keys)
        asked, _, decision = decisions(setup, opponents, lanes, act_keys)
        by_lane = packed._replace(words=packed.words.T)
        by_lane, row = setup.over_lanes(play_lane)(by_lane, decision._replace(memory=()), keys, opponents.odds)
        row = row._replace(words=row.words.T)
        if setup.algorithm.network.remembers:
            over = unpack(row, transition_shape).over
            memory = jax.vmap(remember)(memory, asked.seat, decision.memory, over)
        return (by_lane._replace(words=by_lane.words.T), memory), row

    (packed, memory), rows = jax.lax.scan(one, (pack(first), lanes.memory), steps)
    lanes, ended = unpack(packed, first)
    transitions = jax.vmap(lambda row: unpack(row, transition_shape))(rows)
    return (lanes.replace(memory=memory), jax.tree.map(jnp.add, sums, over_lanes(ended))), transitions


def _zeros(shapes: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
