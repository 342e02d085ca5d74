"""The book of openings: the fastest known way to the ball from each place of a kickoff, decision by decision.

`openings.npz` holds rows i8[5, T] of the table of actions, for the places of `field.KICKOFFS` as the first team sees
them, and the path i16[5, T, 2] that a car takes with them, in uu. Both were found by a search over sequences.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import CarSoccerGame

NEAR = 150.0  # uu off the path, from where on a car drives by itself
TICK_SKIP = 8  # of the decisions in the book


@cache
def book() -> tuple[np.ndarray, np.ndarray]:
    """Returns rows i32[5, T] and path f32[5, T, 2]; a row is -1 where the book has ended."""
    with np.load(Path(__file__).with_name("openings.npz")) as file:
        return file["rows"].astype(np.int32), file["path"].astype(np.float32)


def rows(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Returns the row that the book has for each car, i32[P]; -1: none, a mate goes, or the ball is touched."""
    found, path = book()
    arena, attack = game.arena, jnp.asarray(teams.attack)
    at = (arena.tick - game.board.kickoff_tick) // TICK_SKIP
    now = jnp.minimum(at, found.shape[1] - 1)
    place = jnp.stack([arena.cars.position.x * attack, arena.cars.position.y * attack], axis=-1)
    off = jnp.linalg.norm(place[:, None] - jnp.asarray(path)[:, now], axis=-1)  # f32[P, 5]
    untouched = ~game.tracks.judged & (game.tracks.first_touch < 0) & (at < found.shape[1])
    near, number = jnp.min(off, axis=1) < NEAR, jnp.argmin(off, axis=1)
    mate_goes = jnp.any(teams.mates & near & (number < number[:, None]), axis=1)  # from a place nearer to the ball
    return jnp.where(untouched & near & ~mate_goes, jnp.asarray(found)[number, now], -1)
