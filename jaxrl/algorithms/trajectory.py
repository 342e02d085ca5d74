"""Advantages and value targets of a rollout: converts between decisions [T, B, S] and columns per seat [T, B, P].

Shape letters as in `base`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Rollout, Transition, cleared, memory_of, remember
from jaxrl.algorithms.gae import Steps, Trajectory, gae, vtrace
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory, Network, Params
from jaxrl_envs.shared import kernels


class Values(NamedTuple):
    """Value estimates along a rollout."""

    value: jax.Array  # f32[T, B, S], of the decisions
    final: jax.Array  # f32[T, B, S], of the final observations of truncated games; 0 elsewhere
    last: jax.Array  # f32[B, S], of the observations after the last step


class Estimates(NamedTuple):
    """Learning targets of each decision, [T, B, S]."""

    value: jax.Array  # f32, value estimate at the time of the decision
    advantage: jax.Array  # f32
    value_error: jax.Array  # f32; value + value_error is the value target
    valid: jax.Array  # 1 where the seat had a choice and the successor is known, else 0


def gae_estimates(
    network: Network, rollout: Rollout, gamma: jax.Array, gae_lambda: jax.Array, values: Values | None = None
) -> Estimates:
    """Estimates by `gae`, for an on-policy rollout. `rollout`: [T, B, ...]. `gamma`, `gae_lambda`: f32[]. `values`:
    values of a separate critic; None: the network's own."""
    steps = rollout.steps
    values = values_of(network, rollout) if values is None else values
    per_seat, valid = gae(of_choices(trajectory_of(rollout, values), rollout), gamma, gae_lambda)
    advantage = of_decisions(per_seat, steps.seat)
    value_error = advantage + (values.value - steps.value)  # the network's own value predicts the same return
    return Estimates(steps.value, advantage, value_error, of_decisions(valid, steps.seat))


def vtrace_estimates(
    network: Network,
    params: Params,
    rollout: Rollout,
    temperature: jax.Array,
    rho_clip: float,
    gamma: jax.Array,
    gae_lambda: jax.Array,
) -> Estimates:
    """Estimates by `vtrace`, for an off-policy rollout, played with older parameters.

    Args:
      rollout: [T, B, ...].
      temperature: f32[], sampling temperature.
      rho_clip, gamma, gae_lambda: coefficients as of `vtrace`.
    """
    steps, seats = rollout.steps, rollout.steps.rewards.shape[-1]
    log_prob, values = reevaluate(network, params, rollout, temperature)
    ratio = jnp.exp(jnp.where(steps.weight > 0.0, log_prob - steps.log_prob, 0.0))  # opponents' have ratio 1
    trajectory = of_choices(trajectory_of(rollout, values), rollout)
    ratio = jnp.where(trajectory.steps.acting, to_seats(ratio, steps.seat, seats), 1.0)
    found = vtrace(trajectory, ratio, rho_clip, gamma, gae_lambda)
    return Estimates(values.value, *(of_decisions(part, steps.seat) for part in found))


def values_of(network: Network, rollout: Rollout) -> Values:
    """The stored values of the decisions, and bootstrapped values of the same parameters where the rollout is cut.

    A recurrent network re-evaluates the rollout if games may be truncated: rollouts do not store its state there.
    """
    params, steps = rollout.policy.params, rollout.steps
    if steps.final_observation is not None and network.remembers:
        return reevaluate(network, params, rollout, 1.0)[1]
    final = jnp.zeros_like(steps.value)
    if steps.final_observation is not None:
        batch = steps.terminated.shape[1:]
        nothing = network.memory((*batch, rollout.steps.rewards.shape[-1]))
        finals = functools.partial(_gathered_finals if kernels.on_gpu() else _mapped_finals, network, params, nothing)
        final = finals(steps)
    return Values(steps.value, final, _last(network, params, rollout, rollout.last_memory))


def reevaluate(
    network: Network, params: Params, rollout: Rollout, temperature: jax.Array | float
) -> tuple[jax.Array, Values]:
    """Re-evaluates a rollout under `params`, starting from its stored recurrent state. Returns log-probabilities
    f32[T, B, S] of the actions at this temperature, and the values."""

    def step(memory: Memory, now: Transition) -> tuple[Memory, tuple[jax.Array, jax.Array, jax.Array]]:
        mask = distributions.unpack_mask(now.mask, network.num_actions)
        held = jax.vmap(memory_of)(memory, now.seat)
        new, logits, value = _each(network)(params, held, now.observation, mask)
        after = jax.vmap(remember)(memory, now.seat, new)
        log_prob = distributions.log_prob(distributions.temper(logits, temperature), now.action)
        final = jnp.zeros_like(value) if now.final_observation is None else _finals(network, params, after, now)
        return cleared(after, now.over), (log_prob, value, final)

    begin = jax.tree.map(lambda leaf: leaf[0], rollout.memory)
    memory, (log_prob, value, final) = jax.lax.scan(step, begin, rollout.steps)
    return log_prob, Values(value, final, _last(network, params, rollout, memory))


def logits_along(network: Network, params: Params, rollout: Rollout) -> jax.Array:
    """f32[T, B, S, A]: the masked logits of `params` along a rollout, starting from its stored recurrent state."""

    def step(memory: Memory, now: Transition) -> tuple[Memory, jax.Array]:
        mask = distributions.unpack_mask(now.mask, network.num_actions)
        new, logits, _ = _each(network)(params, jax.vmap(memory_of)(memory, now.seat), now.observation, mask)
        return cleared(jax.vmap(remember)(memory, now.seat, new), now.over), logits

    return jax.lax.scan(step, jax.tree.map(lambda leaf: leaf[0], rollout.memory), rollout.steps)[1]


def _each(network: Network) -> Any:
    """Returns `Network.evaluate` over lanes and the seats asked in each, [B, S, ...]."""
    return jax.vmap(jax.vmap(network.evaluate, in_axes=(None, 0, 0, 0)), in_axes=(None, 0, 0, 0))


def _valued(network: Network, params: Params, memory: Memory, seat: jax.Array, observation: Any) -> jax.Array:
    """Returns f32[B, S]: values of observations [B, S, ...]; values do not depend on the mask."""
    mask = jnp.ones((*seat.shape, network.num_actions), bool)
    return _each(network)(params, jax.vmap(memory_of)(memory, seat), observation, mask)[2]


def _last(network: Network, params: Params, rollout: Rollout, memory: Memory) -> jax.Array:
    last = rollout.last
    return _valued(network, params, memory, last.seat, last.observation)


def _finals(network: Network, params: Params, memory: Memory, now: Transition) -> jax.Array:
    """Returns f32[B, S]: values of the final observations of one step, computed only if a game was truncated in it."""

    def evaluate(now: Transition) -> jax.Array:
        return _valued(network, params, memory, now.final_seat, now.final_observation)

    values = jax.lax.cond(jnp.any(now.truncated), evaluate, lambda now: jnp.zeros_like(now.value), now)
    return jnp.where(now.truncated[:, None], values, 0.0)


def _mapped_finals(network: Network, params: Params, memory: Memory, steps: Transition) -> jax.Array:
    """Returns f32[T, B, S]: `_finals` of every step."""
    return jax.lax.map(lambda now: _finals(network, params, memory, now), steps)


def _gathered_finals(network: Network, params: Params, memory: Memory, steps: Transition) -> jax.Array:
    """Returns what `_mapped_finals` returns, for a GPU, where each branch is a wait for the host: evaluates the games
    that were truncated, B of them in a round: one round without a look at their number, and seldom more."""
    cut, lanes = steps.truncated.reshape(-1), steps.truncated.shape[1]
    order = jnp.argsort(~cut)  # those that were truncated come first
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (steps.final_seat, steps.final_observation))

    def evaluate(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        begin, values = carry
        at = jax.lax.dynamic_slice_in_dim(order, begin, lanes)
        found = _valued(network, params, memory, *jax.tree.map(lambda leaf: leaf[at], rows))
        return begin + lanes, values.at[at].set(found)

    start = jnp.int32(0), jnp.zeros((cut.size, *steps.value.shape[2:]), steps.value.dtype)
    _, values = jax.lax.while_loop(lambda carry: carry[0] < jnp.sum(cut), evaluate, evaluate(start))
    return jnp.where(cut[:, None], values, 0.0).reshape(steps.value.shape)


def trajectory_of(rollout: Rollout, values: Values) -> Trajectory:
    """Returns the inputs of `gae` and `vtrace`, one column per seat."""
    transitions, num_players = rollout.steps, rollout.steps.rewards.shape[-1]

    def acting(seat: jax.Array) -> jax.Array:
        return jnp.any(_one_hot(seat, num_players), axis=-2)

    def spread(value: jax.Array, seat: jax.Array) -> jax.Array:
        return to_seats(value, seat, num_players)

    steps = Steps(
        acting=acting(transitions.seat),
        value=spread(values.value, transitions.seat),
        rewards=transitions.rewards,
        terminated=transitions.terminated,
        truncated=transitions.truncated,
        final_acting=acting(transitions.final_seat),
        final_value=spread(values.final, transitions.final_seat),
    )
    last = rollout.last.seat
    return Trajectory(steps=steps, last_acting=acting(last), last_value=spread(values.last, last))


def of_choices(trajectory: Trajectory, rollout: Rollout) -> Trajectory:
    """Returns the trajectory without forced decisions, which have a single legal action and teach the policy nothing.

    A seat's rewards after a forced decision belong to its last choice, and discount and decay count choices alone, so
    no choice bootstraps from the value of a position that is never learnt. Where the rollout is cut at a forced
    decision, the successor of the seat's last choice is unknown.
    """
    steps, last = rollout.steps, rollout.last
    seats = steps.rewards.shape[-1]

    def chooses(mask: jax.Array, seat: jax.Array) -> jax.Array:
        legal = jnp.sum(jax.lax.population_count(mask), axis=-1)
        return jnp.any(_one_hot(seat, seats) & (legal > 1)[..., None], axis=-2)

    acting = trajectory.steps.acting & chooses(steps.mask, steps.seat)
    last_acting = trajectory.last_acting & chooses(distributions.pack_mask(last.mask), last.seat)
    return trajectory._replace(steps=trajectory.steps._replace(acting=acting), last_acting=last_acting)


def of_decisions(per_seat: jax.Array, seat: jax.Array) -> jax.Array:
    """Maps columns per seat [T, B, P] -> values per decision [T, B, S] of the acting seats (i32[T, B, S])."""
    picked = jnp.where(_one_hot(seat, per_seat.shape[-1]), per_seat[..., None, :], 0)
    return jnp.sum(picked, axis=-1, dtype=per_seat.dtype if per_seat.dtype != bool else jnp.int32)


def to_seats(per_decision: jax.Array, seat: jax.Array, num_players: int) -> jax.Array:
    """Values per decision [T, B, S] of the acting seats (i32[T, B, S]) -> columns per seat [T, B, P], 0 elsewhere."""
    return jnp.sum(jnp.where(_one_hot(seat, num_players), per_decision[..., None], 0.0), axis=-2)


def _one_hot(seat: jax.Array, num_players: int) -> jax.Array:
    """Maps i32[..., S] -> bool[..., S, P]."""
    return seat[..., None] == jnp.arange(num_players)
