"""What each action would do to the table in this turn, as features: rules that a network need not learn by itself.

Only what the seat sees goes in (specification section 9), and nothing beyond the end of its own turn comes out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from envs.beasty_bar import observe, rules
from envs.beasty_bar.bots import turn_features
from envs.beasty_bar.rules import NUM_ACTIONS


def effects(observation: jax.Array) -> jax.Array:
    """f32[31, 8], 0 for illegal actions: points that enter the bar (own, other), are thrown out (own, other), weigh in
    the queue by place, change in the value of the queue (Q of section 11.4), an own card at place 0 or 1, legal."""
    table, hand, ply = observe.view(observation)
    legal = rules.legal_word(table, hand)
    features = jax.vmap(turn_features, in_axes=(None, None, None, 0))(table, hand, ply, jnp.arange(NUM_ACTIONS))
    columns = (
        features.my_gain / 8,
        features.opp_gain / 8,
        features.my_lost / 8,
        features.opp_lost / 8,
        features.front / 8,
        features.queue / 4,
        features.ahead,
        jnp.ones(NUM_ACTIONS),
    )
    possible = ((legal >> jnp.arange(NUM_ACTIONS, dtype=jnp.uint32)) & 1) != 0
    return jnp.where(possible[:, None], jnp.stack(columns, axis=-1), 0.0)
