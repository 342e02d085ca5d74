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

SYSTEMS = {  # option or key of a system -> what the answer names
    "Stable-Baselines3, CleanRL": {
        "--total-timesteps --iterations": "train.total_steps",
        "--tensorboard-log": "run.directory",
        "--exp-name": "--name",
        "--verbose": "run.log_level",
        "--num-gpus": "--devices",
        "--torch-deterministic": "--deterministic",
        "--resume --load": "jaxrl resume",
        "--save-freq": "train.checkpoint_every",
        "--render": "jaxrl play",
        "--wandb": "run.logs",
        "--env-id": "env.id",
        "--lr --learning-rate": "ppo.learning_rate",
        "n_steps NUM_STEPS horizon": "train.num_steps",
        "nminibatches": "ppo.minibatches",
        "gradient_steps": "dqn.updates",
        "dqn.target_update_interval": "dqn.target_every",
        "exploration_fraction": "dqn.epsilon",
        "ent_coef": "ppo.entropy_coef",
        "vf_coef": "ppo.value_coef",
        "clip_range": "ppo.clip",
        "lam": "ppo.gae_lambda",
        "time_limit": "train.stop.minutes",
    },
    "the earlier Skull King trainer": {
        "n_envs": "train.num_envs",
        "batch_size": "ppo.batch_size",
        "ppo.n_epochs": "ppo.epochs",
        "net_arch policy_kwargs": "network.hidden",
        "--eval-freq": "train.evaluate_every",
        "early_stopping patience": "train.stop",
        "use_numba use_cython pin_memory": "nothing",
        "ROUND_WEIGHTS PHASE_SCHEDULE PHASE_CURRICULUM": "env.options.round_weights",
        "MANAGER_EPOCHS WORKER_EPOCHS": "hierarchical.manager.epochs",
        "use_hierarchical": "train.algorithm=hierarchical",
        "hindsight_relabel": "hierarchical.hindsight",
    },
    "the earlier Beasty Bar trainer": {
        "hidden_dim": "network.hidden",
        "num_heads num_layers d_model": "network.transformer",
        "clip_epsilon": "ppo.clip",
        "clip_value": "ppo.value_clip",
        "normalize_advantages": "always",
        "ppo_epochs": "ppo.epochs",
        "total_iterations": "train.total_steps",
        "games_per_iteration": "train.num_envs",
        "checkpoint_frequency": "train.checkpoint_every",
        "eval_frequency eval_games_per_opponent": "evaluate.training_deals",
        "entropy_start entropy_schedule temperature_end": "ppo.entropy_coef.start",
        "use_opponent_pool use_adaptive_weights min_opponent_weight": "league.floor",
        "current_weight": "league.self_play",
        "checkpoint_weight random_weight heuristic_weight": "league.weights",
        "max_checkpoints": "league.snapshots",
        "use_exploit_patch exploit_patch_interval": "exploit.every",
        "force_cython": "nothing",
        "async_num_workers": "sebulba.actors",
        "experiment_name": "--name",
        "gamma": "ppo.gamma",
        "target_kl": "ppo.target_kl",
    },
    "the earlier car-soccer trainer": {
        "--timesteps --debug-ticks": "train.total_steps",
        "--logdir": "run.directory",
        "--debug": "run.log_level",
        "--device": "JAX_PLATFORMS",
        "--test": "jaxrl diagnose",
        "use_amp amp_dtype": "network.compute_dtype",
        "use_torch_compile use_pinned_memory": "nothing",
        "use_subproc_vec_env num_workers": "sebulba.threads",
        "batch_inference inference_batch_size": "sebulba.groups",
        "action_repeat frame_skip": "tick_skip",
        "use_lstm lstm_hidden_size": "network.recurrent",
        "team_size": "env.options.teams",
    },
    "the earlier battle trainer": {
        "NUM_ENVS --num-envs": "train.num_envs",
        "UPDATES_PER_STEP": "dqn.updates",
        "warmup_steps": "dqn.learning_starts",
        "buffer_size": "dqn.capacity",
        "USE_AMP": "network.compute_dtype",
        "USE_SUBPROC_ENVS": "sebulba.threads",
        "PREFETCH PIN_MEMORY USE_COMPILE": "nothing",
        "TRAIN_LOG_TO_FILE": "run.logs",
        "LOG_EVERY": "train.updates_per_call",
        "PER_ALPHA PER_ENABLED": "dqn.alpha",
        "N_STEP": "dqn.n_step",
        "SEED": "run.seed",
    },
    "the earlier Magic trainer": {
        "num_daemons connection_pool": "forge.daemons",
        "jvm_flags": "forge.jvm_options",
        "MEM_FRACTION": "XLA_PYTHON_CLIENT_MEM_FRACTION",
    },
}
WORDS = [(word, ours) for system in SYSTEMS.values() for words, ours in system.items() for word in words.split()]


@pytest.mark.parametrize(("word", "ours"), WORDS)
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
