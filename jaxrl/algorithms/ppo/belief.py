"""Belief learning (`ppo.belief`): predicts who holds each hidden card, given a seat's observation.

Beliefs for search: Solinas et al. 2019, https://arxiv.org/abs/1903.09604 (Skat, from human games), and Hu et al. 2021,
https://arxiv.org/abs/2106.09086 (Hanabi, from self-play). The output of an auxiliary network (`auxiliary`) on the
observation is added to the log-odds of the uniform belief under the rules (`card_beliefs.uniform`) and trained by
cross-entropy with the true holders (`Env.holders`); untrained it is the uniform belief. One forward pass gives
independent odds per card; `card_beliefs.draw` samples consistent deals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Rollout, Transition, across_devices
from jaxrl.algorithms.ppo.auxiliary import AuxiliaryNetwork, AuxiliaryState, by_lane, forms
from jaxrl.algorithms.ppo.loss import PPOCoefs
from jaxrl.config import Config
from jaxrl.networks import distributions
from jaxrl.networks.normaliser import Statistics
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.shared.card_beliefs import CardBeliefs, open_to, uniform


class Unseen(NamedTuple):
    """Training data of the belief, leaves [T, L, ...]: L lanes x acting seats."""

    view: PyTree  # observation, packed
    hidden: PyTree  # `Env.privileged`
    weight: jax.Array  # f32, 1 = the learner's decision, 0 = ignored


class HolderHead(nn.Module):
    """One logit per card and holder, initialised to 0."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array) -> jax.Array:
        """Maps [..., H] -> f32[..., N * H]."""
        zeros = nn.initializers.zeros_init()
        return nn.Dense(self.num_actions, kernel_init=zeros, name="holders")(torso.astype(jnp.float32))


class BeliefLearner:
    """The belief network and its training."""

    def __init__(self, config: Config, env: Env):
        """Compiles nothing. Raises UserError: the game does not describe its hidden cards."""
        self._env, form = env, forms(env)[0]
        self._shape = jax.eval_shape(env.card_beliefs, form).possible.shape
        outputs = math.prod(self._shape)
        self._network = AuxiliaryNetwork(config, config.ppo.belief, HolderHead, outputs, env.features, form, 1)

    def init(self, key: jax.Array) -> AuxiliaryState:
        """Returns the initial state from a typed key."""
        return self._network.init(key)

    def odds(self, stored: Mapping[str, Any], observation: PyTree) -> jax.Array:
        """Returns odds f32[N, H] for one seat's observation, from the belief stored in a checkpoint: `params`, and
        `statistics` with `network.normalize`."""
        statistics = Statistics(**stored["statistics"]) if stored.get("statistics") else None
        state = AuxiliaryState(params=stored["params"], opt_state=(), statistics=statistics)
        logits = self._logits(self._network.apply(state, observation), observation)
        return jax.nn.softmax(logits[1]) * open_to(self._card_beliefs(observation))

    def learn(
        self, belief: AuxiliaryState, rollout: Rollout, coefs: PPOCoefs, group_keys: jax.Array
    ) -> tuple[AuxiliaryState, Metrics]:
        """Trains on a rollout; inside the mesh. The metrics are the log-loss before training and that of a uniform
        belief, in nats per hidden card. Arguments as for `critic.Critic.learn`."""
        steps = rollout.steps
        before = across_devices(self._score(belief, steps))
        lessons = by_lane(Unseen(steps.observation, steps.privileged, steps.weight))

        def loss(outputs: jax.Array, batch: Unseen) -> jax.Array:
            return jax.vmap(self._nats)(outputs, batch.view, batch.hidden)[:, 1]

        belief, _ = self._network.learn(belief, lessons, loss, coefs, group_keys)
        found = {
            "train/belief_loss": metrics.mean(before[1], before[2]),
            "train/belief_loss_uniform": metrics.mean(before[0], before[2]),
        }
        return self._network.absorbed(belief, steps.observation, steps), found

    # ---- parts --------------------------------------------------------------------------------------------------

    def _card_beliefs(self, observation: PyTree) -> CardBeliefs:
        found = self._env.card_beliefs(observation)
        assert found is not None  # checked by `PPOConfig.check_game`
        return found

    def _score(self, belief: AuxiliaryState, steps: Transition) -> jax.Array:
        """f32[3]: summed log-losses (nats) of the uniform and the learnt belief, and summed weights; step by step."""

        def at(now: Transition) -> jax.Array:
            outputs = self._network.apply(belief, now.observation)
            nats = jax.vmap(jax.vmap(self._nats))(outputs, now.observation, now.privileged)
            return jnp.append(jnp.sum(now.weight[..., None] * nats, axis=(0, 1)), jnp.sum(now.weight))

        return jnp.sum(jax.lax.map(at, steps), axis=0)

    def _logits(self, outputs: jax.Array, observation: PyTree) -> jax.Array:
        """Logits f32[2, N, H] for one seat: of the uniform belief and of the learnt one (outputs f32[N * H])."""
        about = self._card_beliefs(observation)
        base = jnp.log(jnp.maximum(uniform(about), 1e-9))
        both = jnp.stack([base, base + outputs.reshape(self._shape)])
        return distributions.mask_logits(both, open_to(about))

    def _nats(self, outputs: jax.Array, observation: PyTree, hidden: PyTree) -> jax.Array:
        """Returns f32[2]: mean log-loss per hidden card of both beliefs for one seat."""
        holder = self._env.holders(observation, hidden)
        surprise = -jax.nn.log_softmax(self._logits(outputs, observation))
        of_each = jnp.take_along_axis(surprise, jnp.maximum(holder, 0)[None, :, None], axis=2)[..., 0]
        count = jnp.maximum(jnp.sum(holder >= 0), 1)
        return jnp.sum(jnp.where(holder >= 0, of_each, 0.0), axis=1) / count
