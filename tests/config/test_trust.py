"""Loading a file never runs what it names; what the user names runs, if it is what it should be."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml
from flax import serialization

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import Config, EnvConfig, trust
from jaxrl.policies.export import _without_places, load_policy
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import ROOT

NIM = (ROOT / "examples" / "nim.py").read_text(encoding="utf-8")
SIZES = {"num_envs": 16, "num_steps": 8, "total_steps": 256, "updates_per_call": 1}
MARK = """
from pathlib import Path
Path("imported").touch()
def call(*args, **options): Path("called").touch()
class NoGame:
    def __init__(self, *args, **options): Path("called").touch()
class Liar(type):
    def __subclasscheck__(cls, other): return True
class NoGameEither(metaclass=Liar):
    def __init__(self, *args, **options): Path("called").touch()
module = Path
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with modules that leave a mark; nothing is allowed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(trust.VARIABLE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("mark.py").write_text(MARK)
    Path("java.sh").write_text("#!/bin/sh\ntouch called\n")
    Path("java.sh").chmod(0o755)
    yield
    assert not Path("called").exists(), "what is no game, network, ... is never called"
    sys.modules.pop("mark", None)


def sentence(capsys, *argv: str) -> str:
    """What a command says that must fail as a user's mistake."""
    assert cli.main(argv) == 2
    told = capsys.readouterr().err
    assert told.startswith("jaxrl: ") and told.count("\n") == 1, told
    return str(told)


HOSTILE = {  # what a file holds, and what would have to be allowed
    "a function": ({"env": {"id": "mark:call"}}, "mark"),
    "a class": ({"env": {"id": "mark:NoGame"}}, "mark"),
    "a module": ({"env": {"id": "mark:module"}}, "mark"),
    "a program of python": ({"env": {"id": "http.server:test"}}, "http.server"),
    "the end": ({"env": {"id": "os:abort"}}, "os"),
    "a module of ours": ({"env": {"id": "jaxrl.__main__:main"}}, "jaxrl.__main__"),
    "an algorithm": ({"train": {"algorithm": "mark:call"}}, "mark"),
    "a daemon, which is told the token": ({"env": {"id": "forge"}, "forge": {"daemons": ["evil:1"]}}, "evil:1"),
    "a library's name": ({"train": {"algorithm": "pgx:make"}}, "pgx"),
    "a network": ({"network": {"kind": "mark:call"}}, "mark"),
    "a callback": ({"callbacks": ["mark:call"]}, "mark"),
    "a program": ({"env": {"id": "forge"}, "forge": {"java": "./java.sh"}}, "./java.sh"),
    "a folder of programs": ({"env": {"id": "forge"}, "forge": {"home": "evil place"}}, "'evil place'"),
    "a folder that is filled": ({"env": {"id": "forge"}, "forge": {"record": "games"}}, "games"),
    "a folder of logs": ({"env": {"id": "forge"}, "forge": {"log_dir": "logs"}}, "logs"),
    "compiled programs": ({"run": {"cache_dir": "cache"}}, "cache"),
}


def write_run(name: str, tree: dict) -> None:
    Path(name).mkdir()
    Path(name, "config.yaml").write_text(yaml.safe_dump(tree))


def write_policy(path: str, tree: dict) -> None:
    """As a stranger may have written it; `save_policy` leaves out what only a training runs."""
    config = configs.to_dict(configs.from_dict(tree))
    content = {"jaxrl": "0", "name": "a", "update": 1, "env_version": "1", "config": config, "params": {}}
    body = serialization.msgpack_serialize(content)
    Path(path).write_bytes(b"jaxrl policy 1\n" + zlib.crc32(body).to_bytes(4, "big") + body)


OF_THE_MACHINE = {
    "a daemon, which is told the token",
    "a program",
    "a folder of programs",
    "a folder that is filled",
    "a folder of logs",
    "compiled programs",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_alone_runs_nothing(what, capsys):
    tree, module = HOSTILE[what]
    Path("evil.yaml").write_text(yaml.safe_dump(tree))
    Path("above.yaml").write_text("base: evil.yaml\nrun: {seed: 1}\n")
    write_run("run", tree)
    write_policy("evil.jaxrl", tree)
    for argv in (
        ["train", "--config", "evil.yaml"],
        ["train", "--config", "above.yaml", "run.name=innocent"],
        ["resume", "run"],
        ["config", "--config", "evil.yaml"],
        ["evaluate", "run"],
        ["evaluate", "evil.jaxrl"],
        ["play", "evil.jaxrl"],
    ):
        told = sentence(capsys, *argv)
        if what == "a callback" and argv[0] in ("evaluate", "play"):
            assert "no checkpoint" in told or "do not fit the network" in told  # only a training calls them
        elif what in OF_THE_MACHINE and argv[1] == "evil.jaxrl":
            assert "do not fit the network" in told or "is for version 1" in told  # a policy file names no places
        else:
            assert "names code or folders of its own" in told and told.endswith(f"add --allow {module}\n"), argv
    assert not Path("imported").exists() and "mark" not in sys.modules
    assert not Path("runs").exists() and not Path("cache").exists()


def test_what_a_policy_file_says_of_a_machine_is_not_read():
    tree = {
        "env": {"id": "forge"},
        "forge": {"java": "./java.sh", "record": "records", "log_dir": "logs", "daemons": ["evil:1"]},
        "run": {"name": "a", "directory": "elsewhere", "cache_dir": "cache"},
        "metrics": {"prometheus": "0.0.0.0:9100"},
        "train": {"from_run": "../theirs@4", "total_steps": 10_000_000},
        "callbacks": ["mark:call"],
        "network": {"kind": "candidates"},
    }
    found = configs.to_dict(configs.trained(_without_places(tree), "a.jaxrl"))
    plain = {"env": tree["env"], "run": {"name": "a"}, "network": tree["network"]}
    assert found == configs.to_dict(configs.from_dict(plain))
    assert configs.trained(_without_places(tree), "a.jaxrl", ["forge.java=./java.sh"]).forge.java == "./java.sh"
    tree["run"]["cache_dir"] = ""
    assert configs.trained(_without_places(tree), "a.jaxrl").run.cache_dir == ""
    for broken in ({"env": []}, {"env": {"id": []}}, {"run": 3}, {"train": None, "run": None}, {"forge": {"java": 3}}):
        with contextlib.suppress(UserError):
            configs.trained(_without_places(broken), "a.jaxrl")


@pytest.mark.parametrize(
    "argv",
    [
        ["evaluate", "bot:random", "--config", "evil.yaml"],
        ["evaluate", "bot:random", "--against", "run"],
        ["play", "run"],
        ["film", "evil.jaxrl"],
        ["export", "run"],
        ["export", "run", "--numpy"],
        ["export", "evil.jaxrl", "--onnx"],
        ["serve", "--site", "page", "--policy", "evil.jaxrl"],
        ["exploit", "run"],
        ["imitate", "run", "--name", "b", "--search", "4"],
        ["imitate", "evil.yaml", "--data", "."],
        ["tournament", "run", "evil.jaxrl"],
        ["tournament", "run@all", "bots"],
        ["tournament", "bots", "--config", "evil.yaml"],
        ["diagnose", "run"],
        ["diagnose", "--config", "evil.yaml"],
    ],
    ids=" ".join,
)
def test_no_command_that_loads_files_believes_them(argv, capsys):
    tree = {"env": {"id": "mark:call"}}
    Path("evil.yaml").write_text(yaml.safe_dump(tree))
    write_run("run", tree)
    Path("run/checkpoints/4").mkdir(parents=True)
    write_policy("evil.jaxrl", tree)
    assert "names code or folders of its own, mark:call (env.id)" in sentence(capsys, *argv)
    assert not Path("imported").exists()


@pytest.mark.parametrize("argv", [["exploit", "run"], ["imitate", "run", "--name", "b", "--search", "4"]], ids=" ".join)
def test_the_users_own_place_stands_for_that_of_a_file(argv, capsys):
    """Neither believed nor complained of."""
    write_run("run", {"run": {"cache_dir": "cache"}})
    assert "names code or folders of its own, cache (run.cache_dir)" in sentence(capsys, *argv)
    assert "no checkpoint" in sentence(capsys, *argv, "run.cache_dir=''")


def test_the_record_of_a_checkpoint_is_no_word_either(capsys):
    write_run("run", {"env": {"id": "skull_king"}, "train": SIZES})
    stamp = checkpoint.Stamp("mark:call", "1", {})
    store = RunDirectory(Path("run")).checkpoints()
    store.save(checkpoint.take(1, {"x": np.ones(1)}, stamp))
    store.close()
    assert "another game: its id is 'mark:call'" in sentence(capsys, "evaluate", "run")
    assert not Path("imported").exists()


def test_what_a_stranger_writes_reaches_the_terminal_harmlessly():
    hostile = Config(env=EnvConfig(id="mark:call"))
    with pytest.raises(UserError) as told:
        configs.trust.check(hostile, "\x1b[2J.yaml")
    assert "\x1b" in str(told.value)  # the name of the file is the user's own
    with pytest.raises(UserError) as told:
        trust.check(configs.from_dict({"run": {"cache_dir": "\x1b[2J; rm -rf ~"}}), "a.yaml")
    assert "\x1b" not in str(told.value) and str(told.value).endswith("--allow '\\x1b[2J; rm -rf ~'")


def test_no_file_moves_the_cursor(capsys):
    """Names that a stranger chose are printed by many commands, in mistakes and in tables."""
    tree = {"env": {"id": "\x1b[2Jmark:call", "options": {"a": 1}}, "run": {"name": "a"}}
    Path("evil.yaml").write_text(yaml.safe_dump(tree))
    write_run("runs", {})
    write_run("runs/\x1b]0;evil", tree)
    write_policy("evil.jaxrl", tree)
    for argv in (["config", "evil.yaml"], ["evaluate", "evil.jaxrl"], ["resume", "runs/\x1b]0;evil"], ["runs"]):
        cli.main(argv)
    cli.main(["config", "evil.yaml", "env.id=skull_king"])
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed and "\\x1b[2Jmark:call" in printed and "\\x1b]0;evil" in printed
    assert not Path("imported").exists()


# ---- what the user says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "overrides", "allow"),
    [
        ({"env": {"id": "mark:call"}}, ["env.id=mark:call"], []),
        ({"env": {"id": "mark:call"}}, [], ["mark"]),
        ({"env": {"id": "mark:call"}}, [], ["mark:call"]),
        ({"env": {"id": "mark.rules:call"}}, [], ["mark"]),
        ({"env": {"id": "mark:call"}, "network": {"kind": "mark:call"}}, ["env.id=mark:other"], []),
        ({"env": {"id": "mark:call"}}, ["env={id: skull_king}"], []),
        ({"callbacks": ["mark:call", "b:c"]}, ["callbacks.1=d:e"], ["mark"]),
        ({"env": {"id": "forge"}, "forge": {"java": "./java.sh"}}, [], ["./java.sh"]),
        ({"env": {"id": "pgx:connect_four"}, "run": {"cache_dir": ""}}, [], []),
    ],
)
def test_the_users_word_is_enough(tree, overrides, allow, monkeypatch):
    Path("mine.yaml").write_text(yaml.safe_dump(tree))
    configs.load("mine.yaml", overrides, allow)
    monkeypatch.setenv(trust.VARIABLE, f"other, {','.join(allow)}")
    configs.load("mine.yaml", overrides)


@pytest.mark.parametrize("allow", [["marker"], ["mar"], ["mark.rules"], ["call"], [""]])
def test_another_word_is_not(allow):
    Path("mine.yaml").write_text("env: {id: 'mark:call'}")
    with pytest.raises(UserError, match="add --allow mark$"):
        configs.load("mine.yaml", ["run.name=mark"], allow)


@pytest.mark.parametrize("name", ["mark:call", "mark:NoGame", "mark:NoGameEither", "mark:module", "os:abort"])
def test_what_the_user_names_must_be_what_it_should(name, capsys):
    write_run("run", {"env": {"id": name}, "train": SIZES})
    module = name.partition(":")[0]
    for argv in (["check", name], ["config", f"env.id={name}"], ["play", "bot:random", f"env.id={name}"]):
        assert f"{name!r} is no subclass of jaxrl_envs.contract.env.Env" in sentence(capsys, *argv)
    assert "no subclass" in sentence(capsys, "resume", "run", "--allow", module)


@pytest.mark.parametrize(
    ("override", "contract"),
    [
        ("train.algorithm=mark:call", "jaxrl.algorithms.base.Algorithm"),
        ("network.kind=mark:call", "jaxrl.networks.base.NetworkModule"),
        ("callbacks=[mark:call]", "jaxrl.training.callbacks.Callback"),
    ],
)
def test_so_must_what_is_no_game(override, contract, capsys):
    train = ["train", "--config", "skull_king_cpu", "run.cache_dir=", "run.devices=1"]
    assert f"'mark:call' is no subclass of {contract}" in sentence(capsys, *train, override)


def test_programs_allow_for_themselves():
    Path("mark.py").write_text(NIM)
    write_policy("a.jaxrl", {"env": {"id": "mark:Nim"}, "network": {"hidden": [8]}})
    with pytest.raises(UserError, match="--allow mark"):
        load_policy("a.jaxrl")
    with pytest.raises(UserError, match="do not fit the network"):  # its game was made, but the file has no parameters
        load_policy("a.jaxrl", allow=["mark"])


@pytest.mark.parametrize("id", ["pgx:os.abort", "pgx:__class__", "pgx:mark:call", "gymnax:../mark", "gymnax:make"])
def test_a_library_is_asked_for_games_it_lists(id):
    pytest.importorskip(id.partition(":")[0])
    with pytest.raises(UserError, match="has no"):
        registry.make(id)
    assert not Path("imported").exists()


def test_a_library_is_not_looked_for_in_the_working_directory(capsys):
    if importlib.util.find_spec("gymnax"):
        pytest.skip("gymnax is installed")
    Path("gymnax.py").write_text(MARK)
    Path("x.yaml").write_text("env: {id: 'gymnax:CartPole-v1'}")
    assert "needs the package 'gymnax'" in sentence(capsys, "config", "--config", "x.yaml")
    assert not Path("imported").exists()


# ---- mistakes in code of one's own ----------------------------------------------------------------------------------

NUMBERS = itertools.count()
BROKEN = {  # what is wrong with a game: what is written, instead of what, and what is said (line numbers of the file)
    "a syntax error": (
        "def _init(self, key)",
        "def _init(self, key):",
        "{file}, line {line}: SyntaxError: expected ':'",
    ),
    "an exception at import": ("{}['x']", "class NimState", "{file}, line {line}: KeyError: 'x'"),
    "an import that fails": ("import numpyy", "import jax.numpy as jnp", "line {line}: ModuleNotFoundError: No module"),
    "a program": ("raise SystemExit(3)", "class NimState", "{file}, line {line}: SystemExit: 3"),
    "a missing method": ("def obseve(", "def observe(", "lacks observe: define them in the class, {file}, line "),
    "a missing size": (
        "num_players = 2",
        "num_players, num_actions = 2, 3",
        "lacks num_actions: set them in the class",
    ),
    "a wrong name": ("state.stonez - ", "state.stones - ", "{file}, line {line}, in _step: AttributeError: 'NimState'"),
    "a wrong constructor": ("= lagest", "= largest", "{file}, line {line}, in __init__: NameError: name 'lagest'"),
    "nothing returned": ("state.replace(", "return state.replace(", "_step gives NoneType in the place of a State"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_mistake_in_ones_own_game_is_one_sentence(what, capsys):
    written, instead, expected = BROKEN[what]
    name = f"broken_{next(NUMBERS)}"
    written = f"{written}\n\n{instead}" if instead in ("class NimState", "import jax.numpy as jnp") else written
    source = NIM.replace("@struct.dataclass\n", "") if "class" in instead else NIM
    source = source.replace(instead, written, 1)
    Path(f"{name}.py").write_text(source)
    line = next(i for i, text in enumerate(source.splitlines(), 1) if written.splitlines()[0] in text)
    expected = expected.format(file=f"{name}.py", line=line)
    small = [f"train.{key}={value}" for key, value in SIZES.items()]
    train = ["train", *small, f"env.id={name}:Nim", "ppo.minibatches=2", "run.cache_dir="]
    assert expected in sentence(capsys, *train)
    assert expected in sentence(capsys, "play", "bot:random", f"env.id={name}:Nim", "run.cache_dir=")
    code = cli.main(["check", f"{name}:Nim"])
    out, err = capsys.readouterr()
    assert expected in out + err and code == (2 if err else 1) and "Traceback" not in err


def test_a_mistake_that_is_met_later_is_one_sentence_too(capsys, monkeypatch):
    Path("late_game.py").write_text(NIM.replace("state.stones % 4 == 0, 0", "state.stonez % 4 == 0, 0"))
    command = ["play", "bot:perfect", "env.id=late_game:Nim", "run.cache_dir=", "--seed", "1", "--seat", "1"]
    assert cli.main(command) == 2
    told = capsys.readouterr().err
    assert "late_game.py, line 73, in perfect: AttributeError" in told and "python -X dev -m jaxrl" in told
    monkeypatch.setattr(cli.sys, "flags", types.SimpleNamespace(dev_mode=True))
    with pytest.raises(AttributeError):
        cli.main(command)
