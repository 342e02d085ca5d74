"""DQN as an `Algorithm`: learner state, exploration, and one update from rollout to metrics.

One update adds the decisions of a rollout to the replay buffer and then takes `dqn.updates` optimizer steps, once the
buffer holds enough transitions. For compiled games the buffer is part of the compiled program (`device_replay`), for
host games it is kept on the host (`host_learning`).
"""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import (
    Algorithm,
    Asked,
    Decision,
    HostLearning,
    Policy,
    Rollout,
    across_devices,
    with_normaliser,
)
from jaxrl.algorithms.dqn import q_heads
from jaxrl.algorithms.dqn.device_replay import DeviceReplay
from jaxrl.algorithms.dqn.host_learning import DQNHostLearning
from jaxrl.algorithms.dqn.optimise import DQNCoefs, DQNLearner, LearnSums, no_sums, optimise
from jaxrl.algorithms.schedule import Hyper, make_hyper
from jaxrl.config import Config
from jaxrl.networks.base import Memory
from jaxrl.networks.factory import make_network
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule


@struct.dataclass
class ExploringPolicy(Policy):
    """A policy with its exploration rate epsilon, f32[]."""

    epsilon: jax.Array


class DQN(Algorithm):
    """Double, dueling, n-step DQN with prioritised replay, epsilon-greedy or noisy exploration, and seat-wise
    returns."""

    by_value = True
    many_devices = False
    headline = {"TD": "train/td_error", "epsilon": "train/epsilon"}
    grows_with = ("dqn.capacity",)

    def __init__(self, config: Config, env: Env):
        """Compiles nothing."""
        super().__init__(config, env)
        self.discount = config.dqn.gamma
        self.network = make_network(config.network, env, q_heads.heads_of(config.dqn))
        if self.network.remembers:
            raise UserError(f"network.kind {config.network.kind} remembers, which DQN does not: use another, or PPO.")
        self.forwards = 3  # one pass over the observations, two over the next observations
        self.replay = DeviceReplay(env, config.dqn, config.train.num_envs)

    def init(self, key: jax.Array) -> DQNLearner:
        """Returns the initial learner from a typed key, with an empty replay buffer unless that is on the host."""
        params = self.network.init(key)
        return DQNLearner(
            params=params,
            hyper=self.hyper(),
            target=jax.tree.map(jnp.copy, params),
            opt_state=optimizer.init(params),
            steps=jnp.uint32(0),
            ready=jnp.bool_(False),
            replay=None if self.env.host else self.replay.empty(),
        )

    def hyper(self) -> Hyper:
        """Returns the numbers of the section `dqn`, and `beta`, annealed to 1 so that importance weights are unbiased
        at the end."""
        dqn, chosen = self.config.dqn, {"beta": Schedule("linear", 0.4, 1.0)}
        if not dqn.alpha:  # all priorities are 1
            chosen["beta"] = Schedule("constant", 0.0, 0.0)
        if dqn.exploration == "noisy":
            chosen["epsilon"] = Schedule("constant", 0.0, 0.0)
        return make_hyper(dqn, self.config.num_updates, more=chosen)

    def policy(self, learner: DQNLearner, number: jax.Array) -> ExploringPolicy:
        """Returns the current parameters with the epsilon of this update; fully random until learning starts."""
        epsilon = jnp.where(learner.ready, DQNCoefs(**learner.hyper.at(number)).epsilon, 1.0)
        return ExploringPolicy(params=learner.params, epsilon=epsilon)

    def act(self, policy: ExploringPolicy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Chooses an action epsilon-greedily among the legal ones."""
        noise_key, act_key = jax.random.split(key) if self.network.noisy else (None, key)
        memory, values, best = self.network.evaluate(policy.params, memory, asked.observation, asked.mask, noise_key)
        action = exploring(values, asked.mask, policy.epsilon, jax.random.uniform(act_key, (2,)))
        return Decision(action, jnp.float32(0.0), best, memory)

    def learn(
        self, learner: DQNLearner, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[DQNLearner, Metrics]:
        """Adds the rollout to the replay buffer and learns from sampled batches."""
        memory = self.replay.push(learner.replay, rollout.steps)
        learner = learner.replace(replay=memory, ready=self.replay.ready(memory))
        coefs = DQNCoefs(**learner.hyper.at(number))
        # With several seeds (vmap) both branches are computed and one is selected.
        step = functools.partial(self._optimise, coefs, key)
        learner, sums = jax.lax.cond(learner.ready, step, lambda learner: (learner, no_sums()), learner)
        params = with_normaliser(self.network, learner.params, rollout.steps, across_devices)
        learner = learner.replace(params=params)
        drawable = jnp.sum(learner.replay.priority > 0.0)
        return learner, self.metrics_of(sums, coefs, rollout.policy.epsilon, drawable)

    @jax.named_scope("minibatches")
    def _optimise(self, coefs: DQNCoefs, key: jax.Array, learner: DQNLearner) -> tuple[DQNLearner, LearnSums]:
        """Takes K optimizer steps."""

        def step(carry: Any, k: jax.Array) -> tuple[Any, None]:
            learner, sums = carry
            draw_key, noise_key = jax.random.split(jax.random.fold_in(key, k))
            record, batch = self.replay.sample(learner.replay, draw_key, coefs.gamma)
            learner, priority, now = optimise(self.network, self.config.dqn, coefs, learner, batch, noise_key)
            learner = learner.replace(replay=self.replay.reprioritise(learner.replay, record, priority))
            return (learner, jax.tree.map(jnp.add, sums, now)), None

        steps = jnp.arange(self.config.dqn.updates, dtype=jnp.uint32)
        return jax.lax.scan(step, (learner, no_sums()), steps)[0]

    def metrics_of(self, sums: LearnSums, coefs: DQNCoefs, epsilon: Any, drawable: Any) -> Metrics:
        """Returns the metrics of one update, by TensorBoard tag; means are missing before learning starts. `sums`:
        totals over its optimizer steps; `epsilon`: f32[], exploration rate of the rollout; `drawable`: i32[],
        transitions that can be sampled."""
        steps = sums.steps
        return {
            "train/loss": metrics.mean(sums.loss, steps),
            "train/td_error": metrics.mean(sums.td_error, steps),
            "train/q_mean": metrics.mean(sums.q, steps),
            "train/grad_norm": metrics.mean(sums.grad_norm, steps),
            "train/grad_norm_clipped": metrics.mean(sums.grad_norm_clipped, steps),
            "train/learning_rate": metrics.last(coefs.learning_rate),
            "train/beta": metrics.last(coefs.beta),
            "train/epsilon": metrics.last(epsilon),
            "train/update_ratio": metrics.mean(steps * self.config.dqn.batch, self.config.batch_size),
            "train/replay": metrics.last(drawable),
        }

    # ---- the replay buffer --------------------------------------------------------------------------------------

    def host_learning(self, timers: Any) -> HostLearning:
        return DQNHostLearning(self, self.metrics_of, timers)

    def carried(self, learner: DQNLearner, new: DQNLearner) -> DQNLearner:
        """Returns the learner with an empty replay buffer: rewards and seats may differ between stages, whose games are
        cut off."""
        return learner.replace(replay=new.replay, ready=new.ready)


def exploring(logits: jax.Array, mask: jax.Array, epsilon: jax.Array, uniform: jax.Array) -> jax.Array:
    """Returns epsilon-greedy actions i32[...]: the best legal one, or with probability `epsilon` any legal one.

    Args:
      logits: f32[..., A], masked action values.
      mask: bool[..., A].
      epsilon: f32[].
      uniform: f32[..., 2] in [0, 1).
    """
    chex.assert_equal_shape([logits, mask])
    chex.assert_shape(uniform, (*logits.shape[:-1], 2))
    # Rank of a uniformly sampled legal action among the legal ones.
    count = jnp.sum(mask, axis=-1)
    place = jnp.minimum((uniform[..., 1] * count).astype(jnp.int32), count - 1)
    rank = jnp.cumsum(mask, axis=-1, dtype=jnp.int32) - 1
    anything = jnp.argmax(mask & (rank == place[..., None]), axis=-1)
    return jnp.where(uniform[..., 0] < epsilon, anything, jnp.argmax(logits, axis=-1)).astype(jnp.int32)
