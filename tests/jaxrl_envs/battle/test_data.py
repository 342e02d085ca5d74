"""Rosters, maps and settings of the battle: what ships, what users bring, and every mistake in one clear sentence."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from jaxrl_envs.battle import maps, rosters
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.setup import check_deployable
from jaxrl_envs.battle.maps import BattleMap, load_map, map_from_tree
from jaxrl_envs.battle.rosters import Dice, Roster, load_roster, roster_from_tree
from jaxrl_envs.battle.settings import BattleSettings, settings_from_tree
from jaxrl_envs.shared.errors import UserError

RIFLE = {"range": 24, "A": 2, "skill": 3, "S": 4, "AP": -1, "D": 1}
SQUAD = {"name": "Squad", "models": 5, "M": 6, "T": 4, "Sv": 3, "W": 2, "Ld": 6, "OC": 2, "ranged": RIFLE}


def tree(**changes) -> dict:
    """A roster of one unit with some of its keys changed; None removes one."""
    unit = {key: value for key, value in {**copy.deepcopy(SQUAD), **changes}.items() if value is not None}
    return {"name": "mine", "units": [unit]}


def weapon(**changes) -> dict:
    """The same with a changed weapon."""
    return tree(ranged={key: value for key, value in {**RIFLE, **changes}.items() if value is not None})


def test_shipped_rosters() -> None:
    assert rosters.shipped() == ["horde", "line", "walkers"]
    line, horde, walkers = (load_roster(name) for name in ("line", "horde", "walkers"))
    assert [len(roster.units) for roster in (line, horde, walkers)] == [5, 6, 4]
    captain, rifles, *_, jumpers = line.units
    assert (captain.models, captain.Inv, captain.W, captain.infantry, captain.fly) == (1, 4, 5, True, False)
    assert (captain.ranged.range, captain.ranged.assault, captain.melee.range, captain.melee.ap) == (18, True, 0, 2)
    assert (rifles.smoke, rifles.kp, rifles.regen, rifles.ranged.rapid_fire) == (True, 1, 0, 1)
    assert jumpers.fly and jumpers.melee.twin_linked
    assert line.units[3].ranged.D == Dice(1, 6, 1) and str(line.units[3].ranged.D) == "D6+1"
    assert horde.units[3].ranged is None and horde.units[3].melee.lethal_hits
    assert (walkers.units[0].vehicle, walkers.units[0].kp, walkers.units[3].regen) == (True, 2, 3)
    assert walkers.units[3].melee.devastating_wounds and walkers.units[2].ranged.sustained_hits == 1


def mirrored(board: BattleMap) -> BattleMap:
    """The map with its columns mirrored."""
    last = board.cols - 1
    barricades, walls = (
        tuple((r0, last - c1, r1, last - c0) for r0, c0, r1, c1 in rectangles)
        for rectangles in (board.barricades, board.walls)
    )
    objectives = tuple((r, last - c, q) for r, c, q in board.objectives)
    return BattleMap(board.name, board.rows, board.cols, barricades, walls, objectives)


def test_shipped_maps_favour_no_side() -> None:
    assert maps.shipped() == ["centre", "small", "standard", "walled"]
    for name in maps.shipped():
        board, other = load_map(name), mirrored(load_map(name))
        assert maps.cells(board.barricades) == maps.cells(other.barricades)
        assert maps.cells(board.walls) == maps.cells(other.walls)
        assert set(board.objectives) == set(other.objectives)
    standard = load_map("standard")
    assert (standard.rows, standard.cols, len(standard.barricades), len(standard.objectives)) == (40, 60, 8, 5)
    assert load_map("centre").objectives == ((19.5, 29.5, 5),) and len(load_map("walled").walls) == 6


def test_settings() -> None:
    assert settings_from_tree({}) == BattleSettings() and BattleSettings().tiebreak == "none"
    assert settings_from_tree({"mission": "annihilation"}).tiebreak == "damage"
    assert settings_from_tree({"mission": "annihilation", "tiebreak": "none"}).tiebreak == "none"
    found = settings_from_tree({"deploy": 1, "first": 0, "reward_vp": 1, "zone": 4, "tiebreak": "auto"})
    assert (found.deploy, found.first, found.reward_vp, found.tiebreak) == (1, 0, 1.0, "none")


def test_dice() -> None:
    pairs = {1: (0, 0, 1), 20: (0, 0, 20), "D3": (1, 3, 0), "2D6": (2, 6, 0), "3D3+6": (3, 3, 6), "1D6+1": (1, 6, 1)}
    for text, expected in pairs.items():
        assert roster_from_tree(weapon(A=text)).units[0].ranged.A == Dice(*expected)
    assert [str(Dice(*expected)) for expected in pairs.values()] == ["1", "20", "D3", "2D6", "3D3+6", "D6+1"]


def test_files_of_users(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(tree()))
    (tmp_path / "a.json").write_text(json.dumps(tree(), indent="\t"))
    loaded = load_roster(tmp_path / "a.yaml")
    assert isinstance(loaded, Roster) and loaded == load_roster(str(tmp_path / "a.json")) and loaded.name == "mine"
    assert loaded.units[0].melee is None and loaded.units[0].ranged.name == "ranged"

    plain = {"rows": 20, "cols": 30, "walls": [[3, 4, 5, 4]], "objectives": [[9.5, 3, 2]]}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(plain))
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({"big": {}, "tiny": plain, 3: {"rows": 30}}))
    one, two = load_map(tmp_path / "one.yaml"), load_map(f"{tmp_path}/two.yaml:tiny")
    assert one.walls == two.walls == ((3, 4, 5, 4),) and (one.name, two.name) == ("one", "tiny")
    assert (load_map(f"{tmp_path}/two.yaml:big").rows, load_map(f"{tmp_path}/two.yaml:big").cols) == (40, 60)
    assert load_map(f"{tmp_path}/two.yaml:3").rows == 30
    assert load_map(plain).objectives == ((9.5, 3.0, 2),)


WRONG = {
    roster_from_tree: [
        (tree(models=None), "roster: units.0 (Squad) lacks models: give a whole number from 1 to 20."),
        (tree(keywords=3), "keywords.0 must be infantry, smoke, fly or vehicle, got 3."),
        (weapon(A="D4"), "or dice such as D3, 2D6 or D6+1 (up to 3 dice, up to +6), got 'D4'."),
        (weapon(D=13), "D must be a whole number from 1 to 12, or dice"),
        (weapon(abilities={"heavy": 1}), "abilities.heavy must be true, or left out, got 1."),
        (weapon(abilities={"rapid_fire": 4}), "abilities.rapid_fire must be a whole number from 1 to 3, got 4."),
        (tree(ranged=[RIFLE]), "ranged must be a weapon, or left out for a unit without one, got [{"),
        (tree(melee=RIFLE), "unknown key 'units.0 (Squad).melee.range'"),
        ({"name": "x", "units": []}, "roster: units must be a list of 1 to 8 units, got 0."),
        (None, "roster must be a mapping with the keys name, units, got nothing."),
    ],
    map_from_tree: [
        ({"walls": [[0, 0, 40, 0]]}, "walls.0 must be [first row, first column, last row, last column] with rows"),
        ({"walls": [[5, 5, 4, 5]]}, "got [5, 5, 4, 5]."),
        ({"barricades": [[1, 2, 3.0, 4]]}, "barricades.0 must be"),
        ({"barricades": [[1, 2, 3, 4]], "walls": [[3, 4, 5, 6]]}, "cell [3, 4] is a barricade and a wall"),
        ({"objectives": [[1, 1, 0]]}, "objectives.0 must be [row, column, radius] with multiples of 0.5"),
        ({"objectives": [[1.25, 1, 3]]}, "objectives.0 must be"),
        ({"objectives": [[float("nan"), 1, 3]]}, "objectives.0 must be"),
        ({"objectives": [[1, 59.5, 3]]}, "up to row 39 and column 59 and a whole radius from 1 to 12, got [1, 5"),
    ],
    settings_from_tree: [
        ({"mission": "holding"}, "mission must be hold or annihilation, got 'holding'."),
        ({"deploy": "left"}, "deploy must be roll, 0 or 1, got 'left'."),
        ({"reward_vp": float("inf")}, "reward_vp must be a number from 0 to 10, got inf."),
    ],
}


@pytest.mark.parametrize(
    ("read", "bad", "sentence"), [(read, *case) for read, cases in WRONG.items() for case in cases]
)
def test_what_is_wrong_is_one_sentence(read, bad, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read(bad)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_a_map_without_a_legal_deployment_is_refused() -> None:
    pair = (load_roster("line"), load_roster("horde"))

    def check(board: BattleMap, **settings) -> None:
        check_deployable(Rules([load_map("standard"), board], [pair], BattleSettings(**settings)))

    for name in maps.shipped():
        check(load_map(name))
    with pytest.raises(UserError, match=r"zone must be from 4 to 16 on map 'small' with 36 columns, got 17"):
        check(load_map("small"), zone=17)
    blocked = map_from_tree({"walls": [[0, 47, 39, 59]]}, name="blocked")  # the zone on the right, but two columns
    with pytest.raises(UserError, match="map 'blocked' has no legal deployment for roster 'horde' on the right: unit"):
        check(blocked, deploy=0)
    said = r"roster 'line' on the right: unit 'Captain' \(1 model\) finds no room in the 15"
    with pytest.raises(UserError, match=said):
        check(map_from_tree({"walls": [[0, 45, 39, 59]]}), deploy=1)
    check(map_from_tree({"walls": [[10, 45, 39, 59]]}))


def test_what_was_made_by_hand_stays_within_the_engine() -> None:
    line, board = load_roster("line"), load_map("standard")
    for changes in ({"units": line.units * 2}, {"units": ()}, {"units": (replace(line.units[0], models=21),)}):
        with pytest.raises(ValueError, match="roster 'line' does not fit the engine"):
            Rules([board], [(line, replace(line, **changes))], BattleSettings())
    for changes in ({"rows": 65}, {"walls": ((64, 0, 64, 0),)}, {"objectives": ((1, 1, 3),) * 9}):
        with pytest.raises(ValueError, match="map 'standard' does not fit the engine"):
            Rules([replace(board, **changes)], [(line, line)], BattleSettings())
    with pytest.raises(UserError, match="up to 255 maps, got 256"):
        Rules([board] * 256, [(line, line)], BattleSettings())


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    def message(function, name: str) -> str:
        with pytest.raises(UserError) as error:
            function(name)
        return str(error.value)

    assert "unknown roster 'lines': did you mean 'line'?" in message(load_roster, "lines")
    assert "no roster file my/own.yaml; shipped rosters are horde, line" in message(load_roster, "my/own.yaml")
    assert "unknown map 'standart': did you mean 'standard'?" in message(load_map, "standart")
    assert "no map file own.yaml; shipped maps are centre, small, standard" in message(load_map, "own.yaml:x")
    path = tmp_path / "maps.yaml"
    path.write_text(yaml.safe_dump({"north": {}, "south": {}}))
    assert "has no map 'nort': did you mean 'north'?" in message(load_map, f"{path}:nort")
    assert "has 2 maps: choose one as" in message(load_map, str(path))
    path.write_text(yaml.safe_dump({"rows": 20}))
    assert "holds a single map without a name: leave out ':x'." in message(load_map, f"{path}:x")
    path.write_text(yaml.safe_dump({"only": {"rows": 2}}))
    assert f"{path}, map 'only': rows must be" in message(load_map, str(path))
