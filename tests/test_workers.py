"""Games on workers elsewhere: the same run as with games in this process, whatever workers come and go.

The workers here are threads that lose all they know when they are lost; `slow` tests have real ones, of Ray.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.envs.errors import UserError
from jaxrl.envs.host.core import EngineError, HungEngine, IllegalAction, make_buffers
from jaxrl.runs.directory import load_run
from jaxrl.training.program import Failed
from jaxrl.training.sebulba import pools
from jaxrl.training.sebulba.workers.pool import Lost, WorkerPool
from jaxrl.training.sebulba.workers.worker import Block, EngineWorker
from tests.host_games import HostTicTacToe, TicTacToeGame
from tests.sebulba_training import Trouble, sebulba_config, sebulba_program, threads_left
from tests.test_sebulba_program import LEAGUE
from tests.training import assert_identical, run


class Elsewhere:
    """A worker of threads; what it knows is gone after every so many answers."""

    def __init__(self, game: TicTacToeGame, blocks: list[Block], lives: list[int], late: float = 0.0):
        self.make, self.blocks, self.lives, self.late = (lambda: game), blocks, list(lives), late
        self.told = 0
        self.threads = ThreadPoolExecutor(len(blocks), thread_name_prefix="worker")
        self.worker = EngineWorker(self.make, blocks)

    def ask(self, block: int, number: int, orders: list) -> tuple[EngineWorker, Future]:
        def obey(worker: EngineWorker):
            time.sleep(self.late)
            return worker.obey(block, number, orders)

        return self.worker, self.threads.submit(obey, self.worker)

    def answer(self, asked: tuple[EngineWorker, Future], orders: int):
        worker, future = asked
        if worker is not self.worker:
            raise Lost("the test took the worker away")
        found = future.result()
        self.told += 1
        if self.lives and self.told >= self.lives[0]:
            self.lives.pop(0)
            self.told = 0
            self.worker.close()
            self.worker = EngineWorker(self.make, self.blocks)  # what the other blocks were told is lost too
            raise Lost("the test takes the worker away")
        return found

    def close(self) -> None:
        self.threads.shutdown()
        self.worker.close()


def elsewhere(lives: list[list[int]], *, tries: int = 5, late: float = 0.0):
    """As `actor_pool`, on as many workers as there are `lives`: after how many answers each is lost, time and again."""

    def pool(config, game, actor, share, *, seed, groups):
        size = share // groups
        part = size // len(lives)

        def blocks(worker: int) -> list[Block]:
            first = actor * share + worker * part
            return [Block(first + g * size, part, seed, 1, 30.0) for g in range(groups)]

        workers = [Elsewhere(game, blocks(i), each, late * i) for i, each in enumerate(lives)]
        return WorkerPool(game, workers, share, groups, threads=len(lives), tries=tries)

    return pool


@pytest.fixture(autouse=True)
def no_thread_survives():
    yield
    assert not threads_left(("actor", "engine", "worker"))


def trained(monkeypatch, pool, **sebulba):
    """The state of a league after six updates whose games are played by `pool`."""
    monkeypatch.setattr("jaxrl.training.sebulba.program.actor_pool", pool)
    config = sebulba_config(league=LEAGUE, num_steps=4, sebulba={"groups": 2, "lag": 1} | sebulba)
    program = sebulba_program(config)
    state = program.init(0)
    for _ in range(3):
        state, _ = run(program, state)
    program.close()
    return state


@pytest.fixture(scope="module")
def at_home():
    patch = pytest.MonkeyPatch()
    yield trained(patch, pools.actor_pool)
    patch.undo()


@pytest.mark.parametrize(
    ("lives", "late"),
    [([[], []], 0.0), ([[3, 5, 4, 1, 7, 2, 2, 9], [11, 1, 1, 6]], 0.0), ([[], []], 0.02)],
    ids=["well", "lost again and again", "one is slow"],
)
def test_the_same_run_whatever_workers_come_and_go(monkeypatch, at_home, lives, late):
    assert_identical(at_home, trained(monkeypatch, elsewhere(lives, late=late)))


def test_a_worker_that_is_lost_too_often_ends_the_run(monkeypatch):
    with pytest.raises((Failed, UserError)) as error:
        trained(monkeypatch, elsewhere([[9, *[1] * 50], []], tries=2))
    assert "worker was lost 3 times in a row" in str(error.value)


def test_an_engine_that_fails_elsewhere_is_told_as_one_that_fails_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TROUBLE", str(tmp_path / "trouble"))
    game = TicTacToeGame(opening=True, fault=Trouble(5, "raise"))
    with elsewhere([[], []])(None, game, 0, 8, seed=0, groups=1) as pool:
        rows = make_buffers(game, 8)
        pool.start(rows)
        right = np.argmax(rows.legal_action_mask, axis=1).astype(np.int32)
        with pytest.raises(IllegalAction, match="game 6: action 99 is not legal"):
            pool.send(np.where(np.arange(8) == 6, 99, right).astype(np.int32), rows)
        pool.send(right, rows), pool.recv()
        taken = [int(np.argmin(mask)) for mask in rows.legal_action_mask]
        with pytest.raises(IllegalAction, match=f"game 0: action {taken[0]} is not legal"):
            pool.send(np.array(taken, np.int32), rows)
        (tmp_path / "trouble").touch()
        pool.send(np.full(8, -1, np.int32), rows)
        with pytest.raises(EngineError, match="game 5: .*the dice are lost") as error:
            pool.recv()
        assert error.value.game == 5 and not isinstance(error.value, HungEngine)


def test_what_is_wrong_with_a_fleet_is_said(tmp_path):
    for changes, message in (
        (["sebulba.actors=2", "fleet.workers=3"], "fleet.workers \\(3\\) must be divisible by sebulba.actors"),
        (["sebulba.groups=2", "fleet.workers=16"], "train.num_envs .* must be divisible by sebulba.groups \\* fleet"),
    ):
        config = configs.load(None, ["env.id=battle", "train.num_envs=16", *changes])
        with pytest.raises(UserError, match=message):
            configs.check_game(config, HostTicTacToe(), HostTicTacToe())
    with pytest.raises(UserError, match="fleet.workers plays games on the host, which skull_king is not"):
        from jaxrl.runs.games import make_games

        make_games(configs.load(None, ["env.id=skull_king", "fleet.workers=1"]))


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_it_is_said_how_to_get_it(tmp_path, capsys):
    small = ["env.id=battle", "train.total_steps=256", "train.num_envs=8", f"run.directory={tmp_path}"]
    assert cli.main(["train", "fleet.workers=1", *small]) == 2
    assert "pip install 'jaxrl[fleet]'" in capsys.readouterr().err


SMALL = """
env: {id: battle}
league: {opponents: [self, snapshots, bots], snapshots: 2}
network: {hidden: [32]}
sebulba: {threads: 1}
train: {num_envs: 16, num_steps: 32, total_steps: 16384, evaluate_every: 0}
evaluate: {deals: 2, opponents: [random]}
fleet: {patience: 60}
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'jaxrl[fleet]'")
def test_a_run_of_killed_workers_is_that_of_a_quiet_life(tmp_path):
    """kill -9 of a worker of Ray every few seconds: the same parameters as with all games at home."""
    (tmp_path / "small.yaml").write_text(SMALL)
    command = [
        sys.executable,
        "-m",
        "jaxrl",
        "train",
        "--config",
        str(tmp_path / "small.yaml"),
        f"run.directory={tmp_path}",
    ]
    subprocess.run([*command, "--name", "home"], check=True, timeout=900)
    away = subprocess.Popen([*command, "--name", "away", "fleet.workers=2"])
    rows, killed, drawn = tmp_path / "away" / "metrics.jsonl", 0, np.random.default_rng(0)
    while away.poll() is None:
        time.sleep(drawn.uniform(0.1, 2.0))
        done = len(rows.read_text().splitlines()) if rows.exists() else 0
        if done > killed:  # it has come further since the last one
            found = subprocess.run(
                ["pgrep", "-f", "ray::EngineWorker"], capture_output=True, check=False
            ).stdout.split()
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(drawn.choice(found)), signal.SIGKILL)
                    killed += 1
    assert away.returncode == 0 and killed >= 3
    home, found = (load_run(tmp_path / name) for name in ("home", "away"))
    assert home.params_hash == found.params_hash
    assert "are played again" in (tmp_path / "away" / "log.txt").read_text()
