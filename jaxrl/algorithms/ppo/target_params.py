"""Target parameters of PPO: a magnet that regularises the policy, an average over time, and an anchor.

In games with hidden information, self-play cycles around an equilibrium instead of converging to it. Regularisation
with KL(policy || magnet) makes the last iterate converge: to a regularised equilibrium if the magnet is fixed, to one
of the game itself if it follows the policy slowly (magnetic mirror descent, Sokota et al. 2023,
https://arxiv.org/abs/2206.05825). The average over time reduces the remaining oscillation.

The anchor is the initial policy of the run, and never changes: a policy that was trained by imitation may forget it
within a few updates, because its first advantages are mostly noise. KL(anchor || policy), the direction of kickstarting
(Schmitt et al. 2018, https://arxiv.org/abs/1803.03835), preserves the actions of the anchor and still allows
exploration: actions that the anchor never takes cost little, whereas KL(policy || anchor) would rule them out.
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
    """Returns the initial target parameters; copied, because an array can be donated to a program only once."""
    kept = [MAGNET] * (config.magnet == "policy") + [AVERAGE] * (config.ema > 0.0) + [ANCHOR] * config.anchor.on
    return {name: jax.tree.map(jnp.copy, params) for name in kept}


def with_magnet(targets: TargetParams, params: Any, number: jax.Array, refresh: int) -> TargetParams:
    """Sets the magnet to `params` before update `number` (i32[]) if that is a multiple of `refresh`."""
    if MAGNET not in targets:
        return targets
    return targets | {MAGNET: select(number % refresh == 0, params, targets[MAGNET])}


def with_average(targets: TargetParams, params: Any, number: jax.Array, decay: Any) -> TargetParams:
    """Updates the exponential moving average with the parameters after update `number`: sum_k decay^k params_(n - k),
    bias-corrected as in Adam. Normaliser statistics, already averages, are taken from the newest parameters. `number`:
    i32[]; `decay`: f32[]."""
    if AVERAGE not in targets:
        return targets
    share = (1.0 - decay) / (1.0 - decay ** (number + 1).astype(jnp.float32))
    average = jax.tree.map(lambda old, new: old + share * (new - old), targets[AVERAGE], params)
    if STATISTICS in params:
        average = average | {STATISTICS: params[STATISTICS]}
    return targets | {AVERAGE: average}
