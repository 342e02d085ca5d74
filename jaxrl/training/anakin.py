"""The Anakin loop (Hessel et al. 2021, https://arxiv.org/abs/2104.06272): playing and learning as one compiled program.

One call runs K updates by `lax.scan` with the whole training state donated. Lanes are spread over a mesh axis "env";
parameters are replicated. Several seeds run side by side by `vmap`, each leaf of the state then has a leading axis [S].
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from envs import prng
from envs.core import Env, State
from envs.wrappers import auto_reset
from jaxrl.algorithms import advantage, optimizer
from jaxrl.algorithms.ppo import figures, update
from jaxrl.algorithms.ppo.loss import Batch
from jaxrl.algorithms.ppo.state import Counter, TrainState, make_hyper
from jaxrl.config.checks import device_count
from jaxrl.config.schema import Config
from jaxrl.league.pool import make_seats
from jaxrl.networks import distributions
from jaxrl.networks.factory import make_network
from jaxrl.training import rollout
from jaxrl.training.program import Program
from jaxrl.training.rollout import Actor, RolloutSums

AXIS = "env"
Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Anakin(Program):
    """A training program for one configuration and one game; see `make_anakin`."""

    config: Config
    actor: Actor
    mesh: Mesh

    def __post_init__(self) -> None:
        # Frozen, so assigned like this; compiled at their first call.
        object.__setattr__(self, "_init", jax.jit(self._init_seeds, out_shardings=self.shardings))
        # Sums over devices are written out (`update.across_devices`), so the replication check has nothing to add.
        run = jax.shard_map(
            self._run_seeds,
            mesh=self.mesh,
            in_specs=(self._specs,),
            out_specs=(self._specs, Spec()),
            check_vma=False,
        )
        object.__setattr__(self, "run", jax.jit(run, donate_argnums=0))

    _init: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    run: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    """(TrainState) -> (TrainState, metrics): K updates. The argument is donated: do not use it afterwards."""

    # ---- what callers use ---------------------------------------------------------------------------------------

    def init(self, seed: int) -> TrainState:
        """The state before the first update; with several seeds those of seed, seed + 1, ..."""
        seeds = np.uint32(seed) + np.arange(self.config.run.seeds, dtype=np.uint32)
        return self._init(seeds if self.config.run.seeds > 1 else seeds[0])

    def policy(self, params: Any, state: State, key: jax.Array, greedy: bool) -> jax.Array:
        """The learner's action in one game, i32[] (i32[P] if simultaneous); vmap it over games.

        Args:
          params: of one seed.
          state: the game.
          key: typed; not read if greedy.
          greedy: take the most probable action instead of drawing one (static).
        """
        observation, mask, seat = self.actor.seats_asked(state)
        logits, _ = self.actor.evaluate(params, observation, mask)
        if greedy:
            action = distributions.greedy(logits)
        else:
            action = distributions.sample(logits, jax.random.uniform(key, seat.shape))
        return action if self.actor.env.simultaneous else action[0]

    @property
    def shardings(self) -> TrainState:
        """Where every leaf of the state lives, e.g. for a checkpoint to restore to."""
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), self._specs)

    @property
    def abstract_state(self) -> TrainState:
        """Shapes, dtypes and shardings of the state without computing it."""
        seeds = jax.ShapeDtypeStruct((self.config.run.seeds,) if self.config.run.seeds > 1 else (), jnp.uint32)
        shapes = jax.eval_shape(self._init_seeds, seeds)
        return jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            shapes,
            self.shardings,
        )

    # ---- shapes -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _specs(self) -> TrainState:
        """Lanes are spread over the devices, everything else is replicated."""
        lanes = Spec(None, AXIS) if self.config.run.seeds > 1 else Spec(AXIS)
        shape = jax.eval_shape(self._init_one, jax.ShapeDtypeStruct((), jnp.uint32))
        return jax.tree.map(lambda _: Spec(), shape).replace(lanes=jax.tree.map(lambda _: lanes, shape.lanes))

    @property
    def _update_shape(self) -> update.UpdateShape:
        return update.shape_of(self.config, self.mesh.size, AXIS)

    def _local_ids(self, count: int) -> jax.Array:
        """Global numbers u32[count / devices] of this device's share of `count` things."""
        share = count // self.mesh.size
        return (jax.lax.axis_index(AXIS) * share + jnp.arange(share)).astype(jnp.uint32)

    # ---- the programs -------------------------------------------------------------------------------------------

    def _init_seeds(self, seeds: jax.Array) -> TrainState:
        return jax.vmap(self._init_one)(seeds) if self.config.run.seeds > 1 else self._init_one(seeds)

    def _init_one(self, seed: jax.Array) -> TrainState:
        """The state of one seed (u32[])."""
        param_key, lane_key, key = jax.random.split(jax.random.key(seed), 3)
        ids = jnp.arange(self.config.train.num_envs, dtype=jnp.uint32)
        lane_key = prng.from_key(lane_key)
        keys = rollout.lane_keys(lane_key, jnp.uint32(0), ids)
        params = self.actor.network.init(param_key)
        pool = self.actor.seats.init(params)
        odds = self.actor.seats.odds(pool, ids)
        lanes = jax.vmap(functools.partial(rollout.new_lane, self.actor))(keys, odds)
        if self.config.train.stagger:
            stagger_key, steps = jax.random.fold_in(lane_key, 1), self.config.train.stagger
            lanes = rollout.stagger(self.actor, lanes, stagger_key, ids, steps, odds)
        return TrainState(
            params=params,
            opt_state=optimizer.init(params),
            lanes=lanes,
            key=key,
            hyper=make_hyper(self.config.ppo, self.config.num_updates, self.config.train.from_update),
            update=jnp.int32(0),
            env_steps=Counter.zero(),
            games=Counter.zero(),
            pool=pool,
        )

    def _run_seeds(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """K updates of all seeds on one device's share of the lanes."""
        return jax.vmap(self._run_one)(state) if self.config.run.seeds > 1 else self._run_one(state)

    def _run_one(self, state: TrainState) -> tuple[TrainState, Metrics]:
        def step(carry, _):
            state, sums = carry
            state, now = self._update(state)
            return (state, jax.tree.map(jnp.add, sums, now)), None

        count = self.config.train.updates_per_call
        (state, sums), _ = jax.lax.scan(step, (state, self._empty_sums()), None, length=count)
        return state, self._metrics(sums, state, count)

    def _update(self, state: TrainState) -> tuple[TrainState, Any]:
        """One update: play, estimate advantages, learn."""
        play_key, shuffle_key = jax.random.split(prng.from_key(jax.random.fold_in(state.key, state.update)))
        batch, lanes, played = self.collect(state, play_key)
        groups = self._local_ids(self._update_shape.groups * self.mesh.size)
        group_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(shuffle_key, groups)
        params, opt_state, learnt = update.update(
            self.actor.network,
            self._update_shape,
            state.params,
            state.opt_state,
            batch,
            group_keys,
            state.hyper,
            state.update,
        )
        played = update.across_devices(played, AXIS)
        variance = update.across_devices(figures.variance_sums(batch), AXIS)
        seats = self.actor.seats
        state = state.replace(
            params=params,
            opt_state=opt_state,
            lanes=lanes,
            pool=seats.renew(seats.learn(state.pool, played.results), params, state.update + 1),
            update=state.update + 1,
            env_steps=state.env_steps.add(self.config.batch_size),
            games=state.games.add(played.games),
        )
        return state, (played, learnt, figures.explained_variance(variance))

    def collect(self, state: TrainState, key: jax.Array) -> tuple[Batch, Any, RolloutSums]:
        """Plays T steps and estimates advantages; inside the mesh.

        Returns:
          Decisions [T, L, ...] with L = lanes of this device x seats asked per step, the lanes afterwards and the sums
          over the games that ended.
        """
        actor = self.actor
        lanes, steps, played = rollout.rollout(
            actor,
            state.params,
            state.lanes,
            key,
            self._local_ids(self.config.train.num_envs),
            self.config.train.num_steps,
            temperature=state.hyper.temperature_at(state.update),
            pool=state.pool,
        )
        observation, mask, seat = jax.vmap(actor.seats_asked)(lanes.env_state)
        _, value = jax.vmap(actor.evaluate, in_axes=(None, 0, 0))(state.params, observation, mask)
        trajectory = rollout.trajectory_of(steps, seat, value, actor.env.num_players)
        per_seat, known = advantage.gae(trajectory, state.hyper.gamma, state.hyper.gae_lambda)
        estimate = rollout.of_decisions(per_seat, steps.seat)
        batch = Batch(
            observation=steps.observation,
            mask=steps.mask,
            action=steps.action,
            log_prob=steps.log_prob,
            value=steps.value,
            advantage=estimate,
            target=estimate + steps.value,
            weight=steps.weight * rollout.of_decisions(known, steps.seat),
        )
        flat = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), batch)
        return flat, lanes, played

    # ---- metrics ------------------------------------------------------------------------------------------------

    def _empty_sums(self) -> Any:
        return self.actor.empty_sums(), update.empty_sums(), jnp.float32(0.0)

    def _metrics(self, sums: Any, state: TrainState, count: int) -> Metrics:
        """TensorBoard tags -> f32[]."""
        played, learnt, explained = sums
        of_pool = self.actor.seats.metrics(state.pool, played.results)
        found = figures.of_play(played) | figures.of_learning(learnt, explained, state, self.config.ppo, count)
        return {name: jnp.asarray(value, jnp.float32) for name, value in (found | of_pool).items()}


def make_anakin(config: Config, env: Env) -> Anakin:
    """The training program of a configuration for `env`.

    Raises:
      UserError: more devices than there are.
    """
    devices = jax.local_devices()
    mesh = Mesh(np.array(devices[: device_count(config, len(devices))]), (AXIS,))
    network = make_network(config.network, env)
    seats = make_seats(config, env)
    return Anakin(config=config, actor=Actor(env, auto_reset(env), network, seats), mesh=mesh)
