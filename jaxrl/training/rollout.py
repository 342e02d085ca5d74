"""Playing: every lane takes T steps with the current policy, and what happened is stored packed.

Shape letters: T steps, B lanes, P seats, S decisions per step (1 in a turn-based game, P in a simultaneous one),
W mask words.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envs.core import Env, State, select
from envs.wrappers import AutoReset, Final
from jaxrl.algorithms.advantage import Steps, Trajectory
from jaxrl.algorithms.ppo.state import Lanes
from jaxrl.league.pool import PoolState, Results
from jaxrl.league.seats import LEARNER, Seats
from jaxrl.networks import distributions
from jaxrl.networks.factory import Network


class Transition(NamedTuple):
    """One step of one lane; a rollout adds the leading axes [T, B]."""

    observation: Any  # [S, ...], packed, of the seats asked
    mask: jax.Array  # u32[S, W]
    action: jax.Array  # i32[S]
    log_prob: jax.Array  # f32[S], of the tempered distribution that the action was drawn from
    value: jax.Array  # f32[S]
    seat: jax.Array  # i32[S]
    weight: jax.Array  # f32[S], 1 = the learner's decision, 0 = an opponent's
    rewards: jax.Array  # f32[P]
    terminated: jax.Array  # bool[]
    truncated: jax.Array  # bool[]
    final_seat: jax.Array  # i32[S], asked in the final observation
    final_value: jax.Array  # f32[S], 0 unless the game was truncated


class RolloutSums(NamedTuple):
    """Figures of the games that ended, summed over lanes, steps and updates: stacking them would fill the memory
    (purejaxrl 38)."""

    games: jax.Array  # i32[]
    illegal: jax.Array  # i32[], games ended by an illegal action
    length: jax.Array  # f32[], decisions
    seats: jax.Array  # f32[], seats of the learner
    returns: jax.Array  # f32[], of those seats
    stats: dict[str, jax.Array]  # f32[], env.episode_stats of those seats
    results: Results | None = None  # by opponent, with a league


@dataclasses.dataclass(frozen=True)
class Actor:
    """What acts: the game, the network and who holds the seats."""

    env: Env
    auto: AutoReset
    network: Network
    seats: Seats

    def seats_asked(self, state: State) -> tuple[Any, jax.Array, jax.Array]:
        """Observation [S, ...], mask bool[S, A] and seat i32[S] of one game."""
        asked = (state.observation, state.legal_action_mask, state.current_player)
        return asked if self.env.simultaneous else jax.tree.map(lambda leaf: leaf[None], asked)

    def evaluate(self, params: Any, observation: Any, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The network for the seats asked in one game: logits f32[S, A], values f32[S]."""
        return jax.vmap(self.network.evaluate, in_axes=(None, 0, 0))(params, observation, mask)

    def values(self, params: Any, observation: Any) -> jax.Array:
        """f32[S]; a value does not depend on the mask."""
        sample = jax.tree.leaves(observation)[0]
        return self.evaluate(params, observation, jnp.ones((sample.shape[0], self.env.num_actions), bool))[1]

    def empty_sums(self) -> RolloutSums:
        """Sums over nothing."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        names = jax.eval_shape(lambda key: self.env.episode_stats(self.env.init(key)), key)
        zero = jnp.float32(0.0)
        stats = {name: zero for name in names}
        return RolloutSums(jnp.int32(0), jnp.int32(0), zero, zero, zero, stats, self.seats.no_results())


class Acting(NamedTuple):
    """Who acts with what: the same in all steps of a rollout."""

    params: Any  # the learner's
    temperature: jax.Array | float  # f32[], of every network
    pool: PoolState | None
    odds: Any  # [B, ...], of `Seats.odds`


def new_lane(actor: Actor, key: jax.Array, odds: Any = None) -> Lanes:
    """One lane with a fresh game; `odds` are this lane's."""
    deal_key, seat_key = jax.random.split(key)
    return Lanes(
        env_state=actor.auto.init(deal_key),
        controllers=actor.seats.deal(seat_key, odds),
        episode_return=jnp.zeros(actor.env.num_players, jnp.float32),
        episode_length=jnp.int32(0),
    )


def stagger(actor: Actor, lanes: Lanes, key: jax.Array, lane_ids: jax.Array, num_steps: int, odds: Any = None) -> Lanes:
    """Plays lane i of B on by ``i * num_steps / B`` random decisions.

    Games that all begin together stay in step: each rollout then shows one phase of the game only, and the network
    forgets the others.
    """
    pause = lane_ids * num_steps // lane_ids.shape[0]  # u32[B]

    def play_on(lane: Lanes, key: jax.Array, odds: Any) -> Lanes:
        act_key, env_key, seat_key = jax.random.split(key, 3)
        state, final = actor.auto.step(lane.env_state, actor.env.random_action(lane.env_state, act_key), env_key)
        return account(actor, lane, final, seat_key, odds)[0].replace(env_state=state)

    def step(lanes: Lanes, t: jax.Array) -> tuple[Lanes, None]:
        moved = jax.vmap(play_on)(lanes, lane_keys(key, t, lane_ids), odds)
        return jax.vmap(select)(t < pause, moved, lanes), None

    return jax.lax.scan(step, lanes, jnp.arange(num_steps, dtype=jnp.uint32))[0]


def lane_keys(key: jax.Array, step: jax.Array, lane_ids: jax.Array) -> jax.Array:
    """Keys [B] by *global* lane number: what a lane draws does not depend on how lanes are spread over devices."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, step), lane_ids)


def rollout(
    actor: Actor,
    params: Any,
    lanes: Lanes,
    key: jax.Array,
    lane_ids: jax.Array,
    num_steps: int,
    *,
    temperature: jax.Array | float = 1.0,
    pool: PoolState | None = None,
) -> tuple[Lanes, Transition, RolloutSums]:
    """Plays `num_steps` steps in every lane.

    Args:
      actor: the game, network and seat holders.
      params: of the network.
      lanes: the games in progress, [B].
      key: a fast key (`envs.prng`) of this update.
      lane_ids: u32[B], global numbers of these lanes.
      num_steps: T.
      temperature: f32[], of the distribution that actions are drawn from, the learner's and the snapshots'.
      pool: with a league; games against its stale entries are first dealt anew.

    Returns:
      The lanes afterwards, transitions [T, B, ...] and the sums over games that ended.
    """
    acting = Acting(params, temperature, pool, actor.seats.odds(pool, lane_ids))
    sums = actor.empty_sums()
    if pool is not None and sums.results is not None:
        new_keys = lane_keys(key, jnp.uint32(num_steps), lane_ids)  # the steps use the numbers below
        lanes, redealt = _deal_anew(actor, lanes, pool.stale, new_keys, acting.odds)
        sums = sums._replace(results=sums.results._replace(redealt=redealt))

    def step(carry: tuple[Lanes, RolloutSums], t: jax.Array):
        lanes, sums = carry
        lanes, transition, ended = _step(actor, acting, lanes, lane_keys(key, t, lane_ids))
        return (lanes, jax.tree.map(jnp.add, sums, ended)), transition

    (lanes, sums), transitions = jax.lax.scan(step, (lanes, sums), jnp.arange(num_steps, dtype=jnp.uint32))
    return lanes, transitions, sums


def _deal_anew(actor: Actor, lanes: Lanes, stale: jax.Array, keys: jax.Array, odds: Any) -> tuple[Lanes, jax.Array]:
    """The lanes [B] with new games in place of those against a stale opponent (bool[1 + E]), and f32[], how many."""
    stop = stale[jnp.max(lanes.controllers, axis=1).astype(jnp.int32)]

    def deal(lanes: Lanes) -> Lanes:
        return jax.vmap(select)(stop, jax.vmap(functools.partial(new_lane, actor))(keys, odds), lanes)

    lanes = jax.lax.cond(jnp.any(stop), deal, lambda lanes: lanes, lanes)
    return lanes, jnp.sum(stop, dtype=jnp.float32)


def _step(actor: Actor, acting: Acting, lanes: Lanes, keys: jax.Array) -> tuple[Lanes, Transition, RolloutSums]:
    """One step of all lanes."""
    play = functools.partial(_play, actor, acting.params, acting.temperature)
    lanes, transition, final, ended = jax.vmap(play)(lanes, keys, acting.odds, _snapshot_logits(actor, acting, lanes))
    if actor.env.may_truncate:
        transition = transition._replace(final_value=_final_values(actor, acting.params, final))
    return lanes, transition, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), ended)


def _snapshot_logits(actor: Actor, acting: Acting, lanes: Lanes) -> jax.Array | None:
    """f32[B, S, A]: logits of the snapshot that each lane can meet; None without snapshots."""
    if acting.pool is None or not acting.pool.born.shape[0]:
        return None
    observation, mask, _ = jax.vmap(actor.seats_asked)(lanes.env_state)
    return snapshot_logits(actor, acting.pool.snapshots, acting.temperature, observation, mask)


def snapshot_logits(
    actor: Actor, snapshots: Any, temperature: jax.Array | float, observation: Any, mask: jax.Array
) -> jax.Array:
    """f32[B, S, A]: logits of the snapshot that each lane can meet, slot l mod K for lane l.

    One pass per lane whatever K is: parameters [K, ...] are vmapped over lanes [B / K, K].

    Args:
      actor: with the network.
      snapshots: parameters [K, ...].
      temperature: f32[], of their policies.
      observation, mask: [B, S, ...], of the seats asked.
    """
    slots = jax.tree.leaves(snapshots)[0].shape[0]
    asked = jax.tree.map(lambda leaf: leaf.reshape(-1, slots, *leaf.shape[1:]), (observation, mask))
    of_slot = jax.vmap(actor.evaluate, in_axes=(None, 0, 0))  # over lanes
    logits, _ = jax.vmap(of_slot, in_axes=(0, 1, 1), out_axes=1)(snapshots, *asked)
    return distributions.temper(logits.reshape(-1, *logits.shape[2:]), temperature)


def _play(
    actor: Actor,
    params: Any,
    temperature: jax.Array | float,
    lane: Lanes,
    key: jax.Array,
    odds: Any,
    snapshot_logits: jax.Array | None,
):
    """One step of one lane."""
    act_key, bot_key, env_key, seat_key = jax.random.split(key, 4)
    state = lane.env_state
    observation, mask, seat = actor.seats_asked(state)
    controller = lane.controllers[seat]  # i8[S]
    logits, value = actor.evaluate(params, observation, mask)
    logits = distributions.temper(logits, temperature)
    drawn_from = logits
    if snapshot_logits is not None:
        drawn_from = jnp.where((controller > len(actor.seats.bots))[:, None], snapshot_logits, logits)
    action = distributions.sample(drawn_from, jax.random.uniform(act_key, seat.shape))
    log_prob = distributions.log_prob(logits, action)
    action = actor.seats.override(state, controller, action, bot_key)
    next_state, final = actor.auto.step(state, action if actor.env.simultaneous else action[0], env_key)
    transition = Transition(
        observation=observation,
        mask=distributions.pack_mask(mask),
        action=action,
        log_prob=log_prob,
        value=value,
        seat=seat,
        weight=(controller == LEARNER).astype(jnp.float32),
        rewards=final.rewards,
        terminated=final.terminated,
        truncated=final.truncated,
        final_seat=jnp.reshape(final.current_player, seat.shape),
        final_value=jnp.zeros_like(value),
    )
    lane, ended = account(actor, lane, final, seat_key, odds)
    return lane.replace(env_state=next_state), transition, final, ended


def account(actor: Actor, lane: Lanes, final: Final, key: jax.Array, odds: Any) -> tuple[Lanes, RolloutSums]:
    """Episode figures of one lane; where its game ended they are reported and cleared, and the seats are drawn anew."""
    over = final.over
    returns = lane.episode_return + final.rewards
    length = lane.episode_length + 1
    learner = (over & (lane.controllers == LEARNER)).astype(jnp.float32)  # f32[P]
    ended = RolloutSums(
        games=over.astype(jnp.int32),
        illegal=(over & final.illegal_action).astype(jnp.int32),
        length=jnp.where(over, length, 0).astype(jnp.float32),
        seats=jnp.sum(learner),
        returns=jnp.sum(learner * returns),
        stats={name: jnp.sum(learner * stat) for name, stat in final.stats.items()},
        results=actor.seats.results(lane.controllers, returns, over),
    )
    controllers = lane.controllers
    if actor.seats.varied:
        controllers = jnp.where(over, actor.seats.deal(key, odds), controllers)
    lane = lane.replace(
        controllers=controllers,
        episode_return=jnp.where(over, 0.0, returns),
        episode_length=jnp.where(over, 0, length),
    )
    return lane, ended


def _final_values(actor: Actor, params: Any, final: Final) -> jax.Array:
    """f32[B, S]: values of the final observations, evaluated only in steps in which a game was truncated."""

    def evaluate(observation: Any) -> jax.Array:
        seats = observation if actor.env.simultaneous else jax.tree.map(lambda leaf: leaf[:, None], observation)
        return jax.vmap(actor.values, in_axes=(None, 0))(params, seats)

    shape = jax.eval_shape(evaluate, final.observation)
    values = jax.lax.cond(
        jnp.any(final.truncated), evaluate, lambda _: jnp.zeros(shape.shape, shape.dtype), final.observation
    )
    return jnp.where(final.truncated[:, None], values, 0.0)


def trajectory_of(transitions: Transition, last_seat: jax.Array, last_value: jax.Array, num_players: int) -> Trajectory:
    """The estimator's view of a rollout, one column per seat.

    Args:
      transitions: [T, B, ...].
      last_seat: i32[B, S], asked after the last step.
      last_value: f32[B, S].
      num_players: P.
    """

    def acting(seat: jax.Array) -> jax.Array:
        return jnp.any(_one_hot(seat, num_players), axis=-2)

    def spread(values: jax.Array, seat: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(_one_hot(seat, num_players), values[..., None], 0.0), axis=-2)

    steps = Steps(
        acting=acting(transitions.seat),
        value=spread(transitions.value, transitions.seat),
        rewards=transitions.rewards,
        terminated=transitions.terminated,
        truncated=transitions.truncated,
        final_acting=acting(transitions.final_seat),
        final_value=spread(transitions.final_value, transitions.final_seat),
    )
    return Trajectory(
        steps=steps,
        last_acting=acting(last_seat),
        last_value=spread(last_value, last_seat),
    )


def of_decisions(per_seat: jax.Array, seat: jax.Array) -> jax.Array:
    """Columns per seat [T, B, P] -> the values of the seats that acted (i32[T, B, S]), [T, B, S]."""
    picked = jnp.where(_one_hot(seat, per_seat.shape[-1]), per_seat[..., None, :], 0)
    return jnp.sum(picked, axis=-1, dtype=per_seat.dtype if per_seat.dtype != bool else jnp.int32)


def _one_hot(seat: jax.Array, num_players: int) -> jax.Array:
    """i32[..., S] -> bool[..., S, P]."""
    return seat[..., None] == jnp.arange(num_players)
