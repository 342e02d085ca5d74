"""kill -9 at random moments: resumed runs end as if nothing had happened.

    KILLS=100 python -m pytest -n0 -s -m slow tests/attacks/test_kills.py

Every kill waits for an update beyond the checkpoint from which the run was resumed, so that it meets a training and no
start; then for a random number of updates more, and a random part of a second. Every run is killed several times.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.dqn_training import SMALL_DQN
from tests.support.killing import (
    CONFIG,
    CUTS_AN_ENTRY,
    NAME,
    Life,
    assert_as_if_nothing_had_happened,
    configure,
    finish,
)

KILLS = int(os.environ.get("KILLS", "100"))  # of all cases together
PER_RUN = 5  # kills of one run, at most
PAUSE = 0.4  # root of the longest time between an update and a kill, seconds

PPO = {
    "epochs": 1,
    "minibatches": 2,
    "learning_rate": {"kind": "constant", "start": 5e-3},
    "entropy_coef": {"kind": "constant", "start": 0.01},
}
TRAIN = {"num_envs": 16, "num_steps": 8, "updates_per_call": 2, "checkpoint_every": 4, "evaluate_every": 10, "keep": 2}
LEAGUE = {"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 2}
RECURRENT = {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 4}}
COMPILED = {"id": "tests.support.games:TicTacToe"}
HOST = {"id": "tests.support.host_games:HostTicTacToe", "options": {"opening": True}}
BATTLE = {"id": "battle", "options": {"maps": ["standard"], "rosters": ["line", "line"], "reward_vp": 0.02}}
AHEAD = {"threads": 2, "lag": 2}
CHANGES, CHANGE = (60, 120), b" begins: "  # updates after which the stages change, and a line that says so
EASY = {"name": "easy", "env.options.words": 2, "until": {"steps": 60 * 128}}
HARD = {"name": "hard", "env": {"options": {"team": 2, "shift": 1}}, "until": {"steps": 60 * 128}}


def case(kills: int, updates: int, *, batch: int = 16 * 8, **sections: Any) -> dict[str, Any]:
    """A configuration of `updates` updates, and the percentage of `KILLS` that it gets."""
    tree: dict[str, Any] = {"ppo": PPO, "train": TRAIN, "network": {"hidden": [8]}}
    tree |= {"evaluate": {"deals": 4, "training_deals": 4, "opponents": ["random"]}} | sections
    tree["train"] = TRAIN | tree["train"] | {"total_steps": updates * batch}
    return {"kills": kills, "updates": updates, "tree": tree}


CASES: dict[str, dict[str, Any]] = {
    "ppo, league, exploit": case(
        16, 120, env=COMPILED, league=LEAGUE, exploit={"every": 12, "updates": 8, "num_envs": 8}
    ),
    "ppo, two seeds": case(8, 160, env=COMPILED, league=LEAGUE, run={"seeds": 2}),
    "recurrent ppo, league, two seeds": case(
        12, 160, env=COMPILED, league=LEAGUE, network=RECURRENT, ppo=PPO | {"sequence": 4}, run={"seeds": 2}
    ),
    "battle ppo, lag 2": case(12, 60, env=BATTLE, league=LEAGUE, sebulba=AHEAD),
    "battle dqn, prioritised": case(
        12, 80, env=BATTLE, dqn=SMALL_DQN | {"alpha": 0.6, "n_step": 3}, train={"algorithm": "dqn"}, sebulba=AHEAD
    ),
    "recurrent ppo, host, lag 2": case(
        6, 80, env=HOST, league=LEAGUE, network=RECURRENT, ppo=PPO | {"sequence": 4}, sebulba=AHEAD
    ),
    "hierarchical": case(
        8,
        160,
        env={"id": "tests.support.aim_game:Aim"},
        league=LEAGUE,
        train={"algorithm": "hierarchical"},
        hierarchical={"hindsight": 0.5, "balance": True},
    ),
    "curriculum": case(
        10,
        180,
        env={"id": "tests.training.test_curriculum:Echo"},
        league=LEAGUE,
        curriculum=[EASY, HARD, {"name": "end"}],
    ),
    "small": case(0, 40, env=COMPILED, train={"evaluate_every": 0, "checkpoint_every": 10}),
    "launch -n 2": case(6, 200, env=COMPILED, league=LEAGUE, run={"devices": 2}),
    "cache": case(10, 20, env=COMPILED),
}


def doing(run: Path) -> str:
    """What a run was killed in."""
    if CHANGE in (run / "log.txt").read_bytes().rpartition(b" in the call")[2]:
        return "changing the stage"
    temporary = (*run.glob("checkpoints/*.orbax-checkpoint-tmp*"), *run.glob("best/*.orbax-checkpoint-tmp*"))
    return "writing a checkpoint" if temporary else "between two checkpoints"


def killed_once(home: Path, place: Path, rng: np.random.Generator, left: int, updates: int) -> str:
    """Kills the run of a folder beyond its newest checkpoint, with a curriculum near a change of stage; what it was
    doing, empty if it came to its end."""
    life = Life(home, place)
    first = life.wait(beyond=1)
    if first >= 0:
        reach = max(1, (updates - first) // left)
        ahead = [change for change in CHANGES if change > first and "curriculum" in (home / CONFIG).read_text()]
        before, target = int(rng.choice([0, 0, 2, 6])), first + int(rng.integers(0, reach))
        target = int(rng.choice(ahead)) - before if ahead else target
        life.wait(beyond=1, at_least=target, line=CHANGE if target in ahead else b"")
        time.sleep(rng.uniform(0.0, PAUSE) ** 2)
    return doing(place / "runs" / NAME) if life.kill() else ""


def cut_once(home: Path, place: Path, rng: np.random.Generator, left: int, updates: int) -> str:
    """Kills the run of a folder inside a write of its compilation cache, which is emptied before."""
    if not place.exists():
        shutil.rmtree(home / "cache")
    part, entry = rng.choice([0.0, 0.5, 0.99]), rng.integers(1, 9)
    life = Life(home, place, program=("-c", CUTS_AN_ENTRY), KILL_ENTRY=str(entry), KILL_PART=str(part))
    return f"writing the cache, {part:.0%} of an entry" if life.ended() == -signal.SIGKILL else ""


def ranks(launcher: int) -> dict[int, int]:
    """Rank -> process of what `jaxrl launch` has started."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        with contextlib.suppress(OSError, ValueError):  # gone, or no process of the training
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found[int(words[words.index(b"--rank") + 1])] = int(child)
    return found


def kill_ranks(home: Path, place: Path, rng: np.random.Generator, kills: int, updates: int) -> Counter[str]:
    """Kills one process of two at random, again and again, of a launch that starts all again each time."""
    found, program = Counter[str](), ("-m", "jaxrl", "launch", "-n", "2", "--restarts", str(kills))
    life = Life(home, place, program=program)
    for left in range(kills, 0, -1):
        if (first := life.wait(beyond=1)) < 0:
            break
        life.wait(beyond=1, at_least=first + int(rng.integers(0, max(1, (updates - first) // left))))
        time.sleep(rng.uniform(0.0, PAUSE) ** 2)
        if life.process.poll() is not None or len(both := ranks(life.process.pid)) < 2:
            break
        rank = int(rng.integers(2))
        os.kill(both[rank], signal.SIGKILL)
        while life.process.poll() is None and set(ranks(life.process.pid).values()) & set(both.values()):
            time.sleep(0.02)
        life.read = life.log.stat().st_size
        found[f"{doing(place / 'runs' / NAME)}, process {rank}"] += 1
    assert life.ended() == 0, (place / "errors").read_text()[-4000:]
    return found


def kill_again_and_again(home: Path, name: str, wanted: int) -> None:
    """Kills runs of a case that many times, finishes each, and compares it with one that was never killed."""
    rng, (updates, tree) = np.random.default_rng(len(name)), (CASES[name][key] for key in ("updates", "tree"))
    configure(home, tree)
    whole, found, runs = home / "whole", Counter[str](), 0
    finish(home, whole)
    if name not in ("cache", "small"):
        finish(home, home / "again")
        assert_as_if_nothing_had_happened(home / "again", whole)
    while found.total() < wanted:
        assert runs < wanted + 2, "runs come to their end before they are killed"
        place, times = home / str(runs), min(PER_RUN, wanted - found.total())
        if name.startswith("launch"):
            found += kill_ranks(home, place, rng, times, updates)
        else:
            once = cut_once if name == "cache" else killed_once
            for left in range(times, 0, -1):
                if not (what := once(home, place, rng, left, updates)):
                    break
                found[what] += 1
            else:
                finish(home, place)
        assert_as_if_nothing_had_happened(place, whole)
        shutil.rmtree(place)
        runs += 1
        print(f"{name}: {dict(found)} in {runs} runs, each as if nothing had happened", file=sys.stderr, flush=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kills"]])
def test_a_run_that_is_killed_again_and_again(name, tmp_path):
    kill_again_and_again(tmp_path, name, -(-KILLS * CASES[name]["kills"] // 100))


@pytest.mark.thorough
def test_a_run_that_is_killed_once(tmp_path):
    kill_again_and_again(tmp_path, "small", 1)


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
    assert life.updates() == [6, 8] and life.wait(beyond=1, at_least=7) == 8
