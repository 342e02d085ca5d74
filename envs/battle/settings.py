"""The settings of a battle (section 1.4 of the rules)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from envs.battle.fields import Fields

KEYS = (
    *("mission", "rounds", "vp_each", "vp_cap", "score_from", "tiebreak"),
    *("deploy", "first", "zone", "cp_start", "reward_vp"),
)
MISSIONS = ("hold", "annihilation")
TIEBREAKS = ("none", "damage")


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
