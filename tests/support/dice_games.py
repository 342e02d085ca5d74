"""Liar's dice, written from the tutorial (docs/guides/your_game.md) without a thought of GPUs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields

SEATS, DICE, FACES = 3, 3, 6
BIDS = SEATS * DICE * FACES  # action b: at least b // FACES + 1 dice show face b % FACES; the last action doubts it


@struct.dataclass
class DiceState(State):
    """The public leaves, and the dice."""

    dice: jax.Array  # i32[3, 3], faces
    held: jax.Array  # i32[3], dice of each seat
    bid: jax.Array  # i32[], -1 = none


class LiarsDice(Env):
    """Three seats bid on all dice under their cups; the one who is wrong loses a die; the last one with dice wins."""

    id, version = "liars_dice", "1"
    num_players, num_actions = SEATS, BIDS + 1
    how_to_play = "Bid higher on how many dice show a face, or doubt the last bid. Who is wrong loses a die."

    def _init(self, key):
        fields = public_fields(num_players=SEATS, num_actions=BIDS + 1)
        held, bid = jnp.full(SEATS, DICE), jnp.int32(-1)
        fields |= {"legal_action_mask": legal(held, bid)}
        return DiceState(observation=None, dice=roll(key), held=held, bid=bid, **fields)

    def _step(self, state, action, key):
        me, doubted = state.current_player, action == BIDS
        bidder = before(state.held, me)
        count = jnp.sum(shown(state) & (state.dice == state.bid % FACES))
        loser = jnp.where(count > state.bid // FACES, me, bidder)
        held = jnp.where(doubted, state.held.at[loser].add(-1), state.held)
        over = jnp.sum(held > 0) == 1
        bid = jnp.where(doubted, -1, action)
        start = jnp.where(held[loser] > 0, loser, after(held, loser))
        return state.replace(
            dice=jnp.where(doubted, roll(key), state.dice),
            held=held,
            bid=bid,
            current_player=jnp.where(doubted, start, after(held, me)).astype(jnp.int32),
            legal_action_mask=legal(held, bid),
            rewards=jnp.where(over, jnp.where(held > 0, 2.0, -1.0), 0.0),
            terminated=over,
        )

    def observe(self, state, seat):
        """Returns the seat's own dice, how many each seat holds from its own on, and the bid."""
        own = jnp.sum(jax.nn.one_hot(state.dice[seat], FACES) * shown(state)[seat][:, None], axis=0)
        return jnp.concatenate([own, jnp.roll(state.held, -seat), jax.nn.one_hot(state.bid, BIDS)])

    def permute_hidden(self, state, seat, key):
        """Rolls the dice of the others again."""
        return state.replace(dice=jnp.where((jnp.arange(SEATS) == seat)[:, None], state.dice, roll(key)))

    def render(self, state, seat=None):
        """Returns the dice that a seat sees, and the bid."""
        seats = range(SEATS) if seat is None else [int(seat)]
        cups = {s: [int(die) + 1 for die in state.dice[s][: int(state.held[s])]] for s in seats}
        return f"dice {cups}, held {state.held.tolist()}, bid {int(state.bid)}"


def roll(key):
    return jax.random.randint(key, (SEATS, DICE), 0, FACES)


def shown(state):
    return jnp.arange(DICE) < state.held[:, None]


def legal(held, bid):
    higher = (jnp.arange(BIDS) > bid) & (jnp.arange(BIDS) // FACES < jnp.sum(held))
    return jnp.append(higher, bid >= 0)


def after(held, seat):
    """Returns the next seat that holds dice."""
    order = (seat + 1 + jnp.arange(SEATS)) % SEATS
    return order[jnp.argmax(held[order] > 0)]


def before(held, seat):
    """Returns the seat before it that holds dice."""
    order = (seat - 1 - jnp.arange(SEATS)) % SEATS
    return order[jnp.argmax(held[order] > 0)]
