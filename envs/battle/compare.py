"""Recorded battles against the engine's: everything on which they differ, with its place in the battle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from envs.battle.records import NUM_FEATURES, STYLES
from envs.battle.replay import Replay, Turn
from envs.recorded import Disagreement, Record

TOLERANCE = 1e-6  # observations are recorded with six decimals
ASKED = ("side", "kind", "unit", "subject", "roll", "needed")


def compare(record: Record, played: Replay, source: str) -> Iterator[Disagreement]:
    """Every difference, up to the first decision with one: what follows it is another battle.

    Args:
      record: one battle, checked.
      played: the same battle by the engine.
      source: where its dice come from, begins the place of a difference ("key", "tape").
    """
    last = max(len(record["decisions"]) - 1, 0)
    if played.error and not played.setup:
        yield Disagreement(0, f"{source}, setup", "a battle", "to begin", played.error)
        return
    if played.key != int(record["key"], 16):
        yield Disagreement(0, f"{source}, setup", "key", record["key"], f"{played.key:016x}")
    head = {**played.setup, "start": played.start}
    for what, got in head.items():
        if record[what] != got:
            yield Disagreement(0, f"{source}, setup", what, record[what], got)
            return
    observed: dict[int, list[list]] = {}
    for decision, _, values in record["obs"]:
        observed.setdefault(decision, []).append(values)
    for i, turn in enumerate(played.turns):
        found = list(_compare_turn(record, i, turn, observed.get(i, []), source))
        yield from found
        if any(entry.what not in ("observation", "random player") and "script" not in entry.what for entry in found):
            return
    if played.error:
        yield Disagreement(last, f"{source}, decision {len(played.turns) - 1}", "a battle", "to go on", played.error)
        return
    yield from _compare_end(record, played, last, f"{source}, end")


def _compare_turn(record: Record, i: int, turn: Turn, observed: list[list], source: str) -> Iterator[Disagreement]:
    where = f"{source}, decision {i}"
    *asked, legal, action, dice = record["decisions"][i]
    pairs: list[tuple[str, Any, Any]] = list(zip(ASKED, asked, turn.asked, strict=True))
    pairs += [("legal ids", legal, turn.legal), ("dice before it", dice, turn.dice)]
    for what, expected, got in pairs:
        if expected != got:
            yield Disagreement(i, where, what, expected, got)
    if action not in turn.legal:
        yield Disagreement(i, where, "action", action, f"only {turn.legal} are legal")
    for style, expected, got in zip(STYLES, record["scripts"][i], turn.scripts, strict=True):
        if expected != got:
            yield Disagreement(i, where, f"script {style}", expected, got)
    player = record["players"][asked[0]]
    choice = turn.random if player == "random" else _scripted(record, i, player)
    if choice is not None and choice != action:
        yield Disagreement(i, where, f"{player} player", action, choice)
    for values, observation in zip(observed, turn.observations, strict=True):
        yield from _compare_observation(values, observation, i, where)


def _scripted(record: Record, i: int, player: str) -> int | None:
    """What a recorded script choice says that the player did; None for players of another kind."""
    return record["scripts"][i][STYLES.index(player)] if player in STYLES else None


def _compare_observation(values: list, got: np.ndarray, i: int, where: str) -> Iterator[Disagreement]:
    expected = np.zeros(NUM_FEATURES)
    for index, value in values:
        expected[index] = value
    wrong = np.flatnonzero(~(np.abs(expected - got) <= TOLERANCE))
    if len(wrong):
        numbers = [int(index) for index in wrong[:8]]
        what = f"{len(wrong)} features, first {numbers}"
        yield Disagreement(i, f"{where}: {what}", "observation", expected[numbers].tolist(), got[numbers].tolist())


def _compare_end(record: Record, played: Replay, last: int, where: str) -> Iterator[Disagreement]:
    if not played.over or len(played.turns) != len(record["decisions"]):
        what = f"over after {len(played.turns)} decisions" if played.over else "still running"
        yield Disagreement(last, where, "the battle", f"over after {len(record['decisions'])} decisions", what)
        return
    half_turns = [(f"state after half-turn {i}", state) for i, state in enumerate(record["half_turns"])]
    for (what, expected), got in zip(half_turns, played.half_turns, strict=False):
        if expected != got:
            yield Disagreement(last, where, what, expected, got)
            break
    if len(record["half_turns"]) != len(played.half_turns):
        yield Disagreement(last, where, "half-turns", len(record["half_turns"]), len(played.half_turns))
    for what in ("winner", "end", "vp", "round", "hp", "decisions"):
        if record["result"][what] != played.result[what]:
            yield Disagreement(last, where, what, record["result"][what], played.result[what])
    for what, got in (("faces", played.faces), ("dice", played.dice)):
        if record[what] != got:
            place = next((i for i, (a, b) in enumerate(zip(record[what], got, strict=False)) if a != b), None)
            if place is None:
                yield Disagreement(last, where, f"number of {what}", len(record[what]), len(got))
            else:
                yield Disagreement(last, where, f"{what}[{place}]", record[what][place], got[place])
    if played.tape_left:
        yield Disagreement(last, where, "dice left on the tape", 0, played.tape_left)
