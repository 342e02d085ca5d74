"""Recorded battles: checking the JSON lines files that `verify` replays.

One record a battle: rules, players, every decision with its legal ids, what the scripts would choose there, some
observations, every die, the state after every half-turn, and the result.
"""

from __future__ import annotations

from typing import Any

from envs.battle.actions import NUM_ACTIONS
from envs.battle.maps import BattleMap, map_from_tree
from envs.battle.rosters import MAX_MODELS, MAX_UNITS, Roster, roster_from_tree
from envs.battle.settings import Settings, settings_from_tree
from envs.battle.view import KINDS as DECISIONS
from envs.errors import UserError
from envs.recorded import Kind, Record, require, whole

NUM_FEATURES = 1051
STYLES = ("balanced", "aggressor", "gunline", "objective", "turtle")
BATTLES = "battles"


def rules_of(record: Record) -> tuple[list[BattleMap], tuple[Roster, Roster], Settings]:
    """Maps, rosters and settings of a record.

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


def _check_battle(record: Record) -> None:
    rules_of(record)
    for name in ("seed", "slot", "episode"):
        whole([record[name]], 0, 2**64 - 1 if name == "seed" else 2**31 - 1, f"{name} must be a number")
    require(0 <= int(record["key"], 16) < 2**64, "key must have 16 hex digits")
    _length(record["players"], 2, "players must name both sides")
    whole([record["map_index"]], 0, len(record["config"]["maps"]) - 1, "map_index must be the number of a map")
    whole([record["left"], record["first"]], 0, 1, "left and first must be sides")
    _check_dice(record["faces"], record["dice"])
    require(isinstance(record["decisions"], list), "decisions must be a list")
    for row in record["decisions"]:
        _check_decision(row, len(record["dice"]))
    _length(record["scripts"], len(record["decisions"]), "scripts must have one entry for each decision")
    for ids in record["scripts"]:
        _length(ids, len(STYLES), "scripts must have one id for each style")
        whole(ids, 0, NUM_ACTIONS - 1, "scripts must be action ids")
    for decision, side, values in record["obs"]:
        whole([decision], 0, len(record["decisions"]) - 1, "obs must name a decision")
        whole([side], 0, 1, "obs must name a side")
        for index, value in values:
            whole([index], 0, NUM_FEATURES - 1, "obs must name features")
            require(_number(value), "obs must be numbers")
    require(len(record["half_turns"]) > 0, "half_turns must have an entry for each half-turn")
    for state in (record["start"], *record["half_turns"]):
        _check_state(state)
    _check_result(record["result"])


def _check_dice(faces: Any, dice: Any) -> None:
    require(isinstance(faces, list) and isinstance(dice, list), "faces and dice must be lists")
    require(len(faces) == len(dice), "faces and dice must be of one length")
    whole(faces, 2, 255, "faces must be numbers")
    for sides, result in zip(faces, dice, strict=True):
        whole([result], 1, sides, "dice must be results of their faces")


def _check_decision(row: Any, dice: int) -> None:
    side, kind, unit, subject, roll, needed, legal, action, before = row
    whole([side], 0, 1, "a decision needs a side")
    whole([kind], 0, len(DECISIONS) - 1, "a decision needs a kind")
    whole([unit, subject], -1, MAX_UNITS - 1, "unit and subject must be units")
    whole([roll, needed], 0, 99, "roll and needed must be sums of dice")
    require(isinstance(legal, list) and len(legal) > 1, "a decision needs two legal ids or more")
    whole([*legal, action], 0, NUM_ACTIONS - 1, "actions must be 0..68")
    whole([before], 0, dice, "a decision needs the number of dice before it")


def _check_state(state: Any) -> None:
    number, active, cp, vp, sides = state
    whole([number], 1, 20, "a state needs a round")
    whole([active], 0, 1, "a state needs an active side")
    for values in (cp, vp):
        _length(values, 2, "a state needs CP and VP of both sides")
        whole(values, 0, 2**31 - 1, "CP and VP must be numbers")
    _length(sides, 2, "a state needs the units of both sides")
    for models, lead, flags, cells in (unit for units in sides for unit in units):
        whole([models], 0, MAX_MODELS, "models must be 0..20")
        whole([lead], 0, 24, "wounds must be 0..24")
        whole([flags], 0, 255, "flags must be 8 bits")
        require(isinstance(cells, list), "a unit needs cells")
        whole(cells, 0, 64 * 64 - 1, "cells must be numbers")


def _check_result(result: Any) -> None:
    require(result["winner"] is None or result["winner"] in (0, 1), "winner must be a side or null")
    whole([result["end"]], 1, 3, "end must be 1, 2 or 3")
    for name in ("vp", "hp"):
        _length(result[name], 2, f"{name} needs one entry for each side")
        whole(result[name], 0, 2**31 - 1, f"{name} must be numbers")
    whole([result["round"], result["decisions"]], 0, 2**31 - 1, "round and decisions must be numbers")


def _length(values: Any, size: int, message: str) -> None:
    require(isinstance(values, list) and len(values) == size, message)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KINDS = (Kind(BATTLES, "half_turns", _check_battle),)
