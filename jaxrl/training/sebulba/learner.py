"""The learner: one compiled program for each rollout, with the same estimator, loss and optimizer as Anakin.

Shape letters: T steps, B lanes (of one device within the mesh), P seats, S = 1 decision per step.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl.algorithms import advantage
from jaxrl.algorithms.ppo import figures, update
from jaxrl.algorithms.ppo.loss import Batch
from jaxrl.algorithms.ppo.state import Counter, Hyper
from jaxrl.config.schema import Config
from jaxrl.league.seats import LEARNER
from jaxrl.networks import distributions
from jaxrl.training import rollout
from jaxrl.training.rollout import Actor, RolloutSums, Transition
from jaxrl.training.sebulba.policy import update_keys
from jaxrl.training.sebulba.storage import Ends, Played

RHO_CLIP = 1.0  # V-trace: the largest importance weight, as in its paper; more would trade bias for variance

AXIS = "env"
Metrics = dict[str, jax.Array]


class Core(NamedTuple):
    """The part of the training state that one update changes, beside the optimizer's."""

    params: Any
    key: jax.Array
    hyper: Hyper
    update: jax.Array  # i32[]
    env_steps: Counter
    games: Counter
    pool: Any  # without its snapshots
    episode_return: jax.Array  # f32[B, P]


class Sums(NamedTuple):
    """Figures of some updates, f32[] each."""

    played: RolloutSums
    learnt: update.UpdateSums
    explained: jax.Array
    lag: jax.Array  # updates between the parameters that played and those that learnt
    updates: jax.Array


@dataclasses.dataclass(frozen=True)
class Learner:
    """Learning for one configuration and one game."""

    config: Config
    actor: Actor
    mesh: Mesh
    stat_names: tuple[str, ...]

    def __post_init__(self) -> None:
        # Frozen, so assigned like this; compiled at their first call.
        lanes, steps, every = Spec(AXIS), Spec(None, AXIS), Spec()
        core = Core._make([*[every] * 7, lanes])
        ends = Ends(lanes, lanes, lanes, lanes)
        learn = jax.shard_map(
            self._learn,
            mesh=self.mesh,
            in_specs=(every, every, core, every, every, steps, ends),
            out_specs=(every, every, core),
            check_vma=False,  # sums over devices are written out (`update.across_devices`)
        )
        object.__setattr__(self, "learn", jax.jit(learn, donate_argnums=(0, 1)))
        object.__setattr__(self, "metrics", jax.jit(self._metrics))

    learn: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    """(opt_state, sums, core, parameters that played, their pool's `born` or None, Played, Ends) ->
    (opt_state, sums, core): one update. The first two are donated; actors may still read the rest."""
    metrics: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    """(Sums, Core) -> tags: f32[] of at least one update; means over games are NaN if no game ended."""

    # ---- what callers use ---------------------------------------------------------------------------------------

    @property
    def corrects(self) -> bool:
        """Whether V-trace corrects for the lag."""
        return self.config.sebulba.lag > 1

    def place(self, played: Played, ends: Ends) -> tuple[Played, Ends]:
        """A rollout on the devices, its lanes spread over them. On a CPU it may stay where it is."""
        steps, lanes = NamedSharding(self.mesh, Spec(None, AXIS)), NamedSharding(self.mesh, Spec(AXIS))
        return jax.device_put(played, steps), jax.device_put(ends, lanes)

    def empty_sums(self) -> Sums:
        """Sums over nothing."""
        zero = jnp.float32(0.0)
        stats = dict.fromkeys(self.stat_names, zero)
        played = RolloutSums(jnp.int32(0), jnp.int32(0), zero, zero, zero, stats, self.actor.seats.no_results())
        sums = Sums(played, update.empty_sums(), zero, zero, zero)
        # Copies, because equal constants may share a buffer, which cannot be donated twice.
        return jax.tree.map(lambda leaf: jax.device_put(jnp.array(leaf), NamedSharding(self.mesh, Spec())), sums)

    # ---- one update, within the mesh ----------------------------------------------------------------------------

    def _learn(
        self,
        opt_state: Any,
        sums: Sums,
        core: Core,
        behaviour: tuple[Any, jax.Array],
        born: Any,
        played: Played,
        ends: Ends,
    ) -> tuple[Any, Sums, Core]:
        seats = self.actor.seats
        if born is None:
            ends = ends._replace(restarted=jnp.zeros_like(ends.restarted))
        steps = self._transitions(core, behaviour[0], played)
        batch = self._batch(core, behaviour[0], steps, played, ends)
        returns, games = self._account(core.episode_return, played, ends)
        games = update.across_devices(games, AXIS)
        games = games._replace(results=self._of_same_snapshots(games.results, core.pool, born))
        groups = jax.lax.axis_index(AXIS) * self._shape.groups + jnp.arange(self._shape.groups)
        shuffle_key = update_keys(core.key, core.update)[1]
        group_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(shuffle_key, groups.astype(jnp.uint32))
        params, opt_state, learnt = update.update(
            self.actor.network, self._shape, core.params, opt_state, batch, group_keys, core.hyper, core.update
        )
        explained = figures.explained_variance(update.across_devices(figures.variance_sums(batch), AXIS))
        lag = (core.update - behaviour[1]).astype(jnp.float32)
        core = core._replace(
            params=params,
            update=core.update + 1,
            env_steps=core.env_steps.add(self.config.batch_size),
            games=core.games.add(games.games),
            pool=seats.learn(core.pool, games.results),
            episode_return=returns,
        )
        now = Sums(games, learnt, explained, lag, jnp.float32(1.0))
        return opt_state, jax.tree.map(jnp.add, sums, now), core

    @functools.cached_property
    def _shape(self) -> update.UpdateShape:
        return update.shape_of(self.config, self.mesh.size, AXIS)

    def _transitions(self, core: Core, behaviour: Any, played: Played) -> Transition:
        """The rollout in the form that Anakin's has, [T, B, S, ...]."""
        seat = played.seat[..., None]
        weight = jnp.ones(seat.shape, jnp.float32)
        if played.controllers is not None:
            held_by = jnp.take_along_axis(played.controllers, seat, axis=-1)
            weight = (held_by == LEARNER).astype(jnp.float32)
        return Transition(
            observation=played.observation[:, :, None],
            mask=distributions.pack_mask(played.mask)[:, :, None],
            action=played.action[..., None],
            log_prob=played.log_prob[..., None],
            value=played.value[..., None],
            seat=seat,
            weight=weight,
            rewards=played.rewards,
            terminated=played.terminated,
            truncated=played.truncated,
            final_seat=played.final_seat[..., None],
            final_value=self._final_values(core.params if self.corrects else behaviour, played),
        )

    def _final_values(self, params: Any, played: Played) -> jax.Array:
        """f32[T, B, S]: values of the final observations, evaluated for steps in which a game was cut off."""
        shape = (*played.truncated.shape, 1)
        if played.final_observation is None:
            return jnp.zeros(shape, jnp.float32)

        def of_step(step: tuple[jax.Array, jax.Array]) -> jax.Array:
            observation, truncated = step
            values = functools.partial(self._values, params)
            found = jax.lax.cond(
                jnp.any(truncated), values, lambda _: jnp.zeros(truncated.shape, jnp.float32), observation
            )
            return jnp.where(truncated, found, 0.0)

        return jax.lax.map(of_step, (played.final_observation, played.truncated)).reshape(shape)

    def _values(self, params: Any, observation: jax.Array) -> jax.Array:
        """f32[B] of f32[B, F]."""
        return jax.vmap(self.actor.values, in_axes=(None, 0))(params, observation[:, None])[:, 0]

    def _batch(self, core: Core, behaviour: Any, steps: Transition, played: Played, ends: Ends) -> Batch:
        """The decisions with what is to be learnt from them, [T, B, ...]."""
        players, hyper = played.rewards.shape[-1], core.hyper
        last_value = self._values(core.params if self.corrects else behaviour, ends.observation)
        if self.corrects:
            value, ratio = self._anew(core, steps)
            steps = steps._replace(value=value)
        trajectory = rollout.trajectory_of(steps, ends.seat[:, None], last_value[:, None], players)
        if self.corrects:
            seat = steps.seat == jnp.arange(players)  # bool[T, B, P], because S = 1
            weights = jnp.where(seat, ratio, 1.0)
            corrected = advantage.vtrace(trajectory, weights, RHO_CLIP, hyper.gamma, hyper.gae_lambda)
            per_seat, beyond, known = corrected
        else:
            per_seat, known = advantage.gae(trajectory, hyper.gamma, hyper.gae_lambda)
            beyond = per_seat
        batch = Batch(
            observation=steps.observation,
            mask=steps.mask,
            action=steps.action,
            log_prob=steps.log_prob,
            value=steps.value,
            advantage=rollout.of_decisions(per_seat, steps.seat),
            target=rollout.of_decisions(beyond, steps.seat) + steps.value,
            weight=steps.weight * rollout.of_decisions(known, steps.seat),
        )
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), batch)

    def _anew(self, core: Core, steps: Transition) -> tuple[jax.Array, jax.Array]:
        """Values and ratios f32[T, B, S] of all decisions under the parameters that learn; opponents' have ratio 1."""
        temperature = core.hyper.temperature_at(core.update)

        def of_step(step: Transition) -> tuple[jax.Array, jax.Array]:
            mask = distributions.unpack_mask(step.mask, self.actor.network.num_actions)
            evaluate = jax.vmap(self.actor.evaluate, in_axes=(None, 0, 0))
            logits, value = evaluate(core.params, step.observation, mask)
            log_prob = distributions.log_prob(distributions.temper(logits, temperature), step.action)
            return value, jnp.exp(jnp.where(step.weight > 0.0, log_prob - step.log_prob, 0.0))

        return jax.lax.map(of_step, steps)

    # ---- games that ended ---------------------------------------------------------------------------------------

    def _account(self, returns: jax.Array, played: Played, ends: Ends) -> tuple[jax.Array, RolloutSums]:
        """Returns f32[B, P] of the running games afterwards, and the sums over those that ended."""
        seats = self.actor.seats

        def step(carry: tuple[jax.Array, RolloutSums], now: Played) -> tuple[tuple[jax.Array, RolloutSums], None]:
            returns, sums = carry
            returns = returns + now.rewards
            over = now.terminated | now.truncated
            controllers = jnp.zeros(returns.shape, jnp.int8) if now.controllers is None else now.controllers
            learner = (over[:, None] & (controllers == LEARNER)).astype(jnp.float32)  # f32[B, P]
            stats = jnp.where(over[:, None, None], now.stats, 0.0)  # what was never written may be anything
            ended = RolloutSums(
                games=jnp.sum(over, dtype=jnp.int32),
                illegal=jnp.int32(0),  # the bridge refuses illegal actions
                length=jnp.sum(jnp.where(over, now.length, 0).astype(jnp.float32)),
                seats=jnp.sum(learner),
                returns=jnp.sum(learner * returns),
                stats={name: jnp.sum(learner * stats[..., i]) for i, name in enumerate(self.stat_names)},
                results=jax.tree.map(
                    functools.partial(jnp.sum, axis=0), jax.vmap(seats.results)(controllers, returns, over)
                ),
            )
            return (jnp.where(over[:, None], now.opening, returns), jax.tree.map(jnp.add, sums, ended)), None

        returns = jnp.where(ends.restarted[:, None], ends.opening, returns)
        zero = jnp.float32(0.0)
        stats = dict.fromkeys(self.stat_names, zero)
        sums = RolloutSums(jnp.int32(0), jnp.int32(0), zero, zero, zero, stats, seats.no_results())
        if sums.results is not None:
            redealt = jnp.sum(ends.restarted, dtype=jnp.float32)
            sums = sums._replace(results=sums.results._replace(redealt=redealt))
        light = played._replace(observation=None, final_observation=None, mask=None)
        (returns, sums), _ = jax.lax.scan(step, (returns, sums), light)
        return returns, sums

    def _of_same_snapshots(self, results: Any, pool: Any, born: Any) -> Any:
        """The results without those against a snapshot that has left the pool since the rollout was begun."""
        if results is None or born is None:
            return results
        others = results.games.shape[0] - born.shape[0]
        same = jnp.concatenate([jnp.ones(others, bool), born == pool.born]).astype(jnp.float32)
        return results._replace(games=results.games * same, score=results.score * same)

    # ---- figures ------------------------------------------------------------------------------------------------

    def _metrics(self, sums: Sums, core: Core) -> Metrics:
        found = figures.of_play(sums.played) | figures.of_learning(
            sums.learnt, sums.explained, core, self.config.ppo, sums.updates
        )
        found |= {"train/policy_lag": sums.lag / sums.updates, "train/updates": sums.updates}
        found |= self.actor.seats.metrics(core.pool, sums.played.results)
        return {name: jnp.asarray(value, jnp.float32) for name, value in found.items()}
