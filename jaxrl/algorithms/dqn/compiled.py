"""DQN for compiled games: playing, replay memory and learning as one compiled program, as in Anakin.

One update is a round: every lane plays `train.num_steps` steps, its decisions go into the memory, and `dqn.updates`
optimizer steps follow. All of it runs on one device; several seeds run side by side by `vmap`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs import prng
from envs.core import Env
from envs.wrappers import Final, auto_reset
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.dqn import device_replay
from jaxrl.algorithms.dqn.device_replay import Decisions, Memory, RecordFormat
from jaxrl.algorithms.dqn.learner import LearnShape, LearnSums, exploring, learn, learn_metrics, no_sums
from jaxrl.algorithms.dqn.state import STORAGE, DQNState, make_dqn_hyper
from jaxrl.algorithms.ppo import figures
from jaxrl.algorithms.ppo.state import Counter, Lanes
from jaxrl.config.schema import Config
from jaxrl.league.pool import make_seats
from jaxrl.league.seats import LEARNER
from jaxrl.networks import distributions
from jaxrl.networks.factory import network_of
from jaxrl.training import rollout
from jaxrl.training.program import Program, placed_like
from jaxrl.training.rollout import Actor, RolloutSums


class Round(NamedTuple):
    """Sums over updates."""

    played: RolloutSums
    learnt: LearnSums


class CompiledDQN(Program):
    """A training program for one configuration and one compiled game.

    Attributes:
      config: what to train.
      actor: the game, the network and who holds the seats.
    """

    def __init__(self, config: Config, env: Env):
        """Compiles nothing yet.

        Raises:
          UserError: bots that the game does not have.
        """
        self.config = config
        seats = make_seats(config, env)
        self.actor = Actor(env, auto_reset(env), network_of(config, env), seats)
        self._form = RecordFormat(env.observation_spec, env.num_actions, STORAGE)
        self._sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        self._init = jax.jit(self._init_seeds, out_shardings=self._sharding)
        self._run = jax.jit(self._run_seeds, donate_argnums=(0, 1), out_shardings=self._sharding)
        self._memory: Memory | None = None  # kept here if checkpoints are to be without it

    # ---- the protocol -------------------------------------------------------------------------------------------

    def init(self, seed: int) -> DQNState:
        """The state before the first update; with several seeds those of seed, seed + 1, ..."""
        seeds = np.uint32(seed) + np.arange(self.config.run.seeds, dtype=np.uint32)
        self._memory = None
        return self._init(seeds if self.config.run.seeds > 1 else seeds[0])

    def run(self, state: DQNState) -> tuple[DQNState, dict[str, Any]]:
        """`train.updates_per_call` updates; the state is donated."""
        if self.config.dqn.save_replay:
            return self._run(state.replace(memory=None), state.memory)
        memory = self._memory if self._memory is not None else self._empty_memory()
        state, values = self._run(state, memory)
        self._memory = state.memory
        return state.replace(memory=None), values

    @property
    def abstract_state(self) -> DQNState:
        """Shapes, dtypes and shardings of the state without computing it."""
        seeds = jax.ShapeDtypeStruct((self.config.run.seeds,) if self.config.run.seeds > 1 else (), jnp.uint32)
        shapes = jax.eval_shape(self._init_seeds, seeds)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._sharding), shapes)

    @property
    def shardings(self) -> DQNState:
        """Everything lives on one device."""
        return jax.tree.map(lambda _: self._sharding, self.abstract_state)

    def fresh_hyper(self, template: Any) -> Any:
        """The traced hyper-parameters of the configuration."""
        return placed_like(make_dqn_hyper(self.config.dqn, self.config.num_updates), template.hyper)

    # ---- the programs -------------------------------------------------------------------------------------------

    def _init_seeds(self, seeds: jax.Array) -> DQNState:
        return jax.vmap(self._init_one)(seeds) if self.config.run.seeds > 1 else self._init_one(seeds)

    def _init_one(self, seed: jax.Array) -> DQNState:
        """The state of one seed (u32[])."""
        param_key, lane_key, key = jax.random.split(jax.random.key(seed), 3)
        keys = rollout.lane_keys(prng.from_key(lane_key), jnp.uint32(0), self._lane_ids)
        params = self.actor.network.init(param_key)
        pool = self.actor.seats.init(params)
        odds = self.actor.seats.odds(pool, self._lane_ids)
        return DQNState(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            opt_state=optimizer.init(params),
            optimizer_steps=jnp.int32(0),
            lanes=jax.vmap(functools.partial(rollout.new_lane, self.actor))(keys, odds),
            memory=self._empty() if self.config.dqn.save_replay else None,
            key=key,
            hyper=make_dqn_hyper(self.config.dqn, self.config.num_updates),
            update=jnp.int32(0),
            env_steps=Counter.zero(),
            games=Counter.zero(),
            pool=pool,
        )

    def _empty(self) -> Memory:
        dqn = self.config.dqn
        return device_replay.empty(self._form, dqn.capacity, self.config.train.num_envs, self.actor.env.num_players)

    def _empty_memory(self) -> Memory:
        """An empty memory for every seed."""
        memory, seeds = self._empty(), self.config.run.seeds
        if seeds > 1:
            memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (seeds, *leaf.shape)), memory)
        return jax.device_put(memory, self._sharding)

    @property
    def _lane_ids(self) -> jax.Array:
        return jnp.arange(self.config.train.num_envs, dtype=jnp.uint32)

    def _run_seeds(self, state: DQNState, memory: Memory) -> tuple[DQNState, dict[str, jax.Array]]:
        return jax.vmap(self._run_one)(state, memory) if self.config.run.seeds > 1 else self._run_one(state, memory)

    def _run_one(self, state: DQNState, memory: Memory) -> tuple[DQNState, dict[str, jax.Array]]:
        def step(carry: tuple[DQNState, Round], _: None) -> tuple[tuple[DQNState, Round], None]:
            state, sums = carry
            state, now = self._update(state)
            return (state, jax.tree.map(jnp.add, sums, now)), None

        count = self.config.train.updates_per_call
        first = (state.replace(memory=memory), Round(self.actor.empty_sums(), no_sums()))
        (state, sums), _ = jax.lax.scan(step, first, None, length=count)
        return state, self._metrics(sums, state, count)

    def _update(self, state: DQNState) -> tuple[DQNState, Round]:
        """One round: play, remember, learn."""
        play_key, learn_key = jax.random.split(prng.from_key(jax.random.fold_in(state.key, state.update)))
        state, played = self._play(state, play_key)
        # With several seeds both sides are computed and selected: learning is then never skipped, only not kept.
        state, learnt = jax.lax.cond(
            self._ready(state.memory), self._learn, lambda state, _: (state, no_sums()), state, learn_key
        )
        seats = self.actor.seats
        state = state.replace(
            pool=seats.renew(seats.learn(state.pool, played.results), state.params, state.update + 1),
            update=state.update + 1,
            env_steps=state.env_steps.add(self.config.batch_size),
            games=state.games.add(played.games),
        )
        return state, Round(played, learnt)

    def _ready(self, memory: Memory) -> jax.Array:
        """bool[]: enough has been seen, and there is something to draw."""
        return (memory.written >= self.config.dqn.learning_starts) & jnp.any(memory.priority > 0.0)

    # ---- playing ------------------------------------------------------------------------------------------------

    def epsilon(self, state: DQNState) -> jax.Array:
        """f32[]: the share of random actions in the next round; 1 until there is something to learn from."""
        return jnp.where(self._ready(state.memory), state.hyper.epsilon_at(state.update), 1.0)

    def _play(self, state: DQNState, key: jax.Array) -> tuple[DQNState, RolloutSums]:
        """T steps of every lane, into the memory."""
        actor, epsilon = self.actor, self.epsilon(state)
        odds = actor.seats.odds(state.pool, self._lane_ids)
        play = functools.partial(self._play_lane, state.params, epsilon)

        def step(carry: tuple[Lanes, RolloutSums], t: jax.Array) -> tuple[tuple[Lanes, RolloutSums], Decisions]:
            lanes, sums = carry
            keys = rollout.lane_keys(key, t, self._lane_ids)
            lanes, decisions, ended = jax.vmap(play)(lanes, keys, odds)
            ended = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), ended)
            return (lanes, jax.tree.map(jnp.add, sums, ended)), decisions

        steps = jnp.arange(self.config.train.num_steps, dtype=jnp.uint32)
        (lanes, sums), decisions = jax.lax.scan(step, (state.lanes, actor.empty_sums()), steps)
        memory = device_replay.append(state.memory, decisions, self._form)
        return state.replace(lanes=lanes, memory=memory), sums

    def _play_lane(
        self, params: Any, epsilon: jax.Array, lane: Lanes, key: jax.Array, odds: Any
    ) -> tuple[Lanes, Decisions, RolloutSums]:
        """One step of one lane."""
        actor = self.actor
        noise_key, act_key, bot_key, env_key, seat_key = jax.random.split(key, 5)
        game = lane.env_state
        observation, mask, seat = actor.seats_asked(game)
        controller = lane.controllers[seat]  # i8[S]
        logits = self._values(params, observation, mask, noise_key)
        action = exploring(logits, mask, epsilon, jax.random.uniform(act_key, (*seat.shape, 2)))
        action = actor.seats.override(game, controller, action, bot_key)
        after, final = actor.auto.step(game, action if actor.env.simultaneous else action[0], env_key)
        last_observation, last_seat = self._final(final)
        decisions = Decisions(
            observation=observation,
            mask=distributions.pack_mask(mask),
            action=action,
            seat=seat,
            own=controller == LEARNER,
            rewards=final.rewards,
            terminated=final.terminated,
            truncated=final.truncated,
            final_observation=last_observation,
            final_seat=last_seat,
            final_own=lane.controllers[last_seat] == LEARNER,
        )
        lane, ended = rollout.account(actor, lane, final, seat_key, odds)
        return lane.replace(env_state=after), decisions, ended

    def _values(self, params: Any, observation: Any, mask: jax.Array, key: jax.Array) -> jax.Array:
        """Masked action values f32[S, A] of the seats asked, with noise if the network has any."""
        if not self.actor.network.noisy:
            return self.actor.evaluate(params, observation, mask)[0]
        keys = jax.random.split(key, mask.shape[0])
        return jax.vmap(self.actor.network.evaluate, in_axes=(None, 0, 0, 0))(params, observation, mask, keys)[0]

    def _final(self, final: Final) -> tuple[Any, jax.Array]:
        """The final observation [S, ...] (None if games are never truncated) and the seats i32[S] asked in it."""
        seat = jnp.atleast_1d(final.current_player)
        if not self.actor.env.may_truncate:
            return None, seat
        if self.actor.env.simultaneous:
            return final.observation, seat
        return jax.tree.map(lambda leaf: leaf[None], final.observation), seat

    # ---- learning -----------------------------------------------------------------------------------------------

    def _learn(self, state: DQNState, key: jax.Array) -> tuple[DQNState, LearnSums]:
        """K optimizer steps."""
        dqn, network, hyper = self.config.dqn, self.actor.network, state.hyper
        shape = LearnShape(dqn.target_every)

        def step(carry: Any, k: jax.Array) -> tuple[Any, None]:
            learner, memory, sums = carry
            draw_key, noise_key = jax.random.split(jax.random.fold_in(key, k))
            record, batch = device_replay.sample(memory, draw_key, dqn.batch, hyper.gamma, dqn.n_step, self._form)
            learner, priority, now = learn(network, shape, learner, batch, hyper, state.update, noise_key)
            memory = device_replay.reprioritise(memory, record, priority)
            return (learner, memory, jax.tree.map(jnp.add, sums, now)), None

        first = (state.learner, state.memory, no_sums())
        (learner, memory, sums), _ = jax.lax.scan(step, first, jnp.arange(dqn.updates, dtype=jnp.uint32))
        return state.with_learner(learner).replace(memory=memory), sums

    # ---- metrics ------------------------------------------------------------------------------------------------

    def _metrics(self, sums: Round, state: DQNState, count: int) -> dict[str, jax.Array]:
        """TensorBoard tags -> f32[]; means over games are NaN if no game ended."""
        dqn = self.config.dqn
        metrics = figures.of_play(sums.played) | learn_metrics(sums.learnt, state.hyper, state.update - 1)
        metrics |= {
            "train/epsilon": self.epsilon(state.replace(update=state.update - 1)),
            "train/update_ratio": sums.learnt.steps * dqn.batch / (count * self.config.batch_size),
            "train/replay": jnp.sum(state.memory.priority > 0.0),
        }
        metrics |= self.actor.seats.metrics(state.pool, sums.played.results)
        return {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()}
