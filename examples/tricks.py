"""A card game with hidden hands: three seats, four of fifteen cards each; the highest card takes the trick."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields

SEATS, CARDS, HAND = 3, 15, 4
DECK, GONE = 3, 4  # holders of a card beside the seats: not dealt, played


@struct.dataclass
class TricksState(State):
    """The public leaves, who holds each card, and the trick on the table."""

    holder: jax.Array  # i8[15]: a seat, DECK or GONE
    table: jax.Array  # i8[3]: the card of each seat in this trick; -1: none yet


class Tricks(Env):
    """Action a plays card a; who takes a trick leads the next one. A trick is worth 1, and costs the others a half."""

    id, version = "tricks", "1"
    num_players, num_actions = SEATS, CARDS
    reference_bot = "thrifty"
    how_to_play = "Everyone plays a card in turn; the highest takes the trick and leads the next one."

    def _init(self, key):
        holder = jnp.repeat(
            jnp.array([0, 1, 2, DECK], jnp.int8), jnp.array([HAND, HAND, HAND, 3]), total_repeat_length=15
        )
        holder = jax.random.permutation(key, holder)
        fields = public_fields(num_players=SEATS, num_actions=CARDS) | {"legal_action_mask": holder == 0}
        return TricksState(observation=None, holder=holder, table=jnp.full(SEATS, -1, jnp.int8), **fields)

    def _step(self, state, action, key):
        me, seats = state.current_player, jnp.arange(SEATS)
        holder = state.holder.at[action].set(GONE)
        table = state.table.at[me].set(action.astype(jnp.int8))
        full = jnp.all(table >= 0)
        taker = jnp.argmax(table).astype(jnp.int32)
        current = jnp.where(full, taker, (me + 1) % SEATS)
        return state.replace(
            holder=holder,
            table=jnp.where(full, jnp.int8(-1), table),
            current_player=current,
            legal_action_mask=holder == current,
            rewards=jnp.where(full, jnp.where(seats == taker, 1.0, -0.5), 0.0),
            terminated=jnp.sum(holder == GONE) == SEATS * HAND,
        )

    def observe(self, state, seat):
        """Returns bool[5, 15]: the own hand, all cards played, and the cards on the table from this seat on."""
        table = jnp.roll(state.table, -seat)[:, None] == jnp.arange(CARDS)
        return jnp.concatenate([jnp.stack([state.holder == seat, state.holder == GONE]), table])

    def permute_hidden(self, state, seat, key):
        """Deals the cards that `seat` does not see again; how many each other hand holds is public."""
        unseen = (state.holder != seat) & (state.holder != GONE)
        holders = jnp.sort(jnp.where(unseen, state.holder, GONE))  # sorted: where they are now must have no influence
        order = jnp.argsort(jnp.where(unseen, jax.random.uniform(key, (CARDS,)), 1.0))  # unseen cards first, shuffled
        dealt = jnp.zeros_like(holders).at[order].set(holders)
        holder = jnp.where(unseen, dealt, state.holder)
        return state.replace(holder=holder, legal_action_mask=holder == state.current_player)

    def render(self, state, seat=None):
        """Returns the hands that `seat` may see, all if it is None, and the trick, as text."""
        shown = range(SEATS) if seat is None else [seat]
        hands = [
            f"hand of seat {one}: {' '.join(str(c) for c in range(CARDS) if state.holder[c] == one)}" for one in shown
        ]
        return "\n".join([*hands, "trick: " + " ".join("-" if c < 0 else str(c) for c in state.table.tolist())])

    def action_name(self, action):
        """Returns the name of an action."""
        return f"play {action}"

    @property
    def bots(self):
        """Scripted opponents; "thrifty" plays its lowest card that beats the table, or else its lowest."""

        def thrifty(state, key):
            cards = jnp.arange(CARDS)
            wins = state.legal_action_mask & (cards > state.table.max())
            return jnp.argmax(jnp.where(wins.any(), wins, state.legal_action_mask)).astype(jnp.int32)

        return {"random": self.random_action, "thrifty": thrifty}
