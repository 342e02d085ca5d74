"""The Anakin loop (Hessel et al. 2021, https://arxiv.org/abs/2104.06272): acting and learning in one
compiled program.

One call runs K updates by `lax.scan`, donating the whole training state. Lanes are sharded over a mesh axis; the
learner is replicated. Several seeds, also of several settings (`run.vary`), are vmapped: each leaf of the state then
has a leading axis [S].
"""

from __future__ import annotations

import dataclasses
import functools
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl import xla
from jaxrl.algorithms.base import AXIS, Transition, across_devices, local_numbers
from jaxrl.config import Config
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl.training.anakin.gpu_rollout import form_of
from jaxrl.training.anakin.lanes import RolloutSetup, first_lanes
from jaxrl.training.anakin.packing import pack, unpack
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.episodes import EpisodeStats
from jaxrl.training.program import NO_ACTION, NOT_FINITE, Program
from jaxrl.training.state import Counter, Lanes, TrainState, first_keys, update_keys
from jaxrl_envs.shared import kernels, prng


class Anakin(Program):
    """A training program for one configuration and one compiled game; see `training.make.make_program`."""

    def __init__(self, config: Config, setup: RolloutSetup, mesh: Mesh):
        """Compiles at the first calls.

        Attributes:
          compiled: (TrainState) -> TrainState, Metrics: K updates; the argument is donated.
        """
        self.config, self.setup, self.mesh = config, setup, mesh
        self._several = config.run.seeds > 1
        # A CPU gains nothing by vmap: in turns each training is bit by bit as alone, and takes no more working memory.
        on_cpu = mesh.devices.flat[0].platform == "cpu"
        self._mapped = bool(config.run.vary) and on_cpu
        places = self._shardings
        self._init = jax.jit(self._each(self._init_one), out_shardings=places.replace(lanes=None))
        self._init_lanes = jax.jit(self._each(self._lanes_of), out_shardings=places.lanes)
        self._compiled_lanes: jax.stages.Compiled | None = None
        self._compiling: Future[jax.stages.Compiled] | None = None
        # Sums over devices are written out (`across_devices`), so the replication check has nothing to add.
        run = jax.shard_map(
            self._run_seeds, mesh=mesh, in_specs=(self._specs,), out_specs=(self._specs, Spec()), check_vma=False
        )
        self.compiled = jax.jit(run, donate_argnums=0)

    # ---- the protocol -------------------------------------------------------------------------------------------

    def init(self, seed: int) -> TrainState:
        """Returns the state before the first update; with several seeds those of seed, seed + 1, ..., for each of the
        settings of `run.vary`."""
        run = self.config.run
        seeds = np.uint32(seed) + np.arange(run.seeds, dtype=np.uint32) % np.uint32(run.seeds // run.contenders)
        given = seeds if self._several else seeds[0]
        state = self._init(given)
        state = self.with_hyper(state) if run.vary else state
        if self._compiled_lanes is None:  # the whole step of the game for a few steps of it: compiled fast, not well
            self._compiled_lanes = xla.compile_quickly(self._init_lanes.lower(given, state.pool, state.weights))
        return state.replace(lanes=self._compiled_lanes(given, state.pool, state.weights))

    def advance(self, state: TrainState) -> tuple[TrainState, Metrics, int]:
        """Makes `train.updates_per_call` updates; the state is donated."""
        state, found = self.compiled(state)
        return state, found, self.config.train.updates_per_call

    def begin_compiling(self) -> None:
        forms = self.abstract_state
        self._compiling = ThreadPoolExecutor(1).submit(lambda: self.compiled.lower(forms).compile())

    def working_bytes(self, state: TrainState) -> int:
        """See `Program.working_bytes`; the next `advance` finds the program compiled."""
        compiled = self._compiling.result() if self._compiling else self.compiled.lower(state).compile()
        found = compiled.memory_analysis()
        if found is None:
            return 0
        here = found.temp_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
        return here * (len(self.mesh.local_devices) if jax.default_backend() == "cpu" else 1)

    @property
    def abstract_state(self) -> TrainState:
        state = self.forms
        return jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            state,
            jax.tree.broadcast(self._shardings, state),
        )

    @property
    def forms(self) -> TrainState:
        """Shapes and dtypes of what `init` returns; nothing is compiled."""
        seeds = self.config.run.seeds
        return jax.eval_shape(self._traced, jax.ShapeDtypeStruct((seeds,) if seeds > 1 else (), jnp.uint32))

    # ---- shapes -------------------------------------------------------------------------------------------------

    def _each(self, function: Any) -> Any:
        """Returns a function of one seed, or vmapped over several."""
        if self._mapped:  # barriers keep XLA from fusing a training with the loop around it, and so rounding otherwise
            barrier = jax.lax.optimization_barrier
            return lambda *of_all: jax.lax.map(lambda of_one: barrier(function(*barrier(of_one))), of_all)
        return jax.vmap(function) if self._several else function

    @functools.cached_property
    def _specs(self) -> TrainState:
        """Partition specs of the parts: lanes are sharded over the devices, everything else is replicated."""
        parts: dict[str, Any] = {field.name: Spec() for field in dataclasses.fields(TrainState)}
        return TrainState(**parts | {"lanes": Spec(None, AXIS) if self._several else Spec(AXIS)})

    @functools.cached_property
    def _shardings(self) -> TrainState:
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), self._specs)

    # ---- the programs -------------------------------------------------------------------------------------------

    def _traced(self, seed: jax.Array) -> TrainState:
        """Returns the state that `init` returns, from the same traces."""
        state = self._init(seed)
        return state.replace(lanes=self._init_lanes(seed, state.pool, state.weights))

    def _init_one(self, seed: jax.Array) -> TrainState:
        """Returns the state of one seed (u32[]) without its lanes."""
        param_key, _, key = first_keys(seed)
        learner = self.algorithm.init(param_key)
        pool = self.setup.seats.init(learner.params)
        zero, weights = Counter.zero, jax.tree.map(jnp.float32, self.weights(0))
        state = TrainState(learner, lanes=None, key=key, update=jnp.int32(0), env_steps=zero(), games=zero(), pool=pool)
        return state.replace(weights=weights)

    def _lanes_of(self, seed: jax.Array, pool: Any, weights: Any) -> Lanes:
        """Returns the first lanes of one seed."""
        train, key = self.config.train, prng.from_key(first_keys(seed)[1])
        return first_lanes(self.setup.at(None, weights), key, pool, train.num_envs, train.stagger)

    def _run_seeds(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Makes K updates of all seeds on one device's shard of the lanes."""
        return self._each(self._run_one)(state)

    def _run_one(self, state: TrainState) -> tuple[TrainState, Metrics]:
        update = jax.jit(self._update, inline=True)  # traced once, for the forms of its metrics and for the loop

        form = jax.eval_shape(lambda: state.lanes)  # on a GPU lanes are carried as words from update to update

        def folded(state: TrainState) -> TrainState:
            return state.replace(lanes=pack(state.lanes)) if kernels.on_gpu() else state

        def unfolded(state: TrainState) -> TrainState:
            return state.replace(lanes=unpack(state.lanes, form)) if kernels.on_gpu() else state

        def step(carry: Any, _: None) -> tuple[Any, None]:
            state, played, found = carry
            state, now, new = update(unfolded(state))
            return (folded(state), jax.tree.map(jnp.add, played, now), metrics.join(found, new)), None

        empty = metrics.nothing(jax.eval_shape(update, state)[2])
        first = (folded(state), self.setup.no_games(), empty)
        (state, played, found), _ = jax.lax.scan(step, first, None, length=self.config.train.updates_per_call)
        state = unfolded(state)
        return state, played.metrics() | found | self.setup.seats.metrics(state.pool, played.results)

    def _update(self, state: TrainState) -> tuple[TrainState, EpisodeStats, Metrics]:
        """Returns one update: collects a rollout, learns from it and updates the opponent pool."""
        play_key, learn_key = update_keys(state.key, state.update)
        policy = self.algorithm.policy(state.learner, state.update)
        ids, seats = local_numbers(self.config.train.num_envs), self.setup.seats
        setup = self.setup.at(self.algorithm.progress(state.learner, state.update), state.weights)
        lanes, rollout, played = collect(
            setup, policy, state.pool, state.lanes, play_key, ids, self.config.train.num_steps, form_of(setup)
        )
        learner, found = self.algorithm.learn(state.learner, rollout, learn_key, state.update)
        played, faults = across_devices((played, _game_faults(rollout.steps)))
        state = state.replace(
            learner=learner,
            lanes=lanes,
            pool=seats.renew(seats.learn(state.pool, played.results), learner.params, state.update + 1),
            update=state.update + 1,
            env_steps=state.env_steps.add(self.config.batch_size),
            games=state.games.add(played.games),
        )
        return state, played, found | {tag: metrics.total(amount) for tag, amount in faults.items()}


def _game_faults(steps: Transition) -> dict[str, jax.Array]:
    """Counts what breaks the contract of a game in steps [T, B, ...], f32[] by metric: numbers in observations and
    rewards that are not finite, and questions without a legal action."""
    given = jax.tree.leaves((steps.observation, steps.final_observation, steps.rewards))
    floats = [leaf for leaf in given if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return {
        NOT_FINITE: sum((jnp.sum(~jnp.isfinite(leaf), dtype=jnp.float32) for leaf in floats), jnp.float32(0.0)),
        NO_ACTION: jnp.sum(kernels.most(steps.mask) == 0, dtype=jnp.float32),
    }
