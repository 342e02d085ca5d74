"""Rollouts of compiled games: plays T steps in every lane with the current policy and stores packed transitions.

Shape letters as in `jaxrl.algorithms.base`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Algorithm, Asked, Decision, Rollout, Transition, memory_of, remember
from jaxrl.league.pool import PoolState
from jaxrl.league.seats import LEARNER, Seats
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory
from jaxrl.training.anakin.packing import Packed, pack, pack_lane, unpack, unpack_lane
from jaxrl.training.episodes import EpisodeStats, finished, no_games, over_lanes
from jaxrl.training.state import Lanes, lane_keys
from jaxrl_envs.contract.env import Env, State, select
from jaxrl_envs.contract.wrappers import AutoReset, Final, auto_reset, privileged
from jaxrl_envs.shared import kernels


@dataclasses.dataclass(frozen=True)
class RolloutSetup:
    """The game, the algorithm and the assignment of seats."""

    env: Env
    auto: AutoReset
    algorithm: Algorithm
    seats: Seats
    frozen: Algorithm | None = None  # of the snapshots, if their network is another one; it has no memory
    over_lanes: Callable[[Callable], Callable] = jax.vmap  # how a function of one lane runs for all of them

    def at(self, progress: jax.Array) -> RolloutSetup:
        """The setup with the game at a training progress, f32[] (`Env.annealed`)."""
        env = self.env.annealed(progress)
        auto = auto_reset(env, settles=self.algorithm.hindsight)
        return self if env is self.env else dataclasses.replace(self, env=env, auto=auto)

    def asked(self, state: State) -> Asked:
        """The questions to the acting seats of one game, [S, ...]."""
        return self.spread(Asked(state.observation, state.legal_action_mask, state.current_player))

    def privileged(self, state: State) -> Any:
        """What is hidden from the acting seats, [S, ...]; None unless the algorithm reads it."""
        return self.spread(privileged(self.env, state)) if self.algorithm.privileged else None

    def spread(self, tree: Any) -> Any:
        """Arrays of a state with an axis S of acting seats, added in turn-based games."""
        return tree if self.env.simultaneous else jax.tree.map(lambda leaf: leaf[None], tree)

    def first_pool(self, params: Any) -> PoolState | None:
        """The pool before the first update of a learner with these parameters."""
        if self.frozen is not None:
            params = jax.eval_shape(self.frozen.network.init, jax.random.key(0))
        return self.seats.init(params)

    def no_games(self) -> EpisodeStats:
        """Sums over no finished games."""
        return no_games(self.seats, self.stat_names)

    @functools.cached_property
    def stat_names(self) -> tuple[str, ...]:
        """Names of the game's metrics."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        return tuple(jax.eval_shape(lambda key: self.env.episode_stats(self.env.init(key)), key))


Step = Callable[[Lanes, jax.Array], tuple[Lanes, Transition, EpisodeStats]]


class Opponents(NamedTuple):
    """The policies of a rollout, constant over its steps."""

    policy: Any  # the learner's
    pool: PoolState | None
    odds: Any  # [B, ...], of `Seats.odds`

    @property
    def snapshots(self) -> Any:
        """Parameters [K, ...]; None without any."""
        return self.pool.snapshots if self.pool is not None and self.pool.born.shape[0] else None


# ---- lanes --------------------------------------------------------------------------------------------------------


def new_lane(setup: RolloutSetup, key: jax.Array, odds: Any = None) -> Lanes:
    """A lane with a new game; `odds` are this lane's."""
    game_key, seat_key = jax.random.split(key)
    return Lanes(
        env_state=setup.auto.init(game_key),
        controllers=setup.seats.deal(seat_key, odds),
        memory=setup.algorithm.network.memory((setup.env.num_players,)),
        episode_return=jnp.zeros(setup.env.num_players, jnp.float32),
        episode_length=jnp.int32(0),
    )


def first_lanes(setup: RolloutSetup, key: jax.Array, pool: Any, count: int, stagger: int) -> Lanes:
    """The lanes before the first update: lane i of B has played ``i * stagger / B`` random decisions.

    Games that all begin together stay synchronised: each rollout then covers a single phase of the game, and the
    network forgets the others.

    Args:
      setup: game, algorithm and seats.
      key: a fast key.
      pool: of opponents, or None.
      count: B.
      stagger: decisions.
    """
    ids = jnp.arange(count, dtype=jnp.uint32)
    odds = setup.seats.odds(pool, ids)
    lanes = jax.vmap(functools.partial(new_lane, setup))(lane_keys(key, jnp.uint32(0), ids), odds)
    if not stagger:
        return lanes
    pause, key = ids * stagger // count, jax.random.fold_in(key, 1)  # u32[B]

    def play_on(lane: Lanes, key: jax.Array, odds: Any) -> Lanes:
        act_key, env_key, seat_key = jax.random.split(key, 3)
        state, final = setup.auto.step(lane.env_state, setup.env.random_action(lane.env_state, act_key), env_key)
        return _after_step(setup, lane, final, lane.memory, seat_key, odds)[0].replace(env_state=state)

    def step(lanes: Lanes, t: jax.Array) -> tuple[Lanes, None]:
        moved = setup.over_lanes(play_on)(lanes, lane_keys(key, t, ids), odds)
        return jax.vmap(select)(t < pause, moved, lanes), None

    return jax.lax.scan(step, lanes, jnp.arange(stagger, dtype=jnp.uint32))[0]


def _after_step(
    setup: RolloutSetup, lane: Lanes, final: Final, memory: Memory, key: jax.Array, odds: Any
) -> tuple[Lanes, EpisodeStats]:
    """One lane after a step, but for the game's own state: where its game ended everything starts from 0."""
    over = final.over
    returns, length = lane.episode_return + final.rewards, lane.episode_length + 1
    ended = finished(setup.seats, lane.controllers, returns, length, over, final.illegal_action, final.stats)
    controllers = lane.controllers
    if setup.seats.varied:
        controllers = jnp.where(over, setup.seats.deal(key, odds), controllers)
    lane = lane.replace(
        controllers=controllers,
        memory=memory,
        episode_return=jnp.where(over, 0.0, returns),
        episode_length=jnp.where(over, 0, length),
    )
    return lane, ended


# ---- a rollout ----------------------------------------------------------------------------------------------------


@jax.named_scope("rollout")
def collect(
    setup: RolloutSetup,
    policy: Any,
    pool: PoolState | None,
    lanes: Lanes,
    key: jax.Array,
    lane_ids: jax.Array,
    num_steps: int,
) -> tuple[Lanes, Rollout, EpisodeStats]:
    """Plays `num_steps` steps in every lane.

    Args:
      setup: game, algorithm and seats.
      policy: the learner's, see `Algorithm.policy`.
      pool: with a league; games against its stale entries are first dealt again.
      lanes: the games in progress, [B].
      key: a fast key (`jaxrl_envs.shared.prng`) of this update.
      lane_ids: u32[B], global numbers of these lanes.
      num_steps: T, a multiple of `Algorithm.sequence`.

    Returns:
      The lanes afterwards, the rollout and the sums over games that ended.
    """
    opponents = Opponents(policy, pool, setup.seats.odds(pool, lane_ids))
    sums = setup.no_games()
    if pool is not None and sums.results is not None:
        new_keys = lane_keys(key, jnp.uint32(num_steps), lane_ids)  # the steps use the numbers below
        lanes, redealt = _deal_anew(setup, lanes, pool.stale, new_keys, opponents.odds)
        sums = sums._replace(results=sums.results._replace(redealt=redealt))

    def step(lanes: Lanes, t: jax.Array) -> tuple[Lanes, Transition, EpisodeStats]:
        return _step(setup, opponents, lanes, lane_keys(key, t, lane_ids))

    play = functools.partial(_play_packed if kernels.on_gpu() else _play_steps, step)
    if setup.over_lanes is not jax.vmap:
        play = functools.partial(_play_in_kernel, setup, opponents, step, lambda t: lane_keys(key, t, lane_ids))

    def chunk(carry: tuple[Lanes, EpisodeStats], steps: jax.Array):
        carried = carry[0].memory
        carry, transitions = play(carry, steps)
        return carry, (transitions, carried)

    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    if setup.algorithm.network.remembers:
        (lanes, sums), (transitions, memory) = jax.lax.scan(
            chunk, (lanes, sums), steps.reshape(-1, setup.algorithm.sequence)
        )
        transitions = jax.tree.map(lambda leaf: leaf.reshape(num_steps, *leaf.shape[2:]), transitions)
    else:
        (lanes, sums), transitions = play((lanes, sums), steps)
        memory = ()
    last = jax.vmap(setup.asked)(lanes.env_state)
    last_privileged = jax.vmap(setup.privileged)(lanes.env_state)
    return lanes, Rollout(transitions, memory, last, lanes.memory, policy, last_privileged), sums


def _play_steps(
    step: Step, carry: tuple[Lanes, EpisodeStats], steps: jax.Array
) -> tuple[tuple[Lanes, EpisodeStats], Transition]:
    """Steps the lanes once for each number of `steps`, u32[T]."""

    def one(carry: tuple[Lanes, EpisodeStats], t: jax.Array) -> tuple[tuple[Lanes, EpisodeStats], Transition]:
        lanes, transition, ended = step(carry[0], t)
        return (lanes, jax.tree.map(jnp.add, carry[1], over_lanes(ended))), transition

    return jax.lax.scan(one, carry, steps)


def _play_packed(
    step: Step, carry: tuple[Lanes, EpisodeStats], steps: jax.Array
) -> tuple[tuple[Lanes, EpisodeStats], Transition]:
    """`_play_steps` with lanes and transitions as words; the games of a lane are summed before those of all lanes."""
    step = jax.jit(step, inline=True)  # traced once, for the shapes and for the loop
    shape, transition_shape, ended_shape = jax.eval_shape(step, carry[0], steps[0])
    lanes_shape = (shape, ended_shape)

    def one(packed: Packed, t: jax.Array) -> tuple[Packed, Packed]:
        lanes, sums = unpack(packed, lanes_shape)
        lanes, transition, ended = step(lanes, t)
        return pack((lanes, jax.tree.map(jnp.add, sums, ended))), pack(transition)

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), ended_shape)
    packed, rows = jax.lax.scan(one, pack((carry[0], nothing)), steps)
    lanes, ended = unpack(packed, lanes_shape)
    transitions = jax.vmap(lambda row: unpack(row, transition_shape))(rows)
    return (lanes, jax.tree.map(jnp.add, carry[1], over_lanes(ended))), transitions


def _play_in_kernel(
    setup: RolloutSetup,
    opponents: Opponents,
    step: Step,
    keys_at: Callable[[jax.Array], jax.Array],
    carry: tuple[Lanes, EpisodeStats],
    steps: jax.Array,
) -> tuple[tuple[Lanes, EpisodeStats], Transition]:
    """`_play_packed` with all of a step but the networks in one kernel, which reads and writes words."""
    (lanes, sums), odds = carry, opponents.odds
    _, transition_shape, ended_shape = jax.eval_shape(step, lanes, steps[0])
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), ended_shape)
    first = lanes.replace(memory=()), nothing

    def play(packed: Packed, decision: Decision, key: jax.Array, odds: Any) -> tuple[Packed, Packed]:
        lane, sums = unpack_lane(packed, first)
        asked, (_, bot_key, env_key, seat_key) = setup.asked(lane.env_state), jax.random.split(key, 4)
        controller = lane.controllers[asked.seat]
        lane, transition, ended = _play(setup, lane, asked, controller, decision, bot_key, env_key, seat_key, odds)
        return pack_lane((lane, jax.tree.map(jnp.add, sums, ended))), pack_lane(transition)

    def one(carry: tuple[Packed, Memory], t: jax.Array) -> tuple[tuple[Packed, Memory], Packed]:
        packed, memory, keys = *carry, keys_at(t)
        lanes: Lanes = unpack(packed, first)[0].replace(memory=memory)
        asked, _, decision = _decisions(
            setup, opponents, lanes, jax.vmap(lambda key: jax.random.split(key, 4)[0])(keys)
        )
        by_lane = packed._replace(words=packed.words.T)
        by_lane, row = setup.over_lanes(play)(by_lane, decision._replace(memory=()), keys, odds)
        row = row._replace(words=row.words.T)
        if setup.algorithm.network.remembers:
            over = unpack(row, transition_shape).over
            memory = jax.vmap(remember)(memory, asked.seat, decision.memory, over)
        return (by_lane._replace(words=by_lane.words.T), memory), row

    (packed, memory), rows = jax.lax.scan(one, (pack(first), lanes.memory), steps)
    lanes, ended = unpack(packed, first)
    transitions = jax.vmap(lambda row: unpack(row, transition_shape))(rows)
    return (lanes.replace(memory=memory), jax.tree.map(jnp.add, sums, over_lanes(ended))), transitions


def not_finite(steps: Transition) -> jax.Array:
    """f32[]: how many numbers that the game gave are infinite or none, of observations and rewards [T, B, ...]."""
    given = jax.tree.leaves((steps.observation, steps.final_observation, steps.rewards))
    floats = [leaf for leaf in given if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return sum((jnp.sum(~jnp.isfinite(leaf), dtype=jnp.float32) for leaf in floats), jnp.float32(0.0))


def _deal_anew(
    setup: RolloutSetup, lanes: Lanes, stale: jax.Array, keys: jax.Array, odds: Any
) -> tuple[Lanes, jax.Array]:
    """Replaces games against stale opponents (bool[1 + E]) by new ones. Returns lanes [B] and their number f32[]."""
    stop = stale[jnp.max(lanes.controllers, axis=1).astype(jnp.int32)]

    def deal(lanes: Lanes) -> Lanes:
        return jax.vmap(select)(stop, jax.vmap(functools.partial(new_lane, setup))(keys, odds), lanes)

    lanes = jax.lax.cond(jnp.any(stop), deal, lambda lanes: lanes, lanes)
    return lanes, jnp.sum(stop, dtype=jnp.float32)


def _step(
    setup: RolloutSetup, opponents: Opponents, lanes: Lanes, keys: jax.Array
) -> tuple[Lanes, Transition, EpisodeStats]:
    """Steps all lanes. Statistics of ended games are per lane, [B]."""
    act_key, bot_key, env_key, seat_key = jax.vmap(lambda key: jax.random.split(key, 4), out_axes=1)(keys)
    asked, controller, decision = _decisions(setup, opponents, lanes, act_key)
    memory, lanes, new = lanes.memory, lanes.replace(memory=()), decision.memory
    play = jax.jit(functools.partial(_play, setup), inline=True)  # traced for one lane, where every call is cheaper
    lanes, transition, ended = jax.vmap(play)(
        lanes, asked, controller, decision._replace(memory=()), bot_key, env_key, seat_key, opponents.odds
    )
    memory = jax.vmap(remember)(memory, asked.seat, new, transition.over)
    return lanes.replace(memory=memory), transition, ended


def _decisions(
    setup: RolloutSetup, opponents: Opponents, lanes: Lanes, keys: jax.Array
) -> tuple[Asked, jax.Array, Decision]:
    """What all lanes are asked, who holds the acting seats (i8[B, S]), and the decisions of the networks."""
    asked = jax.vmap(setup.asked)(lanes.env_state)
    controller = jnp.take_along_axis(lanes.controllers, asked.seat, axis=1)
    return (
        asked,
        controller,
        decide(setup, opponents.policy, opponents.snapshots, asked, controller, lanes.memory, keys),
    )


def decide(
    setup: RolloutSetup,
    policy: Any,
    snapshots: Any,
    asked: Asked,
    controller: jax.Array,
    memory: Memory,
    keys: jax.Array,
) -> Decision:
    """Decisions [B, S] of the networks that hold the acting seats; the learner's for seats held by bots.

    All snapshots together cost every lane one more pass whatever their number K is, because lane l can only meet the
    one in slot l mod K: parameters [K, ...] are vmapped over lanes [B / K, K].

    Args:
      setup: with the algorithm.
      policy: the learner's.
      snapshots: parameters [K, ...], or None.
      asked: [B, S, ...].
      controller: i8[B, S].
      memory: [B, P, ...].
      keys: [B], of this step.
    """
    held = jax.vmap(memory_of)(memory, asked.seat)
    each = keys[:, None]
    if asked.seat.shape[1] > 1:
        each = jax.vmap(lambda key: jax.random.split(key, asked.seat.shape[1]))(keys)
    act = jax.vmap(jax.vmap(setup.algorithm.act, in_axes=(None, 0, 0, 0)), in_axes=(None, 0, 0, 0))  # lanes, seats
    own: Decision = act(policy, asked, held, each)
    if snapshots is None:
        return own
    slots = jax.tree.leaves(snapshots)[0].shape[0]
    if setup.frozen is not None:
        act, held = jax.vmap(jax.vmap(setup.frozen.act, in_axes=(None, 0, 0, 0)), in_axes=(None, 0, 0, 0)), ()
    by_slot = jax.tree.map(lambda leaf: leaf.reshape(-1, slots, *leaf.shape[1:]), (asked, held, each))

    def frozen(params: Any, *question: Any) -> Decision:
        return act(policy.replace(params=params), *question)

    of_slot = jax.vmap(frozen, in_axes=(0, 1, 1, 1), out_axes=1)
    theirs = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), of_slot(snapshots, *by_slot))
    foreign = controller > len(setup.seats.bots)

    def choose(mine: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(foreign.reshape(*foreign.shape, *[1] * (mine.ndim - 2)), other, mine)

    action = choose(own.action, theirs.action)
    if setup.frozen is not None:  # the memory of its seats is not used
        return own._replace(action=action)
    return own._replace(action=action, memory=jax.tree.map(choose, own.memory, theirs.memory))


def _play(
    setup: RolloutSetup,
    lane: Lanes,
    asked: Asked,
    controller: jax.Array,
    decision: Decision,
    bot_key: jax.Array,
    env_key: jax.Array,
    seat_key: jax.Array,
    odds: Any,
) -> tuple[Lanes, Transition, EpisodeStats]:
    """Steps one lane with the decisions of the networks, but for the lane's memory."""
    state = lane.env_state
    action = setup.seats.override(state, controller, decision.action, bot_key)
    next_state, final = setup.auto.step(state, action if setup.env.simultaneous else action[0], env_key)
    final_seat = jnp.reshape(final.current_player, asked.seat.shape)
    final_observation = final_privileged = None
    if setup.env.may_truncate:
        final_observation = setup.spread(final.observation)
        final_privileged = setup.spread(final.privileged) if setup.algorithm.privileged else None
    transition = Transition(
        observation=asked.observation,
        mask=distributions.pack_mask(asked.mask),
        action=action,
        log_prob=decision.log_prob,
        value=decision.value,
        seat=asked.seat,
        weight=(controller == LEARNER).astype(jnp.float32),
        rewards=final.rewards,
        terminated=final.terminated,
        truncated=final.truncated,
        final_observation=final_observation,
        final_seat=final_seat,
        final_weight=(lane.controllers[final_seat] == LEARNER).astype(jnp.float32),
        privileged=setup.privileged(state),
        final_privileged=final_privileged,
        came_true=final.came_true,
    )
    lane, ended = _after_step(setup, lane, final, lane.memory, seat_key, odds)
    return lane.replace(env_state=next_state), transition, ended
