"""The zoo: its policies fit their games and are as strong as their cards say, and `zoo:NAME` is a player everywhere.

pytest -m slow tests/players/test_zoo.py    # evaluates every policy as its card says, minutes each
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from jaxrl import cli, zoo
from jaxrl import config as configs
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, opponent_names
from jaxrl.matches.recording.film import record
from jaxrl.networks.factory import make_network
from jaxrl.players.names import player_or_zoo
from jaxrl.players.player import bot_player
from jaxrl.policies.agreement import count_equal_choices
from jaxrl.policies.export import load_policy
from jaxrl.runs.directory import RunDirectory, make_evaluation_env
from jaxrl.statistics import wilson
from jaxrl.training.imitation import command_imitate
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from scripts.zoo import __main__ as maker
from scripts.zoo import board, panel
from tests.support.paths import PYTHONPATH

SHIPPED = zoo.names()
SIZE = 2_000_000


def loaded(name):
    """A policy of the zoo; if it no longer fits its game, the test fails and says how to train it again."""
    try:
        return load_policy(zoo.policy_file(name))
    except UserError as error:
        advice = f"train it again: remove runs/zoo_{name} and run `python -m scripts.zoo {name}`"
        pytest.fail(f"zoo:{name} does not fit its game any more ({error}): {advice}.", pytrace=False)


def test_every_policy_has_a_card_and_every_card_a_policy():
    assert {"skull_king"} <= set(SHIPPED) <= set(maker.RECIPES)
    assert {zoo.figures(name)["game"] for name in SHIPPED} <= set(registry.registered())
    assert SHIPPED == sorted(path.stem for path in zoo.FOLDER.glob("*.md"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_policy_is_what_its_card_says(name):
    data, told = zoo.policy_file(name).read_bytes(), zoo.figures(name)
    assert len(data) == told["bytes"] <= SIZE
    assert hashlib.sha256(data).hexdigest() == told["sha256"]
    assert told["command"] == f"jaxrl train {maker.RECIPES[name]} --name zoo_{name}"
    policy = loaded(name)
    assert (told["name"], told["game"], told["game_version"]) == (name, policy.config.env.id, policy.env.version)
    assert told["updates"] == policy.update
    assert told["evaluation"]["seed"] == EVALUATION_SEED
    assert told["evaluation"]["deals"] == policy.config.evaluate.deals
    assert [row["opponent"] for row in told["evaluation"]["rows"]] == opponent_names(policy.config, policy.env)


def test_the_leaderboard_is_that_of_the_cards():
    assert board.PAGE.read_text(encoding="utf-8") == board.text(), "python -m scripts.zoo.board writes it"


QUICK = "beasty_bar"  # the others compile for up to minutes


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED if name != QUICK)]
)
def test_a_policy_plays(name):
    """One game against random play, to its end."""
    policy = loaded(name)
    own = policy.player(greedy=policy.config.evaluate.greedy)
    seats = [own if side == 0 else bot_player(policy.env, "random") for side in policy.env.sides]
    states, _ = record(policy.env, seats, jax.random.key(0))
    end = states[-1]
    assert bool(end.terminated | end.truncated) and not bool(end.illegal_action)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_the_table_of_a_card_is_measured_again(name):
    """Rounding differs between machines, and some games with it: a share of wins stays in the card's 95 % interval."""
    policy, told = loaded(name), zoo.figures(name)["evaluation"]
    env, player = policy.env, policy.player(greedy=told["greedy"])
    bots = [bot_player(env, row["opponent"]) for row in told["rows"]]
    rows = evaluate_players(env, [player], bots, deals=told["deals"], seed=told["seed"])
    for row, said in zip(rows, told["rows"], strict=True):
        tally = row.samples.outcomes.tally()
        low, high = wilson(said["wins"], tally.games)
        assert tally.games == said["games"]
        assert low <= tally.wins / tally.games <= high, row.opponent


# ---- the commands, with a small policy ------------------------------------------------------------------------------

TINY = """
env: {id: tests.support.games:TicTacToe, options: {random_start: true}}
network: {hidden: [16]}
train: {total_steps: 2000, num_envs: 16, num_steps: 16}
evaluate: {deals: 8, opponents: [random, lowest]}
run: {cache_dir: '', devices: 1}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A zoo with one policy, made as those that are shipped; in a folder without a run of its own."""
    place = tmp_path_factory.mktemp("made")
    (place / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(zoo, "FOLDER", place)
        patch.setattr(board, "PAGE", place / "leaderboard.md")
        patch.setattr(maker, "RECIPES", {"tiny": f"--config {place / 'tiny.yaml'}"})
        patch.setattr(maker, "RATED", 4)
        assert maker.main(["tiny", "--note", "small"]) == 0
        assert maker.main(["tiny", "--note", "small"]) == 0  # the run is there: nothing is trained again
        few = ["tiny", "--deals", "4", "--searched", "2"]
        assert panel.main([*few, "--control", "zoo_tiny", "--updates", "1"]) == panel.main(few) == 0
        yield place


@pytest.mark.thorough
def test_the_commands_of_the_zoo(made, tmp_path, capsys):
    for right in (["zoo"], ["zoo", "show", "tiny"], ["zoo", "get", "tiny", str(tmp_path)]):
        assert cli.main(right) == 0
    text = capsys.readouterr().out
    assert "zoo:tiny" in text and "tests.support.games:TicTacToe" in text and zoo.card_file("tiny").read_text() in text
    for file in ("tiny.jaxrl", "tiny.md"):
        assert (tmp_path / file).read_bytes() == (made / file).read_bytes()
    told = zoo.figures("tiny")
    assert [row["opponent"] for row in told["panel"]] == ["lowest", "searcher-200"]
    assert [row["games"] for row in told["panel"]] == [16, 4] and not any(row["met"] for row in told["panel"])
    assert [each["policy"] for each in told["best_responses"]] == ["zoo:tiny", "control: zoo_tiny"]
    assert text.count("## The panel") == 1 and "strangers: median" in text and board.PAGE.read_text() == board.text()
    assert told["note"] == "small" and told["decisions"] >= 2000 and told["seconds"] > 0
    for wrong in (["zoo", "get"], ["zoo", "show", "tinny"], ["zoo", "get", "tiny", str(tmp_path / "none")]):
        assert cli.main(wrong) == 2
    assert "did you mean 'tiny'?" in capsys.readouterr().err


def test_a_policy_of_the_zoo_is_a_player_everywhere(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["evaluate", "zoo:tiny"]) == 0
    [table] = [block for block in capsys.readouterr().out.split("\n\n") if "| opponent" in block]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert set(rows) <= set(zoo.card_file("tiny").read_text().splitlines()), "the table is that of the card"
    assert cli.main(["evaluate", "zoo:tiny", "--opponents", "lowest,zoo:tiny", "--against", "zoo:tiny"]) == 0
    assert "| zoo:tiny " in capsys.readouterr().out
    assert cli.main(["tournament", "zoo:tiny", "bots", "--deals", "4"]) == 0
    assert cli.main(["film", "zoo:tiny", "--opponents", "zoo:tiny"]) == 2  # it has no drawings
    assert "has no drawings" in capsys.readouterr().err
    assert cli.main(["evaluate", "zoo:tinny"]) == 2
    assert "there is no policy 'tinny' in the zoo: did you mean 'tiny'?" in capsys.readouterr().err


def test_a_name_alone_is_the_zoo_only_where_no_run_has_it(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: "quit")
    assert cli.main(["play", "tiny"]) == 0
    assert "against zoo:tiny" in capsys.readouterr().out
    assert player_or_zoo("tiny") == "zoo:tiny"
    with pytest.raises(UserError, match=r"no run 'other': known: zoo:tiny"):
        player_or_zoo("other")
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "config.yaml").touch()
    assert player_or_zoo("tiny") == "tiny"


def test_another_recipe_for_a_trained_run_is_refused(made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    monkeypatch.setitem(maker.RECIPES, "tiny", f"--config {made / 'tiny.yaml'} run.seed=3")
    assert maker.main(["tiny"]) == 2
    assert "was trained otherwise than by" in capsys.readouterr().err


def test_a_shown_run_that_was_made_otherwise_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    run = RunDirectory(tmp_path / "runs" / "shown")
    run.path.mkdir(parents=True)
    configs.save(configs.named(configs.load("tiny.yaml"), "shown"), run.config_file)
    command = "imitate tiny.yaml --data bot:lowest --epochs 3 --name shown"
    with pytest.raises(UserError, match="was made otherwise"):  # by a training
        maker.show("shown", command)
    args = argparse.ArgumentParser()
    command_imitate.add_options(args)
    run.imitation_file.write_text(json.dumps(vars(args.parse_args(command.split()[1:]))))
    assert maker.show("shown", command) == 0
    for other in (command.replace("3", "4"), f"{command} run.seed=3"):
        with pytest.raises(UserError, match="was made otherwise"):
            maker.show("shown", other)


# ---- what half precision costs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "game, kind",
    [
        ("tests.support.games:HighCard", "mlp"),
        ("tests.support.games:RockPaperScissors", "mlp"),
        ("tests.support.memory_games:Recall", "recurrent"),
    ],
)
def test_choices_are_counted(game, kind):
    """Against itself a policy chooses counts always, against its opposite rarely."""
    network = {"kind": kind, "hidden": [8], "recurrent": {"torso": "mlp", "width": 8}}
    config = configs.from_dict({"env": {"id": game}, "network": network})
    env = make_evaluation_env(config)
    params = make_network(config.network, env).init(jax.random.key(0))
    params = jax.tree.map(lambda leaf: 30.0 * np.asarray(leaf), params)  # choices that are no ties
    same = count_equal_choices(config, env, params, params, games=4)
    other = count_equal_choices(config, env, params, jax.tree.map(np.negative, params), games=4)
    assert same.equal == same.decisions > 0
    assert other.equal < other.decisions


def test_reading_the_configuration_of_a_policy_does_not_start_jax():
    """Its devices can still be chosen, as `jaxrl exploit --devices` does."""
    code = """
import jax
from jaxrl import zoo
from jaxrl.policies.export import policy_config
assert policy_config(zoo.policy_file("beasty_bar"), overrides=["run.devices=2"]).run.devices == 2
jax.config.update("jax_num_cpu_devices", 2)
assert len(jax.devices("cpu")) == 2
"""
    clean = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | {"PYTHONPATH": PYTHONPATH}
    ended = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
