"""Recorded Skull King games: reading and checking the three kinds of JSON lines files that `verify` replays."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from envs.errors import UserError
from envs.skull_king.rules import NUM_ACTIONS, NUM_ROUNDS

Record = dict[str, Any]
GAMES, BOT_CHOICES, TRICKS = "games", "bot choices", "tricks"

_HEAD = ("n", "expansion", "abilities", "first", "decks", "final")
_KEYS: dict[str, tuple[str, ...]] = {
    GAMES: (*_HEAD, "rounds", "rank"),
    BOT_CHOICES: (*_HEAD, "actions", "checks"),
    TRICKS: ("plays", "win", "next", "bonus", "ally"),
}
_ROUND_KEYS = ("r", "h", "starter", "bids", "harry", "eff", "won", "bonus", "bet", "ally", "exact", "scores", "total")
_TRICK_KEYS = ("lead", "plays", "win", "next", "bonus", "ally")


class Recording(NamedTuple):
    """One file."""

    kind: str  # GAMES, BOT_CHOICES or TRICKS
    records: Iterator[Record]  # parsed and checked one by one: the games of a large file do not fit into memory


def read(path: str | Path) -> Recording:
    """Opens a file, plain or gzip.

    Raises:
      UserError: the file cannot be read, or is not a recording; the message names the line. Lines after the first are
        checked when the iterator reaches them.
    """
    path = Path(path)
    lines = [line for line in _text(path).split("\n") if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty: expected recorded games, one JSON object a line.")
    kind = _kind(path, _parse(path, 1, lines[0]))
    return Recording(kind, _checked(path, kind, lines))


def _checked(path: Path, kind: str, lines: list[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        record = _parse(path, number, line)
        try:
            _CHECKS[kind](record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(f"{path}, line {number}: not a record of {kind} ({what}).") from None
        yield record


def _parse(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: not JSON ({error}).") from None


def label(record: Record, position: int) -> str:
    """What to call a game in a message: its own number if it has one."""
    return f"game {record.get('game', position)}"


def actions(record: Record) -> list[int]:
    """Every action of a game, in order."""
    if "actions" in record:
        return record["actions"]
    return [decision[3] for entry in record["rounds"] for decision in entry["dec"]]


def max_decisions(players: int) -> int:
    """The longest possible game: bids, plays and five ability decisions a round (specification section 6)."""
    most = 8 if players == 8 else 10
    return players * sum(1 + min(number, most) for number in range(1, NUM_ROUNDS + 1)) + 5 * NUM_ROUNDS


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: the file is damaged ({error}).") from None


def _kind(path: Path, record: Any) -> str:
    for kind, key in ((GAMES, "rounds"), (BOT_CHOICES, "checks"), (TRICKS, "plays")):
        if isinstance(record, dict) and key in record:
            return kind
    raise UserError(f"{path} is no recording: its first line has neither 'rounds', 'checks' nor 'plays'.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _whole(values: Any, low: int, high: int, message: str) -> None:
    _require(all(isinstance(v, int) and low <= v <= high for v in values), message)


def _check_head(record: Record) -> None:
    n = record["n"]
    _whole([n], 2, 8, "n must be 2..8")
    _whole([record["expansion"], record["abilities"]], 0, 1, "expansion and abilities must be 0 or 1")
    _whole([record["first"]], 0, n - 1, "first must be a seat")
    cards = list(range(74 if record["expansion"] else 70))
    _require(len(record["decks"]) == NUM_ROUNDS, "ten decks are needed")
    _require(all(sorted(deck) == cards for deck in record["decks"]), "a deck is not a permutation of the cards")
    _require(len(record["final"]) == n, "final needs one number per seat")
    taken = actions(record)
    _whole(taken, 0, NUM_ACTIONS - 1, "actions must be 0..99")
    _require(0 < len(taken) <= max_decisions(n), "the number of actions is impossible")


def _check_game(record: Record) -> None:
    for key in _KEYS[GAMES]:
        record[key]
    _check_head(record)
    _require(len(record["rounds"]) == NUM_ROUNDS, "ten rounds are needed")
    for entry in record["rounds"]:
        for key in _ROUND_KEYS:
            entry[key]
        for decision in entry["dec"]:
            seat, phase, legal, _ = decision
            _whole([seat, phase], 0, 7, "a decision needs a seat and a phase")
            _whole(legal, 0, NUM_ACTIONS - 1, "legal actions must be 0..99")
        for trick in entry["tricks"]:
            for key in _TRICK_KEYS:
                trick[key]
        # Decisions are laid out as the bids, then the plays of each trick, so the two must belong together.
        plays = sum(decision[1] == 1 for decision in entry["dec"])
        _require(plays == record["n"] * len(entry["tricks"]), "plays and tricks do not belong together")
        bids = [decision[1] for decision in entry["dec"][: record["n"]]]
        _require(bids == [0] * record["n"], "a round must begin with one bid per seat")


def _check_bots(record: Record) -> None:
    for key in _KEYS[BOT_CHOICES]:
        record[key]
    _check_head(record)
    for check in record["checks"]:
        _whole([check["i"]], 0, len(record["actions"]) - 1, "a check needs the index of an action")
        _require(len(check["k"]) == 3, "k must be three integers")
        _whole(check["k"], 0, 999, "k must be in 0..999")
        _whole([check["seat"], check["phase"]], 0, 7, "a check needs a seat and a phase")
        for bot in ("easy", "medium", "hard"):
            _whole([check[bot]], 0, NUM_ACTIONS - 1, "choices must be 0..99")


def _check_trick(record: Record) -> None:
    for key in _KEYS[TRICKS]:
        record[key]
    _require(1 <= len(record["plays"]) <= 8, "a trick has 1..8 plays")
    for card, as_pirate in record["plays"]:
        _whole([card], 0, 73, "cards must be 0..73")
        _whole([as_pirate], 0, 1, "the pirate flag must be 0 or 1")


_CHECKS: dict[str, Callable[[Record], None]] = {GAMES: _check_game, BOT_CHOICES: _check_bots, TRICKS: _check_trick}
