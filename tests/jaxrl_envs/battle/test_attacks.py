"""The engine's attack sequence against its exact distribution: hits, wounds, saves and damage as a Markov chain.

The chain knows nothing of the engine: its states are the wounds left in the unit, its steps the hits of section 5.6 of
the rules. Compared are the mean of the wounds dealt, within four standard errors of the exact distribution, and
the whole distribution, by its greatest distance from the observed one (the test of Kolmogorov, 1 in 10,000).
"""

from __future__ import annotations

import copy
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import map_from_tree
from jaxrl_envs.battle.rosters import roster_from_tree
from jaxrl_envs.battle.settings import settings_from_tree
from tests.jaxrl_envs.battle.referee.battle_dice import parse

BATTLES = 20_000
PLAIN: dict[str, Any] = {"A": 2, "skill": 3, "S": 4, "AP": -1, "D": 1}
TARGET: dict[str, Any] = {"models": 10, "T": 4, "Sv": 4, "W": 2}
BOARD = map_from_tree({"rows": 16, "cols": 24})
STAY, HOLD_FIRE, SMOKE, TAKE_COVER = 0, 0, 67, 68


def unit(name: str, **changes) -> dict:
    return {"name": name, "models": 1, "M": 6, "T": 4, "Sv": 4, "W": 2, "Ld": 2, "OC": 1, **changes}


# ---- exact ----------------------------------------------------------------------------------------------------------


def outcomes(expression: int | str) -> dict[int, float]:
    """value -> probability of a dice expression."""
    n, faces, plus = parse(expression)
    counts = Counter(sum(dice) + plus for dice in product(range(1, faces + 1), repeat=n))
    return {value: count / faces**n for value, count in counts.items()}


def damage_matrix(target: dict, damage: int | str) -> np.ndarray:
    """[states, states]: one unsaved wound; state = wounds left in the whole unit, excess damage is lost."""
    wounds = target["W"]
    size = target["models"] * wounds + 1
    step = np.zeros((size, size))
    step[0, 0] = 1.0
    for left in range(1, size):
        lead = (left - 1) % wounds + 1  # of the model that is damaged
        for value, chance in outcomes(damage).items():
            step[left, left - min(value, lead)] += chance
    return step


def wound_on(strength: int, toughness: int) -> int:
    ratio = strength / toughness
    return 2 if ratio >= 2 else 3 if ratio > 1 else 4 if ratio == 1 else 6 if ratio <= 0.5 else 5


def saved(target: dict, ap: int, cover: bool, grounded: bool) -> float:
    """The chance of a save."""
    armour = target["Sv"] - ap - (cover and not (target["Sv"] <= 3 and ap == 0))
    best = min(max(2, armour), target.get("Inv") or 7, 6 if grounded else 7)
    return max(0, 7 - best) / 6


def attack_matrix(weapon: dict, target: dict, *, modifier=0, snap=False, cover=False, grounded=False) -> np.ndarray:
    """[states, states]: one attack with everything that follows from it."""
    ability = weapon.get("abilities", {})
    damage = damage_matrix(target, weapon["D"])
    nothing = np.eye(len(damage))
    save = saved(target, weapon["AP"], cover, grounded)
    needed = wound_on(weapon["S"], target["T"])
    again = (needed - 1) / 6 if ability.get("twin_linked") else 0.0  # chance of a second die
    critical = (1 + again) / 6
    ordinary = (7 - needed) / 6 * (1 + again) - critical
    through = ordinary * (1 - save) + critical * (1.0 if ability.get("devastating_wounds") else 1 - save)
    hit = through * damage + (1 - through) * nothing
    if ability.get("torrent"):
        return hit
    first = (1 - save) * damage + save * nothing if ability.get("lethal_hits") else hit
    crit = first @ np.linalg.matrix_power(hit, ability.get("sustained_hits", 0))
    hits = 0 if snap else sum(die + modifier >= weapon["skill"] for die in range(2, 6))
    return crit / 6 + hits / 6 * hit + (5 - hits) / 6 * nothing


def dealt(weapon: dict, target: dict, models: int, extra: int = 0, **how) -> np.ndarray:
    """[wounds + 1]: the probability of every number of wounds dealt by `models` models (with `extra` more attacks)."""
    one = attack_matrix(weapon, target, **how)
    number = {extra: 1.0}
    for _ in range(models):
        added: Counter = Counter()
        for (a, p), (b, q) in product(number.items(), outcomes(weapon["A"]).items()):
            added[a + b] += p * q
        number = added
    left = np.zeros(len(one))
    for attacks, chance in number.items():
        left += chance * np.linalg.matrix_power(one, attacks)[-1]
    return left[::-1]


# ---- observed -------------------------------------------------------------------------------------------------------


def rules(attacker: dict, target: dict, **settings) -> Rules:
    """Side 0 attacks first with one unit, side 1 has one unit; an empty board on which all is within 24."""
    rosters = tuple(roster_from_tree({"name": "one", "units": [tree]}) for tree in (attacker, target))
    tree = {"zone": 10, "deploy": 0, "first": 0, "rounds": 1, **settings}
    return Rules([BOARD], [rosters], settings_from_tree(tree))


def wounds_left(battle: Battle, side: int) -> int:
    return battle.result()["hp"][side]


def shooting(rules: Rules, seed: int, *, protect: int = 0, move: bool = False) -> int:
    """Wounds dealt by the first attack of side 0 (after a move, or not)."""
    battle = Battle(rules, seed=seed)
    before = wounds_left(battle, 1)
    while battle.kind != 2:
        assert battle.side == 0 and not battle.over
        battle.step(battle.legal[1] if battle.kind == 0 and move else STAY)
    battle.step(25)
    while battle.kind == 6 and not battle.over:
        battle.step(protect)
    return before - wounds_left(battle, 1)


def snap_fire(rules: Rules, seed: int) -> int:
    """Wounds dealt by side 1 to the unit of side 0 that has moved."""
    battle = Battle(rules, seed=seed)
    before = wounds_left(battle, 0)
    battle.step(1 + 8 + 4)  # backwards
    assert battle.kind == 5
    battle.step(49)
    return before - wounds_left(battle, 0)


def melee(rules: Rules, seed: int) -> int | None:
    """Wounds dealt by the first charge of side 0, None if none arrives in the battle."""
    battle = Battle(rules, seed=seed)
    full = wounds_left(battle, 1)
    while not battle.over:
        battle.step(battle.script(1) if battle.side == 0 else 0)
    for _, active, _, _, (own, other) in battle.half_turns:
        if active == 0 and (own[0][2] & 8):
            return full - ((other[0][0] - 1) * battle_wounds(rules) + other[0][1] if other[0][0] else 0)
    return None


def battle_wounds(rules: Rules) -> int:
    return rules.pairs[0][1].units[0].W


def agree(observed: list[int], exact: np.ndarray) -> None:
    values = np.arange(len(exact))
    assert exact.sum() == pytest.approx(1.0) and exact.min() > -1e-12
    mean = float(exact @ values)
    error = float(np.sqrt(exact @ (values - mean) ** 2 / len(observed)))
    assert abs(np.mean(observed) - mean) <= 4 * error, (np.mean(observed), mean, error)
    share = np.bincount(observed, minlength=len(exact)) / len(observed)
    assert len(share) == len(exact)
    distance = np.abs(np.cumsum(share) - np.cumsum(exact)).max()
    assert distance <= 2.23 / np.sqrt(len(observed)), (distance, share, exact)


SHOTS = [
    ("plain", {}, {}),
    ("heroic", {"A": "2D6+1", "skill": 2, "S": 9, "AP": -3, "D": "D6+1"}, {"models": 3, "W": 12, "T": 9, "Inv": 5}),
    ("weak", {"A": 20, "skill": 6, "S": 3, "AP": 0}, {"T": 6, "Sv": 2, "W": 1}),
    ("no save", {"AP": -4, "D": "D3"}, {"Sv": 5, "W": 3}),
    ("lethal", {"A": 6, "S": 3, "abilities": {"lethal_hits": True}}, {"T": 8}),
    ("sustained", {"A": 6, "abilities": {"sustained_hits": 3}}, {}),
    ("lethal and sustained", {"A": "D6", "abilities": {"sustained_hits": 2, "lethal_hits": True}}, {"T": 5}),
    ("devastating", {"A": 6, "abilities": {"devastating_wounds": True}}, {"Sv": 2, "Inv": 4}),
    ("twin", {"A": 6, "S": 2, "abilities": {"twin_linked": True}}, {}),
    (
        "twin and devastating",
        {"A": 9, "abilities": {"twin_linked": True, "devastating_wounds": True}},
        {"Sv": 2, "T": 7},
    ),
    ("torrent", {"A": "D6", "abilities": {"torrent": True, "lethal_hits": True, "sustained_hits": 1}}, {}),
    ("excess", {"A": "D3", "S": 12, "AP": -6, "D": "3D6+6"}, {"models": 3, "W": 12, "Inv": 3}),
]


@pytest.mark.parametrize(("changes", "other"), [shot[1:] for shot in SHOTS], ids=[shot[0] for shot in SHOTS])
def test_shooting(changes: dict, other: dict) -> None:
    weapon, target = {**PLAIN, "range": 48, **changes}, {**TARGET, **other}
    game = rules(unit("a", models=3, ranged=weapon), unit("t", **target))
    agree([shooting(game, seed) for seed in range(BATTLES)], dealt(weapon, target, 3))


def test_rapid_fire_and_blast() -> None:
    target = {**TARGET, "models": 14, "W": 1}
    weapon = {**PLAIN, "range": 48, "A": "D3", "abilities": {"rapid_fire": 2, "blast": True}}
    game = rules(unit("a", models=3, ranged=weapon), unit("t", **target))
    extra = 3 * 2 + 3 * (14 // 5)
    agree([shooting(game, seed) for seed in range(BATTLES)], dealt(weapon, target, 3, extra))


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("smoke", [False, True])
def test_modifiers_of_the_hit(moves: bool, smoke: bool) -> None:
    """Heavy helps who has not moved, smoke hinders and gives cover; both are added."""
    weapon = {**PLAIN, "range": 48, "A": 4, "abilities": {"heavy": True}}
    target = {**TARGET, "keywords": ["smoke"]}
    game = rules(unit("a", models=4, ranged=weapon), unit("t", **target))
    observed = [shooting(game, seed, protect=SMOKE if smoke else 0, move=moves) for seed in range(BATTLES)]
    agree(observed, dealt(weapon, target, 4, modifier=(not moves) - smoke, cover=smoke))


@pytest.mark.parametrize(("armour", "ap"), [(3, 0), (3, -1), (4, 0), (7, 0), (6, -2)])
def test_take_cover(armour: int, ap: int) -> None:
    weapon = {**PLAIN, "range": 48, "A": 4, "AP": ap}
    target = {**TARGET, "Sv": armour, "keywords": ["infantry"]}
    game = rules(unit("a", models=4, ranged=weapon), unit("t", **target))
    observed = [shooting(game, seed, protect=TAKE_COVER) for seed in range(BATTLES)]
    agree(observed, dealt(weapon, target, 4, cover=True, grounded=True))


def test_snap_fire_hits_on_sixes_only() -> None:
    weapon = {**PLAIN, "range": 48, "A": 6, "abilities": {"rapid_fire": 1, "heavy": True, "sustained_hits": 1}}
    target = dict(TARGET)
    game = rules(unit("t", **target), unit("a", models=5, ranged=weapon), cp_start=1)
    observed = [snap_fire(game, seed) for seed in range(BATTLES)]
    agree(observed, dealt(weapon, target, 5, extra=5, snap=True))


def test_fight() -> None:
    """In a fight there is neither cover nor a modifier, and all living models strike."""
    weapon = {**PLAIN, "A": "D3+1", "S": 5, "D": 2, "abilities": {"lethal_hits": True, "twin_linked": True}}
    target = {**TARGET, "models": 7, "W": 3, "keywords": ["infantry", "smoke"]}
    attacker = unit("a", models=5, M=8, melee=weapon)
    game = rules(attacker, unit("t", **target), rounds=2)
    observed = [found for seed in range(BATTLES) if (found := melee(game, seed)) is not None]
    assert len(observed) > BATTLES / 2
    agree(observed, dealt(weapon, target, 5))


def test_the_comparison_is_sharp() -> None:
    """Distributions that are nearly right are told apart: one pip of skill, strength, AP or damage."""
    weapon = {**PLAIN, "range": 48}
    game = rules(unit("a", models=3, ranged=weapon), unit("t", **TARGET))
    observed = [shooting(game, seed) for seed in range(BATTLES)]
    for key, value in (("skill", 4), ("S", 5), ("AP", -2), ("D", 2), ("A", 3)):
        wrong = copy.deepcopy(weapon) | {key: value}
        with pytest.raises(AssertionError):
            agree(observed, dealt(wrong, TARGET, 3))
