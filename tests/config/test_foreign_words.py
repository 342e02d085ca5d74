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

OPTIONS = (
    "--timesteps --total-timesteps --logdir --tensorboard-log --exp-name --debug --verbose --device --num-gpus --amp "
    "--resume --load --lr --n-envs --eval-freq --save-freq --render --wandb --env-id --torch-deterministic "
    "--debug-ticks --test --patience --pin-memory"
)
KEYS = (
    "n_steps batch_size ppo.n_epochs action_repeat frame_skip amp LOG_EVERY warmup UPDATES_PER_STEP gradient_steps "
    "buffer_size dqn.target_update_interval exploration_fraction ent_coef vf_coef clip_range lam use_lstm "
    "exploit_patch horizon nminibatches device PIN_MEMORY PREFETCH early_stopping patience ROUND_WEIGHTS "
    "PHASE_SCHEDULE exploit_patch_interval eval_frequency games_per_iteration max_checkpoints normalize_advantages "
    "batch_inference use_numba use_pinned_memory iterations checkpoint_frequency manager_epochs worker_epochs d_model "
    "n_heads n_layers temperature_start entropy_start per_alpha jvm_flags connection_pool MEM_FRACTION team_size "
    "time_limit"
)
OURS = {  # in capitals, or with another section in front: the key itself is the answer
    "NUM_ENVS": "train.num_envs",
    "NUM_STEPS": "train.num_steps",
    "GAMMA": "ppo.gamma",
    "SEED": "run.seed",
    "train.learning_rate": "ppo.learning_rate",
}


@pytest.mark.parametrize("given", [*OPTIONS.split(), *(f"{key}=1" for key in KEYS.split())])
def test_the_command_line_answers_a_word_with_ours(given, capsys):
    value = ["5"] if given.startswith("-") else []
    assert cli.main(["train", "--config", "beasty_bar", given, *value]) == cli.USER_ERROR
    told = capsys.readouterr().err
    assert f"there is no {given.partition('=')[0]!r} here: " in told and told.count("\n") == 1


@pytest.mark.parametrize("given", OURS)
def test_our_own_key_is_found_in_capitals_and_in_another_section(given, capsys):
    assert cli.main(["train", "--config", "beasty_bar", f"{given}=1"]) == cli.USER_ERROR
    assert f"did you mean {OURS[given]!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("outcome_heuristic", "outcome"), ("distilled_outcome", "distilled"), ("hueristic", "heuristic")],
)
def test_a_bot_under_another_name_is_not_taken_for_a_third(theirs, ours):
    assert f"did you mean {ours!r}" in nearest(theirs, registry.make("beasty_bar").bots)


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
    keys = {*all_paths(Config), *(f"env.options.{name}" for name in registry.options_of("car_soccer"))}
    sections = "run|env|train|evaluate|league|network|ppo|dqn|exploit|sebulba"
    for name in re.findall(rf"`((?:{sections})\.[\w.]+)", text):
        assert name in keys, name
    for name in re.findall(r"`jaxrl (\w+)", text):
        assert name in cli.COMMANDS, name
