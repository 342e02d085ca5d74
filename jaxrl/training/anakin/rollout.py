"""The rollout of the Anakin loop: plays T steps in every lane with the current policy and stores the transitions.

Top down: `collect`, `play_steps`, `step`, `decide`, `play`. Shape letters as in `jaxrl.algorithms.base`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Asked, Decision, Rollout, Transition, memory_of, remember
from jaxrl.league.pool import PoolState
from jaxrl.league.seats import LEARNER
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory, Network
from jaxrl.training.anakin.lanes import RolloutSetup, after_step, deal_anew
from jaxrl.training.episodes import EpisodeStats, over_lanes
from jaxrl.training.state import Lanes, lane_keys

Carry = tuple[Lanes, EpisodeStats]  # the lanes, and sums over their games that ended


class Opponents(NamedTuple):
    """The policies of a rollout, constant over its steps."""

    policy: Any  # the learner's
    pool: PoolState | None
    odds: Any  # [B, ...], of `Seats.odds`

    @property
    def snapshots(self) -> Any:
        """Parameters [K, ...]; None without any."""
        return self.pool.snapshots if self.pool is not None and self.pool.born.shape[0] else None

    def prepared(self, network: Network) -> Opponents:
        """Returns the policies with parameters that are converted here, once, for all steps."""
        policy, pool = self.policy.replace(params=network.prepare(self.policy.params)), self.pool
        if pool is not None and self.snapshots is not None:
            pool = pool.replace(snapshots=jax.vmap(network.prepare)(pool.snapshots))
        return self._replace(policy=policy, pool=pool)


@dataclasses.dataclass(frozen=True, eq=False)  # compared and hashed as a function is
class RolloutStep:
    """A step of all lanes of a rollout, with what is constant over its steps."""

    setup: RolloutSetup
    opponents: Opponents  # policies of the rollout
    keys: Callable[[jax.Array], jax.Array]  # (number of a step, u32[]) -> fast keys [B]

    def __call__(self, lanes: Lanes, t: jax.Array) -> tuple[Lanes, Transition, EpisodeStats]:
        """Plays step `t` in all lanes; statistics of ended games are per lane, [B]."""
        return step(self.setup, self.opponents, lanes, self.keys(t))


Play = Callable[[RolloutStep, Carry, jax.Array], tuple[Carry, Transition]]  # as `play_steps`


@jax.named_scope("rollout")
def collect(
    setup: RolloutSetup,
    policy: Any,
    pool: PoolState | None,
    lanes: Lanes,
    key: jax.Array,
    lane_ids: jax.Array,
    num_steps: int,
    form: Play | None = None,
) -> tuple[Lanes, Rollout, EpisodeStats]:
    """Plays `num_steps` steps in every lane.

    Args:
      policy: the learner's, see `Algorithm.policy`.
      pool: pool with a league; games against its stale entries are first dealt again.
      key: a fast key (`jaxrl_envs.shared.prng`) of this update.
      lane_ids: u32[B], global numbers of these lanes.
      num_steps: T, a multiple of `Algorithm.sequence`.
      form: `play_steps` (the default), or another form of it (`jaxrl.training.anakin.gpu_rollout`).

    Returns:
      The lanes afterwards, the rollout and the sums over games that ended.
    """
    opponents = Opponents(policy, pool, setup.seats.odds(pool, lane_ids)).prepared(setup.algorithm.network)
    sums = setup.no_games()
    if pool is not None and sums.results is not None:
        new_keys = lane_keys(key, jnp.uint32(num_steps), lane_ids)  # the steps use the numbers below
        lanes, redealt = deal_anew(setup, lanes, pool.stale, new_keys, opponents.odds)
        sums = sums._replace(results=sums.results._replace(redealt=redealt))

    advance = functools.partial(
        form or play_steps, RolloutStep(setup, opponents, lambda t: lane_keys(key, t, lane_ids))
    )

    def chunk(carry: Carry, steps: jax.Array) -> tuple[Carry, tuple[Transition, Memory]]:
        carried = carry[0].memory
        carry, transitions = advance(carry, steps)
        return carry, (transitions, carried)

    steps = jnp.arange(num_steps, dtype=jnp.uint32)
    if setup.algorithm.network.remembers:
        (lanes, sums), (transitions, memory) = jax.lax.scan(
            chunk, (lanes, sums), steps.reshape(-1, setup.algorithm.sequence)
        )
        transitions = jax.tree.map(lambda leaf: leaf.reshape(num_steps, *leaf.shape[2:]), transitions)
    else:
        (lanes, sums), transitions = advance((lanes, sums), steps)
        memory = ()
    last = jax.vmap(setup.asked)(lanes.env_state)
    last_privileged = jax.vmap(setup.privileged)(lanes.env_state)
    return lanes, Rollout(transitions, memory, last, lanes.memory, policy, last_privileged), sums


def play_steps(step: RolloutStep, carry: Carry, steps: jax.Array) -> tuple[Carry, Transition]:
    """Steps the lanes once for each number of `steps`, u32[T]."""

    def one(carry: Carry, t: jax.Array) -> tuple[Carry, Transition]:
        lanes, transition, ended = step(carry[0], t)
        return (lanes, jax.tree.map(jnp.add, carry[1], over_lanes(ended))), transition

    return jax.lax.scan(one, carry, steps)


def step(
    setup: RolloutSetup, opponents: Opponents, lanes: Lanes, keys: jax.Array
) -> tuple[Lanes, Transition, EpisodeStats]:
    """Steps all lanes. Statistics of ended games are per lane, [B]."""
    act_key, bot_key, env_key, seat_key = jax.vmap(lambda key: jax.random.split(key, 4), out_axes=1)(keys)
    asked, controller, decision = decisions(setup, opponents, lanes, act_key)
    memory, lanes, new = lanes.memory, lanes.replace(memory=()), decision.memory
    play_lane = jax.jit(functools.partial(play, setup), inline=True)  # traced for one lane, where every call is cheaper
    lanes, transition, ended = jax.vmap(play_lane)(
        lanes, asked, controller, decision._replace(memory=()), bot_key, env_key, seat_key, opponents.odds
    )
    memory = jax.vmap(remember)(memory, asked.seat, new, transition.over)
    return lanes.replace(memory=memory), transition, ended


def decisions(
    setup: RolloutSetup, opponents: Opponents, lanes: Lanes, keys: jax.Array
) -> tuple[Asked, jax.Array, Decision]:
    """The questions to all lanes, the controllers of the acting seats (i8[B, S]) and the networks' decisions."""
    asked = jax.vmap(setup.asked)(lanes.env_state)
    controller = jnp.take_along_axis(lanes.controllers, asked.seat, axis=1)
    decision = decide(setup, opponents.policy, opponents.snapshots, asked, controller, lanes.memory, keys)
    return asked, controller, decision


def decide(
    setup: RolloutSetup,
    policy: Any,
    snapshots: Any,
    asked: Asked,
    controller: jax.Array,
    memory: Memory,
    keys: jax.Array,
) -> Decision:
    """Returns decisions [B, S] of the networks that hold the acting seats; the learner's for seats held by bots.

    All snapshots together cost every lane one more pass whatever their number K is, because lane l can only meet the
    one in slot l mod K: parameters [K, ...] are vmapped over lanes [B / K, K].

    Args:
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
    by_slot = jax.tree.map(lambda leaf: leaf.reshape(-1, slots, *leaf.shape[1:]), (asked, held, each))

    def frozen(params: Any, *question: Any) -> Decision:
        return act(policy.replace(params=params), *question)

    of_slot = jax.vmap(frozen, in_axes=(0, 1, 1, 1), out_axes=1)
    theirs = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), of_slot(snapshots, *by_slot))
    foreign = controller > len(setup.seats.bots)

    def choose(mine: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(foreign.reshape(*foreign.shape, *[1] * (mine.ndim - 2)), other, mine)

    memory = jax.tree.map(choose, own.memory, theirs.memory)
    return own._replace(action=choose(own.action, theirs.action), memory=memory)


def play(
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
    lane, ended = after_step(setup, lane, final, lane.memory, seat_key, odds)
    return lane.replace(env_state=next_state), transition, ended
