"""One of the two roles: PPO on its own decisions, with its own reward sequence.

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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import gae
from jaxrl.algorithms.base import AXIS, Rollout, across_devices
from jaxrl.algorithms.hierarchical import hindsight, phases
from jaxrl.algorithms.hierarchical.pair import MANAGER, WORKER, managed
from jaxrl.algorithms.ppo.algorithm import PPO, PPOLearner
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import Batch, LossSums, PPOCoefs, ppo_loss
from jaxrl.algorithms.ppo.update import (
    Order,
    Shuffle,
    UpdateSums,
    dropout_keys,
    gathered,
    passes,
    rows_of,
    shuffle_of,
    shuffled_groups,
)
from jaxrl.algorithms.trajectory import Estimates, Values, of_decisions, to_seats, trajectory_of, values_of
from jaxrl.config import Config
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env


def role_config(config: Config, name: str) -> Config:
    """The configuration with the settings of a role in its section `ppo`."""
    manager, worker = config.hierarchical.manager, config.hierarchical.worker
    keys = ("epochs", "learning_rate", "entropy_coef", "gamma", "gae_lambda")
    settings = {key: getattr(manager, key) if name == MANAGER else getattr(worker, key) for key in keys}
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **settings))


class HindsightCoefs(NamedTuple):
    """Coefficients of one update from the section `hierarchical.hindsight`, f32[] each."""

    weight: jax.Array


@struct.dataclass
class RoleLearner(PPOLearner):
    """The learner of a `Role` during an update."""

    hindsight: HindsightCoefs | None = None


class Role(PPO):
    """PPO for the manager or the worker. Its rollouts have weight 0 for all other decisions, see `own`."""

    def __init__(self, config: Config, env: Env, name: str):
        """`config` is that of the training."""
        super().__init__(role_config(config, name), env)
        self._manager = name == MANAGER
        self._relabels = name == WORKER and config.hierarchical.hindsight.on

    def own(self, rollout: Rollout) -> jax.Array:
        """bool[T, B, S]: the decisions of this role."""
        return managed(self.env, rollout.steps.observation, 3) == self._manager

    def _estimate(self, params: Any, rollout: Rollout, coefs: PPOCoefs, values: Values | None = None) -> Estimates:
        """Advantages and value targets along this role's sequence; those of other decisions are not read."""
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
                acting=flags > 0.0,
                final_acting=to_seats(final.astype(jnp.float32), steps.final_seat, seats) > 0.0,
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
        """Runs the optimizer steps on the role's own decisions; adds metrics of phases and hindsight."""
        env, settings = self.env, self.config.ppo
        sorts = phases.phases_of(env, batch.observation, batch.weight.ndim)
        about = phases.by_phase(env, batch, sorts)
        group, groups = jnp.zeros(batch.weight.shape, jnp.int32), 1
        if self.config.hierarchical.balance:
            group, groups = phases.combined(env, sorts)
        scaled = phases.normalised_within(batch.advantage, batch.weight, group, groups)
        batch = batch._replace(advantage=scaled.advantage)
        relabelled, teaches = None, batch.weight
        section: HindsightCoefs = learner.hindsight
        if self._relabels:
            relabelled, told = self._relabelled(rollout, coefs, section, scaled.scale)
            about |= told
            # If a sequence ends with the rollout, its last decision has weight 0, although its goal came true.
            teaches = teaches + relabelled.valid.reshape(teaches.shape)
        shape = shuffle_of(settings, batch, group_keys, self.sequence)
        order = own_first(group_keys, shape, settings, teaches, self.sequence)
        rows, network = rows_of(batch), self.network
        keys_of = functools.partial(dropout_keys, group_keys, shape, self.sequence, batch)

        def loss(params: Any, epoch: jax.Array, index: jax.Array) -> tuple[jax.Array, LossSums]:
            keys = keys_of(epoch, index) if network.dropout else None
            found, parts = ppo_loss(params, gathered(rows, shape, self.sequence, index), network, settings, coefs, keys)
            if relabelled is None:
                return found, parts
            chosen = jax.tree.map(lambda leaf: leaf[index], relabelled)
            more = hindsight.surrogate(params, chosen, network, coefs.temperature, coefs.clip)
            return found - section.weight * more, parts

        params, opt_state, sums = passes(loss, settings, coefs, learner.params, learner.opt_state, order, value_only)
        about["train/epochs_done"] = metrics.mean(sums.steps, jnp.maximum(order.length // settings.epochs, 1))
        return params, opt_state, sums, about

    def _relabelled(
        self, rollout: Rollout, coefs: PPOCoefs, section: HindsightCoefs, scale: jax.Array
    ) -> tuple[hindsight.Relabelled, Metrics]:
        """The relabelled decisions as batch rows, with gains scaled like the advantages; and metrics."""
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


def own_first(group_keys: jax.Array, shape: Shuffle, settings: PPOConfig, weight: jax.Array, sequence: int) -> Order:
    """Shuffles only the chunks that contain a decision with positive weight into equal minibatches, for every epoch;
    their number follows the number of these chunks.

    Args:
      group_keys: typed keys [groups].
      shape, sequence: see `update`.
      settings: the section `ppo`.
      weight: f32[T, L] or f32[T, L, S], above 0 where a decision is to be learnt from.
    """
    heavy = weight.reshape(shape.chunks, sequence, shape.lanes, -1) > 0.0
    idle = ~jnp.any(heavy, axis=(1, 3))  # bool[chunks, lanes]
    order = shuffled_groups(group_keys, shape, idle)  # i32[epochs, groups, size]
    part = order.shape[-1] // settings.minibatches  # of a group in a minibatch
    full = jnp.sum(~idle.reshape(shape.chunks, shape.groups, -1), axis=(0, 2))
    minibatches = jax.lax.pmax(-(-jnp.max(full) // part), AXIS)

    def at(number: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = jnp.maximum(minibatches, 1)
        epoch, first = number // each, number % each
        chosen = order[epoch][:, first + each * jnp.arange(part)]  # i32[groups, part]
        chosen = chosen.reshape(shape.groups, settings.accumulate, -1)
        return epoch, jnp.swapaxes(chosen, 0, 1).reshape(settings.accumulate, -1)

    return Order(settings.epochs * minibatches, at)
