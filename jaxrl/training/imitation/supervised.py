"""Learning from examples: what to do by cross-entropy, how games end by regression; from games and from searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms import optimizer
from jaxrl.networks.base import Memory, Network
from jaxrl.networks.distributions import mask_logits
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.shared.errors import UserError


class LabelledDecisions(NamedTuple):
    """Decisions to learn from, every leaf with the leading axis N.

    For a network that remembers the leading axes are [N, q]: the first q decisions of a seat in a game, in order. What
    stands behind the last one has no weight.
    """

    observation: PyTree
    mask: jax.Array  # bool[N, A]
    policy: jax.Array  # f32[N, A], what should be done; sums to 1
    value: jax.Array  # f32[N], the return of the rest of the game for the seat
    weight: jax.Array  # f32[N], 0 = not learnt from


class Losses(NamedTuple):
    """Means over decisions, f32[]."""

    policy: jax.Array  # cross-entropy less the entropy of what should be done: 0 = nothing left to learn
    value: jax.Array  # squared error


def evaluate_all(network: Network, params: PyTree, observation: PyTree, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns masked logits [..., A] and values [...] of all decisions, with leading axes as in `LabelledDecisions`."""

    def evaluate(memory: Memory, asked: tuple[PyTree, jax.Array]) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
        memory, logits, value = network.evaluate(params, memory, *asked)
        return memory, (logits, value)

    def in_order(*asked: Any) -> tuple[jax.Array, jax.Array]:
        return jax.lax.scan(evaluate, network.memory(()), asked)[1]

    each = in_order if network.remembers else lambda *asked: evaluate(network.memory(()), asked)[1]
    return jax.vmap(each)(observation, mask)


def make_loss(network: Network, value_coef: float) -> Callable[[PyTree, LabelledDecisions], tuple[jax.Array, Losses]]:
    """Returns the function (params, batch) -> loss f32[], its parts."""

    def loss_of(params: PyTree, batch: LabelledDecisions) -> tuple[jax.Array, Losses]:
        logits, value = evaluate_all(network, params, batch.observation, batch.mask)
        log_policy = jax.nn.log_softmax(mask_logits(logits, batch.mask))
        target = jnp.where(batch.mask, batch.policy, 0.0)
        known = jnp.where(target > 0, jnp.log(jnp.maximum(target, 1e-30)), 0.0)
        gap = jnp.sum(target * (known - jnp.where(batch.mask, log_policy, 0.0)), axis=-1)
        total = jnp.maximum(jnp.sum(batch.weight), 1.0)
        losses = Losses(
            policy=jnp.sum(batch.weight * gap) / total,
            value=jnp.sum(batch.weight * jnp.square(value - batch.value)) / total,
        )
        return losses.policy + value_coef * losses.value, losses

    return loss_of


def make_step(
    network: Network, learning_rate: float, value_coef: float
) -> Callable[[PyTree, Any, LabelledDecisions], tuple[PyTree, Any, Losses]]:
    """The function (params, optimizer state, batch) -> both after one step of Adam, and the losses before it."""
    loss_of = make_loss(network, value_coef)
    rule = optimizer.make_optimizer("adam", learning_rate, max_grad_norm=1.0)

    def step(params: PyTree, opt_state: Any, batch: LabelledDecisions) -> tuple[PyTree, Any, Losses]:
        gradient, losses = jax.grad(loss_of, has_aux=True)(params, batch)
        return *optimizer.apply(rule, params, opt_state, gradient), losses

    return step


def check_learning(learning_rate: float, value_coef: float, **counts: int) -> None:
    """Raises UserError for settings of supervised learning that are out of range."""
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"--{name} must be at least 1, got {count}.")
    if not 0.0 < learning_rate < math.inf:
        raise UserError(f"--learning-rate must be above 0, got {learning_rate}.")
    if not 0.0 <= value_coef < math.inf:
        raise UserError(f"--value-coef must be at least 0, got {value_coef}.")
