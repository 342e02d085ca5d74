"""Recorded figures against the engine's: everything on which they differ, with its place in the game."""

from __future__ import annotations

from collections.abc import Iterator

from envs.beasty_bar.replay import Choice, Replay
from envs.beasty_bar.rules import NUM_ACTIONS
from envs.beasty_bar.table import queue_codes, seat_mask
from envs.recorded import Disagreement, Record

SCORE_TOLERANCE = 1e-3  # float32 sums of some twenty terms against float64


def compare_game(record: Record, played: Replay) -> Iterator[Disagreement]:
    """Every difference in a recorded game."""
    turns = type(played.turns)(*(leaf.tolist() for leaf in played.turns))
    last = len(record["moves"]) - 1
    for i, (seat, legal, action, queue, bar, out) in enumerate(record["moves"]):
        got = {
            "seat": (seat, turns.seat[i]),
            "legal ids": (legal, ids(turns.legal[i])),
            "queue": (queue, queue_codes(turns.queue[i])),
            "bar": (bar, _masks(turns.bar[i])),
            "out": (out, _masks(turns.out[i])),
            "game over": (i == last, turns.over[i]),
        }
        differs = False
        for what, (expected, value) in got.items():
            if expected != value:
                differs = True
                yield Disagreement(i, f"turn {i}", what, expected, value)
        if action not in ids(turns.legal[i]):
            differs = True
            yield Disagreement(i, f"turn {i}", "action", action, f"only {ids(turns.legal[i])} are legal")
        if differs:
            return  # what follows is another game
    if record["points"] != played.points.tolist():
        yield Disagreement(last, "end", "points", record["points"], played.points.tolist())


def compare_choice(record: Record, choice: Choice) -> Iterator[Disagreement]:
    """Every difference in a recorded decision of one opponent."""
    legal = ids(choice.legal)
    if record["legal"] != legal:
        yield Disagreement(0, "position", "legal ids", record["legal"], legal)
        return
    if sorted(record["best"]) != ids(choice.best):
        yield Disagreement(0, "choice", "best ids", record["best"], ids(choice.best))
    for action, expected, value in zip(legal, record["score"], choice.scores.tolist(), strict=False):
        if abs(expected - value) > SCORE_TOLERANCE:
            yield Disagreement(0, "choice", f"score of id {action}", expected, round(value, 6))


def ids(word: int) -> list[int]:
    """The action ids of a word of legal actions, ascending."""
    return [action for action in range(NUM_ACTIONS) if word >> action & 1]


def _masks(cards: int) -> list[int]:
    """A set of cards as one 12-bit mask for each seat."""
    return [seat_mask(cards, seat) for seat in range(2)]
