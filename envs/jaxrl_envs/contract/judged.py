"""What a game tells those who look ahead in it without having learnt anything: `jaxrl.search.searchers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


class Judged:
    """The part of a game (`jaxrl_envs.contract.env.Env`) that searchers ask; the defaults suit any.

    Attributes:
      reference_bot: the best bot, for whom a reference searcher takes everybody.
    """

    reference_bot: str = "random"

    def with_secret_choices(
        self, state: Any, seat: jax.Array, choose: Callable[[Any, Any], jax.Array], key: jax.Array
    ) -> Any:
        """A world of `permute_hidden` in which others have chosen as `choose` would what `seat` has not been told.

        Cards of others are drawn at random, but what they have sealed, such as a bid, they chose for reasons. A game
        with secret actions overrides this: it asks `choose`, a bot, again in each place where another seat has made
        such a choice, with its cards in this world. By default the world itself.
        """
        return state

    def bot_odds(self, names: Sequence[str]) -> Callable[[Any, jax.Array], jax.Array] | None:
        """(state, action i32[]) -> f32[N], the probability that each of N bots chooses `action` in the seat asked; None
        if the game does not say: then a search that hears who somebody is asks them again and again."""
        return None

    def part(self, state: Any) -> jax.Array:
        """i32[], the number of the part of the game, such as a round, that `state` belongs to; the game's last state
        belongs to any. By default all is one part. Searches for `standing` look ahead to the end of the part."""
        return jnp.int32(0)

    def standing(self, state: Any) -> jax.Array | None:
        """f32[P], how well every seat stands where a part of the game begins or the game is over; None if the game does
        not say. A reference searcher maximises it, rather than what it earns; e.g. the probability of winning."""
        return None
