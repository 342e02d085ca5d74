"""kill -9 at random moments: whatever was being done, resumed runs end as if nothing had happened.

    KILLS=100 python -m pytest -n0 -s -m slow tests/training/test_kills.py

Every run is killed several times: while it starts, compiles, plays, learns, evaluates, and writes its checkpoints, its
logs, or the compilation cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl.runs.directory import RunDirectory
from tests.support.dqn_training import SMALL_DQN
from tests.support.killing import assert_same, newest, rows
from tests.support.paths import PYTHONPATH

KILLS = int(os.environ.get("KILLS", "100"))  # of all cases together
NAME, UPDATES = "run", 80

PPO = {
    "epochs": 1,
    "minibatches": 2,
    "learning_rate": {"kind": "constant", "start": 5e-3},
    "entropy_coef": {"kind": "constant", "start": 0.01},
}
TRAIN = {
    "num_envs": 16,
    "num_steps": 8,
    "total_steps": UPDATES * 16 * 8,
    "updates_per_call": 2,
    "checkpoint_every": 4,
    "evaluate_every": 10,
    "keep": 2,
}
LEAGUE = {"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 2}
RECURRENT = {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 4}}
COMPILED, HOST = (
    {"id": "tests.support.games:TicTacToe"},
    {"id": "tests.support.host_games:HostTicTacToe", "options": {"opening": True}},
)
AHEAD = {"threads": 2, "lag": 2}

CASES: dict[str, dict[str, Any]] = {
    "ppo, league, two seeds": {"env": COMPILED, "league": LEAGUE, "run": {"seeds": 2}},
    "recurrent ppo, league, two seeds": {
        "env": COMPILED,
        "league": LEAGUE,
        "network": RECURRENT,
        "ppo": PPO | {"sequence": 4},
        "run": {"seeds": 2},
    },
    "dqn": {"env": COMPILED, "dqn": SMALL_DQN, "train": TRAIN | {"algorithm": "dqn"}},
    "ppo, host, league, lag 2": {"env": HOST, "league": LEAGUE, "sebulba": AHEAD},
    "recurrent ppo, host, league, lag 2": {
        "env": HOST,
        "league": LEAGUE,
        "network": RECURRENT,
        "ppo": PPO | {"sequence": 4},
        "sebulba": AHEAD,
    },
    "dqn, host, lag 2": {"env": HOST, "dqn": SMALL_DQN, "train": TRAIN | {"algorithm": "dqn"}, "sebulba": AHEAD},
    "ppo, empty cache": {"env": COMPILED},
}


class Killed:
    """The runs of one configuration."""

    def __init__(self, home: Path, tree: dict[str, Any]):
        self.home, self.config, self.cache = home, home / "config.yaml", home / "cache"
        common = {"ppo": PPO, "train": TRAIN, "network": {"hidden": [8]}}
        common |= {"evaluate": {"deals": 4, "training_deals": 4, "opponents": ["random"]}}
        run = {"devices": 1, "cache_dir": str(self.cache)} | tree.get("run", {})
        self.config.write_text(yaml.safe_dump(common | tree | {"run": run}))

    def start(self, place: Path) -> subprocess.Popen:
        """Begins the run of that folder, or goes on with it."""
        run = RunDirectory(place / "runs" / NAME)
        arguments = ["train", "--config", str(self.config), "--name", NAME, f"run.directory={place / 'runs'}"]
        if run.checkpoints().saved():
            arguments = ["resume", str(run.path)]
        place.mkdir(exist_ok=True)
        with (place / "said").open("ab") as said:
            words = {"JAXRL_ALLOW": f"tests,{self.cache}", "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"}
            command = [sys.executable, "-m", "jaxrl", *arguments]
            return subprocess.Popen(command, env=os.environ | words, stdout=said, stderr=said)

    def finish(self, place: Path) -> tuple[float, float]:
        """Runs it to its end; seconds up to the first new line of its logs, and after it."""
        begin, process = time.monotonic(), self.start(place)
        logged = self.logged(place, process)
        assert process.wait() == 0, (place / "said").read_text()
        return logged - begin, time.monotonic() - logged

    def logged(self, place: Path, process: subprocess.Popen) -> float:
        """When the first new line of its logs is there, or it has ended."""
        began = time.time()
        while process.poll() is None and not has_logged(place / "runs" / NAME, began):
            time.sleep(0.01)
        return time.monotonic()

    def entries(self) -> list[Path]:
        """What the compilation cache holds."""
        return list(self.cache.glob("*-cache"))

    def cut(self) -> list[Path]:
        """The entries of the cache that are not whole."""
        return [entry for entry in self.entries() if not is_whole(entry)]

    def compiled(self, process: subprocess.Popen, programs: int) -> None:
        """Waits until that many programs more begin to be written to the cache, or the process has ended."""
        wanted = len(self.entries()) + programs  # looked for without a pause: it is written within microseconds
        while (len(os.listdir(self.cache)) if self.cache.exists() else 0) < wanted + 1 and process.poll() is None:
            pass


def is_whole(entry: Path) -> bool:
    decompress = pytest.importorskip("jax._src.compilation_cache").decompress_executable
    try:
        return bool(decompress(entry.read_bytes()))
    except Exception:  # of zlib or of zstd
        return False


def doing(run: Path, began: float) -> str:
    """What a run was killed in that had been started at that time."""
    if any(run.glob("checkpoints/*.orbax-checkpoint-tmp*")) or any(run.glob("best/*.orbax-checkpoint-tmp*")):
        return "writing a checkpoint"
    return "between two checkpoints" if has_logged(run, began) else "starting"


def has_logged(run: Path, began: float) -> bool:
    """Whether there is a line in its logs that is newer than its start."""
    file = run / "metrics.jsonl"
    return file.exists() and file.stat().st_mtime > began and file.stat().st_size > 0


def listing(run: Path) -> list[str]:
    """Its files, but for what is written in every life, and what the libraries name by themselves."""
    return sorted(
        name
        for path in run.rglob("*")
        if not (name := path.relative_to(run).as_posix()).startswith("tensorboard/") and "/state/" not in name
    )


def assert_as_if_nothing_had_happened(place: Path, whole: Path) -> None:
    run, other = place / "runs" / NAME, whole / "runs" / NAME
    assert_same(newest(whole, NAME), newest(place, NAME))
    assert_same(RunDirectory(other).best().newest(), RunDirectory(run).best().newest())
    assert rows(whole, NAME) == rows(place, NAME)
    for file in ("best.json", "evaluation.json"):
        found, wanted = (timeless(json.loads((each / file).read_text())) for each in (run, other))
        assert found == wanted, file
    assert listing(run) == listing(other)
    assert "Traceback" not in (place / "said").read_text()


def timeless(content: Any) -> Any:
    """JSON without dates and seconds."""
    if isinstance(content, dict):
        return {name: timeless(part) for name, part in content.items() if name not in ("time", "date", "seconds")}
    return [timeless(part) for part in content] if isinstance(content, list) else content


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_is_killed_again_and_again(case, tmp_path):
    rng, killed, cold = np.random.default_rng(len(case)), Killed(tmp_path, CASES[case]), "cache" in case
    whole, found, runs, cut, wanted = tmp_path / "whole", Counter[str](), 0, 0, -(-KILLS // len(CASES))
    begin, training = killed.finish(whole)
    entries = len(killed.entries())
    if not cold:
        begin, training = killed.finish(tmp_path / "again")
        assert_as_if_nothing_had_happened(tmp_path / "again", whole)
    while found.total() < wanted:
        place, times = tmp_path / str(runs), min(int(rng.integers(2, 7)), wanted - found.total())
        if cold:
            shutil.rmtree(killed.cache)
        for _ in range(times):
            began, process = time.time(), killed.start(place)
            if cold:
                killed.compiled(process, int(rng.integers(1, 3)))
            elif rng.random() < 0.25:
                time.sleep(rng.uniform(0.3, 1.0) * begin)
            else:
                killed.logged(place, process)
                time.sleep(rng.uniform(0.0, 1.0 - newest_update(place) / UPDATES) * training)
            process.kill()
            if process.wait() == 0:
                break
            found[doing(place / "runs" / NAME, began)] += 1
            cut += len(killed.cut())
        killed.finish(place)
        assert_as_if_nothing_had_happened(place, whole)
        assert len(killed.entries()) >= entries and not killed.cut()
        shutil.rmtree(place)
        runs += 1
    print(f"{case}: killed {dict(found)} in {runs} runs, each as if nothing had happened; {cut} cut cache entries")


def newest_update(place: Path) -> int:
    """Of the checkpoints of a run; 0 without one."""
    return max(RunDirectory(place / "runs" / NAME).checkpoints().steps(), default=0)
