"""Lookahead features: what each action would do to the table in this turn, so that a network need not learn it.

Only what the seat sees goes in (specification section 9), and nothing beyond the end of its own turn comes out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jaxrl_envs.beasty_bar import observe, rules
from jaxrl_envs.beasty_bar.bots import turn_features

_IDS = 32  # one more than there are actions: fills vector registers evenly


def effects(observation: jax.Array) -> jax.Array:
    """f32[8 * 32], by action id, 0 for illegal actions: points that enter the bar (own, other), are thrown out (own,
    other), weigh in the queue by place, change in the value of the queue (Q of section 11.4), an own card at place 0 or
    1, legal."""
    table, hand, ply = observe.view(observation)
    legal = rules.legal_word(table, hand)
    actions = jnp.arange(_IDS)
    features = jax.vmap(turn_features, in_axes=(None, None, None, 0))(table, hand, ply, actions)
    columns = (
        features.my_gain / 8,
        features.opp_gain / 8,
        features.my_lost / 8,
        features.opp_lost / 8,
        features.front / 8,
        features.queue / 4,
        features.ahead,
        jnp.ones(_IDS),
    )
    possible = ((legal >> actions.astype(jnp.uint32)) & 1) != 0
    # Without the barrier XLA's CPU backend simulates every turn again for each column.
    return jnp.concatenate(lax.optimization_barrier([jnp.where(possible, column, 0.0) for column in columns]))
