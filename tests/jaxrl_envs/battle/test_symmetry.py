"""What must hold of every battle: mirror, exchange of sides, and the invariants of section 14 of the rules."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from jaxrl_envs.battle import maps
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.golden import STYLES, rules_of
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.battle.settings import settings_from_tree
from tests.jaxrl_envs.battle.referee import battle_generate as generate


@cache
def record(number: int) -> dict:
    """A generated battle with its actions and its dice; cached, not to be changed."""
    return generate.record(23, number, watched=0.0)


def begin(record: dict, tape: list[int]) -> Battle:
    boards, rosters, settings = rules_of(record)
    return Battle(Rules(boards, [rosters], settings), tape=tape)


def setup_dice(record: dict) -> Iterator[tuple[str, int, int]]:
    """(what, first die, dice) of every part of the setup: the map die, roll-offs, and the unit pairs of deployment."""
    config, dice, place = record["config"], record["dice"], 0

    def roll_off(name: str) -> Iterator[tuple[str, int, int]]:
        nonlocal place
        if config[name] == "roll":
            while True:
                yield name, place, 2
                place += 2
                if dice[place - 2] != dice[place - 1]:
                    return

    if len(config["maps"]) > 1:
        yield "map", place, 1
        place += 1
    yield from roll_off("deploy")
    left, right = (len(record["rosters"][side]["units"]) for side in (record["left"], 1 - record["left"]))
    for k in range(max(left, right)):
        both = (2 if k < left else 0, 2 if k < right else 0)
        yield ("pair" if all(both) else "unit"), place, sum(both)
        place += sum(both)
    yield from roll_off("first")


def exchanged(record: dict, *, roll_offs: tuple[str, ...], pairs: bool) -> list[int]:
    """The tape with both dice of some roll-offs exchanged, and the deployment dice of left and right units."""
    tape = list(record["dice"])
    for what, place, _ in setup_dice(record):
        if what in roll_offs:
            tape[place : place + 2] = reversed(tape[place : place + 2])
        if what == "pair" and pairs:
            tape[place : place + 4] = tape[place + 2 : place + 4] + tape[place : place + 2]
    return tape


def seen(battle: Battle, side: int) -> tuple:
    """A question as the sides see it, with `side` 0."""
    flip = battle.side ^ side
    asked = (flip, battle.kind, battle.unit, battle.subject, battle.roll, battle.needed, battle.legal)
    return (*asked, [battle.script(style) for style in range(5)])


def play_both(a: Battle, b: Battle, actions: list[int], flip: int) -> None:
    """The same actions in two battles that must look the same, with the sides exchanged if `flip`."""
    for action in actions:
        assert seen(a, 0) == seen(b, flip)
        for side in range(2):
            np.testing.assert_array_equal(a.observe(side), b.observe(side ^ flip))
        a.step(action)
        b.step(action)
    assert a.over and b.over and b.tape_left == 0


@pytest.mark.parametrize("number", range(12))
def test_mirrored_map_with_deployment_exchanged(number: int) -> None:
    """A battle equals its mirror image: all is decided in home frames."""
    original = record(number)
    other = copy.deepcopy(original)
    for tree in other["config"]["maps"]:
        last = tree["cols"] - 1
        for name in ("barricades", "walls"):
            tree[name] = [[r0, last - c1, r1, last - c0] for r0, c0, r1, c1 in tree[name]]
        tree["objectives"] = [[r, last - c, q] for r, c, q in tree["objectives"]]
    if other["config"]["deploy"] != "roll":
        other["config"]["deploy"] = 1 - other["config"]["deploy"]
    a = begin(original, original["dice"])
    b = begin(other, exchanged(original, roll_offs=("deploy",), pairs=True))
    assert b.left == 1 - a.left and b.first == a.first
    play_both(a, b, [row[7] for row in original["decisions"]], flip=0)
    cols = other["config"]["maps"][b.map_index]["cols"]
    state = b.state()
    for units in state[4]:
        for unit in units:
            unit[3] = [cell - cell % cols + cols - 1 - cell % cols for cell in unit[3]]
    assert state == a.state() and a.result() == b.result()


@pytest.mark.parametrize("number", range(12, 24))
def test_sides_exchanged(number: int) -> None:
    """Rosters, deployment and first turn exchanged: the same battle with the sides exchanged."""
    original = record(number)
    other = copy.deepcopy(original)
    other["rosters"].reverse()
    for name in ("deploy", "first"):
        if other["config"][name] != "roll":
            other["config"][name] = 1 - other["config"][name]
    a = begin(original, original["dice"])
    b = begin(other, exchanged(original, roll_offs=("deploy", "first"), pairs=False))
    assert (b.left, b.first) == (1 - a.left, 1 - a.first)
    play_both(a, b, [row[7] for row in original["decisions"]], flip=1)
    number, active, cp, vp, sides = b.state()
    assert [number, 1 - active, cp[::-1], vp[::-1], sides[::-1]] == a.state()
    swapped = {0: 1, 1: 0, None: None}
    assert b.result()["winner"] == swapped[a.result()["winner"]]
    assert a.reward == -b.reward


# ---- invariants -----------------------------------------------------------------------------------------------------


def check(battle: Battle, blocked: set[int], cols: int, wounds: list[list[int]], models: list[list[int]]) -> None:
    """The invariants at one moment."""
    _, _, cp, vp, sides = battle.state()
    assert min(cp) >= 0 and min(vp) >= 0
    cells = [cell for units in sides for unit in units for cell in unit[3]]
    assert len(cells) == len(set(cells)) and not blocked & set(cells)
    for side, units in enumerate(sides):
        for index, (count, lead, flags, own) in enumerate(units):
            assert count == len(own) <= models[side][index]
            assert 1 <= lead <= wounds[side][index] if count else (lead, flags) == (0, 0)
            assert connected(own, cols)
    legal = battle.legal
    assert battle.over == (not legal)
    assert battle.over or (len(legal) > 1 and legal == sorted(legal) and all(0 <= i < 69 for i in legal))


def connected(cells: list[int], cols: int) -> bool:
    """Whether models hang together, each in contact with another one."""
    rest = {divmod(cell, cols) for cell in cells}
    reached = [rest.pop()] if rest else []
    for row, col in reached:
        near = {cell for cell in rest if max(abs(cell[0] - row), abs(cell[1] - col)) <= 1}
        rest -= near
        reached += near
    return not rest


def battles() -> Iterator[tuple[Rules, dict]]:
    """Rules and identities of generated battles and of the shipped rosters and maps."""
    for number in range(24, 40):
        tree = record(number)
        boards, rosters, settings = rules_of(tree)
        yield Rules(boards, [rosters], settings), {name: tree[name] for name in ("seed", "slot", "episode")}
    rosters = [load_roster(name) for name in ("line", "horde", "walkers")]
    pairs = [(a, b) for a in rosters for b in rosters]
    for i, name in enumerate(maps.shipped()):
        settings = settings_from_tree({"zone": 10, "mission": ["hold", "annihilation"][i % 2]})
        for slot in range(9):
            yield Rules([load_map(name)], pairs, settings), {"seed": 5, "slot": slot, "episode": 0}


def test_invariants() -> None:
    steps = 0
    for rules, identity in battles():
        battle = Battle(rules, **identity)
        board, pair = rules.maps[battle.map_index], rules.pairs[battle.pair]
        terrain = maps.cells(board.barricades) | maps.cells(board.walls)
        blocked = {r * board.cols + c for r, c in terrain}
        wounds = [[unit.W for unit in roster.units] for roster in pair]
        models = [[unit.models for unit in roster.units] for roster in pair]
        rng = random.Random(identity["slot"])
        drawn = 0
        while True:
            check(battle, blocked, board.cols, wounds, models)
            assert battle.dice >= drawn
            drawn = battle.dice
            if battle.over:
                break
            scripted = battle.script(rng.randrange(len(STYLES)))
            assert scripted in battle.legal
            battle.step(scripted if rng.random() < 0.6 else rng.choice(battle.legal))
            steps += 1
        assert all(1 <= sides <= 255 for sides in battle.faces) and battle.result()["decisions"] > 0
    assert steps > 3_000
