"""Recorded battles, and the same by the compiled engine: once with the dice of its key, once with those of its tape.

One record a battle: rules, players, every decision with its legal ids, what the scripts would choose there, some
observations, every die, the state after every half-turn, and the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from jaxrl_envs.battle.actions import NUM_ACTIONS
from jaxrl_envs.battle.display.position import KINDS as DECISIONS
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import BattleMap, map_from_tree
from jaxrl_envs.battle.rosters import MAX_MODELS, MAX_UNITS, Roster, roster_from_tree
from jaxrl_envs.battle.settings import BattleSettings, settings_from_tree
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.golden import Disagreement, Kind, Record, require, taken, unlike

NUM_FEATURES = 1051
STYLES = ("balanced", "aggressor", "gunline", "objective", "turtle")
SOURCES = ("key", "tape")
TOLERANCE = 1e-6  # observations are recorded with six decimals

SIDE, NUMBER, UNIT, ID = range(2), range(2**31), range(-1, MAX_UNITS), range(NUM_ACTIONS)
SQUAD = (range(MAX_MODELS + 1), range(25), range(256), [range(64 * 64)])  # models, wounds of the first, flags, cells
STATE = (range(1, 21), SIDE, (NUMBER, NUMBER), (NUMBER, NUMBER), ([SQUAD], [SQUAD]))  # round, active, CP, VP, squads
ROW = ("side", "kind", "unit", "subject", "roll", "needed", "legal ids", "action", "dice before it")  # a decision
LEGAL, ACTION = 6, 7


def rules_of(record: Record) -> tuple[list[BattleMap], tuple[Roster, Roster], BattleSettings]:
    """Returns maps, rosters and settings of a record.

    Raises:
      ValueError: one of them is not valid.
    """
    try:
        config = dict(record["config"])
        boards = [map_from_tree(tree, f"map {i}", name=f"map {i}") for i, tree in enumerate(config.pop("maps"))]
        require(len(boards) > 0, "a battle needs a map")
        first, second = (roster_from_tree(tree, f"roster {i}") for i, tree in enumerate(record["rosters"]))
        return boards, (first, second), settings_from_tree(config)
    except UserError as error:
        raise ValueError(str(error).rstrip(".")) from None


def _check(record: Record) -> None:
    rules_of(record)
    require(0 <= int(record["key"], 16) < 2**64, "key must have 16 hex digits")
    require(record["map_index"] < len(record["config"]["maps"]), "map_index must be the number of a map")
    faces, dice, decisions = record["faces"], record["dice"], record["decisions"]
    require(len(faces) == len(dice), "faces and dice must be of one length")
    require(all(1 <= die <= sides for sides, die in zip(faces, dice, strict=True)), "dice must be results of the faces")
    for row in decisions:
        require(len(row[LEGAL]) > 1, "a decision needs two legal ids or more")
        require(row[-1] <= len(dice), "a decision needs the number of dice before it")
    require(len(record["scripts"]) == len(decisions), "scripts must have one entry for each decision")
    require(all(entry[0] < len(decisions) for entry in record["obs"]), "obs must name a decision")
    require(len(record["half_turns"]) > 0, "half_turns must have an entry for each half-turn")


def differences(record: Record) -> Iterator[Disagreement]:
    """Disagreements of one checked battle, in order of time: with the dice of its key, then of its tape."""
    return chain.from_iterable(_play(record, source) for source in SOURCES)


def _play(record: Record, source: str) -> Iterator[Disagreement]:
    """Yields all differences up to the first decision with one: what follows it is another battle."""
    boards, rosters, settings = rules_of(record)
    identity = {name: record[name] for name in ("seed", "slot", "episode")}
    tape, setup = record["dice"] if source == "tape" else None, f"{source}, setup"
    try:
        battle = Battle(Rules(boards, [rosters], settings), **identity, tape=tape)
    except (UserError, ValueError) as problem:
        yield Disagreement(0, setup, "a battle", "to begin", str(problem))
        return
    yield from unlike(0, setup, {"key": f"{int(record['key'], 16):016x}"}, {"key": f"{battle.key:016x}"})
    head = {name: getattr(battle, name) for name in ("map_index", "left", "first")} | {"start": battle.state()}
    if any(record[what] != value for what, value in head.items()):
        yield from unlike(0, setup, record, head)
        return
    asked = 0
    for i, row in enumerate(record["decisions"]):
        if battle.over:
            break
        asked, differing = i + 1, list(_compare_decision(record, i, battle, f"{source}, decision {i}"))
        yield from differing
        if any(entry.what in ROW for entry in differing):
            return
        try:
            battle.step(row[ACTION])
        except ValueError as problem:  # the tape does not fit
            yield Disagreement(i, f"{source}, decision {i}", "a battle", "to go on", str(problem))
            return
    yield from _compare_end(record, battle, asked, f"{source}, end", battle.tape_left if tape else 0)


def _compare_decision(record: Record, i: int, battle: Battle, where: str) -> Iterator[Disagreement]:
    row, legal = record["decisions"][i], battle.legal
    got: list[Any] = [battle.side, battle.kind, battle.unit, battle.subject, battle.roll, battle.needed, legal]
    got += [taken(row[ACTION], legal), battle.dice]
    yield from unlike(i, where, dict(zip(ROW, row, strict=True)), dict(zip(ROW, got, strict=True)))
    scripts = [f"script {style}" for style in STYLES]
    chosen = [battle.script(style) for style in range(len(STYLES))]
    recorded = dict(zip(scripts, record["scripts"][i], strict=True))
    yield from unlike(i, where, recorded, dict(zip(scripts, chosen, strict=True)))
    player = record["players"][row[0]]
    if player == "random" or player in STYLES:  # of a style, it must have done what its script is recorded to choose
        choice = battle.random() if player == "random" else recorded[f"script {player}"]
        yield from unlike(i, where, {f"{player} player": row[ACTION]}, {f"{player} player": choice})
    for decision, side, values in record["obs"]:
        if decision == i:
            yield from _compare_observation(values, battle.observe(side), i, where)


def _compare_observation(values: list, got: np.ndarray, i: int, where: str) -> Iterator[Disagreement]:
    expected = np.zeros(NUM_FEATURES)
    for index, value in values:
        expected[index] = value
    wrong = np.flatnonzero(~(np.abs(expected - got) <= TOLERANCE))
    if len(wrong):
        numbers = [int(index) for index in wrong[:8]]
        what = f"{len(wrong)} features, first {numbers}"
        yield Disagreement(i, f"{where}: {what}", "observation", expected[numbers].tolist(), got[numbers].tolist())


def _compare_end(record: Record, battle: Battle, asked: int, where: str, tape_left: int) -> Iterator[Disagreement]:
    decisions = len(record["decisions"])
    if not battle.over or asked != decisions:
        what = f"over after {asked} decisions" if battle.over else "still running"
        yield Disagreement(decisions, where, "the battle", f"over after {decisions} decisions", what)
        return
    expected: dict[str, Any] = {"half-turns": len(record["half_turns"]), **record["result"], "dice left on the tape": 0}
    got: dict[str, Any] = {}
    for name, what, values in (
        ("half_turns", "state after half-turn {}", battle.half_turns),
        ("faces", "faces[{}]", battle.faces),
        ("dice", "dice[{}]", battle.results),
    ):  # of each list its length, and the first entry that differs
        pairs = enumerate(zip(record[name], values, strict=False))
        place = next((i for i, (one, other) in pairs if one != other), None)
        number = "half-turns" if name == "half_turns" else f"number of {name}"
        if place is not None:
            expected[what.format(place)], got[what.format(place)] = record[name][place], values[place]
        expected[number], got[number] = len(record[name]), len(values)
    got |= {what: battle.result()[what] for what in ("winner", "end", "vp", "round", "hp", "decisions")}
    yield from unlike(decisions, where, expected, got | {"dice left on the tape": tape_left})


KINDS = (
    Kind(
        name="battles",
        key="half_turns",
        shape={
            **{"config": {"maps": list}, "rosters": (object, object), "seed": range(2**64), "slot": NUMBER},
            **{"episode": NUMBER, "key": str, "players": (str, str), "map_index": NUMBER, "left": SIDE, "first": SIDE},
            **{"faces": [range(2, 256)], "dice": [range(1, 256)]},
            "decisions": [(SIDE, range(len(DECISIONS)), UNIT, UNIT, range(100), range(100), [ID], ID, NUMBER)],
            "scripts": [(ID,) * len(STYLES)],
            "obs": [(NUMBER, SIDE, [(range(NUM_FEATURES), float)])],
            **{"start": STATE, "half_turns": [STATE]},
            "result": {"winner": frozenset({0, 1, None}), "end": range(1, 4)}
            | {"vp": (NUMBER, NUMBER), "hp": (NUMBER, NUMBER), "round": NUMBER, "decisions": NUMBER},
        },
        check=_check,
        compare=lambda records: map(differences, records),
        label=lambda record, place: f"battle {record.get('id', place)}",
        counts=lambda record: {"battles from key and tape": 1, "decisions each": len(record["decisions"])},
    ),
)
