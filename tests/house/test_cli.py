"""The command line: every user error gives one sentence on stderr and exit code 2."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import jaxrl
from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.runs import directory
from jaxrl.runs.directory import RunDirectory
from jaxrl.training.launching import start
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import PYTHONPATH, ROOT


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs commands in an empty folder, and leaves XLA's flags as they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))


def fails(capsys, *argv: str) -> str:
    """Runs a command that must fail with a user error, and returns its sentence."""
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("jaxrl: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["trian"], "did you mean 'train'"),
        *(([old], f"`jaxrl {old}` is `jaxrl {new}` now.") for old, new in cli.MOVED.items()),
        (["train"], "say what to train: --config"),
        (["train", "--config", "skull_king_cp"], "did you mean 'skull_king_cpu'"),
        (["train", "--config", "skull_king_cpu", "--devices", "3"], "must be divisible by run.devices (3)"),
        (["train", "--config", "skull_king_cpu", "--confg", "x"], "unrecognized arguments"),
        (["train", "no/such/file.yaml"], "no configuration file 'no/such/file.yaml': check the path"),
        (["train", "skull_king_cpu", "ppo.lr=1e-3"], "the learning rate is `ppo.learning_rate`"),
        (["train", "skull_king_cpu", "train.total_steps=1e30"], "at least 1 and at most 9007199254740992, got 1e+30"),
        (["resume"], "the following arguments are required: RUN (see"),
        (["evaluate", "bot:random", "--deals", "0"], "--deals must be at least 2 and at most 2147483647, got '0'"),
        (["tournament", "bots", "--deals", "1e9"], "--deals must be at least 2 and at most 2147483647, got '1e9'"),
        (["export", "no_such_run", "policy"], "no_such_run"),
        (["check", "skull_king", "no_such_file.jsonl.gz"], "no_such_file.jsonl.gz"),
        (["config", "skull_king", "--config", "beasty_bar"], "give one configuration"),
        (["runs"], "there are no runs in runs"),
        (["evaluate", "bot:random", "--seed", "-1"], "--seed: must be a whole number from 0 to 4294967295"),
        (["train", "--config", "skull_king_cpu", f"train.total_steps={10**22}"], "more than 64 bits"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_bad_input(capsys, argv, expected):
    assert expected in fails(capsys, *argv)
    assert not list(Path.cwd().iterdir()), "a mistake leaves nothing behind"


def stop(error: BaseException):
    raise error


def far_enough(*_, **__):
    raise UserError("far enough")


def fake_command(monkeypatch, main) -> None:
    """Replaces what every command does by `main`, and their options by none."""

    def prepare(parser, name, rest):
        return SimpleNamespace(main=main, DEVICES=getattr(cli.find_command(name), "DEVICES", cli.ONE))

    monkeypatch.setattr(cli, "_prepare", prepare)


ENDS = [  # what a command ends with, the exit code and what is said
    *((OSError(number, os.strerror(number), "runs/a"), 2, "runs/a") for number in (errno.ENOSPC, errno.EACCES)),
    (UserError("choose another game."), 2, "jaxrl: choose another game.\n"),
    (MemoryError(), 2, "there is not enough memory: lower train.num_envs"),
    (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 2, "there is not enough memory: lower train.num_envs"),
    (KeyboardInterrupt(), cli.INTERRUPTED, "jaxrl: interrupted.\n"),
]


@pytest.mark.parametrize(("error", "code", "expected"), ENDS, ids=lambda value: repr(value)[:20])
def test_what_ends_a_command_is_one_sentence(capsys, monkeypatch, error, code, expected):
    fake_command(monkeypatch, lambda args: stop(error))
    assert cli.main(["check"]) == code
    said = capsys.readouterr().err
    assert said.startswith("jaxrl: ") and expected in said and said.count("\n") == 1


def test_our_own_mistakes_stay_loud(monkeypatch):
    fake_command(monkeypatch, lambda args: stop(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["check"])


def test_the_exit_code_of_a_command_is_passed_on(monkeypatch):
    fake_command(monkeypatch, lambda args: 1)
    assert cli.main(["check"]) == 1


def test_overview_version_and_help(capsys):
    assert cli.main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert all(f"  {name} " in overview for name in cli.commands())
    assert len(cli.commands()) <= 20 and {new.split()[0] for new in cli.MOVED.values()} <= cli.COMMANDS.keys()
    titles = [line[:-1] for line in overview.splitlines() if line.endswith(":")]
    assert titles == ["train", "measure", "play", "inspect"]
    assert cli.main(["--version"]) == 0
    assert jaxrl.__version__ in capsys.readouterr().out
    assert cli.main([]) == 2


HELP = """
import sys
from jaxrl import cli
for name in sys.argv[1:]:
    assert cli.main([*name.split(), "--help"]) == 0, name
heavy = {"jax", "numpy", "flax", "optax", "orbax", "rich", "tensorboardX"} & set(sys.modules)
assert not heavy, heavy
"""


def test_every_command_has_help_that_waits_for_nothing(tmp_path):
    """Help imports no jax, whose import alone takes too long for a list of options."""
    names = [*cli.commands(), "forge record", "forge story"]
    result = run("-c", HELP, *names, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert all(f"usage: jaxrl {name.split()[0]} " in result.stdout for name in names)


def completions(line: str, cwd: Path) -> set[str]:
    """Returns the completions that a shell would offer after `line`."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": "found", "COMP_LINE": line, "_ARGCOMPLETE_IFS": "\n"}
    result = run("-m", "jaxrl", cwd=cwd, **asked, COMP_POINT=str(len(line)))
    assert result.returncode == 0, result.stderr
    return set((cwd / "found").read_text().split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jaxrl re", {"resume"}),
        ("jaxrl forge re", {"record"}),
        ("jaxrl train --conf", {"--config"}),
        ("jaxrl train --config skull_king_c", {"skull_king_cpu"}),
        ("jaxrl train --config skull_king ppo.gam", {"ppo.gamma="}),
        ("jaxrl resume mi", {"mine"}),
    ],
)
def test_the_shell_completes(line, words, tmp_path):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").touch()
    assert completions(line, tmp_path) == words


def test_config_prints_a_preset_in_an_empty_folder(capsys):
    for name in ("skull_king_rounds", "forge_aggro"):
        assert cli.main(["config", name]) == 0, name
        assert "\nenv:\n" in capsys.readouterr().out, name


def test_config_prints_what_train_would_use(capsys):
    assert cli.main(["config", "--config", "skull_king_cpu", "ppo.clip=0.3"]) == 0
    assert "clip: 0.3" in capsys.readouterr().out
    assert cli.main(["config"]) == 0
    assert "ppo.target_kl" in capsys.readouterr().out
    assert cli.main(["config", "--env", "skull_king"]) == 0
    assert "env.options.players" in capsys.readouterr().out


def test_a_preset_is_printed_with_the_origin_of_its_values(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text("base: skull_king_cpu\nppo: {epochs: 7}\n")
    assert cli.main(["config", "mine.yaml", "ppo.clip=0.3", "seats.0.weight=2"]) == 0
    printed = capsys.readouterr().out
    for line in ("epochs: 7  # mine.yaml", "clip: 0.3  # command line", "players: 4  # skull_king.yaml", "target_kl: "):
        assert f"\n  {line}" in printed or f"\n    {line}" in printed
    assert cli.main(["config", "skull_king_cpu", "ppo.learning_rate=1e-3"]) == 0
    rate = capsys.readouterr().out.partition("  learning_rate:")[2].splitlines()[:3]
    assert rate == ["  # command line", "    kind: constant", "    start: 0.001"]
    (tmp_path / "printed.yaml").write_text(printed)
    assert configs.load("printed.yaml") == configs.load("mine.yaml", ["ppo.clip=0.3", "seats.0.weight=2"])


def test_games_are_listed_with_how_others_are_named(capsys):
    assert cli.main(["games"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.match(r"skull_king +4 seats +compiled +Skull King", line) for line in lines)
    assert any(re.match(r"battle +2 seats +on the host ", line) for line in lines)
    assert all(any(name in line for line in lines) for name in ("pgx:NAME", "gymnax:NAME", "my_file:MyGame"))


RUNS = "import sys\nfrom jaxrl import cli\nassert cli.main(['runs']) == 0\nassert 'jax' not in sys.modules"


def test_runs_are_listed_without_jax(tmp_path):
    def make(name: str, checkpoint: int | None, config: str = "train: {total_steps: 1000000}", **files: str) -> None:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(config)
        if checkpoint is not None:
            (folder / "checkpoints" / str(checkpoint)).mkdir(parents=True)
        for file, text in files.items():
            (folder / file.replace("_", ".")).write_text(text)

    updates = configs.from_dict({"train": {"total_steps": 1000000}}).num_updates
    rows = '{"update": 1, "steps": 250000}\n{"update": 2, "steps": 500000, "eval/mean_win_rate": 0.5}\n{"upd'
    record = '[{"update": 1, "rows": [{"figures": {"return": {"mean": 2.5}}}], "overall": {}}]'
    make("new", None)
    make("half", 2, metrics_jsonl=rows)
    make("done", updates, metrics_jsonl=rows.splitlines()[0], evaluation_json=record)
    make("broken", 1, "train: [", evaluation_json="[")
    make("odd", 1, metrics_jsonl="null\n[]\n", evaluation_json='[{"update": 3}]')
    make("huge", 1, metrics_jsonl=f'{{"update": 1, "steps": 1{"0" * 400}}}\n')
    rates = "".join(f'{{"update": 4, "steps": 4, "eval/mean_win_rate": {rate}}}\n' for rate in ("null", '"x"', "[]"))
    make("lies", 1, metrics_jsonl=rates, evaluation_json=record.replace('"update": 1', '"update": "x"'))
    make("busy", updates)
    with RunDirectory(tmp_path / "runs" / "busy").lock():
        result = run("-c", RUNS, cwd=tmp_path)
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines()}
    assert result.returncode == 0, result.stderr
    assert lines["new"] == "skull_king ppo 0 of 1.02 M no checkpoint"
    assert lines["half"] == "skull_king ppo 500 k of 1.02 M stopped win rate 50.0% after 2 updates"
    assert lines["done"] == "skull_king ppo 250 k of 1.02 M finished return 2.5 after 1 updates"
    assert lines["broken"] == "? ? ? config.yaml cannot be read" and lines["odd"].endswith("stopped")
    assert (
        lines["huge"] == "skull_king ppo 0 of 1.02 M stopped" and lines["lies"] == "skull_king ppo 4 of 1.02 M stopped"
    )
    assert lines["busy"] == "skull_king ppo 0 of 1.02 M training"


WITHOUT_JAX = """
import sys
from jaxrl import cli
for line in sys.stdin:
    assert cli.main(line.split()) == 2, line
assert "jax" not in sys.modules
"""
MISTAKES = {
    "diagnose --plan --config nosuch": "there is no configuration 'nosuch': known are ",
    "diagnose --plan --config ./nosuch.yaml": "check the path",
    "imitate . --data x": "check the path",
    "evaluate nosuch": "there is no run",
    "evaluate zoo:nosuch": "there is no policy 'nosuch' in the zoo",
    "evaluate zoo:skull_king --opponents hrd": "there is no bot 'hrd' in this game: did you mean 'hard'?",
    "evaluate run --opponents strker": "did you mean 'striker'?",
    "evaluate zoo:skull_king --against nosuch": "there is no run",
    "film zoo:skull_king --opponents zoo:nosuch": "there is no policy",
    "film zoo:skull_king --out x.bmp": "a film ends in .svg, .gif or .mp4",
    "film zoo:skull_king --out nowhere/x.svg": "give a file in a folder that exists",
    "film zoo:skull_king --rewards film.svg": "are both film.svg",
    "play skul_king": "did you mean 'zoo:skull_king'?",
    "tournament zoo:skull_king env.options.x=1": "needs two players, got 1",
    "tournament bots --out run/config.yaml/x": "cannot write to the folder run/config.yaml/x: Not a directory",
    "serve --site /proc/x": "cannot write to the folder /proc/x",
    "serve --site .": "is no page of `jaxrl serve --site`",
    "export run nowhere/x": "give a file in a folder that exists",
    "compare run other": "there is no run 'other'",
    "exploit nosuch": "there is no run",
    "diagnose nosuch": "there is no run",
    "resume zoo:skull_king": "a new run begins with it by train.from_run=zoo:skull_king",
    "resume nosuch": "runs has none; `jaxrl train` begins one",
    "imitate nosuch --search 8 --name x": "there is no run",
    "train skull_king_cpu --name=": "--name: is empty",
    "train skull_king_cpu callbacks=[nosuch:X]": "callbacks 'nosuch:X': there is no module 'nosuch'",
    "train env.id=nosuch.games:X": "env.id 'nosuch.games:X': there is no module 'nosuch'",
}


def test_names_paths_and_endings_are_checked_before_jax_is_imported(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("env: {id: car_soccer}")
    result = run("-c", WITHOUT_JAX, cwd=tmp_path, input="\n".join(MISTAKES))
    assert result.returncode == 0, result.stderr
    said = result.stderr.splitlines()
    assert [text for line, text in zip(said, MISTAKES.values(), strict=True) if text not in line] == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_names_of_bots_are_those_of_the_games():
    for game in registry.registered():
        assert set(registry.bot_names(game)) == set(registry.make(game).bots)
    assert registry.bot_names("examples.nim:Nim") == ()


# ---- XLA's flags ----


@pytest.fixture
def flags(monkeypatch):
    """No XLA flags, on a CPU; gives those that are set later, without the one that is for speed alone."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "")
    return lambda: [flag for flag in os.environ["XLA_FLAGS"].split() if "xla_backend_extra_options" not in flag]


@pytest.mark.parametrize(
    ("platform", "given", "deterministic", "wanted"),
    [
        ("cpu", "", True, "--xla_force_host_platform_device_count=2"),
        ("cpu", "--xla_force_host_platform_device_count=3 --other", False, "as given"),  # the user's own flags win
        ("cuda", "", False, ""),
        ("cuda", "", True, "--xla_gpu_deterministic_ops=true"),
    ],
)
def test_flags_of_two_devices(flags, monkeypatch, platform, given, deterministic, wanted):
    monkeypatch.setenv("JAX_PLATFORMS", platform)
    monkeypatch.setenv("XLA_FLAGS", given)
    xla.set_devices(2, deterministic=deterministic)
    assert " ".join(flags()) == (given if wanted == "as given" else wanted)


@pytest.mark.parametrize(
    ("plugins", "driver", "chosen"),
    [
        ({"jax_cuda12_plugin"}, None, "cpu"),
        ({"jax_cuda13_plugin"}, 100, "cpu"),  # CUDA_ERROR_NO_DEVICE
        ({"jax_cuda12_plugin"}, 0, ""),
        ({"jax_cuda12_plugin", "libtpu"}, None, ""),
        (set(), None, ""),
    ],
)
def test_the_cpu_is_chosen_where_a_plugin_only_compiles_for_gpus(plugins, driver, chosen, monkeypatch):
    def load(name):
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return SimpleNamespace(cuInit=lambda flags: driver)

    monkeypatch.setattr(xla, "_plugins", lambda: plugins)
    monkeypatch.setattr(xla.ctypes, "CDLL", load)
    for given, platforms in (("", chosen), ("cuda", "cuda")):
        monkeypatch.setenv("JAX_PLATFORMS", given)
        xla.prepare_platform()
        assert os.environ["JAX_PLATFORMS"] == platforms
    monkeypatch.setattr(xla.Path, "glob", lambda path, pattern: iter([path / "nvidia0"]))
    assert not xla.only_compiles_for_gpus()


PLUGIN = """
def initialize():
    from jax._src import config
    if config.jax_platforms.value != "cpu":
        raise RuntimeError("Unable to load cuDNN. Is it installed?")
"""
STARTS_JAX = "from jaxrl import cli; cli.main(['--version']); import jax; print(jax.devices())"


def test_a_plugin_without_its_libraries_is_not_heard_of(tmp_path):
    """As of the extra `gpu-compiler`: all that is written is the line before jax is imported."""
    for name, text in (("jax_cuda12_plugin", ""), ("jax_plugins/xla_cuda12", PLUGIN)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text(text)
    more = {"PYTHONPATH": os.pathsep.join([PYTHONPATH, str(tmp_path)]), "JAX_PLATFORMS": ""}
    result = run("-c", STARTS_JAX, cwd=tmp_path, **more)
    assert result.stderr == "loading jax ...\n" and "CpuDevice" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "cores", "devices"),
    [
        (["--devices", "2"], 8, 2),
        ([], 2, 2),
        ([], 7, 4),  # the largest number that divides eight shuffle groups
        (["run.devices=1"], 8, 1),
        (["run.devices=1", "--devices", "4"], 8, 4),
    ],
)
def test_devices_of_a_training(flags, monkeypatch, arguments, cores, devices):
    monkeypatch.setattr(xla, "cores", lambda: cores)
    monkeypatch.setattr(start, "make_plan", far_enough)
    assert cli.main(["train", "--config", "skull_king_cpu", *arguments]) == 2
    assert flags() == [f"--xla_force_host_platform_device_count={devices}"]


@pytest.mark.parametrize(("command", "devices"), [("evaluate", 5), ("tournament", 5), ("play", 1), ("config", 1)])
def test_devices_of_other_commands(flags, monkeypatch, command, devices):
    monkeypatch.setattr(xla, "cores", lambda: 5)
    fake_command(monkeypatch, lambda args: 0)
    assert cli.main([command]) == 0
    assert flags() == [f"--xla_force_host_platform_device_count={devices}"]


@pytest.mark.parametrize(
    ("arguments", "fusion"),
    [
        (["check", "skull_king", "--games", "0"], True),
        (["check", "--games", "0", "tests.support.games:HighCard"], False),
        (["check", "no_such_game"], False),
        (["evaluate", "bot:hard", "--opponents", "absent"], True),
        (["evaluate", "bot:absent", "env.id=tests.support.games:TicTacToe"], False),
        (["tournament", "bot:absent", "--config=mine.yaml"], False),
        (["check", "skull_king", "no_such_file"], True),
    ],
)
def test_a_game_has_to_ask_for_multi_output_fusion(flags, arguments, fusion):
    Path("mine.yaml").write_text("env: {id: 'tests.support.games:TicTacToe'}\n")
    assert cli.main(arguments) == 2
    assert ("xla_cpu_use_multi_output_fusion" in os.environ["XLA_FLAGS"]) == fusion


def test_a_run_asks_for_its_game_before_jax_starts(flags, tmp_path, monkeypatch):
    """Reading a checkpoint starts jax, and flags that come later have no effect."""
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("env: {id: skull_king}\n")
    monkeypatch.setattr(directory, "read_checkpoint", far_enough)
    assert cli.main(["evaluate", "mine"]) == 2
    assert "xla_cpu_use_multi_output_fusion" in os.environ["XLA_FLAGS"]


def test_resume_uses_the_devices_of_the_run(flags, tmp_path, monkeypatch):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("run: {devices: 4}\n")
    monkeypatch.setattr("jaxrl.training.plan.make_plan", far_enough)
    assert cli.main(["resume", "mine", "--steps", "5000000"]) == 2
    assert flags() == ["--xla_force_host_platform_device_count=4"]


STARTS = """
import collections, json, sys
import jax
from jaxrl import cli
from jaxrl.training.launching import start as train
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl.config import Config
counts = collections.Counter()

def count(module, name, *others):
    real = getattr(module, name)
    def counted(*args, **options):
        counts[name] += 1
        counts["backends"] += bridge.backends_are_initialized()
        return real(*args, **options)
    for place in (module, *others):
        setattr(place, name, counted)

from jax._src import xla_bridge as bridge
import jaxrl.config
from jaxrl import games
count(files, "read")
count(Config, "check")
count(Config, "check_game")
count(registry, "make")
def begin(plan, run, **_):
    print(json.dumps(counts | {"devices": jax.local_device_count()}))
    return 0
train.run_training = begin
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("config", "games"), [("tests.yaml", 1), ("skull_king_cpu", 2)])
def test_a_start_reads_checks_and_makes_the_game_once(tmp_path, config, games):
    """And the backend starts after that, with the devices of the configuration."""
    (tmp_path / "tests.yaml").write_text("env: {id: 'tests.support.games:HighCard'}\n")
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    command = [sys.executable, "-c", STARTS, "train", "--config", config, "--devices", "4"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    reads = 1 if config == "tests.yaml" else 2  # the preset and its base
    wanted = {"read": reads, "check": 1, "check_game": 1, "make": games, "backends": 0, "devices": 4}
    assert json.loads(result.stdout) == wanted


# ---- as a process ----


def run(*command: str, cwd: Path, input: str = "", **more: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"} | more
    options = {"cwd": cwd, "env": environment, "input": input, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *command], **options)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("config | head -1", "0"),
        ("config >&-", "0"),
        ("config > /dev/full", "2"),
        ("config --config nosuch 2>&-", "2"),
        ("runs nosuch 2>&1 | true", "2"),
    ],
)
def test_outputs_that_are_closed_or_full(tmp_path, line, code):
    shell = f"{sys.executable} -m jaxrl {line}; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = done.stderr.removeprefix("loading jax ...\n")
    assert done.stdout.splitlines()[-1] == code and "Traceback" not in said and said.count("\n") < 2


MAKERS = ("car_soccer_recordings", "documentation", "measured", "published_matrix")  # no commands
SCRIPTS = sorted(path for path in (ROOT / "scripts").glob("[a-z]*.py") if path.stem not in MAKERS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_thin(path):
    [name] = re.findall(r'main\(\["(\w+)", \*sys.argv\[1:\]\]\)', path.read_text())
    assert name in cli.commands() and path.stem == name
