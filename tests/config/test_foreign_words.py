"""Words that people bring from other trainers are answered with ours, by names that exist."""

from __future__ import annotations

import re

import pytest

from jaxrl import cli
from jaxrl.config import Config, config_for, foreign_words
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import nearest
from jaxrl_envs.shared.options import all_paths
from tests.support.paths import ROOT

WORDS = {  # option or key of another trainer -> what the answer names; also words that only resemble a key of ours
    "--total-timesteps --debug-ticks total_iterations": "train.total_steps",
    "--exp-name": "--name",
    "--num-gpus": "--devices",
    "--torch-deterministic": "--deterministic",
    "--resume --load": "jaxrl resume",
    "--wandb TRAIN_LOG_TO_FILE": "run.logs",
    "--lr --learning-rate": "ppo.learning_rate",
    "n_steps NUM_STEPS horizon": "train.num_steps",
    "NUM_ENVS --num-envs games_per_iteration": "train.num_envs",
    "dqn.target_update_interval": "dqn.target_every",
    "ppo.n_epochs ppo_epochs": "ppo.epochs",
    "MANAGER_EPOCHS": "hierarchical.manager.epochs",
    "ROUND_WEIGHTS": "env.options.round_weights",
    "use_numba pin_memory force_cython": "nothing",
    "normalize_advantages": "always",
    "use_opponent_pool": "league.floor",
    "--device": "JAX_PLATFORMS",
    "--test": "jaxrl diagnose",
    "action_repeat": "tick_skip",
    "N_STEP": "dqn.n_step",
    "SEED": "run.seed",
    "gamma": "ppo.gamma",
    "target_kl": "ppo.target_kl",
    "MEM_FRACTION": "XLA_PYTHON_CLIENT_MEM_FRACTION",
}


@pytest.mark.parametrize(("word", "ours"), [(word, ours) for words, ours in WORDS.items() for word in words.split()])
def test_the_command_line_answers_a_word_with_ours(word, ours, capsys):
    given = [word, "5"] if word.startswith("-") else [f"{word}=1"]
    command = ["diagnose"] if word == "--test" else ["train", "--config", "beasty_bar"]
    assert cli.main([*command, *given]) == cli.USER_ERROR
    told = capsys.readouterr().err
    assert repr(word) in told and ours in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("outcome_heuristic", "outcome"), ("distilled_outcome", "distilled"), ("hueristic", "heuristic")],
)
def test_a_bot_under_another_name_is_not_taken_for_a_third(theirs, ours):
    assert f"did you mean {ours!r}" in nearest(theirs, registry.make("beasty_bar").bots)


def test_the_bots_of_beasty_bar_go_by_both_names():
    theirs = (
        "random heuristic aggressive defensive queue skunk noisy online outcome_heuristic distilled_outcome".split()
    )
    bots = registry.make("beasty_bar").bots
    answers = [name if name in bots else nearest(name, bots).split("'")[1] for name in theirs]
    assert sorted(answers) == sorted(bots)


def test_answers_name_what_exists():
    """Keys, options of `jaxrl train` and commands; the rest is listed here."""
    others = {"cpu", "cuda", "JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "python -X dev -m jaxrl"}
    others |= {"XLA_PYTHON_CLIENT_MEM_FRACTION", "--gpu"}  # of `jaxrl diagnose`
    games = {"tick_skip": "car_soccer", "teams": "car_soccer", "round_weights": "skull_king"}
    known = {*all_paths(config_for("forge")), *(f"env.options.{name}" for name in games)}
    parser = cli.Parser(prog="jaxrl train")
    cli.find_command("train").add_options(parser)
    for name in re.findall(r"`([^`]+)`", " ".join(foreign_words.WORDS.values())):
        first = name.split("=")[0].split()
        if name in others:
            continue
        if first[0] == "jaxrl":
            assert first[1] in cli.COMMANDS, name
        elif first[0].startswith("--"):
            assert first[0] in parser.format_help(), name
        else:
            assert first[0] in known, name
    assert all(name in registry.options_of(game) for name, game in games.items())


def test_no_word_is_a_key_of_its_own_section():
    """A word that is a section or a top-level key would never be asked about."""
    assert not set(foreign_words.WORDS) & {path for path in all_paths(Config) if "." not in path}
    assert len(foreign_words.WORDS) == sum(len(each.split()) for each in foreign_words._ANSWERS.values()), (
        "a word is answered once"
    )


@pytest.mark.parametrize("page", ["start/coming_from", "start/troubleshooting", "reference/glossary"])
def test_pages_name_keys_that_exist(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    options = (name for game in ("car_soccer", "skull_king") for name in registry.options_of(game))
    keys = {*all_paths(Config), *(f"{section}.options.{name}" for name in options for section in ("env", "evaluate"))}
    sections = "run|env|train|evaluate|league|network|ppo|dqn|exploit|sebulba"
    for name in re.findall(rf"`((?:{sections})\.[\w.]+)", text):
        assert name in keys, name
    for name in re.findall(r"`jaxrl (\w+)", text):
        assert name in cli.COMMANDS, name
