"""Rating scales: planted strengths, the order of adding, files of other games and damaged ones, runs with seeds."""

from __future__ import annotations

import dataclasses
import math
from contextlib import closing
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.league.elo import SCALE, expected_score, rating_against
from jaxrl.matches.tournaments import rating_scale as scales
from jaxrl.networks.factory import make_network
from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.statistics import Z95
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from tests.support.ladder_game import RATINGS

GAME = "env.id=tests.support.ladder_game:Ladder"
FILE = Path("ratings/tests.support.ladder_game_Ladder.yaml")
NEW = ["--anchors", "random,weak,strong", "--deals", "1000"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def scale_file(tmp_path_factory):
    """A scale of the ladder game with three anchors."""
    file = tmp_path_factory.mktemp("scale") / "ladder.yaml"
    assert cli.main(["rate", GAME, "run.cache_dir=''", "--file", str(file), *NEW]) == 0
    return file


@pytest.fixture(scope="module")
def home(scale_file):
    """A folder with the run "mine" with two seeds, of networks that were never trained."""
    home = scale_file.parent
    tree = {"env": {"id": "tests.support.ladder_game:Ladder"}, "network": {"kind": "mlp", "hidden": [8]}}
    (home / "game.yaml").write_text(yaml.safe_dump(tree))
    changes = ["run.cache_dir=''", "run.name=mine", "run.seeds=2", f"run.directory={home / 'runs'}"]
    config = configs.load(home / "game.yaml", changes)
    env, run = runs.make_env(config), runs.new_run(config)
    configs.save(config, run.config_file)
    init = jax.vmap(make_network(config.network, env).init)
    with closing(run.checkpoints()) as store:
        for step in (1, 2):
            params = init(jax.random.split(jax.random.key(step), 2))
            store.save(checkpoint.take(step, {"learner": {"params": params}}, runs.make_stamp(config, env)))
    return home


@pytest.fixture
def run(home, scale_file, monkeypatch):
    """That folder, with a scale to which the run can be added."""
    monkeypatch.chdir(home)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(scale_file.read_bytes())


# ---- the fit ----


def test_a_rating_among_known_ones_is_that_of_the_log_odds():
    rating, half = rating_against(np.array([75.0]), np.array([25.0]), np.array([1000.0]))
    assert rating == pytest.approx(1000 + 400 * math.log10(3)) and half == pytest.approx(
        Z95 * SCALE / math.sqrt(100 * 0.75 * 0.25)
    )
    won, lost = np.array([60.0, 30.0, 8.0]), np.array([40.0, 70.0, 92.0])
    known = np.array([0.0, 150.0, 400.0])
    rating, half = rating_against(won, lost, known)
    expected = ((won + lost) * expected_score(rating, known)).sum()
    assert expected == pytest.approx(won.sum()), "the sum of the points is what the rating expects"
    best, _ = rating_against(np.array([50.0, 50.0]), np.zeros(2), np.array([0.0, 10.0]))
    assert 600 < best < 1200, "who wins everything stays at a finite distance"


def test_planted_strengths_are_covered_as_often_as_the_interval_says():
    """2,000 players of rating 130 with 200 games against each of three; 4 standard errors of a coverage of 0.95."""
    known, random = np.array([0.0, 120.0, 300.0]), np.random.default_rng(3)
    won = random.binomial(200, expected_score(130.0, known), (2000, 3)).astype(float)
    found = [rating_against(each, 200 - each, known) for each in won]
    covered = np.mean([abs(rating - 130) <= half for rating, half in found])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


# ---- the command ----


def test_the_planted_strengths_are_found(scale_file, capsys):
    """Anchors against each other, then a bot of rating 190 against the anchors; three intervals of 95 %, all twice as
    wide: a chance of less than 0.001 to fail, and the key is fixed."""
    before = scale_file.read_text()
    scale = scales.read(scale_file)
    assert scale.anchor == "random" and [each.rating for each in scale.anchors][0] == 0.0
    for each in scale.anchors[1:]:
        assert abs(each.rating - RATINGS[each.name]) < 2 * each.half_width_95 < 40
        assert each.games == 4000
    assert cli.main(["rate", "bot:middle", GAME, "run.cache_dir=''", "--file", str(scale_file)]) == 0
    assert "| middle " in capsys.readouterr().out
    (found,) = scales.read(scale_file).players
    anchors = max(each.half_width_95 for each in scale.anchors)
    assert abs(found.rating - RATINGS["middle"]) < 2 * math.hypot(found.half_width_95, anchors)
    assert found.half_width_95 < 15 and found.games == 6000 and found.params_hash == ""
    scale_file.write_text(before)


def test_the_order_changes_nothing_and_the_same_run_stands_there_once(run, capsys):
    quiet = "run.log_level=error"
    assert cli.main(["rate", "mine@1", quiet]) == cli.main(["rate", "mine@2", quiet]) == 0
    first, scale = FILE.read_bytes(), scales.read(FILE)
    assert [each.name for each in scale.players] == [f"mine@{n}/seed_{seed}" for n in (1, 2) for seed in (0, 1)]
    assert len({each.params_hash for each in scale.players}) == 4
    old = dataclasses.replace(scale.players[0], rating=999.0, params_hash="old")
    scales.write(FILE, dataclasses.replace(scale, players=(old, *scale.players[2:])))  # the second run came first
    assert cli.main(["rate", "mine@1", quiet]) == 0
    assert FILE.read_bytes() == first
    assert "mine@1: mean of 2 seeds" in capsys.readouterr().out and not list(FILE.parent.glob("*.part"))


def test_without_a_run_the_scale_is_printed(scale_file, capsys):
    assert cli.main(["rate", "--file", str(scale_file)]) == 0
    assert "| strong (anchor) " in capsys.readouterr().out
    FILE.parent.mkdir()
    FILE.write_bytes(scale_file.read_bytes())
    assert cli.main(["rate"]) == 0
    assert "| strong (anchor) " in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, message",
    [
        ({"game": "nim"}, "is of nim, not tests.support.ladder_game:Ladder: name another one with --file"),
        ({"version": "2"}, "is of version 2 of tests.support.ladder_game:Ladder, not 1"),
        ({"options": {"stake": 3}}, "with stake 3, not 1"),
        ({"anchor": "absent"}, "its anchor is not among the anchors"),
        ({"deals": "many"}, f"the rating scale {FILE}: deals must be a whole number"),
        ({"anchors": None}, f"the rating scale {FILE}: anchors must be a list"),
        ({"anchors": [{"name": "random"}]}, "lacks rating"),
        ({"anchors": 2 * [{"name": "random"} | dict.fromkeys(["rating", "half_width_95"], 0.0)
                          | {"games": 1, "code": "1", "date": "x"}]}, "a name stands there twice"),
    ],
)  # fmt: skip
def test_files_of_other_games_and_damaged_ones_are_refused(run, capsys, change, message):
    FILE.write_text(files.dump(files.read(FILE) | change))
    before = FILE.read_bytes()
    assert cli.main(["rate", "mine"]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1 and FILE.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[1, 2]", "game: [", "game: x", "\x00", "!!python/object:os.system {}"])
def test_broken_files_are_one_sentence(text, capsys):
    Path("broken.yaml").write_text(text)
    assert cli.main(["rate", "--file", "broken.yaml"]) == 2
    assert "broken.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mine", "--anchors", "weak,strong"], "has its anchors already"),
        (["mine", "--deals", "1"], "--deals must be at least 2"),
        (["mine@7"], "no checkpoint '7'"),
        (["bot:absent", GAME], "there is no bot 'absent'"),
        (["bots", GAME, "--file", "new.yaml", "--anchors", "random", "--deals", "4"], "needs two players"),
        (["bots", GAME, "--file", "new.yaml", "--anchors", "random,wek"], "did you mean 'weak'"),
        (["bots", GAME, "--file", "new.yaml", "--anchors", "random,random"], "names a bot twice"),
    ],
)
def test_mistakes(run, capsys, arguments, message):
    assert cli.main(["rate", *arguments]) == 2
    assert message in capsys.readouterr().err and not Path("new.yaml").exists()


def test_options_that_the_file_leaves_out_may_differ(run):
    """A user deletes an option that changes nothing between two players, such as a reward."""
    FILE.write_text(files.dump(files.read(FILE) | {"options": {}}))
    assert cli.main(["rate", "bot:middle", GAME, "env.options.stake=3", "run.cache_dir=''", "--deals", "7"]) == 0
    assert [(each.name, each.games) for each in scales.read(FILE).players] == [("middle", 3 * 2 * 7)]
    assert scales.read(FILE).deals == 1000


def test_a_text_that_looks_like_a_number_stays_a_text():
    assert files.parse(files.dump({"params_hash": "123e4567", "rating": 1.0}), "") == {
        "params_hash": "123e4567",
        "rating": 1.0,
    }


def test_the_scales_that_are_shipped_are_of_the_games_as_they_are():
    for path in sorted(scales.shipped("any").parent.glob("*.yaml")):
        scale = scales.read(path)
        env = registry.make(scale.game, **scale.options)
        assert scales.file_of(scale.game).name == path.name and scale.version == env.version
        assert {each.name for each in scale.anchors} <= set(env.bots)
