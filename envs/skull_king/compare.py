"""Recorded figures against the engine's: everything on which they differ, with its place in the game."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from envs.recorded import Disagreement, Record
from envs.skull_king import rules
from envs.skull_king.cards import TIGRESS
from envs.skull_king.replay import CHECKED_BOTS, Replay

PHASES = ("BID", "PLAY", "ROSIE", "BENDT", "ROATAN", "HARRY", "END")


class _Steps(NamedTuple):
    """`replay.Steps` of one game as lists, with the legal actions as one integer."""

    seat: list[int]
    phase: list[int]
    number: list[int]
    legal: list[int]
    choices: list[list[int]]
    bids: list[list[int]]
    won: list[list[int]]
    captured: list[list[int]]
    wagers: list[list[int]]
    alliances: list[list[int]]
    leader: list[int]
    total: list[list[int]]


def compare_game(record: Record, played: Replay) -> Iterator[Disagreement]:
    """Every difference in a recorded game of the games format."""
    steps = _lists(played)
    begin, before = 0, [0] * record["n"]
    for entry in record["rounds"]:
        where = f"round {entry['r']}"
        yield from _compare_decisions(entry["dec"], steps, begin, where)
        yield from _compare_round(entry, steps, begin, before, where)
        yield from _compare_tricks(entry, steps, begin, record["n"], where)
        begin += len(entry["dec"])
        before = steps.total[begin - 1]
    yield from _compare_end(record, played, begin)


def compare_bots(record: Record, played: Replay) -> Iterator[Disagreement]:
    """Every difference in a recorded game of the bot choices format."""
    steps, bits = _lists(played), _bits()
    for i, action in enumerate(record["actions"]):
        if not steps.legal[i] & bits[action]:
            yield Disagreement(i, f"decision {i}", "action", action, f"only {_legal_list(steps.legal[i])} are legal")
    for check in record["checks"]:
        i = check["i"]
        got = {"seat": steps.seat[i], "phase": steps.phase[i]}
        got.update(zip(CHECKED_BOTS, steps.choices[i], strict=True))
        for what, value in got.items():
            if check[what] != value:
                yield Disagreement(i, f"decision {i} with k = {check['k']}", what, check[what], value)
    yield from _compare_end(record, played, len(record["actions"]))


def compare_trick(record: Record, found: dict[str, np.ndarray], row: int) -> Iterator[Disagreement]:
    """Every difference in a single trick; `found` is what `replay.resolve_tricks` returns."""
    winner = int(found["win"][row])
    got = {
        "win": winner,
        "next": int(found["next"][row]),
        "bonus": int(found["bonus"][row]),
        "ally": sorted([int(p), winner] for p in found["loots"][row] if winner >= 0 and p >= 0 and p != winner),
    }
    for what, value in got.items():
        expected = sorted(record["ally"]) if what == "ally" else record[what]
        if expected != value:
            yield Disagreement(0, f"plays {record['plays']}", what, expected, value)


# ---- parts of a game ------------------------------------------------------------------------------------------------


def _compare_decisions(decisions: Sequence, steps: _Steps, begin: int, where: str) -> Iterator[Disagreement]:
    bits = _bits()
    for i, (seat, phase, legal, action) in enumerate(decisions, begin):
        expected = 0
        for allowed in legal:
            expected |= bits[allowed]
        if (seat, phase, expected) == (steps.seat[i], steps.phase[i], steps.legal[i]) and expected & bits[action]:
            continue
        place = f"{where}, decision {i}"
        if seat != steps.seat[i]:
            yield Disagreement(i, place, "seat", seat, steps.seat[i])
        if phase != steps.phase[i]:
            yield Disagreement(i, place, "phase", PHASES[phase], PHASES[steps.phase[i]])
        if expected != steps.legal[i]:
            yield Disagreement(i, place, "legal actions", legal, _legal_list(steps.legal[i]))
        if not steps.legal[i] & bits[action]:
            yield Disagreement(i, place, "action", action, f"only {_legal_list(steps.legal[i])} are legal")


def _compare_round(entry: Record, steps: _Steps, begin: int, before: list, where: str) -> Iterator[Disagreement]:
    end = begin + len(entry["dec"]) - 1
    bids, effective = steps.bids[begin + len(before) - 1], steps.bids[end]
    harry: list[int] = []
    if steps.phase[end] == rules.HARRY:
        harry = [steps.seat[end], effective[steps.seat[end]] - bids[steps.seat[end]]]
    got = {
        "r": steps.number[begin],
        "h": len(_legal_list(steps.legal[begin])) - 1,
        "starter": steps.seat[begin],
        "bids": bids,
        "harry": harry,
        "eff": effective,
        "won": steps.won[end],
        "bonus": steps.captured[end],
        "bet": steps.wagers[end],
        "ally": _alliances(steps.alliances[end]),
        "exact": [int(won == bid) for won, bid in zip(steps.won[end], effective, strict=True)],
        "scores": [total - earlier for total, earlier in zip(steps.total[end], before, strict=True)],
        "total": steps.total[end],
    }
    for what, value in got.items():
        expected = sorted(entry["ally"]) if what == "ally" else entry[what]
        if expected != value:
            yield Disagreement(end, where, what, expected, value)


def _compare_tricks(entry: Record, steps: _Steps, begin: int, seats: int, where: str) -> Iterator[Disagreement]:
    decisions = entry["dec"]
    plays = [begin + i for i, decision in enumerate(decisions) if decision[1] == rules.PLAY]
    for number, trick in enumerate(entry["tricks"]):
        first, last = plays[number * seats], plays[(number + 1) * seats - 1]
        following = plays[(number + 1) * seats : (number + 1) * seats + 1]
        won = [b - a for a, b in zip(steps.won[first - 1], steps.won[last], strict=True)]
        got = {
            "lead": steps.seat[first],
            "plays": [_play(steps.seat[i], decisions[i - begin][3]) for i in plays[number * seats :][:seats]],
            "win": won.index(1) if 1 in won else -1,
            "next": steps.leader[following[0] - 1] if following else -1,
            "bonus": sum(steps.captured[last]) - sum(steps.captured[first - 1]),
            "ally": _alliances([b - a for a, b in zip(steps.alliances[first - 1], steps.alliances[last], strict=True)]),
        }
        for what, value in got.items():
            expected = sorted(trick["ally"]) if what == "ally" else trick[what]
            if expected != value:
                yield Disagreement(last, f"{where}, trick {number + 1} (decision {last})", what, expected, value)


def _compare_end(record: Record, played: Replay, length: int) -> Iterator[Disagreement]:
    if not played.ended:
        yield Disagreement(length, "end", "game over", True, False)
    for what, value in (("final", played.final.tolist()), ("rank", played.rank.tolist())):
        if what in record and record[what] != value:
            yield Disagreement(length, "end", what, record[what], value)


# ---- conversions ----------------------------------------------------------------------------------------------------


def _lists(played: Replay) -> _Steps:
    leaves = {name: leaf.tolist() for name, leaf in played.steps._asdict().items()}
    leaves["legal"] = [a | b << 32 | c << 64 | d << 96 for a, b, c, d in leaves["legal"]]
    return _Steps(**leaves)


@cache
def _bits() -> list[int]:
    """The legal mask of each single action, as one 128-bit integer."""
    return [1 << position for position in rules.BITS.tolist()]


def _legal_list(mask: int) -> list[int]:
    return [action for action, bit in enumerate(_bits()) if mask & bit]


def _alliances(entries: list[int]) -> list[list[int]]:
    pairs = [entries[0:2], entries[2:4]]
    return sorted([looter - 1, winner - 1] for looter, winner in pairs if looter > 0)


def _play(seat: int, action: int) -> list[int]:
    pirate = action == rules.PLAY_TIGRESS_PIRATE
    return [seat, TIGRESS if pirate else action - rules.FIRST_PLAY, int(pirate)]
