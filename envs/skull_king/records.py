"""Recorded Skull King games: reading and checking the three kinds of JSON lines files that `verify` replays."""

from __future__ import annotations

from envs.recorded import Kind, Record
from envs.recorded import require as _require
from envs.recorded import whole as _whole
from envs.skull_king.rules import NUM_ACTIONS, NUM_ROUNDS

GAMES, BOT_CHOICES, TRICKS = "games", "bot choices", "tricks"

_HEAD = ("n", "expansion", "abilities", "first", "decks", "final")
_KEYS: dict[str, tuple[str, ...]] = {
    GAMES: (*_HEAD, "rounds", "rank"),
    BOT_CHOICES: (*_HEAD, "actions", "checks"),
    TRICKS: ("plays", "win", "next", "bonus", "ally"),
}
_ROUND_KEYS = ("r", "h", "starter", "bids", "harry", "eff", "won", "bonus", "bet", "ally", "exact", "scores", "total")
_TRICK_KEYS = ("lead", "plays", "win", "next", "bonus", "ally")


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


KINDS = (
    Kind(GAMES, "rounds", _check_game),
    Kind(BOT_CHOICES, "checks", _check_bots),
    Kind(TRICKS, "plays", _check_trick),
)
