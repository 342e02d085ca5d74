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

from envs.core import Env
from jaxrl.networks.factory import Network

MOST = 4096  # decisions in the measured pass at most
REPEATS = 15


def forward_share(network: Network, env: Env, count: int, forwards: int = 1) -> float:
    """The share of an update's time that its forward passes take, between 0 and 1.

    Args:
      network: that learns.
      env: its game.
      count: decisions in a minibatch.
      forwards: forward passes for each backward pass: 1 in PPO; in DQN more, for the next states.
    """
    count = min(count, MOST)
    params = network.init(jax.random.key(0))
    observation = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), env.observation_spec)
    mask = jnp.ones((count, env.num_actions), bool)

    def loss(params: Any, observation: Any, mask: jax.Array) -> jax.Array:
        logits, value = jax.vmap(network.evaluate, in_axes=(None, 0, 0))(params, observation, mask)
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
