"""Weights by which opponents are drawn from a pool: `league.weighting`. E opponents, without the learner itself.

Three rules read the learner's win rates (the prioritised ones after AlphaStar, Vinyals et al. 2019,
https://doi.org/10.1038/s41586-019-1724-z), one reads ratings.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxrl.league.config import LeagueConfig

NEAR = 200.0  # rating points over which the weight of an opponent falls to 1 / e, with "elo"


class OpponentStats(NamedTuple):
    """Opponent statistics that the rules read, f32[E] each."""

    relative: jax.Array  # weights from the configuration
    rate: jax.Array  # win rates of the learner, 0 to 1
    lead: jax.Array  # rating points above the learner


def weights(league: LeagueConfig, them: OpponentStats) -> jax.Array:
    """Relative weights of the opponents, f32[E]; at least `league.floor`, unless the rule is "fixed"."""
    chex.assert_equal_shape(them)
    if league.weighting == "fixed":
        return them.relative
    weight = {
        "adaptive": 1.0 - them.rate,
        "pfsp_hard": jnp.square(1.0 - them.rate),
        "pfsp_even": them.rate * (1.0 - them.rate),
        "elo": jnp.exp(-jnp.abs(them.lead) / NEAR),
    }[league.weighting]
    return jnp.maximum(weight, league.floor)
