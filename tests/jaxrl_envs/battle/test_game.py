"""The battle as a game like all others: its options, its names, the contract, and a person at the table."""

from __future__ import annotations

import io
import re

import jax
import numpy as np
import pytest
from rich.console import Console

from jaxrl import cli
from jaxrl.matches.play import Sitting
from jaxrl.players.player import bot_player
from jaxrl_envs import conformance
from jaxrl_envs.battle import actions
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.game import BattleGame
from jaxrl_envs.battle.settings import KEYS, BattleSettings
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError


@pytest.fixture(scope="module")
def small():
    """Short battles, to be played through JAX."""
    return registry.make("battle", maps=("small",), zone=10, rounds=1, rosters=("line", "walkers"))


def saved(battle):
    return np.frombuffer(battle.save(), np.uint8)


# ---- options --------------------------------------------------------------------------------------------------------


def test_options_have_the_defaults_of_the_settings():
    found = registry.options_of("battle")
    assert {name: found[name].default for name in KEYS} == vars(BattleSettings(tiebreak="auto"))


def test_options_reach_the_rules():
    game = BattleGame(maps=("walled", "centre"), mission="annihilation", rounds=7, deploy=1, first=0, cp_start=3)
    assert [board.name for board in game.maps] == ["walled", "centre"]
    settings = game.settings
    assert (settings.mission, settings.rounds, settings.tiebreak, settings.cp_start) == ("annihilation", 7, "damage", 3)
    battle = Battle(game.rules, seed=3)
    assert (battle.left, battle.first, battle.round) == (1, 0, 1)
    assert battle.state()[2] == [4, 4]  # each command phase gives both sides one
    assert {Battle(game.rules, seed=seed).map_index for seed in range(20)} == {0, 1}
    assert BattleGame(tiebreak="damage").settings.tiebreak == "damage" and BattleGame().settings.tiebreak == "none"


def test_rosters_and_pairings():
    def pairs(**options):
        return [(one.name, other.name) for one, other in BattleGame(**options).pairs]

    assert pairs(rosters=("horde",)) == [("horde", "horde")]
    assert pairs(rosters=("horde", "line")) == [("horde", "line")]
    names = ("line", "horde", "walkers")
    assert pairs(rosters=names, pairings="all") == [(one, other) for one in names for other in names]
    game = BattleGame(rosters=names, pairings="all")
    assert game.varieties == 9
    found = [game.position(saved(Battle(game.rules, seed=1, slot=slot))).rosters for slot in range(9)]
    assert sorted(found) == sorted(pairs(rosters=names, pairings="all"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maps": ()}, "at least one map"),
        ({"rosters": ()}, "at least one roster"),
        ({"rosters": ("line", "line", "line")}, "pairings to all"),
    ],
)
def test_mistakes_are_told(options, said):
    with pytest.raises(UserError, match=said):
        BattleGame(**options)


ROSTER = """
name: own
units:
- {name: Rifles, models: 5, M: 6, T: 4, Sv: 3, W: 1, Ld: 7, OC: 1, ranged: %s}
"""
RIFLE = "{range: 24, A: 2, skill: 3, S: 4, AP: 0, D: 1}"


def test_training_with_wrong_files_ends_with_one_sentence(tmp_path, capsys):
    (tmp_path / "own.yaml").write_text(ROSTER % "{range: 24}")
    game = ["env.id=battle", f"env.options.rosters=[{tmp_path}/own.yaml]"]
    assert cli.main(["train", "--config", "battle_speed", f"run.directory={tmp_path}/runs", *game]) == 2
    error = capsys.readouterr().err
    assert "own.yaml: units.0 (Rifles).ranged lacks A: give " in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_own_rosters_and_maps_are_played(tmp_path):
    (tmp_path / "own.yaml").write_text(ROSTER % RIFLE)
    (tmp_path / "boards.yaml").write_text("{hill: {rows: 16, cols: 24, objectives: [[7.5, 11.5, 2]]}, ford: {}}")
    game = BattleGame(rosters=(f"{tmp_path}/own.yaml", "line"), maps=(f"{tmp_path}/boards.yaml:hill",), zone=6)
    battle = Battle(game.rules, seed=2)
    while not battle.over:
        battle.step(battle.bot(1))
    end = game.position(saved(battle))
    assert end.rosters == ("own", "line") and (end.ground.rows, end.ground.cols) == (16, 24) and end.over


# ---- names ----------------------------------------------------------------------------------------------------------


def test_every_action_has_its_own_name():
    game = BattleGame()
    names = [game.action_name(action) for action in range(game.num_actions)]
    assert len(set(names)) == 69
    assert names[0] == "decline" and names[9] == "move forward, full" and names[24] == "move forward-north, advance"
    assert names[25] == "shoot at unit 1" and names[40] == "charge unit 8" and names[41] == "fight unit 1"
    assert names[49] == "snap fire by unit 1" and names[64] == "counter-charge by unit 8"
    assert names[65:] == ["re-roll", "steel nerves", "smoke", "take cover"]
    with pytest.raises(ValueError, match="there is no action 69"):
        actions.action_name(69)


def test_a_position_is_that_of_the_saved_battle():
    game = BattleGame(rosters=("walkers", "horde"))
    battle = Battle(game.rules, seed=9)
    for _ in range(30):
        battle.step(battle.bot(1))
    position = game.position(saved(battle))
    number, active, command, points, units = battle.state()
    assert (position.round, position.active) == (number, active)
    assert (list(position.command), list(position.points)) == (command, points)
    for side in (0, 1):
        for squad, (models, lead, _, cells) in zip(position.squads[side], units[side], strict=True):
            assert [row * position.ground.cols + col for row, col in squad.cells] == cells
            assert squad.lead == lead and squad.health == (models and (models - 1) * squad.wounds + lead)
    assert position.question is not None and position.question.side == battle.side
    own = battle.observe(0)[960:]
    control = [marker.control[0] / 20 for marker in position.markers]
    assert control == pytest.approx(own[44:88:6][: len(control)])


def test_features_look_up_the_unit_in_question(small):
    """Behind the observation: the deciding unit's row, the subject's, and where everything is from there."""
    battle, met = Battle(small.game.rules, seed=4), set()
    while not battle.over:
        observation = battle.observe(battle.side)
        features = np.asarray(small.features(observation))
        units = observation[:960].reshape(16, 60)
        np.testing.assert_array_equal(features[:1051], observation)
        own = units[battle.unit] if battle.unit >= 0 else np.zeros(60)
        subject = units[8 + battle.subject] if battle.subject >= 0 else np.zeros(60)
        np.testing.assert_array_equal(features[1051:1171], [*own, *subject])
        place = (own if battle.unit >= 0 else subject)[[5, 6]]
        expected = np.where(units[:, :1] > 0, units[:, 5:7] - place, 0)
        np.testing.assert_allclose(features[1171:1203].reshape(16, 2), expected, atol=1e-6)
        marker = observation[960 + 41 :][1:3] - place
        np.testing.assert_allclose(features[1203:1205], marker, atol=1e-6)
        met.add((battle.unit >= 0, battle.subject >= 0))
        battle.step(battle.bot(2))
    assert {(True, False), (False, True)} <= met, "questions with a deciding unit, and with a subject only"


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_conformance(small):
    report = conformance.check(small, games=64)  # the suite's batch size
    assert report.ok, report


def test_a_person_plays_against_a_bot(small):
    screen = Console(file=io.StringIO(), width=100)

    def lowest(prompt):
        assert str(prompt) == "seat 1, your action: "
        return screen.file.getvalue().rpartition("\n\n")[2].split("]")[0].lstrip("[")

    screen.input = lowest
    end = Sitting(small, 1, [bot_player(small, "balanced")] * 2, screen=screen).play(jax.random.key(2))
    assert bool(end.terminated) and not bool(end.illegal_action)
    text = screen.file.getvalue()
    assert "You decide: where does Cannon Walker (1) move?" in text and "[0] decline" in text
    assert "Your Cannon Walker (1) stays." in text and "Side 0's " in text
    assert "The battle is over: " in text and re.search(r"seat 1 \(you\): (won|lost|drawn), vp ", text)
