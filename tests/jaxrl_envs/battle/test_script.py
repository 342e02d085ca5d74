"""Scripted players, observations and caches of the battle engine, in positions arranged by hand.

Everything that is expected here was worked out from sections 9 and 11 of the rules, not by the engine; the golden
battles (test_battle_golden.py) compare the choices of all styles at thousands of decisions besides.
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

MOVE, FALL_BACK, SHOOT, CHARGE, FIGHT, SNAP, PROTECT, COUNTER, SHOCK, REROLL_ADVANCE, REROLL_CHARGE = range(11)
BALANCED, AGGRESSOR, GUNLINE, OBJECTIVE, TURTLE = STYLES = range(5)
DECLINE, REROLL, STEEL, SMOKE, TAKE_COVER = 0, 65, 66, 67, 68
HALF, FULL, ADVANCE = 1, 9, 17  # first ids of the gaits
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


# ---- decisions ------------------------------------------------------------------------------------------------------


def test_targets():
    battle = make([unit()], [unit(), unit(), unit()])
    arrange(battle, 0, 0, cross(15, 8))
    for j, row in enumerate((6, 10, 15)):
        arrange(battle, 1, j, cross(row, 20 if row < 15 else 24))

    def choice() -> list[int]:
        pose(battle, SHOOT, 0, unit=0)
        assert battle.legal == [0, 25, 26, 27]
        return [battle.script(style) - 25 for style in STYLES]

    assert choice() == [2] * 5  # on the objective
    arrange(battle, 1, 2, cross(20, 20))
    assert choice() == [0] * 5  # all alike: the lowest
    arrange(battle, 1, 1, cross(10, 20, 4))
    assert choice() == [1] * 5  # a larger part of what is left
    arrange(battle, 1, 2, cross(15, 24))
    assert choice() == [2] * 5
    arrange(battle, 1, 0, cross(6, 20, 1), lead=1)
    assert choice() == [0] * 5  # dies surely


def test_blows_go_where_they_do_most():
    battle = make([unit()], [unit(), unit()])
    arrange(battle, 0, 0, [(5, 10), (5, 11)])
    arrange(battle, 1, 0, [(4, 9)])
    arrange(battle, 1, 1, [(6, 12), (6, 13)], lead=1)
    pose(battle, FIGHT, 0, unit=0)
    assert battle.legal == [41, 42]
    assert shares(battle, 0, 0)[1] == [333, 222]  # of 2 wounds and of 3
    assert [battle.script(style) for style in STYLES] == [41] * 5


def scores_of_charges(battle: Battle, bias: int) -> dict[int, int]:
    """Action -> score of unit 0 of side 0 for not charging, and for each enemy within 12."""
    own, *enemies = [[divmod(cell, 48) for cell in each[3]] for side in battle.state()[4] for each in side]
    guns, blades = shares(battle, 0, 0)
    scores = {DECLINE: 0}
    for j, cells in enumerate(enemies):
        d2 = min((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 for a in own for b in cells)
        if d2 > 144 or needed_roll(d2)[1] < 6:
            continue
        m, (their_guns, their_blades) = blades[j], shares(battle, 1, j)
        v = m - their_blades[0] * (1000 - m) // 1000 + their_guns[0] // 2 - max(guns) // 2 + bias
        v += 100 * any((row - 15) ** 2 + (col - 24) ** 2 <= 9 for row, col in cells)
        scores[33 + j] = v * needed_roll(d2)[1] // 36
    return scores


def test_charges():
    """Random positions of one unit and three enemies, compared with the formula."""
    rng = np.random.default_rng(3)
    kinds = [unit(), unit(melee={**BLADE, "A": 4}), unit(ranged={**GUN, "A": 4})]
    battle = make([unit(melee={**BLADE, "A": 4, "S": 5}, ranged={**GUN, "A": 1})], kinds)
    taken = set()
    for _ in range(60):
        models = rng.integers(1, 6, 4).tolist()
        places = (np.array([(15, 20), (15, 29), (6, 20), (24, 20)]) + rng.integers(-1, 2, (4, 2))).tolist()
        for k, (row, col) in enumerate(places):
            arrange(battle, min(k, 1), max(k - 1, 0), cross(row, col, models[k]), lead=int(rng.integers(1, 3)))
        pose(battle, CHARGE, 0, unit=0)
        for style, bias in zip(STYLES, (0, 200, -200, 0, -100), strict=True):
            scores = scores_of_charges(battle, bias)
            best = min(action for action, score in scores.items() if score == max(scores.values()))
            assert battle.script(style) == best
            taken.add(best)
    assert taken == {DECLINE, 33, 34, 35}


def test_a_charge_needs_a_blade_and_six_ways():
    strong = unit(melee={**BLADE, "A": 10, "S": 8})
    battle = make([strong, {key: value for key, value in unit().items() if key != "melee"}], [unit()])
    arrange(battle, 1, 0, [(10, 30)])
    for d, expected in ((11, 33), (12, DECLINE)):  # 10 is needed: 6 ways; 11 is needed: 3
        arrange(battle, 0, 0, [(10, 30 - d)])
        pose(battle, CHARGE, 0, unit=0)
        assert battle.legal == [0, 33] and battle.script(AGGRESSOR) == expected
    arrange(battle, 0, 1, [(10, 28)])
    pose(battle, CHARGE, 0, unit=1)
    assert battle.legal == [0, 33] and battle.script(AGGRESSOR) == DECLINE


def test_snap_fire_is_dear():
    """5 models: 10 attacks, 1 of 6 hits: 41 permille; with 40 for each command point 160 are enough."""
    battle = make([unit(), unit(ranged={**GUN, "abilities": {"torrent": True}})], [unit()])
    arrange(battle, 0, 0, cross(15, 10))
    arrange(battle, 0, 1, [])
    arrange(battle, 1, 0, cross(15, 20))
    for cp, expected in ((1, DECLINE), (2, DECLINE), (3, 49)):
        pose(battle, SNAP, 0, subject=0, cp=cp)
        assert battle.legal == [0, 49] and battle.script(TURTLE) == expected
    arrange(battle, 0, 1, cross(20, 10))  # needs no sixes: 250 permille
    pose(battle, SNAP, 0, subject=0, cp=1)
    assert battle.legal == [0, 49, 50] and battle.script(TURTLE) == 50


def test_protection_counter_charges_and_re_rolls():
    smoky = unit(keywords=["smoke", "infantry"])
    battle = make([smoky, unit(keywords=["infantry"])], [unit(), unit(ranged={**GUN, "abilities": {"torrent": True}})])
    for target, shooter, expected in ((0, 0, DECLINE), (0, 1, SMOKE), (1, 1, TAKE_COVER)):
        pose(battle, PROTECT, 0, unit=target, subject=shooter, cp=1)
        assert battle.script(BALANCED) == expected
    strong = [unit(melee={**BLADE, "A": attacks}) for attacks in (3, 4, 5)]  # 250, 333 and 416 permille
    battle = make(strong, [unit()])
    arrange(battle, 1, 0, cross(15, 20))
    for i in range(3):
        arrange(battle, 0, i, cross(11 + 4 * i, 15))
    for cells, legal, expected in ((cross(19, 15), [0, 57, 58, 59], 59), ([], [0, 57, 58], 58)):
        arrange(battle, 0, 2, cells)
        pose(battle, COUNTER, 0, subject=0, cp=2)
        assert battle.legal == legal and battle.script(BALANCED) == expected
    arrange(battle, 0, 1, [])
    pose(battle, COUNTER, 0, subject=0, cp=2)
    assert battle.legal == [0, 57] and battle.script(BALANCED) == DECLINE
    for roll, cp, expected in ((2, 3, REROLL), (3, 3, DECLINE), (2, 2, DECLINE)):
        pose(battle, REROLL_ADVANCE, 0, unit=0, roll=roll, cp=cp)
        assert battle.legal == [0, REROLL] and battle.script(BALANCED) == expected
    for d, needed, expected in ((9, 8, REROLL), (10, 9, DECLINE)):  # 15 and 10 ways
        arrange(battle, 0, 0, [(25, 20)])
        arrange(battle, 1, 0, [(25, 20 + d)])
        pose(battle, REROLL_CHARGE, 0, unit=0, subject=0, roll=3, cp=1)
        assert battle.needed == needed and battle.script(BALANCED) == expected


def test_nerves_are_steeled_on_an_objective():
    battle = make([unit()], [unit()])
    for cell, cp, expected in (((15, 27), 1, STEEL), ((15, 28), 1, DECLINE), ((15, 27), 0, DECLINE)):
        arrange(battle, 0, 0, [cell])
        pose(battle, SHOCK, 0, unit=0, roll=4, cp=cp)
        assert battle.needed == 7 and battle.script(BALANCED) == expected


def test_a_unit_falls_back_where_it_suffers():
    """One model in contact with five: it deals 33 permille and suffers 1000."""
    battle = make([unit()], [unit(melee={**BLADE, "A": 5})])
    arrange(battle, 1, 0, cross(10, 21))

    def choice(**arranged: Any) -> int:
        arrange(battle, 0, 0, [(10, 19)], **arranged)
        pose(battle, FALL_BACK, 0, unit=0)
        assert battle.kind == FALL_BACK
        return battle.script(GUNLINE)

    assert choice() in range(FULL, FULL + 8)
    assert choice(flags=SHOCKED) == DECLINE
    arrange(battle, 1, 0, [(10, 20)])  # five attacks: 0.83 wounds of 2, 416 permille
    assert shares(battle, 1, 0)[1] == [416] and choice() in range(FULL, FULL + 8)
    arrange(battle, 0, 0, cross(10, 18))  # five models in contact deal 166 and suffer 83
    pose(battle, FALL_BACK, 0, unit=0)
    assert battle.kind == FALL_BACK and [battle.script(style) for style in STYLES] == [DECLINE] * 5
    sword = make([{key: value for key, value in unit().items() if key != "ranged"}], [unit(melee={**BLADE, "A": 5})])
    arrange(sword, 1, 0, cross(10, 21))
    arrange(sword, 0, 0, [(10, 19)])
    pose(sword, FALL_BACK, 0, unit=0)
    assert len(sword.legal) > 1 and sword.script(GUNLINE) == DECLINE  # nothing to shoot with: it stays


def test_moves_to_an_objective():
    """A turtle without weapons weighs the objectives alone, and that the nearer unit takes one; ids break ties."""
    bare = {key: value for key, value in unit().items() if key not in ("ranged", "melee")}
    battle = make([bare, bare], [bare], {**TREE, "objectives": [[15, 24, 3], [15, 12, 1]]})
    arrange(battle, 1, 0, [(30, 44)])
    arrange(battle, 0, 1, cross(2, 8))

    def choice(which: int, row: int, col: int) -> int:
        arrange(battle, 0, which, cross(row, col))
        pose(battle, MOVE, 0, unit=which)
        return battle.script(TURTLE)

    assert choice(0, 15, 33) == FULL + 4  # 6 of the 9 cells bring the anchor onto it; the advance brings no more
    assert choice(0, 15, 36) == ADVANCE + 4
    assert choice(0, 15, 29) == HALF + 4
    assert choice(0, 15, 24) == DECLINE
    assert choice(1, 13, 26) == DECLINE  # unit 0 is nearer to both: 40 here, 40 more than the distance there
    assert choice(1, 13, 22) == ADVANCE + 4  # 40 here; there it is the nearest itself, and ends 12 from the rim
    assert choice(1, 15, 18) == FULL + 4  # the other one is just reached


def test_annihilation_cares_for_the_enemy_alone():
    blade = {key: value for key, value in unit().items() if key != "ranged"}
    battle = make([blade], [blade], mission="annihilation")
    arrange(battle, 1, 0, cross(15, 40))
    arrange(battle, 0, 0, cross(15, 24))
    pose(battle, MOVE, 0, unit=0)
    assert battle.script(AGGRESSOR) == ADVANCE
    assert battle.script(TURTLE) == DECLINE  # neither approaches nor has anything to gain


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


def test_planes():
    battle = make([unit()], [unit()], {**TREE, "barricades": [[3, 10, 4, 10]], "walls": [[8, 20, 8, 22]]})
    arrange(battle, 0, 0, cross(15, 24))
    left, right = battle.planes(0), battle.planes(1)
    assert left["terrain"].shape == (32, 48) and left["terrain"].dtype == np.uint8
    assert {tuple(cell) for cell in np.argwhere(left["terrain"] == 1)} == {(3, 10), (4, 10)}
    assert {tuple(cell) for cell in np.argwhere(left["terrain"] == 2)} == {(8, 20), (8, 21), (8, 22)}
    assert {tuple(cell) for cell in np.argwhere(left["own"])} == set(cross(15, 24)) and left["own"].max() == 1
    for name, mirrored in (("terrain", "terrain"), ("own", "enemy"), ("enemy", "own")):
        assert np.array_equal(left[name], right[mirrored][:, ::-1])


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


def test_arranging_refuses_what_cannot_be():
    battle = make([unit()], [unit()], {**TREE, "barricades": [[3, 10, 3, 10]]})
    arrange(battle, 1, 0, cross(15, 24))
    before = battle.save()
    for cells in ([(3, 10)], [(-1, 0)], [(0, 48)], [(15, 24)], [(5, 9), (5, 9)], cross(9, 9) + [(11, 9)]):
        with pytest.raises(ValueError, match="cell|models"):
            arrange(battle, 0, 0, cells)
    with pytest.raises(ValueError, match="no unit 1"):
        arrange(battle, 0, 1, [(5, 9)])
    for question in ({"kind": SHOOT, "unit": 3}, {"kind": SNAP, "subject": -1}, {"kind": 11, "unit": 0}):
        with pytest.raises(ValueError, match="there is no"):
            pose(battle, side=0, **question)
    assert battle.save() == before
