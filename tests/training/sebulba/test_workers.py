"""Games on workers elsewhere: the same run as with games in this process, whatever workers come and go.

The workers here are threads that lose all they know when they are lost; tests.training.sebulba.test_ray_workers has
real ones.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import types
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import GameForms, compare
from jaxrl.training.program import Failed
from jaxrl.training.sebulba.remote.cluster import RayWorker
from jaxrl.training.sebulba.remote.worker import EngineBlock, EngineWorker
from jaxrl.training.sebulba.remote.worker_pool import Lost, WorkerPool
from jaxrl.training.sebulba.setup import HostSetup
from jaxrl_envs.host.game import EngineError, HostGame, HungEngine, IllegalAction, make_buffers
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import HostTicTacToe, TicTacToeGame
from tests.support.sebulba_training import Trouble, sebulba_config, sebulba_program
from tests.support.training import assert_identical, run
from tests.training.sebulba.test_loop import LEAGUE

pytestmark = pytest.mark.thorough


class Elsewhere:
    """A worker made of threads, which loses its state after each number of answers in `lives`."""

    def __init__(self, make: Callable[[], HostGame], blocks: list[EngineBlock], lives: list[int], late: float = 0.0):
        self.make, self.blocks, self.lives, self.late = make, blocks, list(lives), late
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
    """`HostSetup.make_pool` on a worker for each of `lives`: after how many answers it is lost, time and again."""

    def pool(setup, actor, seed, groups):
        share, size = setup.share, setup.share // groups
        part = size // len(lives)

        def blocks(worker: int) -> list[EngineBlock]:
            first = actor * share + worker * part
            return [EngineBlock(first + g * size, part, seed, 1, 30.0) for g in range(groups)]

        workers = [Elsewhere(lambda: setup.game, blocks(i), each, late * i) for i, each in enumerate(lives)]
        return WorkerPool(setup.game, workers, share, groups, threads=len(lives), tries=tries)

    return pool


def trained(monkeypatch, pool, **sebulba):
    """The state of a league after six updates whose games are played by `pool`."""
    monkeypatch.setattr(HostSetup, "make_pool", pool)
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
    yield trained(patch, HostSetup.make_pool)
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
    game = TicTacToeGame(opening=True, fault=Trouble(5))
    setup = types.SimpleNamespace(game=game, share=8)
    with elsewhere([[], []])(setup, actor=0, seed=0, groups=1) as pool:
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
        (["sebulba.profile=true", "fleet.workers=2"], "sebulba.profile measures engines of this process, but fleet"),
    ):
        config = configs.load(None, ["env.id=battle", "train.num_envs=16", *changes])
        with pytest.raises(UserError, match=message):
            compare(config, GameForms(HostTicTacToe(), HostTicTacToe()))
    with pytest.raises(UserError, match="fleet.workers plays games on the host, which skull_king is not"):
        from jaxrl.games import make_games

        make_games(configs.load(None, ["env.id=skull_king", "fleet.workers=1"]))


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_it_is_said_how_to_get_it(tmp_path, capsys):
    small = ["env.id=battle", "train.total_steps=256", "train.num_envs=8", f"run.directory={tmp_path}"]
    assert cli.main(["train", "fleet.workers=1", *small]) == 2
    assert "pip install 'jaxrl[fleet]'" in capsys.readouterr().err


# ---- what Ray says of a worker --------------------------------------------------------------------------------------


class FakeRay(types.ModuleType):
    """What `RayWorker` uses of Ray, with answers and errors as they are put into `said`."""

    def __init__(self):
        super().__init__("ray")
        error = type("RayError", (Exception,), {})
        names = ("GetTimeoutError", "RayTaskError", "RayActorError", "ObjectLostError", "OutOfMemoryError")
        kinds = {name: type(name, (error,), {}) for name in names}
        self.exceptions = types.SimpleNamespace(RayError=error, **kinds)
        self.said, self.killed, self.waited, self.options = [], [], [], {}

    def remote(self, worker: type):
        def options(**options):
            self.options = options
            return types.SimpleNamespace(remote=lambda *arguments: self)

        return types.SimpleNamespace(options=options)

    @property
    def obey(self):
        return types.SimpleNamespace(remote=lambda *arguments: arguments)

    def get(self, asked, timeout: float):
        self.waited.append(timeout)
        found = self.said.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def kill(self, actor, no_restart: bool) -> None:
        self.killed.append(no_restart)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def ray_worker(*changes: str) -> RayWorker:
    common = ["env.id=battle", "sebulba.timeout=10"]
    return RayWorker(
        configs.load(None, [*common, *changes]), [EngineBlock(0, 2, 0, 1, 10.0), EngineBlock(2, 2, 0, 1, 10.0)]
    )


def test_what_a_worker_asks_of_the_cluster(ray):
    ray_worker("fleet.cpus=2.5")
    assert ray.options["num_cpus"] == 2.5
    assert ray.options["max_concurrency"] == 2  # one thread for each block
    assert ray.options["max_restarts"] == ray.options["max_task_retries"] == -1


@pytest.mark.parametrize(
    ("kind", "text", "init", "raised", "said"),
    [
        ("RayActorError", "The actor died\nof hunger", False, Lost, "The actor died$"),
        (
            "RayActorError",
            "Traceback\n  ...\nUserError: no such map",
            True,
            UserError,
            "cannot start: UserError: no such",
        ),
        ("RayTaskError", "Traceback\n  ...\nKeyError: 'x'\n", False, UserError, "a worker failed: KeyError: 'x'"),
        ("ObjectLostError", "Failed to retrieve object 1", False, Lost, "Failed to retrieve object 1"),
        ("OutOfMemoryError", "", False, Lost, "OutOfMemoryError"),
    ],
)
def test_errors_of_the_cluster_are_told_apart(ray, kind, text, init, raised, said):
    worker, error = ray_worker(), getattr(ray.exceptions, kind)(text)
    error.actor_init_failed = init
    ray.said = [error, "an answer"]
    asked = worker.ask(1, 5, [])
    assert asked == (1, 5, [])
    with pytest.raises(raised, match=said):
        worker.answer(asked, 1)
    assert worker.answer(asked, 1) == "an answer" and ray.killed == []  # Ray starts it again by itself


def test_a_worker_that_says_nothing_is_ended_unless_it_never_began(ray):
    worker, silent = ray_worker("fleet.cpus=4"), ray.exceptions.GetTimeoutError()
    ray.said = [silent, "an answer", silent, "another"]
    with pytest.raises(UserError, match="a worker of 4 cores has found no place within 130 s in a cluster of 3: lower"):
        worker.answer(None, 1)
    assert ray.killed == []
    worker.answer(None, 1)
    with pytest.raises(Lost, match="has said nothing for 150 s"):  # patience, and a timeout for each order
        worker.answer(None, 3)
    assert ray.killed == [False]  # and it is started again
    assert worker.answer(None, 1) == "another" and ray.waited == [130.0, 130.0, 150.0, 130.0]
    worker.close()
    assert ray.killed == [False, True]
