"""The Sebulba loop (Hessel et al. 2021, https://arxiv.org/abs/2104.06272): threads play on the host, a learner learns.

Rollout r is played with the parameters after max(0, r - lag) updates and learnt from in update r, whatever the timing,
so a training is reproducible and resumes exactly. An environment step is one decision that the learner gets to see, of
its own seats or of a snapshot's: a row of the storage. Decisions of scripted players happen inside the engine.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from envs.core import Env
from envs.host.bridge import HostPool
from envs.host.core import HostGame
from envs.wrappers import auto_reset
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.ppo.state import Counter, make_hyper
from jaxrl.config.checks import device_count
from jaxrl.config.schema import Config
from jaxrl.league.pool import add_snapshot, make_seats
from jaxrl.networks.factory import make_network
from jaxrl.training.program import Failed, Interrupted, Program
from jaxrl.training.rollout import Actor
from jaxrl.training.sebulba.counters import Timers
from jaxrl.training.sebulba.lanes import first_lanes
from jaxrl.training.sebulba.learner import AXIS, Core, Learner, Sums
from jaxrl.training.sebulba.pipeline import Fault, Stopped
from jaxrl.training.sebulba.policy import Policy, host_numbers
from jaxrl.training.sebulba.pools import actor_pool, check_room
from jaxrl.training.sebulba.session import Session
from jaxrl.training.sebulba.shares import forward_share
from jaxrl.training.sebulba.state import Acting, HostLanes, SebulbaState
from jaxrl.training.sebulba.storage import Storage, make_storage

LOG = logging.getLogger("jaxrl")
QUEUE = 2  # rollouts that may wait for the learner: more would only be older when they are learnt from


class Sebulba(Program):
    """A training program for one configuration and one game on the host; see `make_sebulba`."""

    def __init__(self, config: Config, env: Env, game: HostGame, actor: Actor, mesh: Mesh):
        """Compiles and starts nothing.

        Args:
          config, env: what is trained.
          game: that `env` wraps.
          actor: network and seats.
          mesh: of the learner; actors use its devices in turn.
        """
        self.config, self.env, self.game, self.actor, self.mesh = config, env, game, actor, mesh
        self.learner = Learner(config, actor, mesh, tuple(game.stat_names))
        self.policy = Policy(actor)
        share = functools.partial(forward_share, actor.network, env, config.batch_size // config.ppo.minibatches)
        self.timers = Timers(config.sebulba.profile, share)
        self.numbers = host_numbers(actor.seats, game.bots, config.league.snapshots)
        self._first = jax.jit(self._first_arrays, out_shardings=self._replicated)
        self._session: Session | None = None
        self._fault: BaseException | None = None
        self._stop = False  # no Event: a signal handler sets it, and must not wait for a lock that this thread holds

    # ---- the protocol -------------------------------------------------------------------------------------------

    def init(self, seed: int) -> SebulbaState:
        """The state before the first update; starts and staggers all games."""
        state, engine_seed = self._first(np.uint32(seed))
        lanes = first_lanes(self, state, int(engine_seed))
        return self.begin(state.replace(lanes=lanes))

    def begin(self, state: Any) -> SebulbaState:
        """The next rollouts are all played with the parameters and the pool as they are now."""
        now = Acting(state.params, state.pool, state.update)
        lag, pool = self.config.sebulba.lag, state.pool
        if lag and pool is not None:  # games against stale opponents are dealt anew once, before the first rollout
            pool = jax.device_put(pool.replace(stale=jnp.zeros_like(pool.stale)), self._replicated)
        later = Acting(state.params, pool, state.update)
        return state.replace(pool=pool, acting=(now, *[later] * (lag - 1)) if lag else ())

    def run(self, state: SebulbaState) -> tuple[SebulbaState, dict[str, Any]]:
        """Learns from rollouts up to the next multiple of `train.updates_per_call`; see `Program.run`."""
        self._raise_fault()
        number, per_call = int(state.update), self.config.train.updates_per_call
        session, sums, done = self._session_of(state), self.learner.empty_sums(), 0
        figures = session.figures()
        try:
            while done < per_call - number % per_call and not self._stop:
                state, sums = self._update(session, state, sums, number + done)
                done += 1
        except Stopped:
            LOG.debug("asked to stop while waiting for rollout %d", number + done)
        except Fault as fault:
            cause = fault.__cause__
            if not isinstance(cause, Exception):  # a thread that was told to exit must not end the process in silence
                cause = RuntimeError(f"an actor was ended by {type(cause).__name__}")
            self._fault = cause
            self.close()
        self._stop = False
        if not done:
            self._raise_fault()
            raise Interrupted
        core = _core(state)
        found: dict[str, Any] = dict(self.learner.metrics(sums, core))
        jax.block_until_ready(found)
        steps = done * self.config.batch_size
        return state, found | figures(done) | self.timers.report(steps)

    @property
    def abstract_state(self) -> SebulbaState:
        """Shapes and dtypes; shardings of what lives on devices."""
        shapes, _ = jax.eval_shape(self._first_arrays, jax.ShapeDtypeStruct((), jnp.uint32))
        on_devices = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._replicated), shapes
        )
        lanes, seats = self.config.train.num_envs, self.game.num_players
        of_host = HostLanes(
            blobs=jax.ShapeDtypeStruct((lanes, self.game.state_bytes), jnp.uint8),
            controllers=jax.ShapeDtypeStruct((lanes, seats), jnp.int8),
            episode=jax.ShapeDtypeStruct((lanes,), jnp.uint32),
            length=jax.ShapeDtypeStruct((lanes,), jnp.int32),
            episode_return=jax.ShapeDtypeStruct((lanes, seats), jnp.float32, sharding=self.by_lane),
        )
        acting = Acting(on_devices.params, on_devices.pool, on_devices.update)
        return on_devices.replace(lanes=of_host, acting=(acting,) * self.config.sebulba.lag)

    @property
    def shardings(self) -> SebulbaState:
        """Of the arrays on devices; None for those of the host."""
        return jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)

    def request_stop(self) -> None:
        """A `run` under way returns after the update in hand; one that waits for a rollout returns at once."""
        self._stop = True

    def close(self) -> None:
        """Ends all threads."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # ---- one update ---------------------------------------------------------------------------------------------

    def _update(self, session: Session, state: SebulbaState, sums: Sums, number: int) -> tuple[SebulbaState, Sums]:
        lag = self.config.sebulba.lag
        now = Acting(state.params, state.pool, state.update)
        session.pipeline.publish(number + lag, (now, state.key, state.hyper))
        storage = session.pipeline.take(number, lambda: self._stop)
        start = time.perf_counter_ns()
        acting = (*state.acting, now)
        state, sums = self._learn(state, sums, storage, acting[0])
        self.timers.add_ns("backward", time.perf_counter_ns() - start)
        session.lanes = state.lanes
        session.pipeline.release(number)
        return state.replace(acting=acting[1:]), sums

    def _learn(self, state: SebulbaState, sums: Sums, storage: Storage, behaviour: Acting) -> tuple[SebulbaState, Sums]:
        """One update from a rollout that was played with `behaviour`."""
        league, pool = self.config.league, state.pool
        born = behaviour.pool.born if behaviour.pool is not None and league.snapshots else None
        views = storage.played(may_truncate=self.game.may_truncate, varied=self.policy.varied)
        played, ends = self.learner.place(*views)
        opt_state, sums, core = self.learner.learn(
            state.opt_state, sums, _core(state), (behaviour.params, behaviour.version), born, played, ends
        )
        jax.block_until_ready((opt_state, core))  # until then the storage may still be read
        if pool is not None:
            pool = core.pool.replace(snapshots=pool.snapshots)
            # The pool's own `renew`, but snapshots that do not change are shared with the actors, not copied.
            number = int(core.update)
            if league.snapshots and league.snapshot_every and number % league.snapshot_every == 0:
                pool = jax.device_put(add_snapshot(pool, core.params, core.update), self._replicated)
        state = state.replace(
            params=core.params,
            opt_state=opt_state,
            update=core.update,
            env_steps=core.env_steps,
            games=core.games,
            pool=pool,
            lanes=storage.after.replace(episode_return=core.episode_return),
        )
        return state, sums

    # ---- threads ------------------------------------------------------------------------------------------------

    def _session_of(self, state: SebulbaState) -> Session:
        """The threads that play on from `state`: those that run, if they are that far, else new ones."""
        if self._session is not None and self._session.lanes is state.lanes:
            return self._session
        self.close()
        self._session = Session(self, self.storages, state)
        return self._session

    def _raise_fault(self) -> None:
        """Raises what stopped the actors, once."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise Failed(str(fault)) from fault

    @functools.cached_property
    def storages(self) -> list[Storage]:
        """As many rollouts as can be learnt from, wait and be played at a time."""
        config = self.config.sebulba
        count = 1 + min(config.lag, QUEUE)
        train = self.config.train
        return [
            make_storage(self.game, train.num_steps, train.num_envs, config.actors, config.groups) for _ in range(count)
        ]

    @property
    def share(self) -> int:
        """Games of each actor."""
        return self.config.train.num_envs // self.config.sebulba.actors

    def make_pool(self, actor: int, seed: int, groups: int) -> HostPool:
        """The games of one actor and the threads that step them."""
        return actor_pool(self.config.sebulba, self.game, actor, self.share, seed=seed, groups=groups)

    # ---- arrays -------------------------------------------------------------------------------------------------

    @property
    def _replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, Spec())

    @property
    def by_lane(self) -> NamedSharding:
        """Lanes spread over the devices."""
        return NamedSharding(self.mesh, Spec(AXIS))

    def _first_arrays(self, seed: jax.Array) -> tuple[SebulbaState, jax.Array]:
        """The state without lanes, and the seed of the engines, u32[]."""
        param_key, lane_key, key = jax.random.split(jax.random.key(seed), 3)
        params = self.actor.network.init(param_key)
        state = SebulbaState(
            params=params,
            opt_state=optimizer.init(params),
            lanes=None,  # type: ignore[arg-type]
            key=key,
            hyper=make_hyper(self.config.ppo, self.config.num_updates, self.config.train.from_update),
            update=jnp.int32(0),
            env_steps=Counter.zero(),
            games=Counter.zero(),
            pool=self.actor.seats.init(params),
        )
        return state, jax.random.bits(lane_key, dtype=jnp.uint32)


def _core(state: SebulbaState) -> Core:
    """What an update changes."""
    pool = state.pool.replace(snapshots=None) if state.pool is not None else None
    returns = state.lanes.episode_return
    return Core(state.params, state.key, state.hyper, state.update, state.env_steps, state.games, pool, returns)


def make_sebulba(config: Config, env: Env) -> Sebulba:
    """The training program of a configuration for a game on the host.

    Raises:
      UserError: more devices than there are, or more games than the game has room for.
    """
    devices = jax.local_devices()
    mesh = Mesh(np.array(devices[: device_count(config, len(devices))]), (AXIS,))
    network = make_network(config.network, env)
    seats = make_seats(config, env)
    game: HostGame = env.game  # type: ignore[attr-defined]  # an envs.host.env.HostEnv
    check_room(config.sebulba, game, config.train.num_envs, "train.num_envs")
    return Sebulba(config, env, game, Actor(env, auto_reset(env), network, seats), mesh)
