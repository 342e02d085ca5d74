"""Recorded Beasty Bar games and opponents' choices, and the same by the compiled engine.

Games: both card orders and, for every turn, who moved, what was legal and the table afterwards. Bot choices: one
decision a record, a position with the ids from which one scripted opponent draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrl_envs.beasty_bar import bots, rules
from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display.position import queue_codes, seat_mask
from jaxrl_envs.beasty_bar.env import BeastyBar, BeastyBarState
from jaxrl_envs.beasty_bar.rules import NUM_ACTIONS, BeastyBarGame, Zones
from jaxrl_envs.shared.golden import Disagreement, Kind, Record, batches, require, taken, unlike

MAX_TURNS = 2 * c.SPECIES
AT_ONCE = 2_048  # records of one call of a program
SCORE_TOLERANCE = 1e-3  # float32 sums of some twenty terms against float64
DETERMINISTIC = tuple(name for name in bots.NAMES if name not in ("random", "noisy"))

SEAT, ID, STRENGTH = range(2), range(NUM_ACTIONS), range(1, c.SPECIES + 1)
QUEUE, MASKS = [range(2 * c.SPECIES)], (range(c.ALL_SPECIES + 1),) * 2
MOVE = ("seat", "legal ids", "action", "queue", "bar", "out")  # the figures of a turn


class Turn(NamedTuple):
    """One turn of a game by the engine; [turns], padded."""

    seat: Any  # i32[], the seat to move
    legal: Any  # u32[], bit = action id
    # After the turn:
    queue: Any  # u32[], `rules.Zones`
    bar: Any  # u32[]
    out: Any  # u32[]
    over: Any  # bool[]


# ---- games ----------------------------------------------------------------------------------------------------------


def _check_game(record: Record) -> None:
    for deck in record["decks"]:
        require(sorted(deck) == list(STRENGTH), "a deck is not a permutation of the twelve species")
    require(0 < len(record["moves"]) <= MAX_TURNS, "the number of turns is impossible")
    _check_queues([move[MOVE.index("queue")] for move in record["moves"]])


def _compare_games(records: list[Record]) -> Iterator[Iterator[Disagreement]]:
    for chunk, size in batches(records, AT_ONCE):
        actions = np.zeros((len(chunk), MAX_TURNS), np.int32)
        for row, record in zip(actions, chunk, strict=True):
            row[: len(record["moves"])] = [move[MOVE.index("action")] for move in record["moves"]]
        decks = np.asarray([record["decks"] for record in chunk], np.int32)
        start = np.asarray([record["start"] for record in chunk], np.int32)
        turns, points = jax.device_get(_play_games()(decks, start, actions))
        for i in range(size):
            yield _compare_game(chunk[i], Turn(*(leaf[i].tolist() for leaf in turns)), points[i].tolist())


def _compare_game(record: Record, turns: Turn, points: list[int]) -> Iterator[Disagreement]:
    last = len(record["moves"]) - 1
    for i, move in enumerate(record["moves"]):
        expected = dict(zip(MOVE, move, strict=True)) | {"game over": i == last}
        legal = _ids(turns.legal[i])
        got = {"seat": turns.seat[i], "legal ids": legal, "queue": queue_codes(turns.queue[i])}
        for zone, cards in (("bar", turns.bar[i]), ("out", turns.out[i])):
            got[zone] = [seat_mask(cards, seat) for seat in SEAT]
        got |= {"game over": turns.over[i], "action": taken(expected["action"], legal)}
        yield from unlike(i, f"turn {i}", expected, got)
        if any(expected[what] != value for what, value in got.items()):
            return  # what follows is another game
    yield from unlike(last, "end", record, {"points": points})


@cache
def _play_games() -> Callable:
    env = BeastyBar()

    def turn(state: BeastyBarState, action: jax.Array):
        after = env.step(state, action, jax.random.key(0))
        table = after.game.table
        return after, Turn(state.current_player, state.legal, table.queue, table.bar, table.out, after.terminated)

    def play(decks: jax.Array, start: jax.Array, actions: jax.Array):
        state, turns = lax.scan(turn, env.init_from_decks(decks, start), actions)
        return turns, rules.scores(state.game.table)

    return jax.jit(jax.vmap(play))


# ---- bot choices ----------------------------------------------------------------------------------------------------


def _check_choice(record: Record) -> None:
    _check_queues([record["queue"]])
    for seat in SEAT:
        hand, deck = record["hand"][seat], record["deck"][seat]
        require(len(hand) <= c.HAND_SIZE, "a hand has at most four cards")
        plays = (record["ply"] + (seat == record["start"])) // 2
        require(len(deck) == max(c.DECK_SIZE - plays, 0), f"after {plays} turns of a seat its deck has another size")
        table = [code % c.SPECIES + 1 for code in record["queue"] if code // c.SPECIES == seat]
        gone = [s for zone in ("bar", "out") for s in STRENGTH if record[zone][seat] >> s - 1 & 1]
        require(sorted([*hand, *deck, *table, *gone]) == list(STRENGTH), "a card is in two places, or in none")
    require(len(record["score"]) == len(record["legal"]), "every legal id needs a score")


def _check_queues(queues: Sequence[list[int]]) -> None:
    for queue in queues:
        fits = len(queue) <= c.PLACES - 1 and len(set(queue)) == len(queue)
        require(fits, "the queue has at most four different cards")


def _compare_choices(records: list[Record]) -> Iterator[Iterator[Disagreement]]:
    for chunk, size in batches(records, AT_ONCE):
        positions = jax.tree.map(lambda *leaves: np.stack(leaves), *map(_position, chunk))
        weights = np.stack([bots.weights_of(record["bot"]) for record in chunk])
        legal, scores, best = jax.device_get(_score()(positions, weights))
        for i in range(size):
            yield _compare_choice(chunk[i], _ids(legal[i]), scores[i].tolist(), _ids(best[i]))


def _compare_choice(record: Record, legal: list[int], scores: list[float], best: list[int]) -> Iterator[Disagreement]:
    if record["legal"] != legal:
        yield Disagreement(0, "position", "legal ids", record["legal"], legal)
        return
    yield from unlike(0, "choice", {"best ids": sorted(record["best"])}, {"best ids": best})
    for action, expected, value in zip(legal, record["score"], scores, strict=False):
        if abs(expected - value) > SCORE_TOLERANCE:
            yield Disagreement(0, "choice", f"score of id {action}", expected, round(value, 6))


def _position(record: Record) -> BeastyBarGame:
    """Returns the position of a recorded decision, leaves NumPy scalars."""
    hands = [sum(1 << strength - 1 for strength in hand) for hand in record["hand"]]
    bar, out, held = (first | second << c.SPECIES for first, second in (record["bar"], record["out"], hands))
    queue = sum(code + 1 << c.FIELD * place for place, code in enumerate(record["queue"]))
    decks = [sum(strength - 1 << 4 * i for i, strength in enumerate(deck)) for deck in record["deck"]]
    u32: Any = np.uint32
    i32: Any = np.int32
    return BeastyBarGame(
        table=Zones(*map(u32, (queue, bar, out))),
        hands=u32(held),
        deck0=u32(decks[0]),
        deck1=u32(decks[1]),
        ply=i32(record["ply"]),
        start=i32(record["start"]),
    )


@cache
def _score() -> Callable:
    env = BeastyBar()

    def score(game: BeastyBarGame, weights: jax.Array):
        """Legal ids as a word, scores f32[SLOTS] of them in ascending order (then repetitions), the best as a word."""
        state = env.init_from_decks(jnp.tile(jnp.arange(1, c.SPECIES + 1), (2, 1)), game.start)
        legal = rules.legal_word(game.table, c.of_seat(game.hands, game.seat))
        mask = ((legal >> jnp.arange(NUM_ACTIONS, dtype=jnp.uint32)) & 1).astype(bool)
        fields = {"current_player": game.seat, "legal_action_mask": mask, "observation": None}
        actions = bots.legal_slots(legal)
        scores = bots.scores(state.replace(game=game, legal=legal, **fields), actions, weights)
        return legal, scores, bots.best_word(actions, scores, legal)

    return jax.jit(jax.vmap(score))


def _ids(word: int) -> list[int]:
    """Returns the action ids of a word, ascending."""
    return [action for action in ID if int(word) >> action & 1]


_PAIR = (range(sum(c.POINTS) + 1),) * 2
GAMES = Kind(
    name="games",
    key="moves",
    shape={
        "g": range(2**62),
        "start": SEAT,
        "decks": ([STRENGTH], [STRENGTH]),
        "moves": [(SEAT, [ID], ID, QUEUE, MASKS, MASKS)],
        "points": _PAIR,
    },
    check=_check_game,
    compare=_compare_games,
    label=lambda record, place: f"game {record['g']}",
    counts=lambda record: {"games": 1, "turns": len(record["moves"])},
)
BOT_CHOICES = Kind(
    name="bot choices",
    key="best",
    shape={"bot": frozenset(DETERMINISTIC), "start": SEAT, "ply": range(MAX_TURNS)}
    | {"queue": QUEUE, "bar": MASKS, "out": MASKS, "hand": ([STRENGTH],) * 2, "deck": ([STRENGTH],) * 2}
    | {"legal": [ID], "best": [ID], "score": [float]},
    check=_check_choice,
    compare=_compare_choices,
    label=lambda record, place: f"decision {place} of {record['bot']}",
    counts=lambda record: {"bot choices": 1},
)
KINDS = (GAMES, BOT_CHOICES)
