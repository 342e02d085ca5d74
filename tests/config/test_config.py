"""Configurations: every mistake is found before anything compiles, and named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.registry import find_algorithm
from jaxrl.config import presets
from jaxrl.config.describe import describe
from jaxrl.games import make_games, make_stages
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.matches.config import EvaluateConfig
from jaxrl.runs.config import RunConfig, device_count
from jaxrl.training.config import FOLLOWING, StopRules, TrainConfig
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.files import read
from jaxrl_envs.shared.options import all_paths, limits_of, to_tree
from tests.support.paths import ROOT

FOLLOW = {*(f"train.{key}" for key in FOLLOWING), "ppo.minibatches", "ppo.learning_rate"}  # the length of the run


def load(*overrides: str, path: Path | None = None) -> configs.Config:
    return configs.load(path, overrides)


def message(*overrides: str, with_game: bool = False) -> str:
    with pytest.raises(UserError) as error:
        config = configs.load(None, overrides)
        if with_game:
            make_games(config)
    text = str(error.value)
    assert "\n" not in text
    return text


# ---- reading ----


def test_override_is_parsed_as_yaml():
    config = load("train.num_envs=1024", "ppo.clip=1e-1", "run.deterministic=true", "network.hidden=[8, 4]")
    assert config.train.num_envs == 1024
    assert config.ppo.clip == 0.1
    assert config.run.deterministic is True
    assert config.network.hidden == (8, 4)


def test_skull_king_can_use_the_pool_by_configuration_alone():
    overrides = ["seats=[{learners: all}]", "league.opponents=[self, snapshots, bots]", "league.snapshots=4"]
    config = configs.load("skull_king", overrides)
    make_games(config)
    assert config.env.id == "skull_king" and config.league.snapshots == 4


def test_later_override_wins_and_keeps_neighbours():
    config = load("ppo.learning_rate.start=1e-3", "ppo.learning_rate.start=2e-3")
    default = configs.Config().ppo.learning_rate
    assert config.ppo.learning_rate == dataclasses.replace(default, start=2e-3)


def test_override_of_a_list_element():
    config = load("seats=[{learners: 1, bots: [random]}, {}]", "seats.1.weight=3")
    assert [mix.weight for mix in config.seats] == [1.0, 3.0]
    assert config.seats[0].bots == ("random",)


def test_integer_is_a_number_and_the_round_trip_is_exact(tmp_path):
    config = load("ppo.clip=1", "env.options={players: 3}", "ppo.target_kl=1e-7", "run.name=yes-1")
    assert isinstance(config.ppo.clip, float)
    configs.save(config, tmp_path / "config.yaml")
    assert load(path=tmp_path / "config.yaml") == config
    assert configs.from_dict(configs.to_dict(config)) == config
    assert not list(tmp_path.glob("*.part"))


def test_numbers_mean_what_people_mean():
    config = load("ppo.learning_rate=1e-3", "train.total_steps=1e6", "network.hidden=256", "dqn.epsilon=0.1")
    assert config.ppo.learning_rate == configs.Schedule("constant", 1e-3, 1e-3)
    assert config.train.total_steps == 1_000_000 and isinstance(config.train.total_steps, int)
    assert config.network.hidden == (256,) and config.dqn.epsilon.start == 0.1
    assert configs.from_dict(configs.to_dict(config)) == config


def test_a_minibatch_by_its_size(tmp_path):
    """The later of two files, or the command line, says which of the two keys counts."""
    small = load("train.num_envs=64", "train.num_steps=64", "ppo.batch_size=512")
    assert (small.ppo.minibatches, small.ppo.batch_size) == (8, 0)
    assert configs.from_dict(configs.to_dict(small)) == small
    assert configs.load("skull_king_cpu", ["ppo.batch_size=2048"]).ppo.minibatches == 32
    (tmp_path / "mine.yaml").write_text("base: skull_king_cpu\nppo: {batch_size: 4096}\n")
    assert configs.load(tmp_path / "mine.yaml").ppo.minibatches == 16
    assert configs.load(tmp_path / "mine.yaml", ["ppo.minibatches=8"]).ppo.minibatches == 8
    stages = "curriculum=[{name: a, until: {steps: 100}, ppo.batch_size: 1024}, {name: b}]"
    assert [stage.config.ppo.minibatches for stage in configs.stages(configs.load("skull_king_cpu", [stages]))] == [
        64,
        64,
    ]


def test_hash_and_counts():
    config = load("train.num_envs=16", "train.num_steps=8", "ppo.minibatches=4", "train.total_steps=1000")
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, updates_per_call=3))
    assert isinstance(hash(config), int)
    assert config.batch_size == 128
    assert (config.num_calls, config.num_updates) == (3, 9)  # 1000 steps are 7.8 updates, whole calls of 3


# ---- what follows the size of a run ----


@pytest.mark.parametrize("steps", [1, 1000, 20_000, 150_000, 1_000_000, 10_000_000, 1_000_000_000])
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["train.num_envs=6"],
        ["train.num_steps=5"],
        ["train.num_envs=5", "train.num_steps=7", "ppo.accumulate=7"],
        ["network.kind=recurrent"],
        ["run.devices=3", "train.keep_every=12"],
        ["league.opponents=[self, snapshots]", "league.snapshots=5", "sebulba.actors=3"],
        ["train.algorithm=dqn"],
    ],
)
def test_what_is_not_given_fits_what_is(steps, overrides):
    config = load(f"train.total_steps={steps}", *overrides)  # which checks that all of it divides
    train = config.train
    assert config.num_updates >= min(128, steps // 2048) and train.evaluate_every % train.updates_per_call == 0
    assert train.evaluate_every == 0 or 8 <= config.num_updates // train.evaluate_every <= 20
    assert configs.from_dict(configs.to_dict(config)) == config
    longer = configs.from_dict(presets.apply_overrides(configs.to_dict(config), ["train.total_steps=1e10"]))
    assert longer.train.num_envs == train.num_envs  # `jaxrl resume --steps` changes nothing else


def test_rollouts_and_rates_follow_the_size():
    small, large = load("train.total_steps=150_000"), load("train.total_steps=10_000_000")
    assert (small.train.num_envs, small.train.num_steps, small.ppo.minibatches) == (64, 16, 4)
    assert (large.train.num_envs, large.train.num_steps, large.ppo.minibatches) == (512, 64, 8)
    assert small.ppo.learning_rate.start == 1e-3 and large.ppo.learning_rate.start == 6e-4
    assert load("train.total_steps=150_000", "train.num_envs=16").train.num_steps == 64


# ---- one game's configuration for another game ----


def test_what_a_preset_says_of_its_game_does_not_block_another(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text("base: skull_king\nenv: {id: beasty_bar}\nppo: {clip: 0.3}\n")
    for path, overrides in ((Path("skull_king"), ["env.id=beasty_bar", "ppo.clip=0.3"]), (tmp_path / "mine.yaml", [])):
        config = load(*overrides, path=path)
        make_games(config)
        told = capsys.readouterr().err
        assert (
            told.count("\n") == 1 and "what it says of env.options, seats, evaluate is left out for beasty_bar" in told
        )
        assert config.env == configs.EnvConfig("beasty_bar") and config.evaluate == EvaluateConfig()
        assert config.ppo.clip == 0.3 and config.train == load(path=Path("skull_king")).train
    config = load("env.id=beasty_bar", "env.options.reward=wins", path=Path("forge"))
    assert config.env.options == {"reward": "wins"} and not hasattr(config, "forge")
    assert "env.options, evaluate, league, forge" in capsys.readouterr().err
    load("env.id=skull_king", "env.options.players=3", path=Path("skull_king"))
    assert capsys.readouterr().err == ""


def test_what_is_left_out_of_each_file_is_not_named_as_an_origin(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("base: skull_king\nseats: [{learners: 1}]\nppo: {clip: 0.3}\n")
    assert cli.main(["config", "mine.yaml", "env.id=beasty_bar"]) == 0
    printed, told = capsys.readouterr()
    assert told.count("\n") == 2 and "mine is for skull_king: what it says of seats is left out" in told
    lines = printed.splitlines()
    assert "  id: beasty_bar  # command line" in lines and "  clip: 0.3  # mine.yaml" in lines
    assert "  options: {}" in lines and "  deals: 400" in lines  # skull_king.yaml says something of both
    assert next(line for line in lines if line.startswith("seats:")).endswith("]")
    Path("back.yaml").write_text("base: mine.yaml\nenv: {id: beasty_bar}\n")
    assert load("env.id=skull_king", path=Path("back.yaml")).env.options["players"] == 4
    assert not any(layer.left_out for layer in presets.layers(Path("mine.yaml"), ["env.options.players=3"]))


def test_a_run_is_called_after_its_configuration_if_that_is_of_its_game(tmp_path):
    Path(tmp_path / "mine.yaml").write_text("ppo: {clip: 0.3}\n")
    names = {("skull_king_cpu", ""): "skull_king_cpu", ("skull_king_cpu", "env.id=pgx:chess"): "chess"}
    names |= {(str(tmp_path / "mine.yaml"), "env.id=beasty_bar"): "mine", ("", "env.id=my_file:MyGame"): "MyGame"}
    names |= {("", "env.id='openspiel:leduc_poker(players=3)'"): "leduc_poker-players-3"}
    for (file, override), name in names.items():
        overrides = [override] if override else []
        assert presets.default_name(file, configs.load(file or None, overrides).env.id, overrides) == name


def test_an_unknown_game_is_told_before_its_options():
    assert "did you mean 'skull_king'" in message("env.id=skul_king", "env.options.playrs=2", with_game=True)
    pytest.importorskip("pgx")
    assert "connect_four" in message("env.id=pgx:conect_four", "env.options.playrs=2", with_game=True)


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
    assert "configuration" not in text, "the file is not to blame for what was typed"


def test_unknown_key_of_a_file_names_the_file(tmp_path):
    (tmp_path / "mine.yaml").write_text("ppo: {num_env: 8}")
    with pytest.raises(UserError, match="mine.yaml: unknown key 'ppo.num_env'"):
        configs.load(tmp_path / "mine.yaml", ["ppo.clip=0.1"])


@pytest.mark.parametrize("path", ["env.options", "evaluate.deals", "ppo.learning_rate", "dqn.learning_rate"])
def test_a_key_with_dots_in_a_file_is_told_how_to_be_written(path):
    above, _, below = path.partition(".")
    with pytest.raises(UserError, match=f"in a file write '{below}' below '{above}', without a dot"):
        configs.from_dict({path: {}})


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.num_envs=many", "train.num_envs must be a whole number of at least 1, got 'many'"),
        ("train.total_steps=1.5", "train.total_steps must be a whole number of at least 1, got 1.5"),
        ("run.deterministic=1", "must be true or false"),
        ("ppo.clip=", "ppo.clip must be a number above 0, got nothing"),
        ("network.hidden=[64, x]", "network.hidden.1 must be a whole number"),
        ("ppo.learning_rate=fast", "ppo.learning_rate must be a number or a mapping with the keys kind, start, end"),
        ("seats=[{learners: 1.5}]", "seats.0.learners must be a whole number of at least 1 or all, got 1.5"),
        ("ppo.gamma=1.5", "ppo.gamma must be a number from 0 to 1, got 1.5"),
        ("ppo.clip=0", "ppo.clip must be a number above 0, got 0.0"),
        ("ppo.clip=.nan", "must be a number above 0, got nan"),
        ("network.kind=mpl", "must be mlp, transformer, candidates, recurrent or package.module:Class, got 'mpl'"),
        ("run.name=../x", "letters, digits"),
        ("run.name=-x", "beginning with a letter"),
        ("seats=[{learners: some}]", "or all, got 'some'"),
        ("seats=[]", "at least one mix"),
    ],
)
def test_wrong_type_or_out_of_range(override, expected):
    assert expected in message(override)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["train.num_envs=12", "run.devices=5"], "train.num_envs (12) must be divisible by run.devices (5)"),
        (["train.num_envs=8", "train.num_steps=5", "ppo.minibatches=2"], "divisible by ppo.minibatches (2)"),
        (
            ["ppo.minibatches=2", "ppo.batch_size=64"],
            "ppo.batch_size and ppo.minibatches say the same: give one of them.",
        ),
        (["ppo.batch_size=1000"], "(32768) must be divisible by ppo.batch_size (1000)"),
        (["train.num_envs=8", "train.num_steps=6", "ppo.minibatches=2", "ppo.accumulate=2"], "ppo.accumulate (2)"),
        (["train.num_envs=512", "run.devices=3"], "divisible by run.devices (3)"),
        (["train.keep_every=500", "train.updates_per_call=8"], "divisible by train.updates_per_call (8)"),
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


def test_a_training_that_is_shorter_than_a_call_of_its_preset_takes_fewer_updates_per_call(capsys):
    configs._tell.cache_clear()
    train = configs.load("skull_king_cpu", ["train.total_steps=1e5"]).train
    assert (train.total_steps, train.updates_per_call, train.evaluate_every) == (100_000, 2, 100)
    told = capsys.readouterr().err
    assert told == "train.total_steps (100000) make 2 update(s), so train.updates_per_call is 2 instead of 4.\n"
    with pytest.raises(UserError, match="must be at most the 2 update"):  # what the user says himself is not changed
        configs.load("skull_king_cpu", ["train.total_steps=1e5", "train.updates_per_call=4"])


def test_a_saved_run_may_be_given_an_end_before_its_first_call(tmp_path):
    configs.save(configs.load("skull_king_cpu"), tmp_path / "config.yaml")  # in which every key is given
    assert configs.load(tmp_path / "config.yaml", ["train.total_steps=10"]).num_updates == 1


def test_the_first_word_of_a_training_may_be_its_configuration():
    config = configs.for_training(None, ["skull_king_cpu", "run.seed=7"], (), None)
    assert (config.run.name, config.run.seed, config.network.hidden) == ("skull_king_cpu", 7, (128, 128))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("env.id=skul_king", "skull_king"),
        ("env.options={player: 4}", "did you mean 'players'"),
        ("env.options={players: 9}", "players must be 2 to 8"),
        ("env.options={players: four}", "skull_king: players must be a whole number, got 'four'"),
        ("seats=[{learners: 5}]", "seats.0.learners is 5"),
        ("seats=[{learners: 1}]", "seats.0.bots is empty"),
        ("seats=[{learners: 1, bots: [hrad]}]", "did you mean 'hard'"),
        ("evaluate.opponents=[everybody]", "there is no bot 'everybody'"),
    ],
)
def test_the_game_is_asked(override, expected):
    assert expected in message(override, with_game=True)


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
        ("ppo: {clip: !!python/object/apply:os.getcwd []}", "is not valid YAML"),
        ("ppo:\n  clp: 0.1\n", "did you mean 'ppo.clip'"),
        ("ppo: {<<: {clip: 0.1}}", "merge keys (<<) are not read"),
        ("ppo: {clip: !!bool x}", "the tag 'tag:yaml.org,2002:bool' is not read"),
        ("ppo: {clip: 1" + ":59" * 500 + ".0}", "cannot be read"),
        ("x: [" + "1," * 60_000 + "]", "more than 50,000 values"),
        ("[" * 20_000, "nested too deeply"),
        ("#" * (5 << 20), "more than 4 MB"),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_file_is_named(text, expected, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="mine.yaml") as error:
        load(path=path)
    assert expected in str(error.value)


def test_device_count():
    config = load("train.num_envs=64")
    assert device_count(config, 2) == 2
    assert device_count(config, 7) == 4
    with pytest.raises(UserError, match="there are only 1"):
        device_count(load("run.devices=2"), 1)


# ---- documentation ----


def test_every_key_is_documented_and_described():
    table = describe()
    for path in all_paths(configs.Config):
        shown = path.replace("seats.0.", "seats[].")
        assert shown.split(".")[0] in table
    for cls in (RunConfig, configs.EnvConfig, SeatMix, PPOConfig, TrainConfig, StopRules):
        for field in dataclasses.fields(cls):
            assert limits_of(field).doc, field.name
            assert limits_of(field).doc in table or field.type == "StopRules"  # whose own keys stand there


def test_shipped_configurations_are_valid():
    assert {"skull_king", "skull_king_cpu"} <= set(presets.shipped())
    for path in presets.shipped().values():
        configs.load(path)


def test_an_older_file_may_hold_a_key_that_is_gone_if_it_says_what_is_done_now():
    assert configs.from_dict({"run": {"log_format": "text"}, "dqn": {"save_replay": True}}) == configs.from_dict({})
    with pytest.raises(UserError, match="run.log_format"):
        configs.from_dict({"run": {"log_format": "json"}})


def test_target_kl_declared_never_read():
    """cleanrl's JAX variants declare a target KL and never read it; that a key exists where it is read, mypy checks."""
    outside = [path for path in (ROOT / "jaxrl").rglob("*.py") if "config" not in path.relative_to(ROOT).parts[1]]
    read = set(re.findall(r"""[."'](\w+)""", "\n".join(path.read_text(encoding="utf-8") for path in outside)))
    assert {path.rpartition(".")[2] for path in all_paths(configs.Config)} - {"0"} <= read


def test_reading_a_configuration_does_not_import_jax():
    load_it = "from jaxrl import config; config.load('skull_king_cpu')"
    code = f"import sys; {load_it}; print('jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


# ---- presets and what they are based on ----

RESOLVED = {  # digest of what differs from the defaults; a changed base or default changes all presets built on it
    "battle_balance": "b5693ca7e89e",
    "battle_dqn": "779ddf8f8205",
    "battle_speed": "2c7f7b833a56",
    "battle_zoo": "947bc9aec400",
    "beasty_bar": "19168a3c4496",
    "beasty_bar_transformer": "153cc899f6d8",
    "forge": "8d47268dbcd3",
    "forge_aggro": "80ccd13f1d7b",
    "resume_600_to_1000": "43a3caccb2a2",
    "skull_king": "a639bc594a32",
    "skull_king_cpu": "c49ecc901fe4",
}


@pytest.mark.parametrize("name", RESOLVED)
def test_presets_are_what_they_were(name):
    assert digest(configs.load(name)) == RESOLVED[name]


def test_round_weights_and_phase_schedule_are_in_a_preset():
    config = configs.load("skull_king_hierarchical")
    weights = config.env.options["round_weights"]
    assert weights == [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 2]
    late, more, whole = stages = configs.stages(config)
    drawn = [stage.config.env.options["round_weights"] for stage in stages]
    assert drawn == [[0] * 6 + weights[6:], [0] * 3 + weights[3:], weights]
    assert [stage.until.steps for stage in (late, more)] == [1_000_000, 1_000_000] and config.train.total_steps > 3e6
    assert config.train.algorithm == "hierarchical" and config.hierarchical.balance
    assert (config.hierarchical.manager.epochs, config.hierarchical.worker.epochs) == (25, 12)
    make_stages(config)  # the game and the algorithm accept it


def digest(config: configs.Config) -> str:
    """Of all keys that differ from their default, with the values of both."""
    own, default = configs.to_dict(config), configs.to_dict(configs.config_for(config.env.id)())
    differing = [
        (f"{section}.{key}", own[section][key], default[section].get(key))
        for section in sorted(own.keys() - {"seats"})
        for key in sorted(own[section])
        if own[section][key] != default[section].get(key)
    ]
    return hashlib.sha256(json.dumps([differing, own["seats"]], sort_keys=True).encode()).hexdigest()[:12]


def test_presets_say_only_what_differs_from_their_base():
    for name, path in presets.shipped().items():
        tree = read(path)
        base = tree.pop("base", None)
        under = to_tree(configs.load(base) if base else configs.config_for(tree["env"]["id"])())
        told = [(key, value) for key, value in leaves(tree) if key.split(".")[1:2] != ["options"] and key != "env.id"]
        told = [(key, value) for key, value in told if base or key not in FOLLOW]  # which a shorter run would change
        repeated = [key for key, value in told if find(under, key) == value]
        assert not repeated, f"{name} repeats {repeated}"


def leaves(tree: dict, path: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict) and "kind" not in value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def find(tree: dict, path: str) -> object:
    for key in path.split("."):
        tree = tree[key] if isinstance(tree, dict) and key in tree else None
    return tree


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_base_may_have_a_base_and_lie_anywhere(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner", top="base: ../middle.yaml\nppo: {clip: 0.1}\nleague:\n")
    write(tmp_path, middle="base: battle_balance\nppo: {clip: 0.3, epochs: 7}\nseats: [{}, {}]\n")
    config, below = load(path=tmp_path / "inner" / "top.yaml"), load(path=Path("battle_balance"))
    assert (config.ppo.clip, config.ppo.epochs, config.ppo.gamma) == (0.1, 7, below.ppo.gamma)
    assert config.env == below.env and config.league == LeagueConfig() and len(config.seats) == 2
    configs.save(config, tmp_path / "resolved.yaml")
    assert load(path=tmp_path / "resolved.yaml") == config and "base" not in read(tmp_path / "resolved.yaml")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "base: b.yaml", "b": "base: a.yaml"}, "base goes round in a circle: a -> b -> a"),
        ({"a": "base: a.yaml"}, "base goes round in a circle: a -> a"),
        ({"a": "base: skull_kin"}, "a.yaml: base: there is no configuration 'skull_kin': did you mean 'skull_king'?"),
        ({"a": "base: [1]"}, "a.yaml: base must be the name of a shipped configuration or a file, got [1]"),
        ({"a": "base: b.yaml", "b": "- 1"}, "b.yaml must hold a mapping"),
    ],
)
def test_a_wrong_base_is_one_sentence(files, expected, tmp_path):
    with pytest.raises(UserError) as error:
        load(path=write(tmp_path, **files) / "a.yaml")
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_there_are_no_more_than_140_keys():
    """A new one must be worth it: one that no reasonable user changes is a constant beside its use, with the reason."""
    assert len([line for line in describe().splitlines() if re.match(r"  \S", line)]) <= 140


def test_an_algorithm_of_ones_own(tmp_path):
    config = load("train.algorithm=mine.learner:Critic", "algorithm={rate: 0.1, deep: {size: 3}}")
    assert config.train.algorithm == "mine.learner:Critic" and config.algorithm == {"rate": 0.1, "deep": {"size": 3}}
    configs.save(config, tmp_path / "config.yaml")
    assert configs.load(tmp_path / "config.yaml", allow=["mine"]) == config
    assert "train.algorithm must be a name or package.module:Class, got 'a 2 c'" in message("train.algorithm='a 2 c'")
    assert "the settings of ppo are the section ppo" in message("algorithm.gamma=1")
    with pytest.raises(UserError, match="there is no algorithm 'a2c'"):
        find_algorithm("a2c")


# ---- sections of games ----


def test_a_game_adds_its_own_section():
    config = configs.load(None, ["env.id=forge", "forge.daemons=2"])
    assert config.forge.daemons == 2 and config == configs.from_dict(configs.to_dict(config))
    assert "forge" not in configs.to_dict(configs.Config())
    with pytest.raises(UserError, match="forge.heap_mb must be a whole number from 256 to 1048576, got 1"):
        configs.load(None, ["env.id=forge", "forge.heap_mb=1"])
    with pytest.raises(UserError, match="unknown key 'forge.demons': did you mean 'forge.daemons'"):
        configs.load(None, ["env.id=forge", "forge.demons=1"])
    with pytest.raises(UserError, match="the section 'forge' .* is for the game forge, but env.id is skull_king"):
        configs.load("skull_king", ["forge.daemons=2"])


def test_the_section_of_a_game_is_described(capsys):
    assert cli.main(["config", "--env", "forge"]) == 0
    told = capsys.readouterr().out
    assert "env.options.decks  " in told and "forge.daemons  int or str or list of str = auto" in told
    assert "forge.heap_mb  int = 1024  (256 <= x <= 1048576)" in told
