"""Recorded Beasty Bar games: checking the two kinds of JSON lines files that `verify` replays.

Games: one record a game, with both card orders and, for every turn, who moved, what was legal and the table afterwards.
Bot choices: one record a decision, a position with the ids from which one scripted opponent draws.
"""

from __future__ import annotations

from typing import Any

from envs.beasty_bar import cards as c
from envs.beasty_bar.bots import NAMES
from envs.beasty_bar.rules import NUM_ACTIONS
from envs.recorded import Kind, Record, require, whole

GAMES, BOT_CHOICES = "games", "bot choices"
MAX_TURNS = 2 * c.SPECIES
DETERMINISTIC = tuple(name for name in NAMES if name not in ("random", "noisy"))
_ALL = set(range(1, c.SPECIES + 1))


def _check_game(record: Record) -> None:
    whole([record["g"]], 0, 2**62, "g must be a number")
    whole([record["start"]], 0, 1, "start must be a seat")
    _check_pair(record["decks"], "decks")
    for deck in record["decks"]:
        _whole_list(deck, 1, c.SPECIES, "a deck needs strengths")
        require(sorted(deck) == sorted(_ALL), "a deck is not a permutation of the twelve species")
    require(0 < len(record["moves"]) <= MAX_TURNS, "the number of turns is impossible")
    for seat, legal, action, queue, bar, out in record["moves"]:
        whole([seat], 0, 1, "a turn needs a seat")
        _whole_list(legal, 0, NUM_ACTIONS - 1, "legal ids must be 0..30")
        whole([action], 0, NUM_ACTIONS - 1, "actions must be 0..30")
        _check_table(queue, bar, out)
    _check_pair(record["points"], "points")
    whole(record["points"], 0, sum(c.POINTS), "points must be 0..36")


def _check_choice(record: Record) -> None:
    require(record["bot"] in DETERMINISTIC, f"bot must be one of {', '.join(DETERMINISTIC)}")
    whole([record["start"]], 0, 1, "start must be a seat")
    whole([record["ply"]], 0, MAX_TURNS - 1, "ply must be 0..23")
    _check_table(record["queue"], record["bar"], record["out"])
    for name in ("hand", "deck"):
        _check_pair(record[name], name)
        for cards in record[name]:
            _whole_list(cards, 1, c.SPECIES, f"{name} needs strengths")
    for seat in range(2):
        hand, deck = record["hand"][seat], record["deck"][seat]
        require(len(hand) <= c.HAND_SIZE, "a hand has at most four cards")
        plays = _plays(record["start"], record["ply"], seat)
        require(len(deck) == max(c.DECK_SIZE - plays, 0), f"after {plays} turns of a seat its deck has another size")
        table = [code % c.SPECIES + 1 for code in record["queue"] if code // c.SPECIES == seat]
        gone = [s for zone in ("bar", "out") for s in _ALL if record[zone][seat] >> s - 1 & 1]
        require(sorted([*hand, *deck, *table, *gone]) == sorted(_ALL), "a card is in two places, or in none")
    _whole_list(record["legal"], 0, NUM_ACTIONS - 1, "legal ids must be 0..30")
    _whole_list(record["best"], 0, NUM_ACTIONS - 1, "best ids must be 0..30")
    require(len(record["score"]) == len(record["legal"]), "every legal id needs a score")
    require(all(isinstance(score, int | float) for score in record["score"]), "scores must be numbers")


def label(record: Record, position: int) -> str:
    """What to call a record in a message: the number of the game if it has one."""
    return f"game {record['g']}" if "g" in record else f"decision {position} of {record['bot']}"


def _plays(start: int, ply: int, seat: int) -> int:
    """Turns that a seat has played before this one."""
    return (ply + (seat == start)) // 2


def _check_pair(values: Any, name: str) -> None:
    require(isinstance(values, list) and len(values) == 2, f"{name} needs one entry for each seat")


def _whole_list(values: Any, low: int, high: int, message: str) -> None:
    require(isinstance(values, list), message)
    whole(values, low, high, message)


def _check_table(queue: Any, bar: Any, out: Any) -> None:
    _whole_list(queue, 0, 2 * c.SPECIES - 1, "the queue needs card codes")
    require(len(queue) <= c.PLACES - 1 and len(set(queue)) == len(queue), "the queue has at most four different cards")
    for zone, name in ((bar, "bar"), (out, "out")):
        _check_pair(zone, name)
        whole(zone, 0, c.ALL_SPECIES, f"{name} needs one 12-bit mask for each seat")


KINDS = (Kind(GAMES, "moves", _check_game), Kind(BOT_CHOICES, "best", _check_choice))
