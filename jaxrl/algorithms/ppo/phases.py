"""Metrics per phase of a game (`Env.phases`), e.g. early tricks or the seventh round."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import across_devices
from jaxrl.algorithms.ppo.loss import Batch
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env


def phases_of(env: Env, observation: Any, axes: int) -> dict[str, jax.Array]:
    """Returns `Env.phase` of packed observations with `axes` leading axes, i32[...] by key."""
    phase = env.phase
    for _ in range(axes):
        phase = jax.vmap(phase)
    return phase(observation)


def by_phase(env: Env, batch: Batch) -> Metrics:
    """Returns metrics per phase: share of the decisions, policy entropy (estimated as the mean of -log pi), mean
    return, and mean squared value error."""
    told: Metrics = {}
    if not env.phases:
        return told
    weight, error = batch.weight.ravel(), jnp.square(batch.target - batch.value)
    parts = jnp.stack([weight, *(weight * of.ravel() for of in (-batch.log_prob, batch.target, error))])
    everything = across_devices(jnp.sum(weight))
    for key, number in phases_of(env, batch.observation, batch.weight.ndim).items():
        names = env.phases[key]
        within = (number.ravel() == jnp.arange(len(names))[:, None]).astype(jnp.float32)
        sums = across_devices(jnp.matmul(within, parts.T, precision="highest"))  # f32[names, 4]
        for name, (count, *each) in zip(names, sums, strict=True):
            told[f"{key}/{name}/share"] = metrics.mean(count, everything)
            for figure, amount in zip(("entropy", "return", "value_error"), each, strict=True):
                told[f"{key}/{name}/{figure}"] = metrics.mean(amount, count)
    return told
