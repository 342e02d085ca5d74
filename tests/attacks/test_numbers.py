"""Numbers and machines at their limits: a right result, or one clear sentence and exit code 2.

python -m pytest -n0 -s -m "slow or not slow" tests/attacks/test_numbers.py
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from flax import struct

from jaxrl import cli
from jaxrl.runs.directory import RunDirectory
from jaxrl.training.launching.start import make_training
from jaxrl.training.loop import Training
from jaxrl.training.plan import make_plan
from jaxrl.training.state import Counter
from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.host.env import HostEnv
from tests.support.dqn_training import SMALL_DQN
from tests.support.host_games import Board, TicTacToeGame
from tests.support.killing import assert_same, newest, rows
from tests.support.limits import limited
from tests.support.paths import PYTHONPATH
from tests.training.test_loop import small_disk


@struct.dataclass
class OddState(State):
    number: jax.Array  # i32[], decisions so far
    chosen: jax.Array  # i32[], the last action


class Odd(Env):
    """Seats decide in turn; the last decision pays `reward` for action 0, and costs as much otherwise."""

    id, version = "odd", "1"

    def __init__(
        self,
        *,
        seats: int = 2,
        actions: int = 3,
        length: int = 6,
        reward: float = 1.0,
        kind: str = "float32",
        seen: str = "few",
    ):
        self.num_players, self.num_actions, self.length, self.reward = seats, actions, length, reward
        self.kind, self.seen = jnp.dtype(kind), seen

    def _init(self, key: Key) -> OddState:
        fields = public_fields(num_players=self.num_players, num_actions=self.num_actions)
        return OddState(observation=None, number=jnp.int32(0), chosen=jnp.int32(0), **fields)

    def _step(self, state: OddState, action: jax.Array, key: Key) -> OddState:
        number = state.number + 1
        over = number >= self.length
        paid = jnp.where(jnp.arange(self.num_players) == state.current_player, self.reward, -self.reward)
        return state.replace(
            number=number,
            chosen=action,
            current_player=(state.current_player + 1) % self.num_players,
            rewards=jnp.where(over, jnp.where(action == 0, paid, -paid), 0.0).astype(jnp.float32),
            terminated=over,
        )

    def observe(self, state: OddState, seat: jax.Array) -> jax.Array:
        """Returns [4] of any kind: small numbers, or the limits of the kind by turns."""
        if self.seen == "few":
            return (jnp.arange(4) == state.number % 4).astype(self.kind)
        limits = jnp.iinfo(self.kind) if jnp.issubdtype(self.kind, jnp.integer) else jnp.finfo(self.kind)
        pair = jnp.array([limits.min, limits.max], self.kind)
        return pair[(jnp.arange(4) + state.number) % 2]


class RichBoard(Board):
    def rewards(self) -> list[float]:
        return [1e30 * paid for paid in self.paid]


class RichGame(TicTacToeGame):
    """TicTacToe for 1e30."""

    id = "rich"

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> Any:
        engine = super().engine(num_games, seed, first_slot=first_slot)
        for board in engine.games:
            board.__class__ = RichBoard
        return engine


class Rich(HostEnv):
    id, version = RichGame.id, RichGame.version

    def __init__(self) -> None:
        super().__init__(RichGame(opening=True))


TREE: dict[str, Any] = {
    "run": {"devices": 1, "cache_dir": ""},
    "env": {"id": "tests.attacks.test_numbers:Odd"},
    "network": {"hidden": [8]},
    "ppo": {"epochs": 1, "minibatches": 2},
    "dqn": SMALL_DQN,
    "train": {
        "num_envs": 8,
        "num_steps": 8,
        "total_steps": 8 * 8 * 8,
        "updates_per_call": 2,
        "checkpoint_every": 4,
        "evaluate_every": 4,
    },
    "evaluate": {"deals": 2, "training_deals": 2, "opponents": ["random"]},
}
DIVERGED = "training diverged: "


def trained(home: Path, *overrides: str) -> int:
    (home / "c.yaml").write_text(yaml.safe_dump(TREE))
    words = ["train", "--config", str(home / "c.yaml"), "--allow", "tests", "--name", "odd"]
    return cli.main([*words, f"run.directory={home / 'runs'}", *overrides])


def one_sentence(said: str, *words: str) -> None:
    """Asserts that one sentence with these words was said, beside the progress."""
    lines = [line for line in said.splitlines() if line.startswith("jaxrl: ")]
    assert len(lines) == 1 and "Traceback" not in said, said
    assert all(word in lines[0] for word in words), lines[0]


# ---- numbers of games ------------------------------------------------------------------------------------------------

RIGHT, EITHER = "right", "either"
GAMES: dict[str, tuple[list[str], str]] = {
    "one action": (["env.options.actions=1"], RIGHT),
    "nine seats": (["env.options.seats=9", "env.options.length=27"], RIGHT),
    "games 100 times as long as a rollout": (["env.options.length=400", "train.num_steps=4"], RIGHT),
    "rewards of 1e30": (["env.options.reward=1.0e30"], EITHER),
    "rewards of 1e30, dqn": (["env.options.reward=1.0e30", "train.algorithm=dqn"], EITHER),
    "rewards of 1e30, host": (["env.id=tests.attacks.test_numbers:Rich"], EITHER),
    "rewards of 1e-40": (["env.options.reward=1.0e-40"], RIGHT),
    **{
        f"the limits of {kind}": (["env.options.seen=limits", f"env.options.kind={kind}"], EITHER)
        for kind in ("int8", "uint8", "int16", "int32", "uint32", "float32")
    },
    "the limits of int32, normalised": (
        ["env.options.seen=limits", "env.options.kind=int32", "network.normalize=true"],
        RIGHT,
    ),
    "the largest seed": (["run.seed=4294967295"], RIGHT),
    "the largest seeds": (["run.seed=4294967294", "run.seeds=2"], RIGHT),
}
SHORT = ("one action",)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in GAMES]
)
def test_games_with_odd_numbers(name, tmp_path, capfd):
    overrides, wanted = GAMES[name]
    code, said = trained(tmp_path, *overrides), capfd.readouterr().err
    if code == 0:
        learnt = [row[key] for row in rows(tmp_path, "odd") for key in row if key.startswith("train/")]
        # No decision of a game with one action can be learnt from, so means over decisions have no value.
        assert all(value is None if name == "one action" and value is None else np.isfinite(value) for value in learnt)
        assert json.loads((tmp_path / "runs" / "odd" / "evaluation.json").read_text())
        return
    assert (code, wanted) == (2, EITHER), said
    one_sentence(said)
    print(f"{name}: {said.splitlines()[-1]}", file=sys.stderr)


# ---- counters --------------------------------------------------------------------------------------------------------


def moved(home: Path, update: int, **learner: Any) -> Training:
    """Saves the newest state of a run as if it were that many updates old."""
    run = RunDirectory(home / "runs" / "odd")
    config = run.config(("tests",))
    with contextlib.closing(make_training(make_plan(config), run, resume=True)) as trainer:
        steps = update * config.batch_size
        count = Counter(jnp.uint32(steps >> 32), jnp.uint32(steps & 0xFFFFFFFF))
        state = trainer.state.replace(update=jnp.int32(update), env_steps=count, games=count)
        state = state.replace(learner=state.learner.replace(**learner))
        trainer.state, trainer.update, trainer._steps_before = state, update, 0
        trainer.checkpoints.save(trainer.snapshot(), 0.0)
        trainer.checkpoints.wait()
    return trainer


def resumed(home: Path, *words: str) -> int:
    return cli.main(["resume", str(home / "runs" / "odd"), "--allow", "tests", *words])


FIRST = 2**31 - 21  # updates of 64 steps, so steps are beyond 2^36


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["env.id=tests.support.host_games:HostTicTacToe"]], ids=["compiled", "host"])
def test_updates_to_the_last_that_is_counted(more, tmp_path, capfd):
    """Up to update 2^31 - 2, in one go and in two, the same; the next one would not be counted and is refused."""
    last = 2**31 - 2
    for name, ends in (("one", [last]), ("two", [last - 8, last])):
        (home := tmp_path / name).mkdir()
        assert trained(home, "train.evaluate_every=0", *more) == 0
        moved(home, FIRST + 1)
        for end in ends:
            assert resumed(home, "--steps", str(end * 64)) == 0, capfd.readouterr().err
        found = [row for row in rows(home, "odd") if row["update"] > FIRST]
        assert [row["update"] for row in found] == [*range(FIRST + 3, last + 1, 2)]
        assert all(row["steps"] == row["update"] * 64 == row["time/total_timesteps"] for row in found)
        assert all(np.isfinite(row["train/loss"]) for row in found)
        assert int(newest(home, "odd").arrays["env_steps.hi"]) == last * 64 >> 32
    assert_same(newest(tmp_path / "one", "odd"), newest(tmp_path / "two", "odd"))
    capfd.readouterr()
    assert resumed(home, "--steps", str((last + 1) * 64)) == 2
    one_sentence(capfd.readouterr().err, "more than")


@pytest.mark.slow
@pytest.mark.parametrize("bits", [31, 32])
@pytest.mark.parametrize("more", [[], ["env.id=tests.support.host_games:HostTicTacToe"]], ids=["compiled", "host"])
def test_optimizer_steps_beyond_what_a_word_counts(more, bits, tmp_path, capfd):
    """DQN makes several optimizer steps in an update, so they are the first to reach 2^31."""
    assert trained(tmp_path, "train.algorithm=dqn", "train.evaluate_every=0", *more) == 0
    moved(tmp_path, FIRST + 1, steps=jnp.uint32(2**bits - 10))
    assert resumed(tmp_path, "--steps", str((FIRST + 13) * 64)) == 0, capfd.readouterr().err
    found = [row for row in rows(tmp_path, "odd") if row["update"] > FIRST + 1]
    assert len(found) == 6 and all(np.isfinite(row["train/loss"]) and row["train/loss"] > 0 for row in found)


# ---- machines --------------------------------------------------------------------------------------------------------


def jaxrl(
    *words: str | Path, program: tuple[str, ...] = ("-m", "jaxrl"), limit: str = "", **more: Any
) -> subprocess.CompletedProcess:
    """Returns the command line in a process of its own, with a minute to end."""
    environment = {"PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu", "JAXRL_ALLOW": "tests"} | more.pop("env", {})
    return subprocess.run(
        limited([sys.executable, *program, *map(str, words)], *filter(None, [limit])),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **more,
    )


def train_words(home: Path, *overrides: str) -> list[str]:
    (home / "c.yaml").write_text(yaml.safe_dump(TREE))
    return ["train", "--config", str(home / "c.yaml"), "--name", "odd", f"run.directory={home / 'runs'}", *overrides]


def right_or_one_sentence(done: subprocess.CompletedProcess) -> str:
    """Asserts that a command was right or refused; what it said."""
    assert done.returncode in (0, 2), (done.returncode, done.stderr[-3000:])
    if done.returncode:
        one_sentence(done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


BACK = """
import sys, time
from jaxrl import cli
real, begun = time.time, time.time()
time.time = lambda: begun - {back} - 3.0 * (real() - begun)
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_clock_that_goes_backwards(tmp_path):
    """While it trains, and by a year between two lives; files are then of the future."""
    for name in ("right", "back"):
        (home := tmp_path / name).mkdir()
        program = ("-c", BACK.format(back=0)) if name == "back" else ("-m", "jaxrl")
        words = [f"run.cache_dir={home / 'cache'}", "--allow", str(home / "cache")]
        assert jaxrl(*train_words(home, *words), program=program).returncode == 0
        for path in (tmp_path / "back").rglob("*"):
            os.utime(path, (time.time() + 4e7,) * 2)
        program = ("-c", BACK.format(back=3e7)) if name == "back" else ("-m", "jaxrl")
        done = jaxrl("resume", home / "runs" / "odd", "--steps", 1024, *words[1:], program=program)
        assert done.returncode == 0, done.stderr
        status = jaxrl("runs", home / "runs" / "odd", program=program)
        assert status.returncode == 0 and "finished" in status.stdout, status
    assert_same(newest(tmp_path / "right", "odd"), newest(tmp_path / "back", "odd"))
    assert rows(tmp_path / "right", "odd") == rows(tmp_path / "back", "odd")


@pytest.mark.slow
def test_folders_that_cannot_be_written(tmp_path):
    """Every command, on a disk that can only be read."""
    disk, own = tmp_path / "disk", tmp_path / "own"
    own.mkdir()
    with small_disk(disk, "64m") as remount:
        assert jaxrl(*train_words(disk)).returncode == 0
        remount("64m,ro")
        run, config, here = disk / "runs" / "odd", str(disk / "c.yaml"), f"run.directory={own}"
        tries: dict[str, tuple[int, list[Any]]] = {
            "train": (2, ["train", "--config", config, "--name", "new", f"run.directory={disk / 'runs'}"]),
            "resume": (2, ["resume", run, "--steps", 1024]),
            "evaluate": (2, ["evaluate", run]),
            "exploit": (2, ["exploit", run, "--updates", 2]),
            "export": (0, ["export", run]),  # into the folder it is called in
            "export elsewhere": (0, ["export", run, own / "policy.jaxrl"]),
            "a run": (0, ["runs", run]),
            "runs": (0, ["runs", disk / "runs"]),
            "from there": (0, ["train", "--config", config, "--name", "a", here, f"train.from_run={run}", STEPS]),
            "with a cache": (0, ["train", "--config", config, "--name", "b", here, f"run.cache_dir={disk / 'runs'}"]),
            "a new cache": (2, ["train", "--config", config, "--name", "c", here, f"run.cache_dir={disk / 'new'}"]),
        }
        found = {}
        for name, (_, words) in tries.items():
            done = jaxrl(*words, cwd=own, env={"JAXRL_ALLOW": f"tests,{disk / 'runs'},{disk / 'new'}"})
            found[name] = done.returncode
            print(f"read-only, {name}: {done.returncode}: {right_or_one_sentence(done)}", file=sys.stderr)
    assert found == {name: code for name, (code, _) in tries.items()}


STEPS = "train.total_steps=1024"


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-n 16", "-n 32", "-n 64", *(f"-v {size << 19}" for size in (1, 2, 4, 6, 8, 16))])
def test_few_files_and_little_memory(limit, tmp_path):
    for name, more in (("compiled", []), ("host", ["env.id=tests.support.host_games:HostTicTacToe"])):
        (home := tmp_path / name).mkdir()
        done = jaxrl(*train_words(home, *more), limit=limit)
        print(f"{limit}, {name}: {done.returncode}: {right_or_one_sentence(done)}", file=sys.stderr)


@pytest.mark.slow
def test_a_training_beyond_the_limit_of_the_shell(tmp_path):
    wide = ["train.num_envs=4_000_000", "train.total_steps=64_000_000"]
    done = jaxrl(*train_words(tmp_path, *wide), limit=f"-v {4 << 20}")
    assert done.returncode == 2
    one_sentence(done.stderr, "this training needs about", "are free: lower train.num_envs")


@pytest.mark.slow
def test_two_processes_on_one_run(tmp_path):
    """The second process that wants to write gets a sentence; one that only reads is served."""
    words = train_words(tmp_path, "train.total_steps=100_000_000", "train.evaluate_every=0")
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu", "JAXRL_ALLOW": "tests"}
    both = [
        subprocess.Popen([sys.executable, "-m", "jaxrl", *words], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    run = tmp_path / "runs" / "odd"
    try:
        end = time.monotonic() + 120
        while not (list(run.glob("checkpoints/[0-9]*")) and any(each.poll() is not None for each in both)):
            time.sleep(0.1)
            assert time.monotonic() < end
        second = both[0] if both[0].poll() is not None else both[1]
        assert second.returncode == 2
        one_sentence(second.communicate()[1])
        for command in (["resume", run], words, [*words, "--continue"], ["resume", run, "--steps", 1_000_000]):
            done = jaxrl(*command)
            assert done.returncode == 2
            one_sentence(done.stderr)
        for command in (["runs", run], ["evaluate", run], ["export", run, tmp_path / "policy.jaxrl"]):
            done = jaxrl(*command)
            assert done.returncode == 0, done.stderr
        [first] = [each for each in both if each is not second]
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 128 + signal.SIGTERM
        assert jaxrl("resume", run, "--steps", 64 * (newest(tmp_path, "odd").step + 4)).returncode == 0
    finally:
        for each in both:
            each.kill(), each.wait()
