"""Privileged critic (`ppo.critic`): a value network that sees hidden cards and is used for the advantages only.

Asymmetric actor-critic (Pinto et al. 2018, https://arxiv.org/abs/1710.06542; in a card game Yang et al. 2022,
https://arxiv.org/abs/2203.16406). The return of a seat depends on cards that it cannot see. A value function that knows
them reduces the variance of the advantages without bias, because given the observation the action is independent of
them.

The critic is an auxiliary network (`auxiliary`) on the observation and the hidden part. The value head of the policy
network learns the same returns, for search and play.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Rollout, Transition, across_devices
from jaxrl.algorithms.ppo.auxiliary import AuxiliaryNetwork, AuxiliaryState, by_lane, forms
from jaxrl.algorithms.ppo.loss import PPOCoefs
from jaxrl.algorithms.trajectory import Values
from jaxrl.config import Config
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, PyTree


class Returns(NamedTuple):
    """Training data of the critic, leaves [T, L, ...]: L lanes x acting seats."""

    view: PyTree  # observation and hidden part, packed
    value: jax.Array  # f32, value estimate before the update
    target: jax.Array  # f32, value target
    weight: jax.Array  # f32, 1 = the learner's decision with a valid return, 0 = ignored


class ValueHead(nn.Module):
    """Value head on a torso vector, in float32."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array) -> jax.Array:
        """Maps [..., H] -> f32[...]."""
        init = nn.initializers.orthogonal(1.0)
        return nn.Dense(1, kernel_init=init, name="value")(torso.astype(jnp.float32))[..., 0]


class Critic:
    """The critic network and its training."""

    def __init__(self, config: Config, env: Env):
        """Compiles nothing. Raises UserError: the game does not describe its hidden information."""

        def encode(view: PyTree) -> jax.Array:
            observation, hidden = view
            return jnp.concatenate([env.features(observation), env.privileged_features(hidden)])

        self._network = AuxiliaryNetwork(config, config.ppo.critic, ValueHead, 1, encode, forms(env), 0)

    def init(self, key: jax.Array) -> AuxiliaryState:
        """Returns the initial state from a typed key."""
        return self._network.init(key)

    def values(self, critic: AuxiliaryState, rollout: Rollout) -> Values:
        """Returns value estimates along a rollout, computed step by step to bound the memory for expanded features."""
        value = functools.partial(self._network.apply, critic)

        def final(now: Transition) -> jax.Array:
            return jnp.where(now.truncated[:, None], value((now.final_observation, now.final_privileged)), 0.0)

        def at(now: Transition) -> tuple[jax.Array, jax.Array]:
            found, nothing = value((now.observation, now.privileged)), jnp.zeros_like(now.value)
            if now.final_observation is None:
                return found, nothing
            return found, jax.lax.cond(jnp.any(now.truncated), final, lambda now: nothing, now)

        found, at_cuts = jax.lax.map(at, rollout.steps)
        return Values(found, at_cuts, value((rollout.last.observation, rollout.last_privileged)))

    def learn(
        self, critic: AuxiliaryState, rollout: Rollout, returns: Returns, coefs: PPOCoefs, group_keys: jax.Array
    ) -> tuple[AuxiliaryState, Metrics]:
        """Minimises the squared error in epochs x minibatches; inside the mesh. `critic`: state that computed
        `returns.value`; `group_keys`: typed keys [groups], by global group number."""

        def loss(value: jax.Array, batch: Returns) -> jax.Array:
            reach = jnp.where(coefs.value_clip > 0.0, coefs.value_clip, jnp.inf)
            near = batch.value + jnp.clip(value - batch.value, -reach, reach)
            return 0.5 * jnp.maximum(jnp.square(value - batch.target), jnp.square(near - batch.target))

        critic, losses = self._network.learn(critic, returns, loss, coefs, group_keys)
        found = {
            "train/critic_loss": metrics.mean(jnp.sum(losses), losses.shape[0]),
            "train/critic_explained_variance": metrics.mean(explained(returns.value, returns.target, returns.weight)),
        }
        steps = rollout.steps
        return self._network.absorbed(critic, (steps.observation, steps.privileged), steps), found


def returns_of(rollout: Rollout, values: Values, advantage: jax.Array, valid: jax.Array) -> Returns:
    """Returns training data of the critic from a rollout. `rollout`: [T, B, S, ...]; `advantage`: f32[T, B, S];
    `valid`: [T, B, S], 1 where the return is valid, else 0."""
    steps = rollout.steps
    weight = steps.weight * valid
    return by_lane(Returns((steps.observation, steps.privileged), values.value, values.value + advantage, weight))


def explained(value: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
    """Returns f32[]: explained variance of the returns over all devices; 0 if they do not vary."""
    error = target - value
    moments = (jnp.ones_like(weight), target, jnp.square(target), error, jnp.square(error))
    sums = across_devices(tuple(jnp.sum(weight * moment) for moment in moments))
    count, target, target2, error, error2 = sums
    count = jnp.maximum(count, 1.0)
    total = target2 / count - jnp.square(target / count)
    left = error2 / count - jnp.square(error / count)
    return jnp.where(total > 1e-8, 1.0 - left / jnp.maximum(total, 1e-8), 0.0)
