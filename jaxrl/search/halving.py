"""Sequential halving at the root: all actions are simulated in the same worlds, and each round keeps the better half.

Karnin et al. 2013, "Almost optimal exploration in multi-armed bandits"; Danihelka et al. 2022, "Policy improvement by
planning with Gumbel" use it at the root of a tree. Here every simulation is a whole game. In a round all remaining
actions meet the same worlds and the same chance events (common random numbers), which reduces the variance of their
differences.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.search.belief import Belief, BeliefMemory
from jaxrl.search.plan import SearchPlan, improve, near_policy
from jaxrl.search.playout import TO_THE_END, Lineup, of_seat, play_on, won
from jaxrl.search.policies import Guide, SearchParams
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Key, State, is_over

OUT = -1e30  # the score of an eliminated action


class ActionStats(NamedTuple):
    """Results of the simulations so far, in C games."""

    total: jax.Array  # f32[C, A], sums of results
    games: jax.Array  # f32[C, A], simulated games


def rounds_and_slots(settings: SearchSettings) -> tuple[int, int]:
    """Returns the number of rounds, and of simulated games in each; together at most `settings.simulations`."""
    rounds = max(1, min(settings.rounds, settings.simulations // 8))
    return rounds, settings.simulations // rounds


def survivors(first: jax.Array, number: jax.Array | int, rounds: int) -> jax.Array:
    """The number of actions left in round `number`, i32[...]: all `first` ones in the first round, two in the last."""
    share = number / max(rounds - 1, 1)
    first_f = jnp.maximum(first, 1).astype(jnp.float32)
    left = jnp.ceil(first_f * (2.0 / first_f) ** share - 1e-3).astype(jnp.int32)
    return jnp.where(first <= 2, first, jnp.clip(left, 2, first))


def halving_plan(
    lineup: Lineup, belief: Belief, guide: Guide, settings: SearchSettings, params: SearchParams, lanes
) -> SearchPlan:
    """Plans the next move of C games at once. `lanes`: (states, memories, keys), each with leading axis C; the seats to
    move are those of the memories. Returns `SearchPlan` with leading axis C."""
    state, memory, key = lanes
    rounds, slots = rounds_and_slots(settings)
    keys = jax.vmap(lambda k: jax.random.split(k, 4))(key)
    remembered, logits, _ = jax.vmap(guide, in_axes=(None, 0, 0))(params.own, memory.own, state)
    prior = jax.nn.log_softmax(logits)
    legal = state.legal_action_mask
    first = jnp.minimum(jnp.sum(legal, axis=1), min(settings.candidates, slots)).astype(jnp.int32)
    # Equal priors are tried in random order, so that few candidates do not favour low action numbers.
    dither = 1e-3 * jax.vmap(lambda k: jax.random.uniform(k, legal.shape[1:]))(keys[:, 2])
    order = _rank(jnp.where(legal, prior + dither, OUT))
    stats = ActionStats(jnp.zeros(legal.shape), jnp.zeros(legal.shape))
    worlds_count = settings.worlds or max(1, (rounds * slots) // 2)
    worlds = jax.vmap(lambda s, m, k: belief.worlds(params, s, m, k, worlds_count))(state, memory, keys[:, 0])
    memory = memory.replace(own=remembered)

    def play_round(
        number: jax.Array, carry: tuple[ActionStats, jax.Array, jax.Array]
    ) -> tuple[ActionStats, jax.Array, jax.Array]:
        stats, order, used = carry
        field = survivors(first, number, rounds)
        ranking = jnp.argsort(order, axis=1)
        stats, used = _run(
            lineup, guide, settings, params, stats, memory, worlds, keys[:, 1], ranking, field, used, slots
        )
        # Only actions of this round go on: an eliminated action does not come back.
        ran = order < field[:, None]
        score = _mean(stats) + settings.prior * prior
        return stats, _rank(jnp.where(ran, score, OUT)), used

    stats, order, _ = jax.lax.fori_loop(0, rounds, play_round, (stats, order, jnp.zeros_like(first)))
    chance = jax.vmap(jax.random.uniform)(keys[:, 3])
    return _plan(stats, order, logits, legal, settings, chance)


def _rank(score: jax.Array) -> jax.Array:
    """Returns the rank of every action, i32[C, A]; 0 = the highest score."""
    return jnp.argsort(jnp.argsort(-score, axis=1, stable=True), axis=1).astype(jnp.int32)


def _mean(stats: ActionStats) -> jax.Array:
    return stats.total / jnp.maximum(stats.games, 1.0)


def _run(
    lineup: Lineup,
    guide: Guide,
    settings: SearchSettings,
    params: SearchParams,
    stats: ActionStats,
    memory: BeliefMemory,
    worlds: tuple[State, jax.Array],
    key: Key,
    ranking: jax.Array,
    field: jax.Array,
    used: jax.Array,
    slots: int,
) -> tuple[ActionStats, jax.Array]:
    """Returns one round: the first `field` (i32[C]) actions of `ranking` (i32[C, A]) meet the next worlds.

    `used` (i32[C]) counts the worlds of earlier rounds. Returns the stats and that count.
    """
    games, pool = field.shape[0], worlds[1].shape[1]
    # Game i's slots are i * slots .. i * slots + slots - 1 of flat arrays: one gather, no reshapes inside the program.
    row, slot = jnp.repeat(jnp.arange(games), slots), jnp.tile(jnp.arange(slots), games)
    runners = jnp.maximum(field, 1)
    each = slots // runners  # worlds of this round, i32[C]
    action = ranking.reshape(-1)[row * ranking.shape[1] + slot % runners[row]]
    number = used[row] + slot // runners[row]
    counted = slot < (each * field)[row]
    start, types = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[row * pool + number % pool], worlds)
    luck = jax.vmap(jax.random.fold_in)(key[row], number)
    seats = memory.seat[row]
    own = jax.tree.map(lambda leaf: leaf[row], memory.own)
    memories = lineup.memories(params, own, start, seats, luck, types)
    turns, in_part = settings.depth or TO_THE_END, settings.objective == "standing"
    wins, discount = settings.objective == "wins", lineup.discount if settings.depth else 1.0
    of_rewards = 1.0 if wins else discount
    end = play_on(
        lineup, params, start, memories, action, seats, luck, turns=turns, in_part=in_part, discount=of_rewards
    )
    worth = jax.vmap(lineup.env.standing)(end.state) if in_part else end.returns
    assert worth is not None  # `has_standing` was asked before
    result = jnp.take_along_axis(worth, seats[:, None], axis=1)[:, 0]
    if wins:  # on the scale of a network that predicts +1 for a win
        result = jnp.where(won(lineup.env, end.returns + memory.returns[row], seats), 1.0, -1.0)
        result = result * discount**end.moves
    if settings.depth:
        own = of_seat(end.memories[0], seats)
        foreseen = jax.vmap(guide, in_axes=(None, 0, 0))(params.own, own, end.state)[2]
        before = 0.0 if wins else result
        result = jnp.where(is_over(end.state), result, before + discount ** (end.moves + 1) * foreseen)
    weight = counted.astype(jnp.float32)
    stats = ActionStats(stats.total.at[row, action].add(weight * result), stats.games.at[row, action].add(weight))
    return stats, used + each


def _plan(
    stats: ActionStats,
    order: jax.Array,
    logits: jax.Array,
    legal: jax.Array,
    settings: SearchSettings,
    chance: jax.Array,
) -> SearchPlan:
    action = jnp.argmin(order, axis=1).astype(jnp.int32)
    mean, tried = _mean(stats), stats.games > 0
    value = jnp.take_along_axis(mean, action[:, None], axis=1)[:, 0]
    known, policy = improve(logits, legal, mean, tried, settings.scale)
    plan = SearchPlan(action, policy, value, jnp.where(tried, mean, value[:, None]))
    return plan if settings.kl is None else near_policy(plan, logits, legal, known, settings.kl, chance)
