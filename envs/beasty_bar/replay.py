"""Recorded games and decisions put through the compiled engine in batches: what `verify` compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from envs.beasty_bar import bots, rules
from envs.beasty_bar import cards as c
from envs.beasty_bar.env import BeastyBar, BeastyBarState
from envs.beasty_bar.records import MAX_TURNS
from envs.beasty_bar.rules import Game, Table
from envs.recorded import Record

AT_ONCE = 2_048  # records per call: few different shapes, so that a program serves many calls


class Turn(NamedTuple):
    """One turn of a game; as host arrays [turns], padded."""

    seat: Any  # i32[], who moves
    legal: Any  # u32[], bit = action id
    # After the turn:
    queue: Any  # u32[], `rules.Table`
    bar: Any  # u32[]
    out: Any  # u32[]
    over: Any  # bool[]


class Replay(NamedTuple):
    """One game."""

    turns: Turn  # NumPy, leading axis = MAX_TURNS
    points: np.ndarray  # i32[2]


class Choice(NamedTuple):
    """What one opponent thinks of one position."""

    legal: int  # word of the legal ids
    scores: np.ndarray  # f32[SLOTS], of the legal ids in ascending order, then repetitions
    best: int  # word of the ids it draws from


def games(recorded: Sequence[Record]) -> Iterator[Replay]:
    """Plays all games, in the order of the records, which must have been checked."""
    for chunk, size in _chunks(recorded):
        actions = np.zeros((len(chunk), MAX_TURNS), np.int32)
        for row, record in zip(actions, chunk, strict=True):
            row[: len(record["moves"])] = [move[2] for move in record["moves"]]
        decks = np.asarray([record["decks"] for record in chunk], np.int32)
        start = np.asarray([record["start"] for record in chunk], np.int32)
        turns, points = jax.device_get(_play_games()(decks, start, actions))
        for i in range(size):
            yield Replay(Turn(*(leaf[i] for leaf in turns)), points[i])


def choices(recorded: Sequence[Record]) -> Iterator[Choice]:
    """Asks the opponent of every record, in their order."""
    for chunk, size in _chunks(recorded):
        positions = jax.tree.map(lambda *leaves: np.stack(leaves), *map(position, chunk))
        weights = np.stack([bots.weights_of(record["bot"]) for record in chunk])
        legal, scores, best = jax.device_get(_score()(positions, weights))
        for i in range(size):
            yield Choice(int(legal[i]), scores[i], int(best[i]))


def position(record: Record) -> Game:
    """The position of a recorded decision (start, ply, queue, bar, out, hand, deck), leaves NumPy scalars."""
    both = [_pair(record[zone]) for zone in ("bar", "out")]
    queue = sum(code + 1 << c.FIELD * place for place, code in enumerate(record["queue"]))
    hands = _pair([sum(1 << strength - 1 for strength in hand) for hand in record["hand"]])
    decks = [sum(strength - 1 << 4 * i for i, strength in enumerate(deck)) for deck in record["deck"]]
    return Game(
        table=Table(queue=_u32(queue), bar=_u32(both[0]), out=_u32(both[1])),
        hands=_u32(hands),
        deck0=_u32(decks[0]),
        deck1=_u32(decks[1]),
        ply=_i32(record["ply"]),
        start=_i32(record["start"]),
    )


def at_position(game: Game) -> BeastyBarState:
    """A running game at any position, without an observation: for asking the opponents."""
    env = BeastyBar()
    state = env.init_from_decks(jnp.tile(jnp.arange(1, c.SPECIES + 1), (2, 1)), game.start)
    legal = rules.legal_word(game.table, c.of_seat(game.hands, game.seat))
    mask = ((legal >> jnp.arange(rules.NUM_ACTIONS, dtype=jnp.uint32)) & 1).astype(bool)
    return state.replace(game=game, legal=legal, current_player=game.seat, legal_action_mask=mask, observation=None)


def _u32(value: int) -> Any:
    return np.uint32(value)


def _i32(value: int) -> Any:
    return np.int32(value)


def _pair(masks: Sequence[int]) -> int:
    return masks[0] | masks[1] << c.SPECIES


def _chunks(recorded: Sequence[Record]) -> Iterator[tuple[Sequence[Record], int]]:
    """Parts of equal, round size (the last record is repeated), and how many records of each are real."""
    size = min(max(8, 1 << (len(recorded) - 1).bit_length()), AT_ONCE)
    for start in range(0, len(recorded), size):
        chunk = list(recorded[start : start + size])
        yield chunk + [chunk[-1]] * (size - len(chunk)), len(chunk)


@cache
def _play_games() -> Callable:
    env = BeastyBar()

    def turn(state: BeastyBarState, action: jax.Array):
        after = env.step(state, action, jax.random.key(0))
        assert isinstance(after, BeastyBarState)
        table = after.game.table
        return after, Turn(state.current_player, state.legal, table.queue, table.bar, table.out, after.terminated)

    def play(decks: jax.Array, start: jax.Array, actions: jax.Array):
        state, turns = lax.scan(turn, env.init_from_decks(decks, start), actions)
        return turns, rules.scores(state.game.table)

    return jax.jit(jax.vmap(play))


@cache
def _score() -> Callable:
    def score(game: Game, weights: jax.Array):
        state = at_position(game)
        actions = bots.legal_slots(state.legal)
        scores = bots.scores(state, actions, weights)
        return state.legal, scores, bots.best_word(actions, scores, state.legal)

    return jax.jit(jax.vmap(score))
