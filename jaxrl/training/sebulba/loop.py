"""The Sebulba loop (Hessel et al. 2021, https://arxiv.org/abs/2104.06272): actor threads play
host games while the learner updates the policy.

Rollout r is played with the policy after max(0, r - lag) updates and used in update r, regardless of timing, so that
training is reproducible and resumes exactly. An environment step is one decision of the learner's or of a snapshot's
seats: a row of the storage. Scripted players decide inside the engine.

With several processes, each runs its share of the actors and lanes, and all of them compute every update from all
lanes. They proceed in lockstep: before each update they agree that every process has its rollout (`_taken`).
"""

from __future__ import annotations

import functools
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrl.config import Config
from jaxrl.runs import distributed, metrics
from jaxrl.runs.metrics import Metrics
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.program import Diverged, Failed, Interrupted, Program
from jaxrl.training.sebulba.actor import ActorThread
from jaxrl.training.sebulba.learner import HostLearner
from jaxrl.training.sebulba.pipeline import Fault, Pipeline, Stopped
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl.training.sebulba.setup import HostSetup, check_room, first_lanes
from jaxrl.training.sebulba.storage import Storage, make_storage
from jaxrl.training.state import Acting, Counter, HostLanes, TrainState, first_keys
from jaxrl_envs.host.game import make_buffers

LOG = logging.getLogger("jaxrl")
QUEUE = 2  # rollouts that may wait for the learner: more would only increase staleness
PATIENCE = 10.0  # seconds that a stop waits for an actor; engines that hang take longer and are left behind


class Sebulba(Program):
    """A training program for one configuration and one game on the host; see `training.make.make_program`."""

    def __init__(self, config: Config, setup: RolloutSetup, mesh: Mesh):
        """Compiles and starts nothing. Raises UserError: there are more games than there is room for. `mesh`: mesh of
        the learner; actors use its devices in turn."""
        self.config, self.setup, self.mesh = config, setup, mesh
        self.host = HostSetup(config, setup, mesh)
        self.game, self.timers = self.host.game, self.host.timers
        check_room(config, self.game, config.train.num_envs, "train.num_envs")
        self.learner = HostLearner(self.host)
        self._first = jax.jit(self._first_arrays, out_shardings=self.host.replicated)
        self._policy = jax.jit(setup.algorithm.policy)
        self._session: Session | None = None
        self._fault: BaseException | None = None
        self._stop = False  # no Event: a signal handler sets it, and must not wait for a lock that this thread holds

    # ---- the protocol -------------------------------------------------------------------------------------------

    def init(self, seed: int) -> TrainState:
        """Returns the state before the first update, with all games started and staggered."""
        self.close()
        self._fault = None
        state, engine_seed = self._first(np.uint32(seed))
        state = state.replace(lanes=first_lanes(self.host, state, int(engine_seed)))
        return self.begin(self.learner.give(self.learner.take(state)))

    def begin(self, state: TrainState) -> TrainState:
        """Sets current parameters and pool as the policy for the next rollouts."""
        lag, pool, learner = self.config.sebulba.lag, state.pool, state.learner.on_device()
        number = int(state.update)
        if not lag:
            return state.replace(acting=())
        acting = [Acting(self._policy(learner, np.int32(number)), pool, state.update)]
        if pool is not None:  # games against stale opponents are dealt again once, before the first rollout
            pool = distributed.place(pool.replace(stale=jnp.zeros_like(pool.stale)), self.host.replicated)
        for later in range(1, lag):
            acting.append(Acting(self._policy(learner, np.int32(number + later)), pool, state.update))
        return state.replace(pool=pool, acting=tuple(acting))

    def advance(self, state: TrainState) -> tuple[TrainState, Metrics, int]:
        self._raise_fault()
        number, per_call, done = int(state.update), self.config.train.updates_per_call, 0
        session = self._session_of(state)
        measure, light = session.metrics(), self.learner.take(state)
        found: Metrics = {}
        try:
            while done < per_call - number % per_call:
                light, now = self._update(session, light, number + done)
                found = metrics.join(found, now)
                done += 1
        except Stopped:
            LOG.debug("asked to stop before rollout %d was there, or learnt from", number + done)
        except Fault as fault:
            cause = fault.__cause__
            # A thread that was told to exit must not end the process in silence.
            if not isinstance(cause, (Exception, distributed.PeerFailed)):
                cause = RuntimeError(f"an actor was ended by {type(cause).__name__}")
            self._fault = cause
            self._end_session()
        self._stop = False
        if not done:
            self._raise_fault()
            raise Interrupted
        state = self.learner.give(light)
        steps = done * self.config.batch_size
        times = {name: metrics.measured(ms, steps) for name, ms in self.timers.report(steps).items()}
        return state, found | self.learner.league_metrics(state.pool) | measure(done) | times, done

    @property
    def host_rollout_bytes(self) -> int:
        """Memory in bytes of `storages`, without recurrent states."""
        row = make_buffers(self.game, 1, steps=1)
        steps = (self.config.train.num_steps + 1) * self.host.own_lanes
        return sum(leaf.nbytes for leaf in jax.tree.leaves(vars(row))) * steps * self._rollouts

    @property
    def abstract_state(self) -> TrainState:
        shapes, _ = jax.eval_shape(self._first_arrays, jax.ShapeDtypeStruct((), jnp.uint32))
        state = jax.tree.map(lambda leaf: self._form(leaf, self.host.replicated), shapes)
        lanes, seats = self.config.train.num_envs, self.game.num_players
        memory = jax.eval_shape(lambda: self.algorithm.network.memory((lanes, seats)))
        of_host = HostLanes(
            blobs=jax.ShapeDtypeStruct((lanes, self.game.state_bytes), jnp.uint8),
            controllers=jax.ShapeDtypeStruct((lanes, seats), jnp.int8),
            memory=memory,
            episode=jax.ShapeDtypeStruct((lanes,), jnp.uint32),
            length=jax.ShapeDtypeStruct((lanes,), jnp.int32),
            episode_return=jax.ShapeDtypeStruct((lanes, seats), jnp.float32),
        )
        # Several processes save arrays of the host as what they are together: one array, of which each has its share.
        place = self.host.by_lane if distributed.count() > 1 else None
        of_host = jax.tree.map(lambda leaf: self._form(leaf, place), of_host)
        of_host = of_host.replace(episode_return=self._form(of_host.episode_return, self.host.by_lane))
        policy = jax.eval_shape(self.algorithm.policy, shapes.learner, shapes.update)
        policy = jax.tree.map(lambda leaf: self._form(leaf, self.host.replicated), policy)
        acting = Acting(policy, state.pool, state.update)
        learner = jax.tree.map(self._form_of_host, self.learner.whole(state.learner))
        return state.replace(learner=learner, lanes=of_host, acting=(acting,) * self.config.sebulba.lag)

    def saved(self, state: TrainState) -> TrainState:
        if distributed.count() == 1:
            return state
        returns = state.lanes.episode_return  # spread already
        lanes = distributed.shard(state.lanes.replace(episode_return=None), self.host.by_lane)
        return state.replace(lanes=lanes.replace(episode_return=returns))

    def restored(self, state: TrainState) -> TrainState:
        if distributed.count() == 1:
            return state
        returns = state.lanes.episode_return
        lanes = jax.tree.map(distributed.local_part, state.lanes.replace(episode_return=None))
        return state.replace(lanes=lanes.replace(episode_return=returns))

    def counters(self) -> dict[str, Any]:
        session = self._session
        return self.game.counters() | ({"workers": session.workers()} if session is not None else {})

    def request_stop(self) -> None:
        """Lets an `advance` under way return after the update in hand; one that waits for a rollout returns at once,
        or when the other processes have theirs."""
        self._stop = True

    def close(self) -> None:
        """Ends all threads; a later `advance` continues from what its state holds, as in another process."""
        self._end_session()
        self.learner.forget()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # ---- one update ---------------------------------------------------------------------------------------------

    def _update(self, session: Session, state: TrainState, number: int) -> tuple[TrainState, Metrics]:
        """Publishes the policy of a later rollout, waits for the rollout of this update and learns from it."""
        later = number + self.config.sebulba.lag
        now = Acting(self._policy(state.learner, np.int32(later)), state.pool, state.update)
        session.publish(later, now, state.key)
        storage = self._taken(session, number)
        acting = (*state.acting, now)
        state, found = self.learner.update(state, storage, acting[0], number)
        session.lanes = state.lanes
        session.pipeline.release(number)
        return state.replace(acting=acting[1:]), found

    def _taken(self, session: Session, number: int) -> Storage:
        """Waits for the rollout of this process until all processes have theirs. Raises Stopped, Fault: in all of them,
        with what has happened in one."""
        found: Storage | Stopped | Fault
        try:
            if self._stop:
                raise Stopped
            found = session.pipeline.take(number, lambda: self._stop)
        except (Stopped, Fault) as error:
            found = error
        own = _gravity(found)
        worst = distributed.maximum(own)
        if worst > own:  # also where this one has only been asked to stop: all go the same way
            raise _elsewhere(worst)
        if isinstance(found, Exception):
            raise found
        return found

    # ---- threads ------------------------------------------------------------------------------------------------

    def _session_of(self, state: TrainState) -> Session:
        """Returns the threads that continue from `state`: the running ones if they belong to it, else new ones."""
        if self._session is not None and self._session.lanes is state.lanes:
            return self._session
        self._end_session()
        self._session = Session(self.host, self.storages, state)
        return self._session

    def _raise_fault(self) -> None:
        """Raises what stopped the actors, once."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise Failed(str(fault)) from fault

    @functools.cached_property
    def storages(self) -> list[Storage]:
        """Storages for all rollouts in use at a time: being played, waiting and being learnt from."""
        config, train = self.config.sebulba, self.config.train
        shape = (train.num_steps, self.host.own_lanes, self.host.own_actors, config.groups)
        return [make_storage(self.game, self.algorithm, *shape) for _ in range(self._rollouts)]

    @property
    def _rollouts(self) -> int:
        return 1 + min(self.config.sebulba.lag, QUEUE)

    # ---- arrays -------------------------------------------------------------------------------------------------

    @staticmethod
    def _form(leaf: Any, sharding: Any = None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    @classmethod
    def _form_of_host(cls, leaf: Any) -> jax.ShapeDtypeStruct:
        """Returns the ShapeDtypeStruct of a host array (no sharding); existing structs pass through."""
        return leaf if isinstance(leaf, jax.ShapeDtypeStruct) else cls._form(leaf)

    def _first_arrays(self, seed: jax.Array) -> tuple[TrainState, jax.Array]:
        """Returns the state without lanes, and the seed of the engines, u32[]."""
        param_key, lane_key, key = first_keys(seed)
        learner = self.algorithm.init(param_key)
        state = TrainState(
            learner=learner,
            lanes=None,
            key=key,
            update=jnp.int32(0),
            env_steps=Counter.zero(),
            games=Counter.zero(),
            pool=self.setup.seats.init(learner.params),
        )
        return state, jax.random.bits(lane_key, dtype=jnp.uint32)


class Session:
    """Actors that continue from one state.

    Attributes:
      lanes: lanes of the latest state; the session is reused only for this state.
      pipeline: pipeline between actors and learner.
    """

    def __init__(self, setup: HostSetup, storages: Sequence[Storage], state: TrainState):
        """Starts all threads. `storages`: buffers of its rollouts; no other session uses them."""
        config, first = setup.config.sebulba, int(state.update)
        self.lanes = state.lanes
        for storage in storages:
            storage.renew()
        self.pipeline = Pipeline(storages, setup.own_actors, first, config.timeout)
        self._setup, self._timers = setup, setup.timers
        self._threads: list[ActorThread] = []
        try:
            for number in range(setup.own_actors):
                self._threads.append(ActorThread(setup, number, self.pipeline, state.lanes, first))
        except BaseException:
            self.close()
            raise
        self.pipeline.watch(lambda: all(thread.is_alive() for thread in self._threads))
        for i, acting in enumerate(state.acting):
            self.publish(first + i, acting, state.key)
        for thread in self._threads:
            thread.start()
        LOG.debug("%d actors play on from update %d", setup.own_actors, first)

    def publish(self, rollout: int, acting: Acting, key: jax.Array) -> None:
        """Publishes the policy and the key for rollout `rollout`, see `Pipeline.publish`: one copy for each device of
        this process; actor i uses copy i modulo their number.

        Only the learner's thread may call it: JAX splits a replicated array into its shards on first use and caches
        them without a lock, so a second thread may see a part of them.
        """
        mesh, both = self._setup.mesh, (acting, key)
        each = [both] if mesh.size == 1 else [distributed.local(both, device) for device in mesh.local_devices]
        self.pipeline.publish(rollout, each)

    def metrics(self) -> Callable[[int], Metrics]:
        """Starts measuring. Returns a function from the number of updates since then to their metrics."""
        start, before = time.monotonic(), self._work()
        pipeline = self.pipeline
        waits = np.array([pipeline.waited_actors, pipeline.waited_learner, pipeline.depths])

        def found(updates: int) -> Metrics:
            seconds = max(time.monotonic() - start, 1e-9)
            busy, parts = (now - then for now, then in zip(self._work(), before, strict=True))
            for name, nanoseconds in zip(("env_step", "opponent_turn"), parts, strict=True):
                self._timers.add_ns(name, int(nanoseconds))
            waited = np.array([pipeline.waited_actors, pipeline.waited_learner, pipeline.depths]) - waits
            threads = sum(len(thread.pool.threads) for thread in self._threads)
            return {
                "time/engine_busy": metrics.measured(busy / 1e9 / threads / seconds, seconds),
                "time/actor_wait": metrics.measured(waited[0] / len(self._threads) / seconds, seconds),
                "time/learner_wait": metrics.measured(waited[1] / seconds, seconds),
                "time/queue_depth": metrics.measured(waited[2] / updates, updates),
            }

        return found

    def workers(self) -> list[dict[str, Any]]:
        """Returns what the workers of a fleet have done, see `Program.counters`; actor and number give a name."""
        return [
            {"name": f"{thread.number}.{number}", **worker}
            for thread in self._threads
            if isinstance(thread.pool, WorkerPool)
            for number, worker in enumerate(thread.pool.told())
        ]

    def _work(self) -> tuple[Any, np.ndarray]:
        """Returns ns that the engine threads have worked, and of it for (rules and observations, scripted players)."""
        busy, parts = 0, np.zeros(2, np.int64)
        for thread in self._threads:
            busy += int(thread.pool.busy_ns.sum())
            counters = thread.pool.counters
            parts += [counters["step"][0] + counters["observe"][0], counters["bots"][0]]
        return busy, parts

    def close(self) -> None:
        """Ends all threads; a thread whose engine hangs is abandoned with a warning."""
        self.pipeline.close()
        for thread in self._threads:
            if isinstance(thread.pool, WorkerPool):
                thread.pool.close()  # an actor may wait for a worker that is being replaced
        end = time.monotonic() + PATIENCE
        for thread in self._threads:
            if thread.ident is None:  # never started
                thread.pool.close()
                continue
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                warnings.warn(f"{thread.name} does not end: its engine hangs", RuntimeWarning, stacklevel=2)


STOPPED, FAULT, DIVERGED = 1, 2, 3  # DIVERGED + version


def _gravity(found: Storage | Stopped | Fault) -> int:
    """Ranks the outcome of waiting for a rollout, the gravest the largest; 0: it is there."""
    if isinstance(found, Storage):
        return 0
    if isinstance(found, Stopped):
        return STOPPED
    return DIVERGED + found.__cause__.version if isinstance(found.__cause__, Diverged) else FAULT


def _elsewhere(gravity: int) -> Stopped | Fault:
    """Returns the exception raised in a process that did not fail itself."""
    if gravity == STOPPED:
        return Stopped()
    fault = Fault()
    fault.__cause__ = distributed.PeerFailed(distributed.USER_ERROR)  # the other one says what it is
    if gravity >= DIVERGED:
        fault.__cause__ = Diverged("the policy plays what is not legal", gravity - DIVERGED)
    return fault
