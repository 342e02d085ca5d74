"""The learner of Sebulba: runs the algorithm's `learn` as one compiled program, or its `HostLearning`, and accumulates
episode statistics.

Shape letters as in `jaxrl.algorithms.base`.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl.algorithms.base import AXIS, HostLearning, Rollout, Transition, across_devices
from jaxrl.league.pool import add_snapshot
from jaxrl.networks import distributions
from jaxrl.runs import distributed
from jaxrl.runs.metrics import Metrics, measured
from jaxrl.training.episodes import EpisodeStats, finished, no_games, over_lanes
from jaxrl.training.sebulba.setup import HostSetup
from jaxrl.training.sebulba.storage import PlayedGames, Storage
from jaxrl.training.state import Acting, TrainState, update_keys

STEPS, LANES = Spec(None, AXIS), Spec(AXIS)
# Lanes are sharded, the policy is replicated.
PLACES: Any = Rollout(STEPS, STEPS, LANES, LANES, Spec(), LANES)  # type: ignore[arg-type]
GAMES: Any = PlayedGames(STEPS, STEPS, STEPS, STEPS, STEPS, STEPS, LANES, LANES)


class HostLearner:
    """The learner side of Sebulba."""

    def __init__(self, setup: HostSetup):
        """Compiles nothing yet; `setup` is that of the training.

        Attributes:
          compiled: (parameters, the rest of the learner, rollout, key, number) -> learner, metrics.
        """
        self._setup, self._mesh, self._timers = setup, setup.mesh, setup.timers
        self._holds: Any = None  # lanes of the state whose host part of the learner is loaded
        self.compiled = jax.jit(self._compiled, donate_argnums=1)
        every, each = setup.replicated, setup.by_lane
        self._account = jax.jit(self._account_games, out_shardings=(every, every, each, every, every))
        self._keys = jax.jit(update_keys)
        self._metrics = jax.jit(setup.rollout.seats.metrics)
        self._results: Any = None  # of the games since the last `league_metrics`

    @functools.cached_property
    def _host(self) -> HostLearning | None:
        """The algorithm's own learning on the host."""
        return self._setup.algorithm.host_learning(self._timers)

    # ---- the learner --------------------------------------------------------------------------------------------

    def take(self, state: TrainState) -> TrainState:
        """Returns the state with what `update` needs of its learner, whose host part is loaded unless it is there."""
        if self._host is not None and self._holds is not state.lanes:
            self._host.load(state.learner, state.key)
        self._holds = None
        return state.replace(learner=state.learner.on_device())

    def give(self, state: TrainState) -> TrainState:
        """Returns the state with its whole learner, as checkpoints hold it."""
        self._holds = state.lanes
        return state.replace(learner=self.whole(state.learner))

    def forget(self) -> None:
        """Makes the next `take` load the host part unconditionally."""
        self._holds = None

    def whole(self, learner: Any) -> Any:
        """Returns the learner with its current host part, or with shapes before the first `take`."""
        return learner if self._host is None else self._host.save(learner)

    def update(self, state: TrainState, storage: Storage, played: Acting, number: int) -> tuple[TrainState, Metrics]:
        """Returns the state after update `number`, from a rollout that was `played` with an older policy; the learner
        is donated but for its parameters, which actors may still use."""
        rollout = storage.rollout(played.policy, may_truncate=self._setup.game.may_truncate)
        learner, found = self._learnt(state, rollout, number)
        state, ended = self._accounted(state, storage.games_played(), played.pool)
        jax.block_until_ready((learner, state.lanes.episode_return))  # until then the storage may still be read
        if self._setup.rollout.seats.due(state.pool, number + 1):
            # The pool's own `renew`, but snapshots that do not change are shared with the actors, not copied.
            renewed = add_snapshot(state.pool, learner.params, state.update)
            state = state.replace(pool=distributed.place(renewed, self._setup.replicated))
        lanes = storage.after.replace(episode_return=state.lanes.episode_return)
        lag = measured(number - int(played.version))
        return state.replace(learner=learner, lanes=lanes), ended | found | {"train/policy_lag": lag}

    def _learnt(self, state: TrainState, rollout: Rollout, number: int) -> tuple[Any, Metrics]:
        """Returns the learner after a rollout of host arrays."""
        learner, key = state.learner, state.key
        update: Any = np.int32(number)
        if self._host is not None:  # which measures its own time
            return self._host.learn(learner, rollout, self._keys(key, update)[1], update)
        start = time.perf_counter_ns()
        # On a CPU the rollout may stay where it is.
        placed = self._spread(rollout._replace(policy=None), PLACES)._replace(policy=rollout.policy)
        found = self.compiled(*parted(learner), placed, key, update)
        if self._timers.enabled:  # else the games are accounted for meanwhile
            jax.block_until_ready(found)
            self._timers.add_ns("backward", time.perf_counter_ns() - start)
        return found

    def _spread(self, shares: Any, places: Any) -> Any:
        """Assembles global arrays over the mesh from the shares of all processes; both are tuples of the same type."""
        each = zip(shares, places, strict=True)
        return type(shares)(*[distributed.shard(part, NamedSharding(self._mesh, place)) for part, place in each])

    def _compiled(
        self, params: Any, rest: Any, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[Any, Metrics]:
        """Returns the algorithm's update, sharded over the mesh."""
        every = Spec()

        def learn(learner: Any, rollout: Rollout, key: jax.Array, number: jax.Array) -> tuple[Any, Metrics]:
            played: Transition = rollout.steps
            packed = played._replace(mask=distributions.pack_mask(played.mask))
            rollout = rollout._replace(steps=packed)
            return self._setup.algorithm.learn(learner, rollout, update_keys(key, number)[1], number)

        return jax.shard_map(
            learn,
            mesh=self._mesh,
            in_specs=(every, PLACES, every, every),
            out_specs=(every, every),
            check_vma=False,  # sums over devices are written out (`across_devices`)
        )(rest.replace(params=params), rollout, key, number)

    # ---- the games ----------------------------------------------------------------------------------------------

    def _accounted(self, state: TrainState, games: PlayedGames, before: Any) -> tuple[TrainState, Metrics]:
        """Returns the state with counters, pool and returns after the games of a rollout (host arrays), and metrics of
        those that ended; `before` is the opponent pool of the rollout, or None."""
        pool = state.pool.replace(snapshots=None) if state.pool is not None else None
        born = before.born if before is not None and before.born.shape[0] else None
        counters = (state.update, state.env_steps, state.games)
        counters, pool, returns, results, found = self._account(
            counters, pool, state.lanes.episode_return, self._spread(games, GAMES), born
        )
        if pool is not None and state.pool is not None:
            pool = pool.replace(snapshots=state.pool.snapshots)
            earlier = self._results
            self._results = results if earlier is None else jax.tree.map(jnp.add, earlier, results)
        update, env_steps, count = counters
        state = state.replace(update=update, env_steps=env_steps, games=count, pool=pool)
        return state.replace(lanes=state.lanes.replace(episode_return=returns)), found

    def league_metrics(self, pool: Any) -> Metrics:
        """Returns metrics of the opponents since the last call."""
        if pool is None:
            return {}
        results, self._results = self._results, None
        return self._metrics(pool.replace(snapshots=None), results)

    def _account_games(self, counters: Any, pool: Any, returns: jax.Array, games_played: PlayedGames, born: Any) -> Any:
        update, env_steps, games = counters
        seats = self._setup.rollout.seats
        finished_games = jax.shard_map(
            functools.partial(self._finished, snapshots=born is not None),
            mesh=self._mesh,
            in_specs=(LANES, GAMES),
            out_specs=(LANES, Spec()),
            check_vma=False,  # sums over devices are written out
        )
        returns, played = finished_games(returns, games_played)
        played = played._replace(results=_of_same_snapshots(played.results, pool, born))
        counters = (update + 1, env_steps.add(self._setup.config.batch_size), games.add(played.games))
        return counters, seats.learn(pool, played.results), returns, played.results, played.metrics()

    def _finished(
        self, returns: jax.Array, games_played: PlayedGames, *, snapshots: bool
    ) -> tuple[jax.Array, EpisodeStats]:
        """Returns f32[B, P] of the running games afterwards, and the sums over those that ended on all devices."""
        seats = self._setup.rollout.seats
        names = self._setup.game.stat_names
        sums = no_games(seats, names)
        if snapshots:
            returns = jnp.where(games_played.restarted[:, None], games_played.first, returns)
        if snapshots and sums.results is not None:
            redealt = jnp.sum(games_played.restarted, dtype=jnp.float32)
            sums = sums._replace(results=sums.results._replace(redealt=redealt))

        def step(
            carry: tuple[jax.Array, EpisodeStats], now: PlayedGames
        ) -> tuple[tuple[jax.Array, EpisodeStats], None]:
            returns, sums = carry
            returns = returns + now.rewards
            stats = {name: now.stats[..., i] for i, name in enumerate(names)}
            illegal = jnp.zeros_like(now.over)  # the bridge refuses illegal actions
            ended = jax.vmap(functools.partial(finished, seats))(
                now.controllers, returns, now.length, now.over, illegal, stats
            )
            returns = jnp.where(now.over[:, None], now.opening, returns)
            return (returns, jax.tree.map(jnp.add, sums, over_lanes(ended))), None

        along = games_played._replace(restarted=None, first=None)
        returns, sums = jax.lax.scan(step, (returns, sums), along)[0]
        return returns, across_devices(sums)


def _of_same_snapshots(results: Any, pool: Any, born: Any) -> Any:
    """Drops results against snapshots that have left the pool since the start of the rollout."""
    if results is None or born is None:
        return results
    others = results.games.shape[0] - born.shape[0]
    same = jnp.concatenate([jnp.ones(others, bool), born == pool.born]).astype(jnp.float32)
    return results._replace(games=results.games * same, score=results.score * same)


def parted(learner: Any) -> tuple[Any, Any]:
    """Splits a learner into its parameters and the rest, which an update takes as separate arguments."""
    return learner.params, learner.replace(params=None)
