"""Tiny reference games with known values, small enough to reason about and to compile in a moment.

TicTacToe (turn-based, perfect information), RockPaperScissors (simultaneous), Corridor (one seat, cut off by a time
limit), HighCard (three seats, hidden hands, rewards that arrive between a seat's turns), OneAgainstTwo (the same with
sides of different sizes) and Signals (two against two, who must tell each other something).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Bot, Env, Key, State, public_fields
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.card_beliefs import CardBeliefs
from jaxrl_envs.shared.errors import UserError

LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])


def keys_of(seed: int, count: int) -> jax.Array:
    """Fast keys."""
    return jax.vmap(prng.from_key)(jax.random.split(jax.random.key(seed), count))


def lowest_action(state: State, key: Key) -> jax.Array:
    """Returns the legal action with the lowest number."""
    del key
    return jnp.argmax(state.legal_action_mask, axis=-1).astype(jnp.int32)


# ---- TicTacToe ------------------------------------------------------------------------------------------------------


@struct.dataclass
class TicTacToeState(State):
    board: jax.Array  # i8[9], -1 empty, else the seat


class TicTacToe(Env):
    """Perfect play draws (value 0). Uniformly random play: the first seat wins 0.585, the second 0.288 of the games."""

    id = "tic_tac_toe"
    version = "1"
    perfect_information = True

    def __init__(self, *, random_start: bool = False):
        """A game with these rules.

        Args:
          random_start: begin with one random move of each seat, so that deals differ.
        """
        self.num_players, self.num_actions = 2, 9
        self.random_start = random_start

    def _init(self, key: Key) -> TicTacToeState:
        board = jnp.full(9, -1, jnp.int8)
        if self.random_start:
            cells = jax.random.permutation(key, 9)
            board = board.at[cells[0]].set(0).at[cells[1]].set(1)
        fields = public_fields(num_players=2, num_actions=9) | {"legal_action_mask": board < 0}
        return TicTacToeState(observation=None, board=board, **fields)

    def _step(self, state: TicTacToeState, action: jax.Array, key: Key) -> TicTacToeState:
        me = state.current_player
        board = state.board.at[action].set(me.astype(jnp.int8))
        won = jnp.any(jnp.all(board[LINES] == me, axis=1))
        sign = jnp.where(jnp.arange(2) == me, 1.0, -1.0)
        return state.replace(
            current_player=1 - me,
            board=board,
            legal_action_mask=board < 0,
            rewards=jnp.where(won, sign, 0.0).astype(jnp.float32),
            terminated=won | jnp.all(board >= 0),
        )

    def observe(self, state: TicTacToeState, seat: jax.Array) -> jax.Array:
        """Returns bool[9, 2]: my stones, the other seat's stones."""
        return jnp.stack([state.board == seat, state.board == 1 - seat], axis=-1)

    def render(self, state: TicTacToeState, seat: int | None = None) -> str:
        cells = ["XO."[int(cell)] for cell in np.asarray(state.board)]
        return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6))

    @property
    def bots(self) -> Mapping[str, Bot]:
        return {"random": self.random_action, "lowest": lowest_action}


# ---- RockPaperScissors ----------------------------------------------------------------------------------------------


@struct.dataclass
class RockPaperScissorsState(State):
    last: jax.Array  # i8[P], the last choices; 3 before the first
    round: jax.Array  # i8[]


class RockPaperScissors(Env):
    """Every seat chooses in every round and plays all others; a round's rewards sum to 0.

    The uniform policy has value 0 against anything (without `no_repeat`)."""

    id = "rock_paper_scissors"
    version = "1"
    simultaneous = perfect_information = True

    def __init__(self, *, num_players: int = 2, rounds: int = 4, no_repeat: bool = False):
        """A game with these rules.

        Args:
          num_players: seats at the table, at least 2.
          rounds: choices per game.
          no_repeat: forbid a seat its own choice of the round before.
        """
        if num_players < 2:
            raise UserError(f"rock_paper_scissors option num_players must be at least 2, not {num_players}")
        self.num_players, self.num_actions = num_players, 3
        self.rounds, self.no_repeat = rounds, no_repeat

    def _init(self, key: Key) -> RockPaperScissorsState:
        seats = self.num_players
        fields = public_fields(num_players=seats, num_actions=3) | {
            "current_player": jnp.arange(seats, dtype=jnp.int32),
            "legal_action_mask": jnp.ones((seats, 3), bool),
        }
        return RockPaperScissorsState(observation=None, last=jnp.full(seats, 3, jnp.int8), round=jnp.int8(0), **fields)

    def _step(self, state: RockPaperScissorsState, action: jax.Array, key: Key) -> RockPaperScissorsState:
        difference = (action[:, None] - action[None, :]) % 3  # 1 = the row beats the column
        score = (difference == 1).astype(jnp.float32) - (difference == 2).astype(jnp.float32)
        repeated = jnp.arange(3) == action[:, None]
        return state.replace(
            last=jnp.asarray(action, jnp.int8),
            round=state.round + jnp.int8(1),
            legal_action_mask=~repeated if self.no_repeat else jnp.ones_like(repeated),
            rewards=score.sum(axis=1) / (self.num_players - 1),
            terminated=state.round + 1 >= self.rounds,
        )

    def observe(self, state: RockPaperScissorsState, seat: jax.Array) -> dict[str, jax.Array]:
        """{"last": i8[P] with the own choice first, "round": i8[]}."""
        return {"last": jnp.roll(state.last, -seat), "round": state.round}


# ---- Corridor -------------------------------------------------------------------------------------------------------


@struct.dataclass
class CorridorState(State):
    position: jax.Array  # i8[]
    time: jax.Array  # i8[]


class Corridor(Env):
    """A walk on 0 .. length-1: action 1 goes right, 0 left (0 stays 0).

    The right wall pays +1 and ends the game, which is cut off after `limit` steps. Always right from position p has
    value gamma ** (length - 2 - p); always left never ends and has value 0.
    """

    id = "corridor"
    version = "1"
    may_truncate = True

    def __init__(self, *, length: int = 5, limit: int = 12, random_start: bool = True):
        """A game with these rules.

        Args:
          length: cells.
          limit: steps until the game is cut off.
          random_start: begin in any cell but the last, else in cell 0.
        """
        self.num_players, self.num_actions = 1, 2
        self.length, self.limit, self.random_start = length, limit, random_start

    def _init(self, key: Key) -> CorridorState:
        start = jax.random.randint(key, (), 0, self.length - 1) if self.random_start else 0
        return CorridorState(
            observation=None,
            position=jnp.asarray(start, jnp.int8),
            time=jnp.int8(0),
            **public_fields(num_players=1, num_actions=2),
        )

    def _step(self, state: CorridorState, action: jax.Array, key: Key) -> CorridorState:
        position = jnp.maximum(state.position + (2 * action - 1), 0).astype(jnp.int8)
        arrived = position >= self.length - 1
        return state.replace(
            position=position,
            time=state.time + jnp.int8(1),
            rewards=jnp.where(arrived, 1.0, 0.0).astype(jnp.float32)[None],
            terminated=arrived,
            truncated=~arrived & (state.time + 1 >= self.limit),
        )

    def observe(self, state: CorridorState, seat: jax.Array) -> jax.Array:
        """Returns bool[length]: the position; the time is not seen, so a cut is not foreseeable."""
        return jnp.arange(self.length) == state.position

    def permute_hidden(self, state: CorridorState, seat: jax.Array, key: Key) -> CorridorState:
        return state.replace(time=jax.random.randint(key, (), 0, self.limit).astype(jnp.int8))


# ---- HighCard -------------------------------------------------------------------------------------------------------

STOCK, PLAYED = 3, 4  # owners of a card beside the seats 0, 1, 2


class HighCardView(NamedTuple):
    """One seat's view; seats are relative to it."""

    hand: jax.Array  # bool[12]
    seen: jax.Array  # bool[12], played in this game
    table: jax.Array  # i8[3], the card of each seat in this trick, -1 = none yet
    won: jax.Array  # i8[3], tricks


@struct.dataclass
class HighCardState(State):
    owner: jax.Array  # i8[12], a seat, STOCK or PLAYED
    table: jax.Array  # i8[3], by absolute seat
    won: jax.Array  # i8[3]


class HighCard(Env):
    """Three seats hold three of twelve cards each; the highest card takes the trick, its owner leads the next one.

    A trick pays +1 to its winner and -1/2 to the others, when its last card falls: to the first two seats between their
    turns. The seat with the most tricks gets 1 more at the end (shared if tied).
    """

    id = "high_card"
    version = "1"

    def __init__(self) -> None:
        self.num_players, self.num_actions = 3, 12

    def _init(self, key: Key) -> HighCardState:
        deal_key, start_key = jax.random.split(key)
        owner = jax.random.permutation(deal_key, jnp.repeat(jnp.arange(4, dtype=jnp.int8), 3))
        leader = jax.random.randint(start_key, (), 0, 3)
        fields = public_fields(num_players=3, num_actions=12) | {
            "current_player": leader,
            "legal_action_mask": owner == leader,
        }
        return HighCardState(
            observation=None, owner=owner, table=jnp.full(3, -1, jnp.int8), won=jnp.zeros(3, jnp.int8), **fields
        )

    def _step(self, state: HighCardState, action: jax.Array, key: Key) -> HighCardState:
        me = state.current_player
        owner = state.owner.at[action].set(PLAYED)
        table = state.table.at[me].set(jnp.asarray(action, jnp.int8))
        complete = jnp.all(table >= 0)
        winner = jnp.argmax(table).astype(jnp.int32)
        took = complete & (jnp.arange(3) == winner)
        won = state.won + took.astype(jnp.int8)
        over = jnp.sum(won) == 3
        best = won == jnp.max(won)
        trick = jnp.where(complete, jnp.where(took, 1.0, -0.5), 0.0)
        following = jnp.where(complete, winner, (me + 1) % 3)
        return state.replace(
            current_player=following,
            owner=owner,
            table=jnp.where(complete, jnp.int8(-1), table),
            won=won,
            legal_action_mask=owner == following,
            rewards=(trick + jnp.where(over & best, 1.0 / jnp.sum(best), 0.0)).astype(jnp.float32),
            terminated=over,
        )

    def observe(self, state: HighCardState, seat: jax.Array) -> HighCardView:
        return HighCardView(
            hand=state.owner == seat,
            seen=state.owner == PLAYED,
            table=jnp.roll(state.table, -seat),
            won=jnp.roll(state.won, -seat),
        )

    def privileged(self, state: HighCardState, seat: jax.Array) -> jax.Array:
        """Returns bool[3, 12]: the hands of the next seat and of the one after it, the stock."""
        owner = jnp.where(state.owner < 3, (state.owner - seat) % 3, state.owner)
        return owner == jnp.array([1, 2, STOCK])[:, None]

    def card_beliefs(self, observation: HighCardView) -> CardBeliefs:
        """12 cards; the next seat, the one after it, the stock."""
        hidden = ~(observation.hand | observation.seen)
        played = (jnp.sum(observation.won) + (observation.table[1:] >= 0)).astype(jnp.int32)
        return CardBeliefs(jnp.broadcast_to(hidden[:, None], (12, 3)), jnp.append(3 - played, 3))

    def holders(self, observation: HighCardView, privileged: jax.Array) -> jax.Array:
        return jnp.where(jnp.any(privileged, axis=0), jnp.argmax(privileged, axis=0), -1).astype(jnp.int32)

    def world_with(self, state: HighCardState, seat: jax.Array, holders: jax.Array, key: Key) -> HighCardState:
        owner = jnp.where(holders < 2, (seat + 1 + holders) % 3, STOCK)
        return self._owned(state, jnp.where(holders < 0, state.owner, owner).astype(jnp.int8))

    def permute_hidden(self, state: HighCardState, seat: jax.Array, key: Key) -> HighCardState:
        hidden = (state.owner != seat) & (state.owner != PLAYED)
        place = jnp.argsort(jnp.where(hidden, jax.random.uniform(key, (12,)), 2.0))  # hidden cards first, shuffled
        owners = jnp.sort(jnp.where(hidden, state.owner, jnp.int8(9)))  # hidden ones first: who holds how many is known
        shown = jnp.arange(12) >= jnp.sum(hidden)
        return self._owned(state, state.owner.at[place].set(jnp.where(shown, state.owner[place], owners)))

    def reconcile(
        self, particle: HighCardState, actual: HighCardState, seat: jax.Array, key: Key
    ) -> tuple[HighCardState, jax.Array]:
        seen = (actual.owner == seat) | (actual.owner == PLAYED)
        possible = jnp.all(jnp.where(seen, particle.owner == actual.owner, particle.owner != seat))
        possible &= jnp.all((particle.owner == PLAYED) == (actual.owner == PLAYED))
        return self._owned(actual, jnp.where(seen, actual.owner, particle.owner)), possible

    def _owned(self, state: HighCardState, owner: jax.Array) -> HighCardState:
        mask = (owner == state.current_player) | state.terminated
        return state.replace(owner=owner, legal_action_mask=mask)

    def episode_stats(self, state: HighCardState) -> dict[str, jax.Array]:
        return {"tricks": state.won.astype(jnp.float32)}

    @property
    def bots(self) -> Mapping[str, Bot]:
        return {"random": self.random_action, "lowest": lowest_action, "highest": _highest}


def _highest(state: State, key: Key) -> jax.Array:
    del key
    return (11 - jnp.argmax(state.legal_action_mask[::-1])).astype(jnp.int32)


class OneAgainstTwo(HighCard):
    """HighCard in which seat 0 plays against the other two, who win and lose together."""

    id = "one_against_two"
    sides = (0, 1, 1)


class OneLoser(HighCard):
    """Three seats of which one loses: it pays what the two others win."""

    winning = "A win is a return above zero."

    def outcome(self, returns):
        return 2 * (returns > 0).astype("int8") - 1


# ---- Signals --------------------------------------------------------------------------------------------------------

CHOICES, TALKS = 4, 6


@struct.dataclass
class SignalsState(State):
    numbers: jax.Array  # i8[TALKS, 2], known to seats 0 and 1, by side
    word: jax.Array  # i8[2], said in this round, -1 = nothing yet
    right: jax.Array  # i8[2], rounds in which a side's second seat named its number
    time: jax.Array  # i32[]


class Signals(Env):
    """Two against two: seats 0 and 2, and seats 1 and 3, are sides.

    In each round seats 0 and 1 see a number of their own and say one openly; then seats 2 and 3 name a number, and
    score for their side if it is what their partner has seen. A team that listens to its own words ("optimal" says the
    number as it is) is right in every round, uniformly random play in one of four: of 4096 games, "optimal" draws one
    against it and wins the others.
    """

    id = "signals"
    version = "1"
    sides = (0, 1, 0, 1)

    def __init__(self) -> None:
        self.num_players, self.num_actions = 4, CHOICES

    def _init(self, key: Key) -> SignalsState:
        numbers = jax.random.randint(key, (TALKS, 2), 0, CHOICES).astype(jnp.int8)
        word, right = jnp.full(2, -1, jnp.int8), jnp.zeros(2, jnp.int8)
        fields = public_fields(num_players=4, num_actions=CHOICES)
        return SignalsState(observation=None, numbers=numbers, word=word, right=right, time=jnp.int32(0), **fields)

    def _step(self, state: SignalsState, action: jax.Array, key: Key) -> SignalsState:
        turn = state.time % 4
        mine, speaks = jnp.arange(2) == turn % 2, turn < 2
        right = mine & ~speaks & (action == state.numbers[state.time // 4])
        word = jnp.where(mine & speaks, jnp.asarray(action, jnp.int8), state.word)
        gain = right.astype(jnp.float32) / TALKS
        return state.replace(
            current_player=(turn + 1) % 4,
            word=jnp.where(turn == 3, jnp.int8(-1), word),
            right=state.right + right.astype(jnp.int8),
            time=state.time + 1,
            rewards=(gain - gain[::-1])[np.array(self.sides)],
            terminated=state.time + 1 == 4 * TALKS,
        )

    def observe(self, state: SignalsState, seat: jax.Array) -> jax.Array:
        """Returns bool[3, CHOICES]: the number (seats 0 and 1 only), the own side's word, the other side's."""
        number = jnp.where(seat < 2, state.numbers[jnp.minimum(state.time // 4, TALKS - 1), seat % 2], -1)
        seen = jnp.stack([number, state.word[seat % 2], state.word[1 - seat % 2]])
        return seen[:, None] == jnp.arange(CHOICES)

    def permute_hidden(self, state: SignalsState, seat: jax.Array, key: Key) -> SignalsState:
        now = jnp.arange(TALKS)[:, None] == state.time // 4
        own = now & (jnp.arange(2) == seat % 2) & (seat < 2)
        past = jnp.arange(TALKS)[:, None] < jnp.minimum(state.time // 4, TALKS - 1)
        kept = own | past | state.terminated
        fresh = jax.random.randint(key, (TALKS, 2), 0, CHOICES).astype(jnp.int8)
        return state.replace(numbers=jnp.where(kept, state.numbers, fresh))

    def event(self, before: SignalsState, action: int, after: SignalsState, seat: int | None = None) -> str:
        """Returns the action as a sentence; the numbers that seats 2 and 3 name are hidden from other seats."""
        asked = int(before.current_player)
        return f"seat {asked} " + (f"says {int(action)}" if asked < 2 or seat in (None, asked) else "names a number")

    def episode_stats(self, state: SignalsState) -> dict[str, jax.Array]:
        return {"right": state.right[np.array(self.sides)].astype(jnp.float32)}

    @property
    def bots(self) -> Mapping[str, Bot]:
        return {"random": self.random_action, "optimal": _say_and_repeat}


def _say_and_repeat(state: State, key: Key) -> jax.Array:
    """Says the number, or names the partner's word; both are rows of the observation."""
    del key
    number, word, _ = state.observation
    return jnp.where(state.current_player < 2, jnp.argmax(number), jnp.argmax(word)).astype(jnp.int32)
