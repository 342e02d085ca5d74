"""What the README and the pages of docs/ tell people to type works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import jax
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import presets
from jaxrl.export import save_policy
from jaxrl.networks.factory import make_network
from jaxrl.runs.directory import TrainedRun, make_evaluation_env
from scripts.benchmark import __main__ as benchmark

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
LINES = [
    line.split(" #")[0].strip()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = [line for line in LINES if line.startswith("jaxrl ")]
BENCHMARKS = [line for line in LINES if line.startswith(f"{benchmark.PROGRAM} ")]


def untrained_run(name: str) -> TrainedRun:
    """A run of the smallest game with random parameters."""
    config = configs.from_dict({"env": {"id": "examples.nim:Nim"}, "network": {"hidden": [8]}})
    env = make_evaluation_env(config)
    params = make_network(config.network, env).init(jax.random.key(0))
    return TrainedRun(name=name, config=config, env=env, update=0, params=[params], params_hash="")


def test_exactly_two_set_up_commands():
    assert len(re.findall(r"^python3 -m venv .*pip install", README, re.MULTILINE)) == 2


def test_the_export_example_runs(tmp_path, monkeypatch, capsys):
    example = next(block for block in PYTHON if "load_policy" in block)
    assert len(example.splitlines()) == 10
    monkeypatch.chdir(tmp_path)
    save_policy("skull_king_cpu.jaxrl", untrained_run("skull_king_cpu"))
    exec(compile(example, "README.md", "exec"), {})  # the text is ours
    assert "stones" in capsys.readouterr().out


def test_the_environment_example_runs():
    example = next(block for block in PYTHON if "registry.make" in block)
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["state"].current_player.shape == (1024,)
    assert not names["state"].illegal_action.any()


def test_resume_further_means_further_than_planned():
    [command] = [shlex.split(line) for line in COMMANDS if "resume" in line and "--steps" in line]
    preset = configs.load(command[2])
    assert int(command[-1]) > preset.num_updates * preset.batch_size


def test_the_shown_run_directory_is_that_of_every_preset():
    """Best checkpoints exist only where training evaluates, and evaluations happen only between calls."""
    tree = re.search(r"^    runs/(\w+)/\n(?:      .*\n)+", README, re.MULTILINE)
    assert tree is not None and tree[1] == "skull_king_cpu" and "best.json" in tree[0]
    for name in presets.shipped():
        train = configs.load(name).train
        assert train.evaluate_every and train.evaluate_every % train.updates_per_call == 0, name


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_understood(line, monkeypatch):
    """The arguments are parsed by the real parsers; nothing is run."""
    seen = []

    def prepare(*given):
        real(*given)
        return lambda args: seen.append(args)

    real = cli._prepare
    monkeypatch.setattr(cli, "_prepare", prepare)
    assert cli.main(shlex.split(line)[1:]) == 0
    assert seen


def test_every_benchmark_is_understood(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark, "run", lambda args: seen.append(args) or 0)
    words = len(benchmark.PROGRAM.split())
    assert [benchmark.main(shlex.split(line)[words:]) for line in BENCHMARKS] == [0] * len(seen)
    assert len(seen) == len(BENCHMARKS) >= 3
