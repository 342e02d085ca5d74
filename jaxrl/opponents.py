"""Who holds which seat: drawn when a game starts, fixed until it ends.

A *mix* says how many seats the learner holds and which bots share the others. Every lane carries the controllers of its
game (`Lanes.controllers`), so an opponent never changes in the middle of a game (PufferLib 620).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from envs.core import Bot, Env, State
from envs.errors import UserError, nearest
from jaxrl.config.schema import SeatMix

LEARNER = 0


@dataclasses.dataclass(frozen=True)
class SeatControl:
    """The configured mixes as small tables; M mixes, K = the most bots in one of them."""

    num_players: int
    bots: tuple[Bot, ...]  # controller i is bots[i - 1]
    cumulative: np.ndarray  # f32[M], cumulative probabilities of the mixes
    learners: np.ndarray  # i32[M], seats of the learner
    choices: np.ndarray  # i8[M, K], controllers of the other seats
    num_choices: np.ndarray  # i32[M]

    @property
    def has_bots(self) -> bool:
        """Whether any seat is ever held by a bot; if not, none of this costs anything."""
        return bool(self.bots)

    def draw(self, key: jax.Array) -> jax.Array:
        """The controllers of one new game, i8[P]."""
        seats = self.num_players
        if not self.has_bots:
            return jnp.zeros(seats, jnp.int8)
        uniform = jax.random.uniform(key, (1 + 2 * seats,))
        mix = jnp.sum(uniform[0] >= jnp.asarray(self.cumulative[:-1])).astype(jnp.int32)
        order = uniform[1 : 1 + seats]
        rank = jnp.sum(order[None, :] < order[:, None], axis=1)  # a random permutation without a sort
        count = jnp.asarray(self.num_choices)[mix]
        choice = jnp.minimum((uniform[1 + seats :] * count).astype(jnp.int32), count - 1)
        bot = jnp.asarray(self.choices)[mix][jnp.maximum(choice, 0)]
        return jnp.where(rank < jnp.asarray(self.learners)[mix], jnp.int8(LEARNER), bot)

    def override(self, state: State, controller: jax.Array, action: jax.Array, key: jax.Array) -> jax.Array:
        """Replaces the learner's action where a bot holds the seat.

        Args:
          state: one game.
          controller: i8[S], of the seats asked now.
          action: i32[S], the learner's.
          key: the bots' randomness.

        Returns:
          i32[S].
        """
        for index, bot in enumerate(self.bots):
            choice = jnp.reshape(bot(state, jax.random.fold_in(key, index)), action.shape)
            action = jnp.where(controller == index + 1, choice.astype(jnp.int32), action)
        return action


def make_seat_control(mixes: Sequence[SeatMix], env: Env) -> SeatControl:
    """The tables of the configured `seats` for `env`.

    Raises:
      UserError: an unknown bot, more learners than seats, or seats that nobody holds.
    """
    seats = env.num_players
    names: list[str] = []
    learners, choices = [], []
    for index, mix in enumerate(mixes):
        count = seats if mix.learners == "all" else int(mix.learners)
        if count > seats:
            raise UserError(f"seats.{index}.learners is {count}, but {env.id} has only {seats} seats.")
        if count < seats and not mix.bots:
            raise UserError(f"seats.{index} leaves {seats - count} seats to bots: name them in seats.{index}.bots.")
        used = tuple(mix.bots) if count < seats else ()
        for name in used:
            if name not in env.bots:
                raise UserError(f"seats.{index}.bots: {env.id} has no bot {name!r}; {nearest(name, env.bots)}")
            if name not in names:
                names.append(name)
        learners.append(count)
        choices.append([names.index(name) + 1 for name in used])
    width = max(1, *(len(row) for row in choices)) if choices else 1
    weights = np.array([mix.weight for mix in mixes], np.float64)
    return SeatControl(
        num_players=seats,
        bots=tuple(env.bots[name] for name in names),
        cumulative=np.cumsum(weights / weights.sum()).astype(np.float32),
        learners=np.array(learners, np.int32),
        choices=np.array([row + [0] * (width - len(row)) for row in choices], np.int8),
        num_choices=np.array([len(row) for row in choices], np.int32),
    )
