"""The accounting of finished games, the same for both loops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.league.pool import Results
from jaxrl.league.seats import LEARNER, Seats
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.shared import kernels


class EpisodeStats(NamedTuple):
    """Sums over the games that ended in some steps of some lanes; stacked they would fill the memory (purejaxrl 38)."""

    games: jax.Array  # i32[]
    illegal: jax.Array  # i32[], games ended by an illegal action
    length: jax.Array  # f32[], decisions
    seats: jax.Array  # f32[], seats of the learner
    returns: jax.Array  # f32[], of those seats
    stats: dict[str, jax.Array]  # f32[], metrics of the game, of those seats
    results: Results | None  # by opponent, with a league

    def metrics(self) -> Metrics:
        """Returns the metrics by TensorBoard tag; a mean over no games has no value."""
        found = {
            "rollout/ep_rew_mean": metrics.mean(self.returns, self.seats),
            "rollout/ep_len_mean": metrics.mean(self.length, self.games),
            "rollout/games": metrics.total(self.games),
            "rollout/illegal": metrics.total(self.illegal),
        }
        return found | {f"rollout/stat_{name}": metrics.mean(stat, self.seats) for name, stat in self.stats.items()}


def no_games(seats: Seats, stat_names: Iterable[str]) -> EpisodeStats:
    """Sums over nothing."""
    zero = jnp.float32(0.0)
    stats = dict.fromkeys(stat_names, zero)
    return EpisodeStats(jnp.int32(0), jnp.int32(0), zero, zero, zero, stats, seats.no_results())


def finished(
    seats: Seats,
    controllers: jax.Array,
    returns: jax.Array,
    length: jax.Array,
    over: jax.Array,
    illegal: jax.Array,
    stats: dict[str, jax.Array],
) -> EpisodeStats:
    """Returns what one step of one lane adds; vmap it over lanes.

    Args:
      controllers: i8[P], who held them in this game.
      returns: f32[P], of the game so far.
      length: i32[], its decisions.
      over: bool[], it ended in this step; if not, nothing is added.
      illegal: bool[], by an illegal action.
      stats: f32[P] each; anything while the game goes on.
    """
    learner = (over & (controllers == LEARNER)).astype(jnp.float32)  # f32[P]
    return EpisodeStats(
        games=over.astype(jnp.int32),
        illegal=(over & illegal).astype(jnp.int32),
        length=jnp.where(over, length, 0).astype(jnp.float32),
        seats=kernels.total(learner),
        returns=kernels.total(learner * returns),
        stats={name: kernels.total(jnp.where(learner > 0.0, stat, 0.0)) for name, stat in stats.items()},
        results=seats.results(controllers, returns, over),
    )


def over_lanes(each: EpisodeStats) -> EpisodeStats:
    """Returns the sum over a leading axis of lanes."""
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), each)
