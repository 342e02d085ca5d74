"""Learning from examples: what to do by cross-entropy, how games end by regression; for `distill` and `imitate`."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms import optimizer
from jaxrl.networks.base import Memory
from jaxrl.networks.distributions import mask_logits
from jaxrl.networks.factory import Network
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.shared.errors import UserError


class Lessons(NamedTuple):
    """Decisions to learn from, every leaf with the leading axis N.

    For a network that remembers the leading axes are [N, q]: the first q decisions of a seat in a game, in order. What
    stands behind the last one has no weight.
    """

    observation: PyTree
    mask: jax.Array  # bool[N, A]
    policy: jax.Array  # f32[N, A], what should be done; sums to 1
    value: jax.Array  # f32[N], the return of the rest of the game for the seat
    weight: jax.Array  # f32[N], 0 = no lesson


class Losses(NamedTuple):
    """Means over lessons, f32[]."""

    policy: jax.Array  # cross-entropy less the entropy of what should be done: 0 = nothing left to learn
    value: jax.Array  # squared error


def evaluate_all(network: Network, params: PyTree, observation: PyTree, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Masked logits [..., A] and values [...] of all decisions, with leading axes as in `Lessons`."""

    def evaluate(memory: Memory, asked: tuple[PyTree, jax.Array]) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
        memory, logits, value = network.evaluate(params, memory, *asked)
        return memory, (logits, value)

    def in_order(*asked: Any) -> tuple[jax.Array, jax.Array]:
        return jax.lax.scan(evaluate, network.memory(()), asked)[1]

    each = in_order if network.remembers else lambda *asked: evaluate(network.memory(()), asked)[1]
    return jax.vmap(each)(observation, mask)


def make_loss(network: Network, value_coef: float) -> Callable[[PyTree, Lessons], tuple[jax.Array, Losses]]:
    """The function (params, lessons) -> loss f32[], its parts."""

    def loss_of(params: PyTree, lessons: Lessons) -> tuple[jax.Array, Losses]:
        logits, value = evaluate_all(network, params, lessons.observation, lessons.mask)
        log_policy = jax.nn.log_softmax(mask_logits(logits, lessons.mask))
        target = jnp.where(lessons.mask, lessons.policy, 0.0)
        known = jnp.where(target > 0, jnp.log(jnp.maximum(target, 1e-30)), 0.0)
        gap = jnp.sum(target * (known - jnp.where(lessons.mask, log_policy, 0.0)), axis=-1)
        total = jnp.maximum(jnp.sum(lessons.weight), 1.0)
        losses = Losses(
            policy=jnp.sum(lessons.weight * gap) / total,
            value=jnp.sum(lessons.weight * jnp.square(value - lessons.value)) / total,
        )
        return losses.policy + value_coef * losses.value, losses

    return loss_of


def make_step(
    network: Network, learning_rate: float, value_coef: float
) -> Callable[[PyTree, Any, Lessons], tuple[PyTree, Any, Losses]]:
    """The function (params, optimizer state, lessons) -> both after one step of Adam, and the losses before it."""
    loss_of = make_loss(network, value_coef)
    rule = optimizer.make_optimizer("adam", learning_rate, max_grad_norm=1.0)

    def step(params: PyTree, opt_state: Any, lessons: Lessons) -> tuple[PyTree, Any, Losses]:
        gradient, losses = jax.grad(loss_of, has_aux=True)(params, lessons)
        return *optimizer.apply(rule, params, opt_state, gradient), losses

    return step


def check_learning(args: Namespace) -> None:
    """Raises UserError for a way to teach that is out of range."""
    for name in ("iterations", "games", "epochs", "patience", "minibatch"):
        if getattr(args, name, 1) < 1:
            raise UserError(f"--{name} must be at least 1, got {getattr(args, name)}.")
    if not 0.0 < args.learning_rate < math.inf:
        raise UserError(f"--learning-rate must be above 0, got {args.learning_rate}.")
    if not 0.0 <= args.value_coef < math.inf:
        raise UserError(f"--value-coef must be at least 0, got {args.value_coef}.")
