"""The settings of a battle (section 1.4 of the rules), and whether both sides can deploy on a map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from envs.battle.fields import Fields
from envs.battle.maps import BattleMap, cells
from envs.battle.rosters import Roster, UnitType
from envs.errors import UserError

KEYS = (
    *("mission", "rounds", "vp_each", "vp_cap", "score_from", "tiebreak"),
    *("deploy", "first", "zone", "cp_start", "reward_vp"),
)
MISSIONS = ("hold", "annihilation")
TIEBREAKS = ("none", "damage")
# The cells of a formation around its anchor in packing order.
PACKING = sorted(
    ((dr, dc) for dr in range(-3, 4) for dc in range(-3, 4)),
    key=lambda offset: (offset[0] ** 2 + offset[1] ** 2, *offset),
)


@dataclass(frozen=True)
class Settings:
    """Everything about a battle but its maps and rosters."""

    mission: Literal["hold", "annihilation"] = "hold"
    rounds: int = 5  # 1..20
    vp_each: int = 5  # 0..1000, VP per controlled objective
    vp_cap: int = 15  # 0..1000, VP per scoring at most
    score_from: int = 2  # 1..20, the first round that scores
    tiebreak: Literal["none", "damage"] = "none"
    deploy: Literal["roll"] | int = "roll"  # or the side that deploys left
    first: Literal["roll"] | int = "roll"  # or the side that has the first turn
    zone: int = 15  # 4..cols/2 - 2, columns
    cp_start: int = 0  # 0..12
    reward_vp: float = 0.0  # 0..10, weight of the shaped reward


def settings_from_tree(tree: Any, where: str = "settings") -> Settings:
    """Settings from a mapping with the keys of section 1.4 but `maps`; absent keys have their defaults.

    `tiebreak: auto`, the default, is none in the mission hold and damage in annihilation.

    Raises:
      UserError: a key is unknown or a value is out of its range; `where` begins the message.
    """
    fields = Fields(tree, where, KEYS)
    mission = fields.one_of("mission", MISSIONS, default="hold")
    tiebreak = fields.one_of("tiebreak", (*TIEBREAKS, "auto"), default="auto")
    if tiebreak == "auto":
        tiebreak = "damage" if mission == "annihilation" else "none"
    return Settings(
        mission=mission,
        rounds=fields.whole("rounds", 1, 20, default=5),
        vp_each=fields.whole("vp_each", 0, 1000, default=5),
        vp_cap=fields.whole("vp_cap", 0, 1000, default=15),
        score_from=fields.whole("score_from", 1, 20, default=2),
        tiebreak=tiebreak,
        deploy=fields.one_of("deploy", ("roll", 0, 1), default="roll"),
        first=fields.one_of("first", ("roll", 0, 1), default="roll"),
        zone=fields.whole("zone", 4, 30, default=15),
        cp_start=fields.whole("cp_start", 0, 12, default=0),
        reward_vp=_reward(fields),
    )


def _reward(fields: Fields) -> float:
    value = fields.tree.get("reward_vp", 0.0)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 10:
        raise fields.complain("reward_vp", "a number from 0 to 10")
    return float(value)


def check_deployable(rosters: tuple[Roster, Roster], board: BattleMap, settings: Settings) -> None:
    """Checks that both sides fit into their deployment zones, with wanted cells in the middle and at the extremes.

    Units are placed as in section 4, all with the same dice. With unlucky dice a battle on a very full board can still
    turn out not to fit; the engine then says so.

    Raises:
      UserError: the zone is too deep for the map, or a unit of a side finds no place.
    """
    deepest = board.cols // 2 - 2
    if settings.zone > deepest:
        raise UserError(
            f"zone must be from 4 to {deepest} on map {board.name!r} with {board.cols} columns, got {settings.zone}."
        )
    blocked = cells(board.barricades) | cells(board.walls)
    mirrored = {(r, board.cols - 1 - c) for r, c in blocked}
    for side, roster in enumerate(rosters):
        for left in (True, False):
            if settings.deploy != "roll" and (settings.deploy == side) != left:
                continue
            for down, right in ((0, 0), (-3, -2), (-3, 2), (3, -2), (3, 2)):
                unit = _homeless(roster, board.rows, settings.zone, blocked if left else mirrored, down, right)
                if unit is not None:
                    raise UserError(
                        f"map {board.name!r} has no legal deployment for roster {roster.name!r} on the "
                        f"{'left' if left else 'right'}: unit {unit.name!r} with {unit.models} models finds no room in "
                        f"the {settings.zone} columns of its zone; deepen the zone, or remove terrain or units."
                    )


def _homeless(
    roster: Roster, rows: int, zone: int, blocked: set[tuple[int, int]], down: int, right: int
) -> UnitType | None:
    """The first unit that finds no place in a zone, cells in the side's own frame; None if all do."""
    free = {(r, c) for r in range(rows) for c in range(zone)} - blocked
    for k, unit in enumerate(roster.units):
        wanted = (k + 1) * (rows - 1) // (len(roster.units) + 1) + down, zone // 2 + right
        anchors = sorted(free, key=lambda cell: ((cell[0] - wanted[0]) ** 2 + (cell[1] - wanted[1]) ** 2, *cell))
        place = next(filter(None, (_formation(anchor, unit.models, free) for anchor in anchors)), None)
        if place is None:
            return unit
        free -= set(place)
    return None


def _formation(anchor: tuple[int, int], models: int, free: set[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """The cells of a unit around an anchor, None if it does not fit."""
    taken: list[tuple[int, int]] = []
    for dr, dc in PACKING:
        cell = anchor[0] + dr, anchor[1] + dc
        touches = not taken or any(max(abs(cell[0] - r), abs(cell[1] - c)) <= 1 for r, c in taken)
        if cell in free and touches:
            taken.append(cell)
            if len(taken) == models:
                return taken
        elif not taken:
            return None  # the anchor itself is not free
    return None
