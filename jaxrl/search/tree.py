"""A tree in each world, grown by mctx: Gumbel MuZero over the seat's own decisions.

Danihelka et al. 2022, "Policy improvement by planning with Gumbel", https://openreview.net/forum?id=bERaNdoegnO. An
edge of the tree is an action of the searching seat and the modelled actions of the others until it is asked again; the
network gives priors and leaf values. Each world has its own tree (a batch of mctx); their results are
averaged at the root, because the seat cannot tell the worlds apart (perfect-information Monte Carlo).
"""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp

from jaxrl.networks import distributions
from jaxrl.search.belief import Belief
from jaxrl.search.plan import SearchPlan, improve, near_policy
from jaxrl.search.playout import Lineup, of_seat, play_on, put, won
from jaxrl.search.policies import Guide, SearchParams
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Key, State, is_over
from jaxrl_envs.shared.errors import UserError

DEFAULT_WORLDS = 16


def _mctx() -> Any:
    try:
        import mctx
    except ImportError as error:
        raise UserError("the planner 'tree' needs mctx: pip install 'jaxrl[search]', or use 'halving'.") from error
    return mctx


def tree_plan(
    lineup: Lineup, belief: Belief, guide: Guide, settings: SearchSettings, params: SearchParams, lanes
) -> SearchPlan:
    """Plans the next move of C games at once; arguments and result as in `halving.halving_plan`."""
    mctx = _mctx()
    state, memory, key = lanes
    games, actions = state.legal_action_mask.shape
    count = min(settings.worlds or DEFAULT_WORLDS, settings.simulations)
    keys = jax.vmap(lambda k: jax.random.split(k, 3))(key)
    worlds = jax.vmap(lambda s, m, k: belief.worlds(params, s, m, k, count))(state, memory, keys[:, 0])
    worlds, types = jax.tree.map(lambda leaf: leaf.reshape(games * count, *leaf.shape[2:]), worlds)
    luck = jax.vmap(lambda k: jax.random.split(k, count))(keys[:, 1]).reshape(games * count)
    seats, earned = jnp.repeat(memory.seat, count), jnp.repeat(memory.returns, count, axis=0)
    own = jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=0), memory.own)
    own, logits, value = jax.vmap(guide, in_axes=(None, 0, 0))(params.own, own, worlds)
    memories = lineup.memories(params, own, worlds, seats, luck, types)

    def recurrent(params: SearchParams, _: Key, action: jax.Array, embedding: tuple[State, jax.Array, list, Key]):
        before, returns, memories, key = embedding
        # Every step folds the number of steps into the key, so equal paths have equal chance events.
        end = play_on(lineup, params, before, memories, action, seats, key, turns=0)
        returns, over = returns + end.returns, is_over(end.state)
        own, *others = end.memories
        remembered, logits, value = jax.vmap(guide, in_axes=(None, 0, 0))(params.own, of_seat(own, seats), end.state)
        reward = jnp.take_along_axis(end.returns, seats[:, None], axis=1)[:, 0]
        if settings.objective == "wins":  # on the scale of the network's value: a draw counts as a loss
            reward = jnp.where(over, jnp.where(won(lineup.env, returns, seats), 1.0, -1.0), 0.0)
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(is_over(before), 0.0, reward),
            discount=jnp.where(over, 0.0, lineup.discount),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        key = jax.vmap(lambda k: jax.random.fold_in(k, 0x5EED))(key)
        return output, (end.state, returns, [put(own, seats, remembered), *others], key)

    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=(worlds, earned, memories, luck))
    found = mctx.gumbel_muzero_policy(
        params,
        jax.random.key(0),  # nothing is drawn from it: the Gumbel noise is off
        root,
        recurrent,
        num_simulations=max(1, settings.simulations // count),
        invalid_actions=~worlds.legal_action_mask,
        max_num_considered_actions=min(settings.candidates, actions),
        gumbel_scale=0.0,
    )
    summary = found.search_tree.summary()
    visits = summary.visit_counts.reshape(games, count, actions).astype(jnp.float32)
    values = summary.qvalues.reshape(games, count, actions)
    weights = found.action_weights.reshape(games, count, actions).mean(axis=1)
    chance = jax.vmap(jax.random.uniform)(keys[:, 2])
    prior = logits.reshape(games, count, actions)[:, 0]
    return _joined(visits, values, weights, state.legal_action_mask, prior, settings, chance)


def _joined(
    visits: jax.Array,
    values: jax.Array,
    weights: jax.Array,
    legal: jax.Array,
    logits: jax.Array,
    settings: SearchSettings,
    chance: jax.Array,
) -> SearchPlan:
    """Merges the roots of W worlds into one plan: visits and values f32[C, W, A], mean weights f32[C, A]."""
    chex.assert_equal_shape((visits, values))
    total = jnp.sum(visits, axis=1)
    mean = jnp.sum(visits * values, axis=1) / jnp.maximum(total, 1.0)
    results, policy = improve(logits, legal, mean, total > 0, settings.scale)
    action = distributions.greedy(distributions.mask_logits(weights, legal))
    value = jnp.take_along_axis(results, action[:, None], axis=1)[:, 0]
    plan = SearchPlan(action, policy, value, results)
    return plan if settings.kl is None else near_policy(plan, logits, legal, results, settings.kl, chance)
