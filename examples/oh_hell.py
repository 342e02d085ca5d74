"""Oh Hell, one deal of a trick-taking game: bid openly how many tricks you will take, follow suit, trumps beat all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields
from jaxrl_envs.shared.errors import UserError

SUITS, RANKS = 4, 13
CARDS = SUITS * RANKS  # card 13 * suit + rank; ranks 0 to 12 are two to ace
NAMES = [rank + suit for suit in "CDSH" for rank in "23456789TJQKA"]


@struct.dataclass
class OhHellState(State):
    """The public leaves, who holds each card, and the bidding and the tricks so far, which everyone sees."""

    holder: jax.Array  # i8[52]: a seat; P: not dealt; P + 1: face up, the trump card and what was played
    trump: jax.Array  # i32[]: a suit
    dealer: jax.Array  # i32[]
    bids: jax.Array  # i8[P]; -1: none yet
    won: jax.Array  # i8[P]: tricks
    table: jax.Array  # i8[P]: the card of each seat in this trick; -1: none yet
    led: jax.Array  # i32[]: the suit of its first card; -1: none yet
    void: jax.Array  # bool[P, 4]: suits that a seat did not follow, of which it has none


class OhHell(Env):
    """Actions 0 to 51 play a card, action 52 + b bids b tricks. A trick is worth 1, a bid that is met 10."""

    id, version = "oh_hell", "1"
    public_actions = True
    reference_bot = "careful"
    how_to_play = (
        "Bid how many tricks you will take; the dealer bids last and may not make the bids add up. Follow suit if you "
        "can; the highest trump takes the trick, or else the highest card of the suit led. A trick is worth a point, "
        "a bid that is met exactly ten more."
    )

    def __init__(self, *, players: int = 3, tricks: int = 5):
        """Sets up a game.

        Args:
          players: 3 to 7 seats.
          tricks: cards in each hand.
        """
        if not 3 <= players <= 7 or not 1 <= tricks <= (CARDS - 1) // players:
            raise UserError(f"oh_hell: 3 to 7 players, and 1 to {(CARDS - 1) // max(players, 3)} tricks among them")
        self.num_players, self.tricks, self.num_actions = players, tricks, CARDS + tricks + 1

    def _init(self, key):
        seats, (deal_key, dealer_key) = self.num_players, jax.random.split(key)
        holders = jnp.arange(CARDS) // self.tricks  # hands, then the trump card, then the rest
        holders = jnp.where(holders < seats, holders, seats).at[self.tricks * seats].set(seats + 1)
        holder = jax.random.permutation(deal_key, holders).astype(jnp.int8)
        dealer = jax.random.randint(dealer_key, (), 0, seats)
        state = OhHellState(
            observation=None,
            **public_fields(num_players=seats, num_actions=self.num_actions),
            holder=holder,
            trump=jnp.argmax(holder == seats + 1) // RANKS,
            dealer=dealer,
            bids=jnp.full(seats, -1, jnp.int8),
            won=jnp.zeros(seats, jnp.int8),
            table=jnp.full(seats, -1, jnp.int8),
            led=jnp.int32(-1),
            void=jnp.zeros((seats, SUITS), bool),
        )
        return self._asked(state, (dealer + 1) % seats)

    def _asked(self, state, seat):
        """Returns the state in which `seat` is asked, with its legal actions."""
        hand = state.holder == seat
        following = hand & (jnp.arange(CARDS) // RANKS == state.led)
        cards = jnp.where(following.any(), following, hand)
        bids = jnp.arange(self.tricks + 1)
        allowed = (seat != state.dealer) | (bids + jnp.sum(jnp.maximum(state.bids, 0)) != self.tricks)
        bidding = state.bids[seat] < 0
        mask = jnp.concatenate([cards & ~bidding, allowed & bidding])
        return state.replace(current_player=seat, legal_action_mask=mask)

    def _step(self, state, action, key):
        me, seats = state.current_player, self.num_players
        plays = state.bids[me] >= 0
        bids = jnp.where(plays, state.bids, state.bids.at[me].set((action - CARDS).astype(jnp.int8)))
        card = jnp.minimum(action, CARDS - 1)
        suit = card // RANKS
        led = jnp.where(plays & (state.led < 0), suit, state.led)
        table = jnp.where(plays, state.table.at[me].set(card.astype(jnp.int8)), state.table)
        full = jnp.all(table >= 0)
        taker = jnp.argmax(strength(table, led, state.trump)).astype(jnp.int32)
        won = state.won.at[taker].add(full.astype(jnp.int8))
        over = jnp.sum(won) == self.tricks
        state = state.replace(
            holder=jnp.where(plays, state.holder.at[card].set(seats + 1), state.holder),
            bids=bids,
            won=won,
            table=jnp.where(full, jnp.int8(-1), table),
            led=jnp.where(full, -1, led),
            void=state.void.at[me, led].max(plays & (suit != led)),
            rewards=jnp.where(over, won + 10.0 * (won == bids), 0.0),
            terminated=over,
        )
        return self._asked(state, jnp.where(full, taker, (me + 1) % seats))

    def observe(self, state, seat):
        """Returns the own hand, the cards face up, the trick, bids, tricks and voids from this seat on, as flags."""

        def turned(values):
            return jnp.roll(values, -seat, axis=0)

        return (
            jnp.stack([state.holder == seat, state.holder == self.num_players + 1]),
            turned(state.table)[:, None] == jnp.arange(CARDS),
            turned(state.bids)[:, None] == jnp.arange(-1, self.tricks + 1),
            turned(state.won)[:, None] == jnp.arange(self.tricks + 1),
            turned(state.void),
            jnp.stack([jnp.arange(SUITS) == state.trump, jnp.arange(SUITS) == state.led]),
            turned(jnp.arange(self.num_players) == state.dealer),
        )

    def permute_hidden(self, state, seat, key):
        """Deals what `seat` does not see again, to each seat as many cards, none of a suit that it did not follow."""
        seats = self.num_players
        unseen = (state.holder != seat) & (state.holder <= seats)
        sizes = jnp.sum(state.holder == jnp.arange(seats)[:, None], axis=1)
        order = jnp.argsort(-jnp.sum(state.void, axis=1))  # those with the most voids choose first

        def deal(holder, each):
            one, key = each
            cards = holder == seats + 2
            free = cards & ~state.void[one][jnp.arange(CARDS) // RANKS]
            score = jax.random.uniform(key, (CARDS,)) + free + cards  # where too few are free, others fill the hand
            taken = jnp.argsort(jnp.argsort(-score)) < jnp.where(one == seat, 0, sizes[one])
            return jnp.where(taken, one.astype(jnp.int8), holder), None

        start = jnp.where(unseen, jnp.int8(seats + 2), state.holder)
        holder, _ = jax.lax.scan(deal, start, (order, jax.random.split(key, seats)))
        state = state.replace(holder=jnp.where(holder == seats + 2, jnp.int8(seats), holder))
        return self._asked(state, state.current_player)

    def render(self, state, seat=None):
        """Returns the hands that `seat` may see, all if it is None, and what lies open, as text."""
        lines = [f"trumps: {'CDSH'[int(state.trump)]}; dealer: seat {int(state.dealer)}"]
        for one in range(self.num_players):
            bid, card = int(state.bids[one]), int(state.table[one])
            hand = " ".join(NAMES[c] for c in range(CARDS) if state.holder[c] == one) if seat in (None, one) else ""
            said = "no bid" if bid < 0 else f"{int(state.won[one])} of {bid}"
            lines.append(f"seat {one}: {said}; on the table {NAMES[card] if card >= 0 else '-'}; {hand}".rstrip("; "))
        return "\n".join(lines)

    def action_name(self, action):
        """Returns the name of an action."""
        return NAMES[action] if action < CARDS else f"bid {action - CARDS}"

    @property
    def bots(self):
        """Scripted opponents; "careful" bids its high cards, and takes tricks as long as it needs some."""

        def careful(state, key):
            me, cards = state.current_player, jnp.arange(CARDS)
            high = (cards % RANKS >= 11) | ((cards // RANKS == state.trump) & (cards % RANKS >= 8))
            wish = jnp.sum((state.holder == me) & high)
            bid = jnp.argmin(jnp.where(state.legal_action_mask[CARDS:], abs(jnp.arange(self.tricks + 1) - wish), 99))
            power = strength(cards, jnp.where(state.led < 0, cards // RANKS, state.led), state.trump)
            wins = power > jnp.max(jnp.where(state.table >= 0, strength(state.table, state.led, state.trump), -1))
            wanted = wins == (state.won[me] < state.bids[me])
            # The cheapest card that takes the trick, or the dearest that does not.
            score = jnp.where(wins, -power, power) + 100 * wanted
            card = jnp.argmax(jnp.where(state.legal_action_mask[:CARDS], score, -1000))
            return jnp.where(state.bids[me] < 0, CARDS + bid, card).astype(jnp.int32)

        return {"random": self.random_action, "careful": careful}


def strength(card, led, trump):
    """Returns what a card is worth in a trick, i32: higher takes it; cards of other suits than these two never do."""
    suit = card // RANKS
    return jnp.where(suit == trump, 26, jnp.where(suit == led, 13, 0)) + card % RANKS
