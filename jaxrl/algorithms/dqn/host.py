"""DQN for games on the host: engine threads play, one thread owns the replay memory, the device learns.

One update is a round: a rollout of `train.num_steps` steps of every lane goes into the memory, and `dqn.updates`
optimizer steps follow. The first rollout of a call is played with the newest parameters; with `sebulba.lag` 1 the
others are played while the round before them learns, with the parameters that it began with. No rollout is in flight
between two calls, so the state holds everything, and a training is reproducible and resumes exactly.
"""

from __future__ import annotations

import functools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.core import Env
from envs.host.core import HostGame
from envs.wrappers import auto_reset
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.dqn.host_figures import HostSums
from jaxrl.algorithms.dqn.host_replay import HostReplay, memory_shapes
from jaxrl.algorithms.dqn.learner import LearnShape, LearnSums, learn, learn_metrics, no_sums
from jaxrl.algorithms.dqn.loss import Batch
from jaxrl.algorithms.dqn.player import Acting, HostPolicy, training_keys
from jaxrl.algorithms.dqn.session import PlayingFailed, Session
from jaxrl.algorithms.dqn.state import DQNHyper, DQNState, Learner, make_dqn_hyper
from jaxrl.algorithms.ppo import figures
from jaxrl.algorithms.ppo.state import Counter
from jaxrl.config.schema import Config
from jaxrl.league.pool import make_seats
from jaxrl.networks.factory import network_of
from jaxrl.training.program import Failed, Program, placed_like
from jaxrl.training.rollout import Actor
from jaxrl.training.sebulba.counters import Timers
from jaxrl.training.sebulba.policy import host_numbers
from jaxrl.training.sebulba.pools import check_room
from jaxrl.training.sebulba.shares import forward_share
from jaxrl.training.sebulba.state import HostLanes
from jaxrl.training.sebulba.storage import Storage


class Plan(NamedTuple):
    """What a round is done with."""

    play_key: jax.Array  # typed
    learn_key: jax.Array  # typed
    deal_key: jax.Array  # typed, the same in all rounds
    epsilon: jax.Array  # f32[], share of random actions
    odds: Any  # [B, ...], of `Seats.odds`


class HostDQN(Program):
    """A training program for one configuration and one game on the host."""

    def __init__(self, config: Config, env: Env):
        """Compiles and starts nothing.

        Args:
          config: what to train.
          env: an `envs.host.env.HostEnv`.

        Raises:
          UserError: bots that the game does not have, or more games than it has room for.
        """
        self.config, self.env = config, env
        self.game: HostGame = env.game  # type: ignore[attr-defined]
        check_room(config.sebulba, self.game, config.train.num_envs, "train.num_envs")
        seats = make_seats(config, env)
        self.actor = Actor(env, auto_reset(env), network_of(config, env), seats)
        forwards = 3  # the network looks at every transition once, and at its next state twice
        share = functools.partial(forward_share, self.actor.network, env, config.dqn.batch, forwards)
        self.timers = Timers(config.sebulba.profile, share)
        self._device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        self._policy, self._numbers = HostPolicy(self.actor), host_numbers(seats, tuple(self.game.bots), 0)
        self._first = jax.jit(self._first_arrays, out_shardings=self._device)
        self._before, self._after = jax.jit(self._before_round), jax.jit(self._after_round)
        # Parameters are not donated: the next rollout may be played with them.
        self._step = jax.jit(self._learn_batch, donate_argnums=(1, 2))
        self._replay: HostReplay | None = None
        self._session: Session | None = None
        self._fault: BaseException | None = None

    # ---- the protocol -------------------------------------------------------------------------------------------

    def init(self, seed: int) -> DQNState:
        """The state before the first update; deals the first games."""
        self.close()
        state, engine_seed = self._first(np.uint32(seed))
        self._replay = HostReplay(
            self.game, self.config.dqn, self.config.train.num_envs
        )  # states of before keep their arrays
        session = self._make_session(int(engine_seed))
        try:
            storage = session.start(self._acting(state, at_random=True))
            lanes = storage.after.replace(episode_return=np.array(storage.buffers.opening[0]))
        finally:
            session.close()
        return state.replace(lanes=lanes, memory=self._replay.save() if self.config.dqn.save_replay else None)

    def run(self, state: DQNState) -> tuple[DQNState, dict[str, Any]]:
        """Rounds up to the next multiple of `train.updates_per_call`; see `Program.run`."""
        self._raise_fault()
        per_call, done, start = self.config.train.updates_per_call, 0, time.monotonic()
        count = per_call - int(state.update) % per_call
        session = self._session_of(state)
        replay, work = session.prefetcher.replay, session.work()
        sums, learnt = HostSums(self.actor.seats, self._numbers, self.game.stat_names), self._no_sums()
        self._begin(session, state, replay.ready)
        while done < count:
            try:
                storage = session.take()
            except PlayingFailed as failed:
                self._fault = failed.__cause__
                break
            state, learnt = self._round(session, state, learnt, storage, sums, more=done + 1 < count)
            done += 1
        if not done:
            self.close()
            self._raise_fault()
        busy = session.count(work) / 1e9 / max(time.monotonic() - start, 1e-9) / session.num_threads
        session.lanes = state.lanes
        if self._fault is not None:
            self.close()
        if self.config.dqn.save_replay:
            state = state.replace(memory=replay.save())
        found = self._metrics(state, learnt, sums, done) | {"time/engine_busy": busy}
        return state, found | self.timers.report(done * self.config.batch_size)

    @property
    def abstract_state(self) -> DQNState:
        """Shapes and dtypes; shardings of what lives on the device."""
        shapes, _ = jax.eval_shape(self._first_arrays, jax.ShapeDtypeStruct((), jnp.uint32))
        state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._device), shapes)
        lanes, seats = self.config.train.num_envs, self.game.num_players
        of_host = HostLanes(
            blobs=jax.ShapeDtypeStruct((lanes, self.game.state_bytes), jnp.uint8),
            controllers=jax.ShapeDtypeStruct((lanes, seats), jnp.int8),
            episode=jax.ShapeDtypeStruct((lanes,), jnp.uint32),
            length=jax.ShapeDtypeStruct((lanes,), jnp.int32),
            episode_return=jax.ShapeDtypeStruct((lanes, seats), jnp.float32),
        )
        memory = memory_shapes(self.game, self.config.dqn, lanes) if self.config.dqn.save_replay else None
        return state.replace(lanes=of_host, memory=memory)

    @property
    def shardings(self) -> DQNState:
        """Of the arrays on the device; None for those of the host."""
        return jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)

    def fresh_hyper(self, template: Any) -> Any:
        """The traced hyper-parameters of the configuration."""
        return placed_like(make_dqn_hyper(self.config.dqn, self.config.num_updates), template.hyper)

    def close(self) -> None:
        """Ends all threads."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _raise_fault(self) -> None:
        """Raises what stopped the playing, once."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise Failed(str(fault)) from fault

    # ---- one update ---------------------------------------------------------------------------------------------

    def _round(
        self, session: Session, state: DQNState, learnt: LearnSums, storage: Storage, sums: HostSums, *, more: bool
    ) -> tuple[DQNState, LearnSums]:
        """Remembers a rollout and learns; `more` rounds of this call follow."""
        ahead = more and self.config.sebulba.lag > 0
        ready = session.prefetcher.push(storage)
        returns, games, results = sums.add(storage, state.lanes.episode_return)
        if ahead:
            self._begin(session, state.replace(update=state.update + 1), ready)
        if ready:
            state, learnt = self._learn(session, state, learnt)
        counters = (state.update, state.env_steps, state.games)
        update, env_steps, counted, pool = self._after(*counters, state.pool, np.uint32(games), results)
        lanes = storage.after.replace(episode_return=returns)
        state = state.replace(update=update, env_steps=env_steps, games=counted, pool=pool, lanes=lanes)
        if more and not ahead:
            self._begin(session, state, ready)
        return state, learnt

    def _begin(self, session: Session, state: DQNState, ready: bool) -> None:
        """Begins to play the rollout of `state.update` with the parameters of `state`; at random until there is enough
        to learn from."""
        session.begin(self._acting(state, at_random=not ready))

    def _acting(self, state: DQNState, *, at_random: bool) -> Acting:
        plan = self._plan(state)
        epsilon = 1.0 if at_random else float(plan.epsilon)
        return Acting(state.params, plan.play_key, plan.deal_key, epsilon, jax.tree.map(np.asarray, plan.odds))

    def _no_sums(self) -> LearnSums:
        """On the device, as the sums of later steps are: another placement would be compiled for by itself."""
        return jax.device_put(no_sums(), self._device)

    def _learn(self, session: Session, state: DQNState, learnt: LearnSums) -> tuple[DQNState, LearnSums]:
        """K optimizer steps."""
        learner, key = state.learner, self._plan(state).learn_key
        first = int(learner.steps)

        def step(k: int, batch: Batch) -> jax.Array:
            nonlocal learner, learnt
            learner, priority, learnt = self._step(
                learner.params,
                learner.target,
                learner.opt_state,
                learner.steps,
                learnt,
                batch,
                state.hyper,
                state.update,
                key,
                np.uint32(k),
            )
            return priority

        session.prefetcher.learn(first, self.config.dqn.updates, step)
        return state.with_learner(learner), learnt

    # ---- compiled -----------------------------------------------------------------------------------------------

    def _first_arrays(self, seed: jax.Array) -> tuple[DQNState, jax.Array]:
        """The state without games and memory, and the seed of the engines, u32[]."""
        param_key, lane_key, key = jax.random.split(jax.random.key(seed), 3)
        params = self.actor.network.init(param_key)
        state = DQNState(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            opt_state=optimizer.init(params),
            optimizer_steps=jnp.int32(0),
            lanes=None,
            memory=None,
            key=key,
            hyper=make_dqn_hyper(self.config.dqn, self.config.num_updates),
            update=jnp.int32(0),
            env_steps=Counter.zero(),
            games=Counter.zero(),
            pool=self.actor.seats.init(params),
        )
        return state, jax.random.bits(lane_key, dtype=jnp.uint32)

    def _plan(self, state: DQNState) -> Plan:
        return self._before(state.key, state.update, state.hyper, state.pool)

    def _before_round(self, key: jax.Array, update: jax.Array, hyper: DQNHyper, pool: Any) -> Plan:
        ids = jnp.arange(self.config.train.num_envs, dtype=jnp.uint32)
        return Plan(*training_keys(key, update), hyper.epsilon_at(update), self.actor.seats.odds(pool, ids))

    def _after_round(
        self, update: jax.Array, env_steps: Counter, games: Counter, pool: Any, ended: jax.Array, results: Any
    ) -> tuple[Any, ...]:
        """Counters and pool after a round in which so many games ended."""
        pool = self.actor.seats.learn(pool, results)
        return update + 1, env_steps.add(self.config.batch_size), games.add(ended), pool

    def _learn_batch(
        self,
        params: Any,
        target: Any,
        opt_state: Any,
        steps: jax.Array,
        learnt: LearnSums,
        batch: Batch,
        hyper: DQNHyper,
        number: jax.Array,
        key: jax.Array,
        k: jax.Array,
    ) -> tuple[Learner, jax.Array, LearnSums]:
        dqn = self.config.dqn
        learner, priority, now = learn(
            self.actor.network,
            LearnShape(dqn.target_every),
            Learner(params, target, opt_state, steps),
            batch,
            hyper,
            number,
            jax.random.fold_in(key, k),
        )
        return learner, priority, jax.tree.map(jnp.add, learnt, now)

    # ---- threads and figures ------------------------------------------------------------------------------------

    def _make_session(self, seed: int = 0) -> Session:
        assert self._replay is not None
        return Session(self.config, self.game, self._policy, self._numbers, self._replay, self.timers, seed)

    def _session_of(self, state: DQNState) -> Session:
        """The threads that play on from `state`: those that run, if they are that far, else new ones."""
        if self._session is not None and self._session.lanes is state.lanes:
            return self._session
        self.close()
        if self._replay is None:
            self._replay = HostReplay(self.game, self.config.dqn, self.config.train.num_envs)
        if state.memory is None:
            self._replay.clear()
        else:
            self._replay.load(state.memory)
        hi, lo = np.asarray(jax.random.key_data(state.key)).astype(np.uint64)
        self._replay.use_key(int(hi) << 32 | int(lo))
        self._session = self._make_session()
        self._session.load(state.lanes)
        return self._session

    def _metrics(self, state: DQNState, learnt: LearnSums, sums: HostSums, done: int) -> dict[str, Any]:
        """TensorBoard tags -> f32[]; means over games are NaN if no game ended."""
        dqn, played, last = self.config.dqn, sums.played(), state.update - 1
        assert self._replay is not None
        found = figures.of_play(played) | learn_metrics(learnt, state.hyper, last)
        found |= {
            "train/epsilon": state.hyper.epsilon_at(last) if self._replay.ready else 1.0,
            "train/update_ratio": learnt.steps * dqn.batch / (done * self.config.batch_size),
            "train/replay": self._replay.drawable,
            "train/updates": done,
        }
        found |= self.actor.seats.metrics(state.pool, played.results)
        return {name: jnp.asarray(value, jnp.float32) for name, value in found.items()}
