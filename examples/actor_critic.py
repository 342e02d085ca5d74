"""A complete algorithm on a page: advantage actor-critic (A2C, Mnih et al. 2016, https://arxiv.org/abs/1602.01783).

One step of RMSProp on each rollout. Both loops run it, for compiled games and for games on the host:

    jaxrl train --config examples/nim_actor_critic.yaml --allow examples
    jaxrl evaluate nim_actor_critic --allow examples
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms.base import Algorithm, Asked, Decision, Learner, Policy, Rollout, across_devices
from jaxrl.algorithms.schedule import Hyper, make_hyper
from jaxrl.algorithms.trajectory import gae_estimates
from jaxrl.config import Config
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory
from jaxrl.networks.factory import make_network
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Schedule


@dataclasses.dataclass(frozen=True)
class A2CConfig:
    """The settings, from the section `algorithm` of a configuration."""

    learning_rate: Schedule = option(Schedule("linear", 3e-3, 1e-4), "RMSProp step size")
    entropy_coef: float = option(0.02, "weight of the entropy bonus", minimum=0.0)
    value_coef: float = option(0.5, "weight of the value loss", minimum=0.0)
    gae_lambda: float = option(0.95, "decay of the advantage estimator", minimum=0.0, maximum=1.0)
    gamma: float = option(1.0, "discount per own decision of a seat", minimum=0.0, maximum=1.0)


class A2CCoefs(NamedTuple):
    """The numbers of the settings in one update, f32[] each."""

    learning_rate: jax.Array
    entropy_coef: jax.Array
    value_coef: jax.Array
    gae_lambda: jax.Array
    gamma: jax.Array


@struct.dataclass
class A2CLearner(Learner):
    """Parameters, hyper-parameters and the optimizer's state."""

    opt_state: optax.OptState


class ActorCritic(Algorithm):
    """Advantage actor-critic for networks without a memory."""

    headline = {"entropy": "train/entropy"}

    def __init__(self, config: Config, env: Env):
        """Compiles nothing."""
        super().__init__(config, env)
        self.section = self.own_section(A2CConfig())
        self.network = make_network(config.network, env)
        if self.network.remembers or self.network.normaliser:
            raise UserError("this actor-critic has neither memory nor normaliser: use another network.")
        self.optimizer = optax.scale_by_rms(decay=0.99, eps=1e-5)

    def hyper(self) -> Hyper:
        """Returns numbers and schedules as traced values: changing one compiles nothing again."""
        return make_hyper(self.section, self.config.num_updates)

    def init(self, key: jax.Array) -> A2CLearner:
        """Draws new parameters."""
        params = self.network.init(key)
        return A2CLearner(params=params, hyper=self.hyper(), opt_state=self.optimizer.init(params))

    def act(self, policy: Policy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Draws from the policy."""
        memory, logits, value = self.network.evaluate(policy.params, memory, asked.observation, asked.mask)
        action = distributions.sample(logits, jax.random.uniform(key))
        return Decision(action, distributions.log_prob(logits, action), value, memory)

    def learn(
        self, learner: A2CLearner, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[A2CLearner, Metrics]:
        """Returns one gradient step on all decisions of the rollout."""
        coefs = A2CCoefs(**learner.hyper.at(number))
        gradient, found = jax.grad(self._loss, has_aux=True)(learner.params, rollout, coefs)
        gradient, (decisions, loss, entropy) = across_devices((gradient, found))
        gradient = jax.tree.map(lambda leaf: leaf / jnp.maximum(decisions, 1.0), gradient)
        direction, opt_state = self.optimizer.update(gradient, learner.opt_state)
        params = jax.tree.map(lambda leaf, way: leaf - coefs.learning_rate * way, learner.params, direction)
        return learner.replace(params=params, opt_state=opt_state), {
            "train/loss": metrics.mean(loss, decisions),
            "train/entropy": metrics.mean(entropy, decisions),
            "train/learning_rate": metrics.last(coefs.learning_rate),
        }

    def _loss(self, params: Any, rollout: Rollout, coefs: A2CCoefs) -> tuple[jax.Array, Any]:
        """Returns the sum of the loss over the learner's decisions, and sums for the metrics."""
        steps = rollout.steps
        estimates = gae_estimates(self.network, rollout, coefs.gamma, coefs.gae_lambda)
        weight = steps.weight * estimates.valid

        def evaluate(observation: Any, mask: jax.Array) -> tuple[Memory, jax.Array, jax.Array]:
            return self.network.evaluate(params, (), observation, distributions.unpack_mask(mask, self.env.num_actions))

        for _ in range(weight.ndim):  # steps, lanes, seats asked
            evaluate = jax.vmap(evaluate)
        _, logits, value = evaluate(steps.observation, steps.mask)
        log_prob, entropy = distributions.log_prob_and_entropy(logits, steps.action)
        error = jnp.square(value - steps.value - estimates.value_error)
        each = -estimates.advantage * log_prob + coefs.value_coef * error - coefs.entropy_coef * entropy
        loss = jnp.sum(weight * each)
        return loss, (jnp.sum(weight), loss, jnp.sum(weight * entropy))
