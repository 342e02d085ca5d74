"""The configurations of the battle: what they promise in their first lines."""

from __future__ import annotations

import re

import pytest
import yaml

from jaxrl import config as configs
from jaxrl.config import presets

BY_PPO = ("battle_speed", "battle_balance", "battle_zoo", "battle_anywhere")
NAMES = (*BY_PPO, "battle_dqn", "battle_dqn_speed", "battle_dqn_balance")


@pytest.mark.parametrize(("name", "games"), [("battle_speed", 12), ("battle_balance", 8)])
def test_games_of_an_actor(name, games):
    config = configs.load(name)
    assert config.train.num_envs == games * config.sebulba.actors
    assert config.train.algorithm == "ppo" and config.env.id == "battle"


def test_the_balanced_one_meets_many_opponents():
    speed, balance = configs.load("battle_speed"), configs.load("battle_balance")
    assert {"self", "snapshots", "balanced"} <= set(balance.league.opponents) and not speed.league.opponents


def test_battle_dqn_learns_by_dqn():
    config = configs.load("battle_dqn")
    assert config.train.algorithm == "dqn" and config.dqn.alpha > 0


@pytest.mark.parametrize(("name", "settings"), [("speed", (12, 10, 256, 2_000)), ("balance", (8, 7, 320, 5_000))])
def test_the_common_profiles_of_dqn(name, settings):
    config = configs.load(f"battle_dqn_{name}")
    found = (config.train.num_envs, config.dqn.updates, config.dqn.batch, config.dqn.learning_starts)
    assert found == settings and config.train.algorithm == "dqn"


@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_comments_are_right(name):
    """The updates (rounds) that the comment beside train.total_steps tells are those of the run."""
    text = presets.find(name).read_text(encoding="utf-8")
    [told] = re.findall(r"total_steps: .*?, ([\d,]+) (?:updates|rounds)", text)
    assert int(told.replace(",", "")) == configs.load(name).num_updates


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_explained(name):
    """Beside every key of the sections that make the difference stands a reason, if there is room."""
    section = ""
    for line in presets.find(name).read_text(encoding="utf-8").splitlines():
        if re.match(r"\w+:", line):
            section = line.split(":")[0]
        explained = section in ("sebulba", "env", "league") and re.match(r"  \w+: \S", line)
        assert not explained or "#" in line or len(line) > 70 or line == "  id: battle", line


def test_overrides_in_the_heads_are_understood():
    for name in NAMES:
        for line in presets.find(name).read_text(encoding="utf-8").splitlines():
            if line.startswith(f"#   jaxrl train --config {name} "):
                overrides = [text.replace("'", "") for text in re.findall(r"\S+=(?:'[^']*'|\S+)", line)]
                assert configs.load(name, overrides)
                assert all(yaml.safe_load(text.split("=")[1]) is not None for text in overrides)
