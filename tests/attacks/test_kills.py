"""kill -9 at random moments: resumed runs end as if nothing had happened.

    KILLS=100 SOAK_MINUTES=30 python -m pytest -n0 -s -m slow tests/attacks/test_kills.py

A line of ATTACKS is a program, a way to kill it and its percentage of the kills. A kill waits for a row beyond the
checkpoint from which the run was resumed, so that it meets a training and no start; then for a random number of rows
more, and a random part of a second. Every run is killed several times, and what it was killed in is told.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl.runs import directory as runs
from tests.support.dqn_training import SMALL_DQN
from tests.support.killing import assert_same, rows
from tests.support.paths import PYTHONPATH

KILLS = int(os.environ.get("KILLS", "100"))  # of all attacks together
MINUTES = float(os.environ.get("SOAK_MINUTES", "10"))  # of a training that nothing happens to
PER_RUN = 5  # kills of one run, at most
PAUSE = 0.4  # root of the longest time between a row and a kill, seconds
CHANGE = b" begins: "  # in a line that says that the stage of the curriculum changes

NAME, CONFIG = "run", "config.yaml"
UPDATED = re.compile(rb"update (\d+): [\d.]+ s in the call")  # of the log at level debug
OF_TIME = re.compile(r"time/|(time|date|clock|seconds|cpu_seconds)$")  # names in records
OF_A_PROCESS = re.compile(r"share-\d+\.npz|log\.\d+\.txt")

LONGEST = 900.0  # seconds of a life, after which it counts as one that hangs

# Runs the command line; the process dies in the middle of the entry of the compilation cache that KILL_ENTRY counts,
# of which KILL_PART is written: jax writes to the place itself.
CUTS_AN_ENTRY = """
import os, signal, sys
from jax._src.lru_cache import LRUCache
from jaxrl import cli
put, left = LRUCache.put, [int(os.environ["KILL_ENTRY"])]
def dying(self, key, value):
    left[0] -= 1
    if not left[0]:
        put(self, key, value[: int(len(value) * float(os.environ["KILL_PART"]))])
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, key, value)
LRUCache.put = dying
sys.exit(cli.main(sys.argv[1:]))
"""

# ---- the programs ----------------------------------------------------------------------------------------------------

TRAIN = {"num_envs": 16, "num_steps": 8, "updates_per_call": 2, "checkpoint_every": 4, "evaluate_every": 40, "keep": 2}
LEAGUE = {"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 2}
RECURRENT = {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 4}}
BATTLE = {"id": "battle", "options": {"maps": ["standard"], "rosters": ["line", "line"], "reward_vp": 0.02}}
AHEAD = {"threads": 2, "lag": 2}


def ppo(**more: Any) -> dict[str, Any]:
    return {"epochs": 1, "minibatches": 2, "learning_rate": {"kind": "constant", "start": 5e-3}} | more


def program(updates: int, game: str | dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Returns a configuration of `updates` updates with a league; sections replace those here, but for `train`."""
    tree: dict[str, Any] = {"ppo": ppo(), "league": LEAGUE, "network": {"hidden": [8]}}
    tree |= {"env": {"id": game} if isinstance(game, str) else game}
    tree |= {"evaluate": {"deals": 4, "training_deals": 4, "opponents": ["random"]}} | sections
    total = updates * TRAIN["num_envs"] * TRAIN["num_steps"]
    return tree | {"train": TRAIN | {"total_steps": total} | sections.get("train", {})}


PROGRAMS = {
    "skull_king, league": program(
        80, {"id": "skull_king", "options": {"players": 2, "expansion": False, "abilities": False, "episode": "round"}}
    ),
    "beasty_bar, league, exploit": program(
        80, "beasty_bar", exploit={"every": 40, "updates": 4, "seeds": 1, "num_envs": 8}
    ),
    "recurrent, two seeds": program(
        120,
        "tests.support.games:TicTacToe",
        network=RECURRENT,
        ppo=ppo(sequence=4),
        run={"seeds": 2},
        train={"milestones": {"random": [0.01, 0.5]}},
    ),
    "curriculum": program(
        120,
        "tests.training.test_curriculum:Echo",
        curriculum=[
            {"name": "easy", "env.options.words": 2, "until": {"steps": 40 * 128}},
            {"name": "hard", "env": {"options": {"team": 2, "shift": 1}}, "until": {"steps": 40 * 128}},
            {"name": "end"},
        ],
    ),
    "hierarchical": program(
        120,
        "tests.support.aim_game:Aim",
        train={"algorithm": "hierarchical"},
        hierarchical={"hindsight": 0.5, "balance": True},
    ),
    "battle, lag 2": program(60, BATTLE, sebulba=AHEAD),
    "battle, dqn, prioritised": program(
        60, BATTLE, dqn=SMALL_DQN | {"alpha": 0.6, "n_step": 3}, league={}, train={"algorithm": "dqn"}, sebulba=AHEAD
    ),
    "recurrent, host, lag 2": program(
        80,
        {"id": "tests.support.host_games:HostTicTacToe", "options": {"opening": True}},
        network=RECURRENT,
        ppo=ppo(sequence=4),
        sebulba=AHEAD,
    ),
    "two devices": program(160, "tests.support.games:TicTacToe", run={"devices": 2}),
    "short": program(20, "tests.support.games:TicTacToe"),
}

# ---- runs in processes of their own ----------------------------------------------------------------------------------


class Life:
    """A training in a process of its own, from its start or newest checkpoint on, and what it has logged so far."""

    def __init__(
        self,
        home: Path,
        place: Path,
        *,
        program: tuple[str, ...] = ("-m", "jaxrl"),
        options: tuple[str, ...] = (),
        **more: str,
    ):
        """Begins or resumes the run of the folder `place`, configured by CONFIG in `home`."""
        self.run = runs.RunDirectory(place / "runs" / NAME)
        self.log, self.said = self.run.path / "log.txt", place / "said"
        self.read = self.log.stat().st_size if self.log.exists() else 0
        place.mkdir(exist_ok=True)
        arguments = ["train", "--config", str(home / CONFIG), "--name", NAME, f"run.directory={place / 'runs'}"]
        if self.run.checkpoints().saved():
            arguments = ["resume", str(self.run.path)]
        flags = (flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag)
        more = {"XLA_FLAGS": " ".join(flags)} | more  # as many devices as the run asks for
        words = {"JAXRL_ALLOW": f"tests,{home / 'cache'}", "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"} | more
        command = [sys.executable, *program, *arguments, *options]
        with self.said.open("wb") as said, (place / "errors").open("ab") as errors:
            self.process = subprocess.Popen(command, env=os.environ | words, stdout=said, stderr=errors)

    def updates(self) -> list[int]:
        """The updates that this life has logged, each of them beyond the checkpoint from which it was resumed."""
        return [int(number) for number in UPDATED.findall(self.logged())]

    def logged(self) -> bytes:
        """Returns what this life has logged."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as file:
            file.seek(self.read)
            return file.read()

    def wait(self, at_least: int = 0, line: bytes = b"") -> int:
        """Waits until it has come to an update, `at_least` to that one, and logged `line`; returns the newest update,
        or -1 if it has ended before."""
        last = time.monotonic() + LONGEST
        while self.process.poll() is None:
            assert time.monotonic() < last, "it hangs"
            if (found := self.updates()) and found[-1] >= at_least and line in self.logged():
                return found[-1]
            time.sleep(0.005)
        return -1

    def ended(self) -> int:
        """Returns the exit code, once it has ended."""
        try:
            return self.process.wait(LONGEST)
        finally:
            self.process.kill()

    def kill(self) -> bool:
        """Returns whether it was still running."""
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL


def configure(home: Path, tree: dict[str, Any]) -> None:
    """Writes the configuration of runs that log every call and keep their compiled programs."""
    run = {"devices": 1, "cache_dir": str(home / "cache"), "log_level": "debug"} | tree.get("run", {})
    (home / CONFIG).write_text(yaml.safe_dump(tree | {"run": run}))


def finish(home: Path, place: Path) -> None:
    """Runs what is left of the run of a folder."""
    code = Life(home, place).ended()
    assert code == 0, (place / "errors").read_text()[-4000:]


def assert_as_if_nothing_had_happened(place: Path, whole: Path) -> None:
    """Asserts that two runs have the same leaves, rows, tables and files."""
    run, other = (runs.RunDirectory(each / "runs" / NAME) for each in (place, whole))
    for store, wanted in ((run.checkpoints(), other.checkpoints()), (run.best(), other.best())):
        assert store.steps() == wanted.steps()
        for first, second in ((store.read(step), wanted.read(step)) for step in wanted.steps()):
            assert_same(first, second)
            assert timeless(first.meta["host"]) == timeless(second.meta["host"]), first.step
    assert rows(whole, NAME) == rows(place, NAME)
    for file in ("best.json", "evaluation.json", "milestones.json"):
        assert read(run.path / file) == read(other.path / file), file
    assert listing(run.path) == listing(other.path)
    assert tables(place / "said") == tables(whole / "said")
    errors = (place / "errors").read_text()
    assert "Traceback" not in errors and "compilation cache" not in errors


def timeless(content: Any) -> Any:
    """Returns JSON without dates and seconds."""
    if isinstance(content, dict):
        return {name: timeless(part) for name, part in content.items() if not OF_TIME.match(name)}
    return [timeless(part) for part in content] if isinstance(content, list) else content


def read(path: Path) -> Any:
    return timeless(json.loads(path.read_text())) if path.exists() else None


def listing(run: Path) -> list[str]:
    """The files of a run, except those that every life or each of several processes writes for itself, and those that
    the libraries name by themselves."""
    names = (path.relative_to(run).as_posix() for path in run.rglob("*") if not OF_A_PROCESS.fullmatch(path.name))
    return sorted(name for name in names if not name.startswith("tensorboard/") and "/state/" not in name)


def tables(said: Path) -> list[str]:
    """Returns the rows of the tables that a run has printed at its end."""
    return [line for line in said.read_text().splitlines() if line.count("|") > 1 or line.count("  ") > 2]


# ---- the kills -------------------------------------------------------------------------------------------------------

Kills = Iterator[tuple[int, str]]  # the newest row at each kill of a run, and what it was killed in
Way = Callable[[Path, Path, np.random.Generator, int, int], Kills]


def doing(life: Life) -> str:
    """Returns what a training was killed in."""
    since, run = life.log.read_bytes().rpartition(b" in the call")[2].rstrip(), life.run.path
    if CHANGE in since:
        return "changing the stage"
    if since.endswith(b"best responses to the policy ..."):
        return "training a best response"
    if life.updates()[-1] % TRAIN["evaluate_every"] == 0 and b" against " not in since:
        return "evaluating"
    temporary = (*run.glob("checkpoints/*.orbax-checkpoint-tmp*"), *run.glob("best/*.orbax-checkpoint-tmp*"))
    return "writing a checkpoint" if temporary else "between two checkpoints"


def wait(life: Life, rng: np.random.Generator, part: float, updates: int, changes: tuple[int, ...] = ()) -> bool:
    """Waits for a row beyond the checkpoint and for that part of all updates, or for a moment near the next change of
    the stage; whether it came."""
    if (first := life.wait()) < 0:
        return False
    target, line = int(updates * part), b""
    if ahead := [change for change in changes if change > max(first, target - 40)]:
        before = int(rng.choice([0, 0, 2, 6]))
        target, line = ahead[0] - before, b"" if before else CHANGE
    life.wait(at_least=target, line=line)
    time.sleep(rng.uniform(0.0, PAUSE) ** 2)
    return True


def after_a_row(
    home: Path, place: Path, rng: np.random.Generator, kills: int, updates: int, changes: tuple[int, ...] = ()
) -> Kills:
    """Kills the run of a folder and resumes it, again and again."""
    for number in range(kills):
        life = Life(home, place)
        if not wait(life, rng, rng.uniform(number, number + 0.9) / kills, updates, changes) or not life.kill():
            return
        yield life.updates()[-1], doing(life)
    finish(home, place)


def writing_the_cache(home: Path, place: Path, rng: np.random.Generator, kills: int, updates: int) -> Kills:
    """Kills the run of a folder inside writes of its compilation cache, which is emptied before."""
    shutil.rmtree(home / "cache")
    for _ in range(kills):
        part, entry = rng.choice([0.0, 0.5, 0.99]), rng.integers(1, 9)
        life = Life(home, place, program=("-c", CUTS_AN_ENTRY), KILL_ENTRY=str(entry), KILL_PART=str(part))
        if life.ended() != -signal.SIGKILL:
            return
        yield max(life.updates(), default=0), f"writing the cache, {part:.0%} of an entry"
    finish(home, place)


def one_of_two_processes(home: Path, place: Path, rng: np.random.Generator, kills: int, updates: int) -> Kills:
    """Kills processes of a launch, which starts both again each time."""
    life = Life(home, place, options=("--processes", "2", "--restarts", str(kills)))
    for number in range(kills):
        if not wait(life, rng, rng.uniform(number, number + 0.9) / kills, updates) or len(ranks(life)) < 2:
            break
        both, rank = ranks(life), int(rng.integers(2))
        os.kill(both[rank], signal.SIGKILL)
        while life.process.poll() is None and set(ranks(life).values()) & set(both.values()):
            time.sleep(0.02)
        yield life.updates()[-1], f"{doing(life)}, process {rank}"
        life.read = life.log.stat().st_size
    errors = (place / "errors").read_text() if life.ended() == 0 else ""
    assert "was ended by SIGKILL; all are started again" in errors, (place / "errors").read_text()[-4000:]


def ranks(life: Life) -> dict[int, int]:
    """Returns rank -> process of what `train --processes` has started."""
    found, launcher = {}, life.process.pid
    with contextlib.suppress(OSError):  # it has ended
        for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            with contextlib.suppress(OSError, ValueError):  # gone, or no process of the training
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                found[int(words[words.index(b"--rank") + 1])] = int(child)
    return found


ATTACKS: tuple[tuple[str, Way, int], ...] = (
    ("recurrent, two seeds", after_a_row, 12),
    ("curriculum", functools.partial(after_a_row, changes=(40, 80)), 12),
    ("hierarchical", after_a_row, 12),
    ("battle, lag 2", after_a_row, 12),
    ("battle, dqn, prioritised", after_a_row, 12),
    ("recurrent, host, lag 2", after_a_row, 8),
    ("two devices", one_of_two_processes, 10),
    ("short", writing_the_cache, 6),
    ("beasty_bar, league, exploit", after_a_row, 8),
    ("skull_king, league", after_a_row, 8),
)


def attack(home: Path, name: str, way: Way, wanted: int) -> None:
    """Kills runs of a program that many times, finishes each, and compares it with one that was never killed."""
    tree, rng, done, wrong = PROGRAMS[name], np.random.default_rng(len(name)), 0, []
    updates = tree["train"]["total_steps"] // (TRAIN["num_envs"] * TRAIN["num_steps"])
    configure(home, tree)
    finish(home, home / "whole")
    for run in range(wanted + 2):
        place = home / str(run)
        kills = list(way(home, place, rng, min(PER_RUN, wanted - done), updates))
        try:
            assert_as_if_nothing_had_happened(place, home / "whole")
            shutil.rmtree(place)
        except AssertionError as error:
            wrong.append(error)
        exact = "NO" if wrong else "yes"
        for row, what in kills:
            done += 1
            print(f"{name} | kill {done} | row {row} of {updates} | {what} | run {run} exact: {exact}", file=sys.stderr)
        if done >= wanted or wrong:
            break
    assert not wrong, wrong
    assert done >= wanted, "runs come to their end before they are killed"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way", "share"), ATTACKS, ids=[name for name, *_ in ATTACKS])
def test_a_run_that_is_killed_again_and_again(name, way, share, tmp_path):
    attack(tmp_path, name, way, -(-KILLS * share // 100))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["recurrent, two seeds", "battle, dqn, prioritised"])
def test_a_run_that_is_killed_once(name, tmp_path):
    attack(tmp_path, name, after_a_row, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recurrent, two seeds", "battle, lag 2"])
def test_nothing_grows(name, tmp_path):
    """Memory, threads and open files of a training, in the last fifth of its time as in the second."""
    tree, samples = PROGRAMS[name], []
    configure(tmp_path, tree | {"train": tree["train"] | {"total_steps": 10**9}})
    life = Life(tmp_path, tmp_path / "run")
    assert life.wait(at_least=2 * TRAIN["evaluate_every"] + 1) > 0  # all that is compiled has been
    place, until = Path(f"/proc/{life.process.pid}"), time.monotonic() + 60 * MINUTES
    while time.monotonic() < until:
        megabytes = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        samples.append((megabytes, len(os.listdir(place / "task")), len(os.listdir(place / "fd"))))
        time.sleep(1.0)
    assert life.kill()
    second, last = (np.median(part, axis=0) for part in np.array_split(samples, 5)[1::3])
    print(f"{name}: MB, threads and files {second} in the second fifth, {last} in the last one", file=sys.stderr)
    assert (last <= second * 1.05 + (8, 4, 4)).all()  # a checkpoint may be under way


def test_only_updates_of_this_life_are_waited_for(tmp_path, monkeypatch):
    """A trigger that older lines of the log satisfy would kill the start instead of the training."""
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **more: SimpleNamespace(poll=lambda: None))
    log = tmp_path / "runs" / NAME / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("... update 7: 0.100 s in the call\n")
    life = Life(tmp_path, tmp_path)
    assert life.updates() == []
    with log.open("a") as file:
        file.write("... update 6: 0.100 s in the call\n... update 8: saved\n... update 8: 0.200 s in the call\n")
    assert life.updates() == [6, 8] and life.wait(at_least=7) == 8
