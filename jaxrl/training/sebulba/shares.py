"""How the time of an update is told apart: a forward pass of the network against forward and backward pass.

An update is one compiled program, which cannot be timed in the middle. What stands in TensorBoard as forward and
backward is therefore the time of the whole program, shared out as the two take by themselves, measured once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Algorithm
from jaxrl_envs.contract.env import Env

MOST = 4096  # decisions in the measured pass at most
REPEATS = 15


def forward_share(algorithm: Algorithm, env: Env, count: int) -> float:
    """The share of an update's time that its forward passes take, between 0 and 1.

    Args:
      algorithm: whose network learns, with so many forward passes for each backward pass.
      env: its game.
      count: decisions in an update.
    """
    network, forwards, count = algorithm.network, algorithm.forwards, min(count, MOST)
    memory = network.memory(())
    params = network.init(jax.random.key(0))
    observation = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), env.observation_spec)
    mask = jnp.ones((count, env.num_actions), bool)

    def loss(params: Any, observation: Any, mask: jax.Array) -> jax.Array:
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))
        _, logits, value = evaluate(params, memory, observation, mask)
        return jnp.sum(jnp.square(logits)) + jnp.sum(
            jnp.square(value)
        )  # squares: a sum could be taken before the product

    arguments = (params, observation, mask)
    forward, both = _seconds([jax.jit(loss), jax.jit(jax.value_and_grad(loss))], arguments)
    backward = max(both - forward, forward / 2)  # gradients of the weights alone take as many operations as a pass
    return forwards * forward / (forwards * forward + backward)


def _seconds(programs: Sequence[Callable[..., Any]], arguments: tuple[Any, ...]) -> list[float]:
    """The shortest of some calls of each program, in turn; others use the machine meanwhile."""
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(1 + REPEATS):
        for program, record in zip(programs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            record.append(time.perf_counter() - start)
    return [max(min(record[1:]), 1e-9) for record in times]  # the first call compiles
