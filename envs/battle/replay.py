"""Recorded battles put through the compiled engine, from the key or from the tape: what `verify` compares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from envs.battle.engine import Battle, Rules
from envs.battle.records import STYLES, rules_of
from envs.errors import UserError
from envs.recorded import Record


class Turn(NamedTuple):
    """One decision as the engine asks it."""

    asked: list[int]  # side, kind, unit, subject, roll, needed
    legal: list[int]
    dice: int  # drawn before it
    scripts: list[int]  # what the five styles choose
    random: int | None  # what the random player chooses, if one has the side
    observations: list[np.ndarray]  # f32[1051] each, of the sides recorded here, in their order


class Replay(NamedTuple):
    """One battle, as far as the recorded actions are legal."""

    key: int
    setup: dict[str, int]  # map_index, left, first
    start: list[Any]  # states in the form of the records
    turns: list[Turn]
    over: bool
    half_turns: list[list[Any]]
    result: dict[str, Any]
    faces: list[int]
    dice: list[int]
    tape_left: int
    error: str | None  # what the engine raised


def replay(record: Record, *, tape: bool) -> Replay:
    """Plays the actions of a record, which must have been checked.

    Args:
      record: one battle.
      tape: takes the dice from the record instead of drawing them from seed, slot and episode.
    """
    boards, rosters, settings = rules_of(record)
    rules = Rules(boards, [rosters], settings)
    identity = {name: record[name] for name in ("seed", "slot", "episode")}
    try:
        battle = Battle(rules, **identity, tape=record["dice"] if tape else None)
    except (UserError, ValueError) as problem:
        return Replay(0, {}, [], [], False, [], {}, [], [], 0, str(problem))
    setup = {name: getattr(battle, name) for name in ("map_index", "left", "first")}
    start, turns, error = battle.state(), [], None
    watched: dict[int, list[int]] = {}
    for decision, side, _ in record["obs"]:
        watched.setdefault(decision, []).append(side)
    for i, row in enumerate(record["decisions"]):
        if battle.over:
            break
        turns.append(_turn(battle, record["players"], watched.get(i, [])))
        if row[7] not in turns[-1].legal:
            break
        try:
            battle.step(row[7])
        except ValueError as problem:  # the tape does not fit
            error = str(problem)
            break
    return Replay(
        key=battle.key,
        setup=setup,
        start=start,
        turns=turns,
        over=battle.over,
        half_turns=battle.half_turns,
        result=battle.result(),
        faces=battle.faces,
        dice=battle.results,
        tape_left=battle.tape_left if tape else 0,
        error=error,
    )


def _turn(battle: Battle, players: list[str], watched: list[int]) -> Turn:
    return Turn(
        asked=[battle.side, battle.kind, battle.unit, battle.subject, battle.roll, battle.needed],
        legal=battle.legal,
        dice=battle.dice,
        scripts=[battle.script(style) for style in range(len(STYLES))],
        random=battle.random() if players[battle.side] == "random" else None,
        observations=[battle.observe(side) for side in watched],
    )
