"""The configurations of Magic: what they promise, and that a training says what it lacks before it begins."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from jaxrl import config as configs
from jaxrl.config import Config, presets
from jaxrl.training.launching import start
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl.training.sebulba.remote.config import FleetConfig
from jaxrl.training.sebulba.setup import check_room
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import TicTacToeGame

NAMES = ("forge", "forge_aggro", "forge_clone", "forge_tricks", "forge_any")


def text_of(name: str) -> str:
    return presets.find(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_game_has_a_daemon_and_an_actor_of_its_own(name):
    config = configs.load(name)
    assert config.env.id == "forge" and config.network.kind == "candidates"
    assert config.train.num_envs == config.sebulba.actors == config.forge.daemons and config.sebulba.groups == 1
    assert config.sebulba.timeout > 3 * config.forge.decision_timeout  # a JVM is found dead before the run gives up


def test_a_run_may_go_on_with_forge_on_other_machines():
    """`jaxrl train --continue` refuses other settings of what is learnt; these decide nothing."""
    here, there = (
        configs.load("forge", [f"forge.{text}" for text in texts]) for texts in ([], ["home=/x", "daemons=2"])
    )
    assert here != there and start.settings_of(here) == start.settings_of(there)
    other = configs.load("forge", ["env.options.decks=[aggro, tokens]"])
    assert start.settings_of(here) != start.settings_of(other)


def test_any_deck_means_all_that_are_shipped_and_others_in_the_evaluation():
    config = configs.load("forge_any")
    learnt, measured = config.env.options["decks"], config.evaluation_options["decks"]
    assert {path.stem for path in DECKS.glob("*.dck")} == {deck for deck in learnt if "/" not in deck}
    patterns = {deck for deck in learnt if "/" in deck}
    assert patterns and len(measured) == 1 and not patterns & set(measured)
    for line in text_of("forge_any").splitlines():
        if "forge decks" in line:
            assert f"{shlex.split(line)[shlex.split(line).index('--out') + 1]}/*.dck" in {*patterns, *measured}


def test_rewards_of_the_evaluation_are_wins_alone():
    config = configs.load("forge", ["env.options.shaping_life=0.1"])
    assert config.env.options["shaping_life"] == 0.1 and config.evaluation_options["shaping_life"] == 0.0


def test_a_clone_meets_forges_ai_in_at_least_half_of_its_games():
    league = configs.load("forge_clone").league
    others = [name for name in league.opponents if name != "self"]
    weights = {name: league.weights[name] for name in others}
    share = sum(weight for name, weight in weights.items() if name.startswith("forge")) / sum(weights.values())
    assert league.weighting == "fixed" and (1.0 - league.self_play) * share >= 0.5
    config = configs.load("forge_clone")
    assert config.ppo.anchor.end == 0.025 and config.evaluate.best_by == "min_win_rate"  # never worse against the AI


class Small(TicTacToeGame):
    remote = True

    def capacity(self) -> int:
        return 3

    def patience(self) -> float:
        return 100.0


def test_more_games_than_daemons_are_refused():
    patient = Config(sebulba=SebulbaConfig(timeout=100.0))
    check_room(patient, Small(), 3, "train.num_envs")
    check_room(patient, TicTacToeGame(), 1000, "train.num_envs")  # it plays in this process
    with pytest.raises(UserError, match="train.num_envs is 4, but .* has room for 3 games at a time here: lower it"):
        check_room(patient, Small(), 4, "train.num_envs")
    check_room(dataclasses.replace(patient, fleet=FleetConfig(workers=2)), Small(), 4, "train.num_envs")  # elsewhere


def test_a_run_that_would_stop_before_a_game_can_go_on_is_refused():
    with pytest.raises(UserError, match=r"sebulba.timeout is 99 s, but .* may need 100 s .*: raise it"):
        check_room(Config(sebulba=SebulbaConfig(timeout=99.0)), Small(), 3, "train.num_envs")
    forge = ForgeGame(game_limit=30.0)
    forge.deployment = Deployment(decision_timeout=10.0, start_timeout=20.0)
    assert forge.patience() == 60.0


def test_a_training_without_forge_says_where_it_comes_from(monkeypatch, tmp_path, capsys):
    from jaxrl import cli

    monkeypatch.delenv("FORGE_HOME", raising=False)
    options = [f"run.directory={tmp_path}", "run.cache_dir="]
    assert cli.main(["train", "--config", "forge_aggro", *options]) == cli.USER_ERROR
    said = capsys.readouterr().err
    assert "FORGE_HOME" in said and "releases" in said and "Traceback" not in said
