"""Kuhn poker (1950): three cards, an ante of one, one bet of one. Small enough to know how exploitable a policy is.

The first seat passes or bets; after a bet the other folds (passes) or calls (bets); after a pass and a bet the first
seat folds or calls. The value of the game is -1/18 for the first seat.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl.networks.base import Network
from jaxrl_envs.contract.env import Env, Key, State, public_fields

CARDS, HISTORIES = 3, 4  # histories: nothing, pass, bet, pass and bet
BEGIN, PASS, BET, PASS_BET = range(HISTORIES)
VALUE = -1 / 18


@struct.dataclass
class KuhnState(State):
    cards: jax.Array  # i8[2], different ones of 0 .. 2
    history: jax.Array  # i8[]


class Kuhn(Env):
    """Action 0 passes, 1 bets; rewards are chips, -2 to 2."""

    id = "kuhn"
    version = "1"
    public_actions = True

    def __init__(self) -> None:
        self.num_players, self.num_actions = 2, 2

    def _init(self, key: Key) -> KuhnState:
        cards = jax.random.permutation(key, CARDS)[:2].astype(jnp.int8)
        fields = public_fields(num_players=2, num_actions=2)
        return KuhnState(observation=None, cards=cards, history=jnp.int8(BEGIN), **fields)

    def _step(self, state: KuhnState, action: jax.Array, key: Key) -> KuhnState:
        bet, me = action == 1, state.current_player
        faced = (state.history == BET) | (state.history == PASS_BET)  # a bet
        over = faced | ((state.history == PASS) & ~bet)
        shown = jnp.where(jnp.argmax(state.cards) == 0, 1.0, -1.0) * jnp.where(faced, 2.0, 1.0)  # for the first seat
        folded = jnp.where(me == 0, -1.0, 1.0)
        first = jnp.where(over, jnp.where(faced & ~bet, folded, shown), 0.0)
        history = jnp.where(state.history == BEGIN, jnp.where(bet, BET, PASS), PASS_BET)
        return state.replace(
            current_player=1 - me,
            history=history.astype(jnp.int8),
            rewards=jnp.stack([first, -first]).astype(jnp.float32),
            terminated=over,
        )

    def observe(self, state: KuhnState, seat: jax.Array) -> jax.Array:
        """Returns bool[7]: the own card, the history."""
        return observation(state.cards[seat], state.history)

    def permute_hidden(self, state: KuhnState, seat: jax.Array, key: Key) -> KuhnState:
        """Draws the other card from the two that the seat does not hold."""
        other = (state.cards[seat] + 1 + jax.random.randint(key, (), 0, 2)) % CARDS
        return state.replace(cards=state.cards.at[1 - seat].set(other.astype(jnp.int8)))

    def render(self, state: KuhnState, seat: int | None = None) -> str:
        cards = [str(int(card)) if seat in (None, number) else "?" for number, card in enumerate(state.cards)]
        return f"{' '.join(cards)} {('', 'pass', 'bet', 'pass, bet')[int(state.history)]}"


def observation(card: Any, history: Any) -> jax.Array:
    """Returns bool[7]: the card, the history."""
    return jnp.concatenate([jnp.arange(CARDS) == card, jnp.arange(HISTORIES) == history])


# ---- exactly ------------------------------------------------------------------------------------------------------


def bets_of(network: Network, params: Any) -> np.ndarray:
    """Returns f64[CARDS, HISTORIES], a network's probability of a bet by own card and history."""
    seen = jnp.stack([observation(*each) for each in itertools.product(range(CARDS), range(HISTORIES))])
    evaluate = jax.jit(jax.vmap(network.evaluate, in_axes=(None, None, 0, None)))
    logits = evaluate(params, (), seen, jnp.ones(2, bool))[1]
    return np.asarray(jax.nn.softmax(logits)[:, 1], np.float64).reshape(CARDS, HISTORIES)


def expected(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns f64[CARDS, CARDS], expected chips of the first seat by both cards; policies are those of `bets_of`."""
    chips = np.zeros((CARDS, CARDS))
    for a, b in itertools.permutations(range(CARDS), 2):
        sign = 1.0 if a > b else -1.0
        bet = second[b, BET] * 2 * sign + (1 - second[b, BET])
        called = first[a, PASS_BET] * 2 * sign - (1 - first[a, PASS_BET])
        passed = second[b, PASS] * called + (1 - second[b, PASS]) * sign
        chips[a, b] = first[a, BEGIN] * bet + (1 - first[a, BEGIN]) * passed
    return chips


def exploitability(policy: np.ndarray) -> float:
    """Exploitability of a policy of `bets_of`: chips per game of a best response, mean over both seats. It is half
    of the NashConv (Lanctot et al. 2017); 0 for an equilibrium."""
    pure = [np.array(each) for each in itertools.product((0.0, 1.0), repeat=HISTORIES)]  # of one card
    same = [np.tile(each, (CARDS, 1)) for each in pure]
    first = np.max([expected(each, policy).sum(axis=1) for each in same], axis=0)  # by card: the best for each
    second = np.max([-expected(policy, each).sum(axis=0) for each in same], axis=0)
    return float(first.sum() + second.sum()) / 6 / 2
