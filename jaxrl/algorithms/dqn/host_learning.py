"""DQN for host games: the replay buffer is on the host, the optimizer steps run on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import Algorithm, HostLearning, Rollout, with_normaliser
from jaxrl.algorithms.dqn.host_replay import HostReplay, buffer_shapes
from jaxrl.algorithms.dqn.loss import Transitions
from jaxrl.algorithms.dqn.optimise import DQNCoefs, DQNLearner, LearnSums, no_sums, optimise
from jaxrl.algorithms.dqn.prefetch import Prefetcher
from jaxrl.algorithms.schedule import Hyper
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.host.game import HostGame


class DQNHostLearning(HostLearning):
    """The replay buffer, its prefetching thread, and the compiled optimizer step."""

    def __init__(self, algorithm: Algorithm, metrics_of: Callable[..., Metrics], timers: Any):
        """Allocates no buffer and starts nothing. `metrics_of`: (sums of the optimizer steps, coefficients, epsilon,
        transitions to draw from) -> metrics."""
        self._game: HostGame = algorithm.env.game  # type: ignore[attr-defined]  # a HostEnv
        self._algorithm, self._metrics_from, self._timers = algorithm, metrics_of, timers
        self._prefetcher: Prefetcher | None = None
        # Parameters are not donated, because actors may use them for the next rollout.
        self._step = jax.jit(self._optimise, donate_argnums=1)
        self._metrics = jax.jit(self._metrics_of)
        self._absorb = lambda params, steps: params
        if algorithm.network.normaliser is not None:
            self._absorb = jax.jit(lambda params, steps: with_normaliser(algorithm.network, params, steps, lambda x: x))

    def load(self, learner: DQNLearner, key: jax.Array) -> None:
        """Copies the learner's replay buffer into a new one, or starts empty; arrays of earlier states stay
        unchanged."""
        if learner.replay is None or self._prefetcher is None:
            self._prefetcher = None  # frees the old buffer before allocating the new one
            config = self._algorithm.config
            self._prefetcher = Prefetcher(HostReplay(self._game, config.dqn, config.train.num_envs), self._timers)
        if learner.replay is not None:
            self._prefetcher.replay.load(learner.replay)
        self._prefetcher.replay.use_key(key)

    def save(self, learner: DQNLearner) -> DQNLearner:
        """Returns the learner with the buffer, whose large arrays are shared and change in the next `learn`."""
        config = self._algorithm.config
        if self._prefetcher is None:
            kept = buffer_shapes(self._game, config.dqn, config.train.num_envs)
        else:
            kept = self._prefetcher.replay.save()
        return learner.replace(replay=kept)

    def learn(self, learner: DQNLearner, rollout: Rollout, key: jax.Array, number: Any) -> tuple[DQNLearner, Metrics]:
        assert self._prefetcher is not None, "load comes first"
        # Placed like the sums of later steps, to avoid a second compilation.
        sums = jax.device_put(no_sums(), learner.steps.sharding)
        with self._prefetcher as prefetcher:
            ready = prefetcher.push(rollout.steps)
            if ready:
                learner, sums = self._updates(prefetcher, learner, sums, key, number)
        params = self._absorb(learner.params, rollout.steps)
        learner = learner.replace(params=params, ready=jnp.bool_(ready))
        drawable = np.int32(self._prefetcher.replay.drawable)
        return learner, self._metrics(learner.hyper, sums, number, rollout.policy.epsilon, drawable)

    def _updates(
        self, prefetcher: Prefetcher, learner: DQNLearner, sums: LearnSums, key: jax.Array, number: Any
    ) -> tuple[Any, LearnSums]:
        """Takes K optimizer steps."""

        def step(k: int, batch: Transitions) -> jax.Array:
            nonlocal learner, sums
            kept = (learner.target, learner.opt_state)
            light = learner.replace(params=None, target=None, opt_state=None)
            learner, priority, sums = self._step((learner.params, light), kept, sums, batch, number, key, np.uint32(k))
            return priority

        prefetcher.learn(int(learner.steps), self._algorithm.config.dqn.updates, step)
        return learner, sums

    # ---- compiled -----------------------------------------------------------------------------------------------

    def _optimise(
        self,
        first: tuple[Any, DQNLearner],
        kept: tuple[Any, Any],
        sums: LearnSums,
        batch: Transitions,
        number: jax.Array,
        key: jax.Array,
        k: jax.Array,
    ) -> tuple[DQNLearner, jax.Array, LearnSums]:
        """Returns one step; only `kept` (target network and optimizer state) is donated."""
        params, rest = first
        learner = rest.replace(params=params, target=kept[0], opt_state=kept[1])
        algorithm, coefs = self._algorithm, DQNCoefs(**rest.hyper.at(number))
        noise_key = jax.random.fold_in(key, k)
        learner, priority, now = optimise(algorithm.network, algorithm.config.dqn, coefs, learner, batch, noise_key)
        return learner, priority, jax.tree.map(jnp.add, sums, now)

    def _metrics_of(self, hyper: Hyper, sums: LearnSums, number: jax.Array, epsilon: Any, drawable: Any) -> Metrics:
        """Returns the metrics of one update."""
        return self._metrics_from(sums, DQNCoefs(**hyper.at(number)), epsilon, drawable)
