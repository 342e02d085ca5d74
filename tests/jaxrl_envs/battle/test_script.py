"""Estimates, observations and caches of the battle engine, in positions arranged by hand.

Everything that is expected here was worked out from sections 9 and 11 of the rules, not by the engine; what scripted
players choose is compared with the golden battles and, at every decision of others, with the referee (test_referee.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxrl_envs.battle.engine.arrange import arrange, needed_roll, pose, shares
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import map_from_tree
from jaxrl_envs.battle.rosters import roster_from_tree
from jaxrl_envs.battle.settings import settings_from_tree

MOVE, SHOOT, SNAP = 0, 2, 5
SHOCKED, SMOKED = 32, 64
TREE: dict[str, Any] = {"rows": 32, "cols": 48, "objectives": [[15, 24, 3]]}
GUN: dict[str, Any] = {"range": 24, "A": 2, "skill": 3, "S": 4, "AP": -1, "D": 1}
BLADE: dict[str, Any] = {key: value for key, value in GUN.items() if key != "range"}


def unit(**changes: Any) -> dict[str, Any]:
    plain = {"name": "unit", "models": 5, "M": 6, "T": 4, "Sv": 3, "W": 2, "Ld": 7, "OC": 1}
    return {**plain, "ranged": GUN, "melee": BLADE, **changes}


def make(own: list[dict], enemy: list[dict], board: dict[str, Any] | None = None, **settings: Any) -> Battle:
    """Side 0 deploys left; nothing stands between columns 6 and 41."""
    rosters = tuple(roster_from_tree({"name": "side", "units": units}) for units in (own, enemy))
    tree = {"deploy": 0, "first": 0, "zone": 6, **settings}
    return Battle(Rules([map_from_tree(board or TREE)], [rosters], settings_from_tree(tree)))


def cross(row: int, col: int, models: int = 5) -> list[tuple[int, int]]:
    """A unit of up to five models around its anchor."""
    return [(row, col), (row - 1, col), (row, col - 1), (row, col + 1), (row + 1, col)][:models]


# ---- estimates ------------------------------------------------------------------------------------------------------

# Ten attacks hit on 4 of 6, wound on 3 of 6, pass a save of 4 on 3 of 6: 1.667 wounds of 10 in the plain case.
ESTIMATES = [
    ({}, {}, 166),
    ({"abilities": {"torrent": True}}, {}, 250),
    ({"A": "D6+1"}, {}, 375),
    ({"D": "D3+1"}, {}, 333),  # mean 3, but a model has only 2 wounds
    ({"AP": -6}, {}, 333),
    ({"AP": -6}, {"Inv": 3}, 111),
    ({"AP": 0}, {"Sv": 2}, 55),
    ({"S": 8}, {}, 277),
    ({"S": 5}, {}, 222),
    ({"S": 3}, {}, 111),
    ({"S": 2}, {}, 55),
    ({"A": 20, "D": 12}, {}, 1000),
]


@pytest.mark.parametrize(("weapon", "target", "expected"), ESTIMATES)
def test_shares_of_ranged_and_melee_weapons(weapon, target, expected):
    battle = make([unit(ranged={**GUN, **weapon}), unit(melee={**BLADE, **weapon})], [unit(**target)])
    assert shares(battle, 0, 0)[0] == [expected]
    assert shares(battle, 0, 1)[1] == [expected]


def test_shares_follow_losses_and_weapons():
    battle = make([unit(), {**unit(), "ranged": GUN}], [unit(), unit()])
    assert shares(battle, 0, 0) == ([166, 166], [166, 166])
    arrange(battle, 1, 1, cross(10, 20, 2), lead=2)
    assert shares(battle, 0, 0)[0] == [166, 416]
    arrange(battle, 1, 1, cross(10, 20, 1), lead=1)
    assert shares(battle, 0, 0)[0] == [166, 1000]
    arrange(battle, 0, 0, cross(10, 10, 3))
    assert shares(battle, 0, 0)[0] == [100, 1000]
    arrange(battle, 1, 1, [])
    assert shares(battle, 0, 0)[0] == [100, 0]
    unarmed = make([{key: value for key, value in unit().items() if key not in ("ranged", "melee")}], [unit()])
    assert shares(unarmed, 0, 0) == ([0], [0])


def test_needed_rolls():
    ways = [36, 36, 36, 35, 33, 30, 26, 21, 15, 10, 6, 3, 1]  # results of 2D6 that are at least 0, 1, 2, ...
    for d2 in range(1, 145):
        # The smallest roll with which the distance can be closed to one cell, as the rules round it.
        needed = max(1, next(x for x in range(14) if x * x >= d2) - 1)
        assert needed_roll(d2) == (needed, ways[needed])
    with pytest.raises(ValueError, match="1 to 144"):
        needed_roll(145)


# ---- observations ---------------------------------------------------------------------------------------------------


def rows_of(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Own units [8, 60], enemy units [8, 60] and the 91 globals."""
    units = seen[:960].reshape(16, 60)
    return units[:8], units[8:], seen[960:]


def test_an_observation_by_hand():
    battle = make([unit(keywords=["infantry"], Inv=4)], [unit(keywords=["smoke"]), unit()])
    arrange(battle, 0, 0, cross(15, 24, 3), lead=1, flags=SHOCKED | 1)
    arrange(battle, 1, 0, [(15, 40), (15, 41)], flags=SMOKED)
    arrange(battle, 1, 1, [])
    pose(battle, SHOOT, 0, unit=0, cp=3)
    own, enemy, rest = rows_of(battle.observe(0))
    assert own[0, :7] == pytest.approx([1, 3 / 20, 3 / 5, 1 / 2, 5 / 10, 15 / 31, 24 / 47])
    assert own[0, 7:17] == pytest.approx([6 / 12, 4 / 12, 3 / 7, 3 / 6, 2 / 12, 7 / 12, 0, 1, 0, 0])
    assert list(np.flatnonzero(own[0, 17:26]) + 17) == [17, 22]  # moved, shocked
    assert own[0, 26:33] == pytest.approx([1, 24 / 48, 2 / 12, 4 / 6, 4 / 16, 1 / 6, 1 / 6])
    assert own[0, 52:57] == pytest.approx([0, 1, 0, 1, 0])
    assert not own[1:].any() and not enemy[1:].any()
    assert enemy[0, 13] == pytest.approx(1 / 5) and enemy[0, 23] == 1  # OC and smoke
    assert enemy[0, 52] == pytest.approx(160 / 600)
    assert enemy[0, 57:] == pytest.approx([160 / 600, 1, 0])  # nearest models, all three fire, no cover of terrain
    assert list(np.flatnonzero(rest[13:24])) == [SHOOT] and rest[6] == pytest.approx(3 / 10)
    assert rest[41:47] == pytest.approx([1, 15 / 31, 24 / 47, 0, 0, 0])  # a shocked unit holds nothing
    assert rest[89:] == pytest.approx([5 / 10, 4 / 20])
    own, enemy, rest = rows_of(battle.observe(1))
    assert own[0, 5:7] == pytest.approx([15 / 31, 1 - 40 / 47])  # columns mirrored
    assert not rest[13:24].any() and not rest[25:27].any()
    assert not own[:, 55:].any() and not enemy[:, 55:].any()


def test_the_subject_is_the_reference_where_no_unit_decides():
    battle = make([unit(), unit()], [unit(keywords=["infantry"])], {**TREE, "barricades": [[15, 18, 15, 18]]})
    arrange(battle, 1, 0, [(15, 20)])
    arrange(battle, 0, 0, [(15, 10), (15, 9)])
    arrange(battle, 0, 1, [(25, 20)])
    pose(battle, SNAP, 0, subject=0, cp=1)
    own, enemy, _ = rows_of(battle.observe(0))
    assert own[0, 57:] == pytest.approx([100 / 600, 1, 1]) and own[1, 57:] == pytest.approx([100 / 600, 1, 0])
    assert enemy[0, 55:] == pytest.approx([0, 1, 0, 0, 0]) and not own[:, 55:57].any()


# ---- caches ---------------------------------------------------------------------------------------------------------


def test_caches_after_arranging():
    rng = np.random.default_rng(5)
    battle = make([unit(), unit()], [unit(), unit()], {**TREE, "walls": [[14, 22, 16, 22]]})
    for _ in range(200):
        side, which = (int(x) for x in rng.integers(0, 2, 2))
        row, col = 3 + 8 * (2 * side + which), int(rng.integers(8, 20))
        arrange(battle, side, which, cross(row, col, int(rng.integers(1, 6))), lead=int(rng.integers(1, 3)))
        pose(battle, MOVE, 0, unit=0)
        fresh = battle.observe(0)
        battle.check_caches()
        again = Battle(battle.rules, saved=battle.save())
        assert np.array_equal(again.observe(0), fresh)
