"""Configurations: every mistake is found before anything compiles, and named."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from envs.errors import UserError
from envs.values import limits_of
from jaxrl import config as configs
from jaxrl.commands import config as config_command
from jaxrl.config import files
from jaxrl.config.parse import all_paths
from tests import reads

ROOT = Path(__file__).resolve().parent.parent


def load(*overrides: str, path: Path | None = None) -> configs.Config:
    return configs.load(path, overrides, check_env=False)


def message(*overrides: str, check_env: bool = False) -> str:
    with pytest.raises(UserError) as error:
        configs.load(None, overrides, check_env=check_env)
    text = str(error.value)
    assert "\n" not in text
    return text


# ---- reading ----


def test_defaults_are_valid():
    assert load() == configs.Config()


def test_override_is_parsed_as_yaml():
    config = load("train.num_envs=1024", "ppo.clip=1e-1", "run.deterministic=true", "network.hidden=[8, 4]")
    assert config.train.num_envs == 1024
    assert config.ppo.clip == 0.1
    assert config.run.deterministic is True
    assert config.network.hidden == (8, 4)


def test_skull_king_can_use_the_pool_by_configuration_alone():
    overrides = ["seats=[{learners: all}]", "league.opponents=[self, snapshots, bots]", "league.snapshots=4"]
    config = configs.load("skull_king", overrides)
    assert config.env.id == "skull_king" and config.league.snapshots == 4


def test_later_override_wins_and_keeps_neighbours():
    config = load("ppo.learning_rate.start=1e-3", "ppo.learning_rate.start=2e-3")
    default = configs.Config().ppo.learning_rate
    assert config.ppo.learning_rate == dataclasses.replace(default, start=2e-3)


def test_override_of_a_list_element():
    config = load("seats=[{learners: 1, bots: [random]}, {}]", "seats.1.weight=3")
    assert [mix.weight for mix in config.seats] == [1.0, 3.0]
    assert config.seats[0].bots == ("random",)


def test_override_does_not_change_the_tree_it_is_given():
    tree = {"train": {"num_envs": 8}}
    files.apply_overrides(tree, ["train.num_envs=16"])
    assert tree == {"train": {"num_envs": 8}}


def test_integer_is_a_number_and_the_round_trip_is_exact(tmp_path):
    config = load("ppo.clip=1", "env.options={players: 3}", "ppo.adam_eps=1e-7", "run.name=yes-1")
    assert isinstance(config.ppo.clip, float)
    configs.save(config, tmp_path / "config.yaml")
    assert load(path=tmp_path / "config.yaml") == config
    assert configs.from_dict(configs.to_dict(config), check_env=False) == config
    assert not list(tmp_path.glob("*.part"))


def test_hash_and_counts():
    config = load("train.num_envs=16", "train.num_steps=8", "ppo.minibatches=4", "train.total_steps=1000")
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, updates_per_call=3))
    assert isinstance(hash(config), int)
    assert (config.batch_size, config.minibatch_size) == (128, 32)
    assert (config.num_calls, config.num_updates) == (3, 9)  # 1000 steps are 7.8 updates, whole calls of 3


# ---- mistakes ----


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("ppo.num_env=8", "did you mean 'train.num_envs'"),
        ("num_envs=8", "did you mean 'train.num_envs'"),
        ("pppo.clip=1", "did you mean 'ppo'"),
        ("ppo.learning_rate.stop=1", "unknown key 'ppo.learning_rate.stop'"),
        ("seats=[{learner: 1}]", "did you mean 'seats.0.learners'"),
    ],
)
def test_unknown_key_names_the_nearest(override, expected):
    text = message(override)
    assert "unknown key" in text
    assert expected in text


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.num_envs=many", "train.num_envs must be an integer, got 'many'"),
        ("train.num_envs=true", "train.num_envs must be an integer, got True"),
        ("ppo.clip=false", "ppo.clip must be a number"),
        ("train.total_steps=1e9", "write 1000000000"),
        ("ppo.normalize_advantage=1", "must be true or false"),
        ("ppo.clip=", "ppo.clip must be a number, got nothing"),
        ("run.name=3", "run.name must be a string"),
        ("network.hidden=64", "network.hidden must be a list"),
        ("network.hidden=[64, x]", "network.hidden.1 must be an integer"),
        ("ppo=3", "ppo must be a mapping"),
        ("ppo.learning_rate=0.1", "ppo.learning_rate must be a mapping with keys kind, start, end"),
        ("env.options=[1]", "env.options must be a mapping"),
        ("seats=[{learners: 1.5}]", "seats.0.learners must be an integer or 'all'"),
    ],
)
def test_wrong_type(override, expected):
    assert expected in message(override)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.num_envs=0", "train.num_envs must be at least 1, got 0"),
        ("ppo.gamma=1.5", "ppo.gamma must be at most 1.0"),
        ("ppo.clip=0", "ppo.clip must be greater than 0.0"),
        ("ppo.clip=.nan", "finite"),
        ("ppo.value_coef=.inf", "finite"),
        ("network.kind=mpl", "must be one of mlp, transformer"),
        ("ppo.entropy_coef.kind=square", "must be one of constant, linear, cosine"),
        ("run.name=../x", "letters, digits"),
        ("run.name=..", "beginning with a letter"),
        ("run.name=.hidden", "beginning with a letter"),
        ("run.name=-x", "beginning with a letter"),
        ("seats=[{learners: 0}]", "seats.0.learners must be at least 1"),
        ("seats=[{learners: some}]", "must be one of all"),
        ("seats=[]", "at least one mix"),
        ("run.seed=-1", "at least 0"),
    ],
)
def test_out_of_range(override, expected):
    assert expected in message(override)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["train.num_envs=12", "ppo.shuffle_groups=8"], "train.num_envs (12) must be divisible by ppo.shuffle_groups"),
        (["train.num_envs=8", "train.num_steps=5", "ppo.minibatches=2"], "divisible by ppo.minibatches (2)"),
        (["train.num_envs=8", "train.num_steps=6", "ppo.minibatches=2", "ppo.accumulate=2"], "ppo.accumulate (2)"),
        (["run.devices=3"], "divisible by run.devices (3)"),
        (["train.keep_every=500"], "divisible by train.updates_per_call (8)"),
        (
            ["train.keep_every=120", "train.updates_per_call=5", "train.checkpoint_every=50"],
            "divisible by train.checkpoint_every (50)",
        ),
        (["train.num_envs=1048576", "train.num_steps=4096"], "at most 2147483647"),
        (["network.transformer.heads=5"], "network.transformer.heads (5)"),
        (
            ["train.num_envs=8", "train.num_steps=16", "train.total_steps=300", "train.updates_per_call=4"],
            "train.updates_per_call (4) must be at most the 3 update(s)",
        ),
    ],
)
def test_impossible_shapes(overrides, expected):
    assert expected in message(*overrides)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("env.id=skul_king", "skull_king"),
        ("env.options={player: 4}", "did you mean 'players'"),
        ("env.options={players: 9}", "players must be 2 to 8"),
        ("env.options={players: four}", "int"),
        ("seats=[{learners: 5}]", "seats.0.learners is 5"),
        ("seats=[{learners: 1}]", "seats.0.bots is empty"),
        ("seats=[{learners: 1, bots: [hrad]}]", "did you mean 'hard'"),
        ("evaluate.opponents=[everybody]", "there is no bot 'everybody'"),
    ],
)
def test_the_game_is_asked(override, expected):
    assert expected in message(override, check_env=True)


@pytest.mark.parametrize(
    "override", ["train.num_envs", "=3", "ppo..clip=1", "seats.7.weight=1", "ppo.clip.x=1", "ppo.clip=["]
)
def test_an_override_that_makes_no_sense(override, tmp_path):
    (tmp_path / "a.yaml").write_text("ppo: {clip: 0.1}\nseats: [{}]\n")
    with pytest.raises(UserError) as error:
        load(override, path=tmp_path / "a.yaml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ppo: [", "line 1"),
        ("ppo:\n  clip: 0.1\n  clip: 0.2\n", "'clip' appears twice"),
        ("- 1\n", "must hold a mapping"),
        ("ppo: {clip: !!python/object/apply:os.getcwd []}", "cannot read"),
        ("ppo:\n  clp: 0.1\n", "did you mean 'ppo.clip'"),
    ],
)
def test_a_bad_file_is_named(text, expected, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="mine.yaml") as error:
        load(path=path)
    assert expected in str(error.value)


def test_missing_configuration():
    with pytest.raises(UserError, match="did you mean 'skull_king_cpu'"):
        load(path=Path("skull_king_cpus"))


def test_device_count():
    config = load("ppo.shuffle_groups=8", "train.num_envs=64")
    assert configs.device_count(config, 2) == 2
    assert configs.device_count(config, 7) == 4
    with pytest.raises(UserError, match="there are only 1"):
        configs.device_count(load("run.devices=2"), 1)


# ---- documentation ----


def test_every_key_is_documented_and_described():
    table = config_command.describe()
    for path in all_paths():
        shown = path.replace("seats.0.", "seats[].")
        assert shown.split(".")[0] in table
    for cls in (configs.RunConfig, configs.EnvConfig, configs.SeatMix, configs.PPOConfig, configs.TrainConfig):
        for field in dataclasses.fields(cls):
            assert limits_of(field).doc, field.name
            assert limits_of(field).doc in table


def test_shipped_configurations_are_valid():
    assert {"skull_king", "skull_king_cpu", "skull_king_attention"} <= set(files.shipped())
    for path in files.shipped().values():
        configs.load(path)


def test_target_kl_declared_never_read():
    """cleanrl's JAX variants declare a target KL that nobody reads: every key is read somewhere, by its whole path."""
    properties = reads.properties_of_config((ROOT / "jaxrl/config/schema.py").read_text(encoding="utf-8"))
    outside = [path for path in (ROOT / "jaxrl").rglob("*.py") if "config" not in path.relative_to(ROOT).parts[1]]
    outside = [path for path in outside if ROOT / "jaxrl/measure" not in path.parents]  # only reports
    found = set().union(*(reads.keys_read(path.read_text(encoding="utf-8"), properties) for path in outside))
    unread = [path for path in all_paths() if path not in found]
    assert not unread, f"never read outside jaxrl/config: {unread}"


def test_hyper_parameters_are_read_after_they_became_arrays():
    """`ppo.clip` and others are copied into a structure of array leaves; each leaf is read from there again."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "jaxrl").rglob("*.py"))
    state = (ROOT / "jaxrl/algorithms/ppo/state.py").read_text(encoding="utf-8")
    [hyper] = [node for node in ast.parse(state).body if isinstance(node, ast.ClassDef) and node.name == "Hyper"]
    fields = [node.target.id for node in hyper.body if isinstance(node, ast.AnnAssign)]
    assert "target_kl" in fields
    for name in fields:
        assert f"hyper.{name}" in source or f"self.{name}" in ast.unparse(hyper), name


def test_the_reader_follows_names_but_not_any_attribute():
    source = """
def f(self, mixes: Sequence[SeatMix], other):
    ppo, x = self.config.ppo, other.clip
    rate = ppo.learning_rate
    print(rate.kind, config.evaluate.greedy, other.seed, [mix.weight for mix in mixes], config.total)
    def g(ppo):
        return ppo.epochs
    return [getattr(ppo, name) for name in ("gamma",)]

class Pool:
    config: LeagueConfig
    def g(self):
        config = self.config
        return self.config.floor, config.half_life
"""
    expected = {"ppo", "ppo.learning_rate", "ppo.learning_rate.kind", "evaluate", "evaluate.greedy", "total"}
    expected |= {"seats.0.weight", "ppo.gamma", "train.total_steps", "league", "league.floor", "league.half_life"}
    assert reads.keys_read(source, {"total": {"train.total_steps"}}) == expected


def test_checking_without_the_game_does_not_start_jax():
    load_it = "from jaxrl import config; config.load('skull_king_cpu', check_env=False)"
    code = f"import sys; {load_it}; print('jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


# ---- sections of games ----


def test_a_game_adds_its_own_section():
    config = configs.load(None, ["env.id=forge", "forge.daemons=2"], check_env=False)
    assert config.forge.daemons == 2 and config == configs.from_dict(configs.to_dict(config), check_env=False)
    assert "forge" not in configs.to_dict(configs.Config())
    configs.validate(config, check_env=False)
    with pytest.raises(UserError, match="forge.heap_mb must be at least 256, got 1"):
        configs.load(None, ["env.id=forge", "forge.heap_mb=1"], check_env=False)
    with pytest.raises(UserError, match="unknown key 'forge.demons' .* did you mean 'forge.daemons'"):
        configs.load(None, ["env.id=forge", "forge.demons=1"], check_env=False)
    with pytest.raises(UserError, match="the section 'forge' .* is for the game forge, but env.id is skull_king"):
        configs.load("skull_king", ["forge.daemons=2"], check_env=False)


def test_the_section_of_a_game_is_described(capsys):
    assert config_command.main(argparse.Namespace(env="forge", config=None, overrides=[])) == 0
    told = capsys.readouterr().out
    assert "env.options.decks  " in told and "forge.daemons  int or str or list of str = auto" in told
    assert "forge.heap_mb  int = 1024  (256 <= x <= 1048576)" in told
