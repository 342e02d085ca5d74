"""One of the two roles: it trains PPO on its own decisions, with its own reward sequence.

    seat 0 of a game of two rounds:   BID  play play play | BID  play play play
    rewards after each of them:        0    0    1    2   |  0    1    0    3
    manager: two decisions             3                     4                       the next bid follows
    worker: three and three                 0    1    2           1    0    3        nothing follows the last

The manager is credited with all rewards of its seat until its next goal, and bootstraps there. The worker's sequence
ends with its goal, because it does not influence the next one. Reward shaping that sums to the true score between two
goals therefore affects only the worker.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import gae
from jaxrl.algorithms.base import Rollout, across_devices
from jaxrl.algorithms.hierarchical import hindsight, phases
from jaxrl.algorithms.hierarchical.pair import MANAGER, WORKER, managed
from jaxrl.algorithms.ppo.algorithm import PPO, PPOLearner
from jaxrl.algorithms.ppo.loss import Batch, LossSums, PPOCoefs, ppo_loss
from jaxrl.algorithms.ppo.phases import phases_of
from jaxrl.algorithms.ppo.update import UpdateSums, dropout_keys, gathered, minibatches_of, passes, rows_of, shuffle_of
from jaxrl.algorithms.trajectory import Estimates, Values, of_decisions, to_seats, trajectory_of, values_of
from jaxrl.config import Config
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env


def role_config(config: Config, name: str) -> Config:
    """Returns the configuration with the settings of a role in its section `ppo`."""
    manager, worker = config.hierarchical.manager, config.hierarchical.worker
    keys = ("epochs", "learning_rate", "entropy_coef")
    settings = {key: getattr(manager, key) if name == MANAGER else getattr(worker, key) for key in keys}
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **settings))


@struct.dataclass
class RoleLearner(PPOLearner):
    """The learner of a `Role` during an update."""

    hindsight: jax.Array | None = None  # f32[], the weight of relabelled sequences in this update


class Role:
    """The manager or the worker: `ppo` with its own reward sequence. Its rollouts have weight 0 for all other
    decisions, see `own`."""

    def __init__(self, config: Config, env: Env, name: str):
        """`config` is that of the training."""
        self.env, self.config = env, role_config(config, name)
        self.ppo = PPO(self.config, env, estimate=self._estimate, improve=self._improve)
        self.network, self.sequence = self.ppo.network, self.ppo.sequence
        self._manager = name == MANAGER
        self._relabels = name == WORKER and config.hierarchical.hindsight.on

    def own(self, rollout: Rollout) -> jax.Array:
        """Returns bool[T, B, S]: the decisions of this role."""
        return managed(self.env, rollout.steps.observation, 3) == self._manager

    def _estimate(self, params: Any, rollout: Rollout, coefs: PPOCoefs, values: Values | None = None) -> Estimates:
        """Returns advantages and value targets along this role's sequence; those of other decisions are not read."""
        steps, seats = rollout.steps, rollout.steps.rewards.shape[-1]
        values = values_of(self.network, rollout) if values is None else values
        mine = self.own(rollout)
        last = managed(self.env, rollout.last.observation, 2) == self._manager
        final = jnp.zeros_like(mine)
        if steps.final_observation is not None:
            final = managed(self.env, steps.final_observation, 3) == self._manager
        own = Values(*(jnp.where(flag, value, 0.0) for flag, value in zip((mine, final, last), values, strict=True)))
        trajectory = trajectory_of(rollout, own)
        flags = to_seats(mine.astype(jnp.float32), steps.seat, seats)  # f32[T, B, P]
        gamma, gae_lambda = coefs.gamma, coefs.gae_lambda
        if self._manager:  # the seat's other decisions are not part of this sequence
            chain = trajectory.steps._replace(
                acting=flags > 0.0, final_acting=to_seats(final.astype(jnp.float32), steps.final_seat, seats) > 0.0
            )
            ends = to_seats(last.astype(jnp.float32), rollout.last.seat, seats) > 0.0
            per_seat, valid = gae.gae(trajectory._replace(steps=chain, last_acting=ends), gamma, gae_lambda)
        else:  # a decision of value 0 with a cut trace ends the sequence, and another begins
            per_seat, _, valid = gae.vtrace(trajectory, flags, 1.0, gamma, gae_lambda)
        found = of_decisions(per_seat, steps.seat)
        value_error = found + (values.value - steps.value)
        return Estimates(steps.value, found, value_error, of_decisions(valid, steps.seat) * mine)

    def _improve(
        self,
        learner: Any,
        rollout: Rollout,
        batch: Batch,
        coefs: PPOCoefs,
        group_keys: jax.Array,
        value_only: jax.Array | None,
    ) -> tuple[Any, optax.OptState, UpdateSums, Metrics]:
        """Runs the optimizer steps on the role's own decisions; adds metrics of hindsight."""
        settings = self.config.ppo
        about: Metrics = {}
        group, groups = jnp.zeros(batch.weight.shape, jnp.int32), 1
        if self.config.hierarchical.balance:
            group, groups = phases.combined(self.env, phases_of(self.env, batch.observation, batch.weight.ndim))
        scaled = phases.normalised_within(batch.advantage, batch.weight, group, groups)
        batch = batch._replace(advantage=scaled.advantage)
        relabelled, teaches = None, batch.weight
        if self._relabels:
            relabelled, told = self._relabelled(rollout, coefs, scaled.scale)
            about |= told
            # If a sequence ends with the rollout, its last decision has weight 0, although its goal came true.
            teaches = teaches + relabelled.valid.reshape(teaches.shape)
        shape = shuffle_of(settings, batch, group_keys, self.sequence)
        order = minibatches_of(group_keys, shape, settings, teaches, self.sequence)
        rows, network = rows_of(batch), self.network
        keys_of = functools.partial(dropout_keys, group_keys, shape, self.sequence, batch)

        def loss(params: Any, epoch: jax.Array, index: jax.Array) -> tuple[jax.Array, LossSums]:
            keys = keys_of(epoch, index) if network.dropout else None
            found, parts = ppo_loss(params, gathered(rows, shape, self.sequence, index), network, settings, coefs, keys)
            if relabelled is None:
                return found, parts
            chosen = jax.tree.map(lambda leaf: leaf[index], relabelled)
            more = hindsight.surrogate(params, chosen, network, coefs.temperature, coefs.clip)
            return found - learner.hindsight * more, parts

        params, opt_state, sums = passes(loss, settings, coefs, learner.params, learner.opt_state, order, value_only)
        return params, opt_state, sums, about

    def _relabelled(self, rollout: Rollout, coefs: PPOCoefs, scale: jax.Array) -> tuple[hindsight.Relabelled, Metrics]:
        """Returns the relabelled decisions as batch rows, with gains scaled like the advantages; and metrics."""
        manages = managed(self.env, rollout.steps.observation, 3)
        found = hindsight.relabel(
            self.network, self.env, rollout.policy.params, rollout, manages, coefs.temperature, hindsight.CAP
        )
        valid, weight = across_devices((jnp.sum(found.valid), jnp.sum(found.weight)))
        capped = across_devices(jnp.sum(found.weight >= 0.999 * hindsight.CAP))
        everything = across_devices(jnp.sum(rollout.steps.weight))
        told = {
            "hindsight/share": metrics.mean(valid, everything),
            "hindsight/weight": metrics.mean(weight, valid),
            "hindsight/capped": metrics.mean(capped, valid),
        }
        found = jax.tree.map(
            lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1] * leaf.shape[2], *leaf.shape[3:]), found
        )
        return found._replace(gain=found.gain * scale.ravel()), told
