"""Parameters that PPO keeps beside those that learn: a magnet that pulls, an average over time, and an anchor.

In games with hidden information the best answer to oneself changes as fast as one does, and self-play circles about an
equilibrium instead of reaching it. A magnet, to which the policy is pulled by KL(policy || magnet), makes the last
policy converge: to a regularised equilibrium where the magnet stays, to one of the game itself where it follows slowly
(magnetic mirror descent, Sokota et al. 2023, https://arxiv.org/abs/2206.05825). What still circles is nearer to the
middle on average.

An anchor is what the run began with, for ever: a policy that has learnt from others may forget that within some
updates, as its first advantages are mostly noise. KL(anchor || policy), the direction of kickstarting (Schmitt et al.
2018, https://arxiv.org/abs/1803.03835), keeps alive what the anchor does and lets the policy find more: to do now and
then what the anchor would never do costs little, where KL(policy || anchor) forbids it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import ANCHOR, AVERAGE
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.networks.factory import STATISTICS
from jaxrl_envs.contract.env import select

MAGNET = "magnet"
TargetParams = dict[str, Any]


def first(config: PPOConfig, params: Any) -> TargetParams:
    """What is kept, as it begins; copied, because a program may not be given one array twice to write over."""
    kept = [MAGNET] * (config.magnet == "policy") + [AVERAGE] * (config.ema > 0.0) + [ANCHOR] * config.anchor
    return {name: jax.tree.map(jnp.copy, params) for name in kept}


def with_magnet(copies: TargetParams, params: Any, number: jax.Array, refresh: int) -> TargetParams:
    """The magnet of update `number` (i32[]): the parameters before it if that is a multiple of `refresh`."""
    if MAGNET not in copies:
        return copies
    return copies | {MAGNET: select(number % refresh == 0, params, copies[MAGNET])}


def with_average(copies: TargetParams, params: Any, number: jax.Array, decay: Any) -> TargetParams:
    """The average with the parameters after update `number` (i32[]): sum_k decay^k params_(n - k), the weights made to
    sum to 1 as in Adam. The normaliser's statistics are those of the newest parameters: they are an average already.

    Args:
      copies, params: before, and after the update.
      number: i32[].
      decay: f32[].
    """
    if AVERAGE not in copies:
        return copies
    share = (1.0 - decay) / (1.0 - decay ** (number + 1).astype(jnp.float32))
    average = jax.tree.map(lambda old, new: old + share * (new - old), copies[AVERAGE], params)
    if STATISTICS in params:
        average = average | {STATISTICS: params[STATISTICS]}
    return copies | {AVERAGE: average}
