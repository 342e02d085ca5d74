"""The settings of a battle (section 1.4 of the rules)."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from jaxrl_envs.shared.options import Place, build, option


@dataclasses.dataclass(frozen=True)
class BattleSettings:
    """The settings of a battle: everything but its maps and rosters."""

    mission: Literal["hold", "annihilation"] = option("hold")
    rounds: int = option(5, minimum=1, maximum=20)
    vp_each: int = option(5, "VP per controlled objective", minimum=0, maximum=1000)
    vp_cap: int = option(15, "VP per scoring at most", minimum=0, maximum=1000)
    score_from: int = option(2, "the first round that scores", minimum=1, maximum=20)
    tiebreak: Literal["none", "damage", "auto"] = option("none", "never auto once it is read")
    deploy: Literal["roll", 0, 1] = option("roll", "or the side that deploys left")
    first: Literal["roll", 0, 1] = option("roll", "or the side that has the first turn")
    zone: int = option(15, "columns; at most cols/2 - 2 of the map", minimum=4, maximum=30)
    cp_start: int = option(0, minimum=0, maximum=12)
    reward_vp: float = option(0.0, "weight of the shaped reward", minimum=0.0, maximum=10.0)


KEYS = tuple(field.name for field in dataclasses.fields(BattleSettings))


def settings_from_tree(tree: Any, source: str = "settings") -> BattleSettings:
    """Settings from a mapping with the keys of section 1.4 but `maps`; absent keys have their defaults.

    `tiebreak: auto`, the default, means `none` in the mission hold and `damage` in annihilation.

    Raises:
      UserError: a key is unknown or a value is out of its range; `source` begins the message.
    """
    settings = build(BattleSettings(tiebreak="auto"), tree, Place(source))
    if settings.tiebreak != "auto":
        return settings
    return dataclasses.replace(settings, tiebreak="damage" if settings.mission == "annihilation" else "none")
