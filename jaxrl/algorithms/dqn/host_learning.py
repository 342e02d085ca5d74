"""DQN's learning from games on the host: the replay memory stays there, the device takes the optimizer steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import HostLearning, Rollout, with_normaliser
from jaxrl.algorithms.dqn.host_replay import HostReplay, memory_shapes
from jaxrl.algorithms.dqn.loss import Transitions
from jaxrl.algorithms.dqn.optimise import DQNCoefs, DQNLearner, LearnSums, no_sums, optimise
from jaxrl.algorithms.dqn.prefetch import Prefetcher
from jaxrl.algorithms.schedule import Hyper
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.host.game import HostGame

if TYPE_CHECKING:
    from jaxrl.algorithms.dqn.algorithm import DQN


class DQNHostLearning(HostLearning):
    """The memory, the thread that owns it, and the compiled optimizer step."""

    def __init__(self, algorithm: DQN, timers: Any):
        """Makes no memory and starts nothing.

        Args:
          algorithm: what it learns for.
          timers: counters of the run.
        """
        self._game: HostGame = algorithm.env.game  # type: ignore[attr-defined]  # a HostEnv
        self._algorithm, self._timers = algorithm, timers
        self._replay: HostReplay | None = None
        self._prefetcher: Prefetcher | None = None
        # Parameters are not donated: the next rollout may be played with them.
        self._step = jax.jit(self._optimise, donate_argnums=1)
        self._metrics = jax.jit(self._metrics_of)
        self._absorb = lambda params, steps: params
        if algorithm.network.normaliser is not None:
            self._absorb = jax.jit(lambda params, steps: with_normaliser(algorithm.network, params, steps, lambda x: x))

    def begun(self, learner: DQNLearner) -> DQNLearner:
        """With an empty memory of its own: states of before keep their arrays."""
        self._replay = self._empty()
        return self._with(learner, self._replay)

    def forms(self, learner: DQNLearner) -> DQNLearner:
        """With the shapes of the memory."""
        algorithm = self._algorithm
        shapes = memory_shapes(self._game, algorithm.config.dqn, algorithm.config.train.num_envs)
        return algorithm.saved(learner.replace(replay=shapes))

    def light(self, learner: DQNLearner) -> DQNLearner:
        """Without the memory."""
        return learner.replace(replay=None)

    def load(self, learner: DQNLearner, key: jax.Array) -> None:
        """Takes the memory over; without one it begins empty, at random."""
        self.close()
        self._replay = replay = self._replay or self._empty()
        if learner.replay is None:
            replay.clear()
        else:
            replay.load(learner.replay)
        replay.use_key(key)
        self._prefetcher = Prefetcher(replay, self._timers)

    def save(self, learner: DQNLearner) -> DQNLearner:
        """With the memory, as `dqn.save_replay` says; its big arrays stay live and change with the next `learn`."""
        assert self._replay is not None, "load comes first"
        return self._with(learner, self._replay)

    def learn(self, learner: DQNLearner, rollout: Rollout, key: jax.Array, number: Any) -> tuple[DQNLearner, Metrics]:
        """Remembers the rollout and learns from what is remembered."""
        assert self._prefetcher is not None, "load comes first"
        ready = self._prefetcher.push(rollout.steps)
        # Placed as the sums of later steps are: another placement would be compiled for by itself.
        sums = jax.device_put(no_sums(), learner.steps.sharding)
        if ready:
            learner, sums = self._updates(learner, sums, key, number)
        params = self._absorb(learner.params, rollout.steps)
        learner = learner.replace(params=params, ready=jnp.bool_(ready))
        drawable = np.int32(self._prefetcher.replay.drawable)
        return learner, self._metrics(learner.hyper, sums, number, rollout.policy.epsilon, drawable)

    def close(self) -> None:
        """Ends the thread."""
        prefetcher, self._prefetcher = self._prefetcher, None
        if prefetcher is not None:
            prefetcher.close()

    def _empty(self) -> HostReplay:
        """A new memory."""
        return HostReplay(self._game, self._algorithm.config.dqn, self._algorithm.config.train.num_envs)

    def _with(self, learner: DQNLearner, replay: HostReplay) -> DQNLearner:
        """The learner with a memory, as checkpoints hold it."""
        return self._algorithm.saved(learner.replace(replay=replay.save()))

    def _updates(self, learner: DQNLearner, sums: LearnSums, key: jax.Array, number: Any) -> tuple[Any, LearnSums]:
        """K optimizer steps."""
        assert self._prefetcher is not None

        def step(k: int, batch: Transitions) -> jax.Array:
            nonlocal learner, sums
            kept = (learner.target, learner.opt_state)
            light = learner.replace(params=None, target=None, opt_state=None)
            learner, priority, sums = self._step((learner.params, light), kept, sums, batch, number, key, np.uint32(k))
            return priority

        self._prefetcher.learn(int(learner.steps), self._algorithm.config.dqn.updates, step)
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
        """One step; of the learner only `kept`, target and optimizer state, are donated."""
        params, rest = first
        learner = rest.replace(params=params, target=kept[0], opt_state=kept[1])
        algorithm, coefs = self._algorithm, DQNCoefs(**rest.hyper.at(number))
        noise_key = jax.random.fold_in(key, k)
        learner, priority, now = optimise(algorithm.network, algorithm.config.dqn, coefs, learner, batch, noise_key)
        return learner, priority, jax.tree.map(jnp.add, sums, now)

    def _metrics_of(self, hyper: Hyper, sums: LearnSums, number: jax.Array, epsilon: Any, drawable: Any) -> Metrics:
        """The metrics of one round."""
        return self._algorithm.metrics_of(sums, DQNCoefs(**hyper.at(number)), epsilon, drawable)
