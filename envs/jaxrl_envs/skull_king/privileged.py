"""What a seat of Skull King cannot see, from its place at the table: for a critic in training, never for players."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.shared.cards import get_field, rotate_fields, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.deal import Setup
from jaxrl_envs.skull_king.rules import BID, Game

BIDS = 11  # 0 .. 10


def pack(game: Game, seat: jax.Array, setup: Setup) -> jax.Array:
    """u32[3 * P + 5]: the hands of the seats after `seat` (i32[]) in turn, the stock, its top, all bids (4 bits each,
    by relative seat) and which are made (likewise)."""
    n, r = setup.players, game.round
    order = [small_mod(seat + i, n) for i in range(1, n)]
    sets = [*(r.hands.of(other) for other in order), rules.stock(game, setup), r.top]
    bidding, turn = game.phase == BID, small_mod(game.actor - r.leader + n, n)
    made = jnp.uint32(0)
    for i in range(n):
        has = ~bidding | (small_mod(jnp.int32(i) - r.leader + n, n) < turn)
        made = made | (has.astype(jnp.uint32) << (4 * i))
    words = [word for cards in sets for word in cards.words]
    return jnp.stack([*words, rotate_fields(r.bids, seat, n), rotate_fields(made, seat, n)])


def features(words: jax.Array, setup: Setup) -> jax.Array:
    """f32[85 * P + 63]: 74 flags for each hand, the stock and its top; each other's bid, one-hot, 0 if not made."""
    n = setup.players
    cards = c.card_bits(words[:-2].reshape(n + 1, 3)).astype(jnp.float32)
    seats = jnp.arange(1, n)
    bids = jnp.where(get_field(words[-1], seats) > 0, get_field(words[-2], seats), -1)
    return jnp.concatenate([cards.reshape(-1), (bids[:, None] == np.arange(BIDS)).astype(jnp.float32).reshape(-1)])
