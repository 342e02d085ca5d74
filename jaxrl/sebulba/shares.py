"""How the time of an update is told apart: a forward pass of the network against forward and backward pass.

An update is one compiled program, which cannot be timed in the middle. What stands in TensorBoard as forward and
backward is therefore the time of the whole program, shared out as the two take by themselves, measured once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from envs.core import Env
from jaxrl.networks.factory import Network

MOST = 4096  # decisions in the measured pass at most
REPEATS = 5


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

    forward = forwards * _seconds(jax.jit(loss), params, observation, mask)
    both = _seconds(jax.jit(jax.value_and_grad(loss)), params, observation, mask)
    backward = max(0.0, both - forward / forwards)
    return forward / (forward + backward)


def _seconds(program: Callable[..., Any], *arguments: Any) -> float:
    """The shortest of some calls, after an untimed one."""
    jax.block_until_ready(program(*arguments))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
