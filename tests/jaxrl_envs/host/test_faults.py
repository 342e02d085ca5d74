"""What the pool of host games does when an engine raises or hangs, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.engine import NoopEngine, PythonEngine
from jaxrl_envs.host.game import RANDOM, EngineError, HungEngine, IllegalAction, make_buffers
from tests.support.host_games import PicksGame, TicTacToeGame
from tests.support.pools import begun


def engine_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("engine ")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    end = time.monotonic() + 5.0
    while engine_threads() and time.monotonic() < end:
        time.sleep(0.01)
    assert engine_threads() == []


def raises_in(number, error, move=1):
    """A fault: that game raises when it is asked for its move `move`."""

    def fault(board, action):
        if board.slot == number and sum(cell >= 0 for cell in board.cells) == move:
            raise error

    return fault


@pytest.mark.parametrize(("mode", "threads"), [("sync", 1), ("sync", 8), ("async", 2)])
def test_an_engine_that_raises_in_game_17_of_64(mode, threads):
    error = ZeroDivisionError("no points to divide")
    engine = TicTacToeGame(fault=raises_in(17, error)).engine(64, 0)
    with begun(engine, threads=threads, mode=mode) as (pool, out, act):
        act(np.zeros(64, np.int32))
        states = pool.save()
        with pytest.raises(EngineError, match=r"^game 17: ZeroDivisionError: no points to divide$") as caught:
            act(np.ones(64, np.int32))
        assert caught.value.game == 17 and caught.value.__cause__ is error
        for order in (lambda: act(np.full(64, RANDOM)), lambda: pool.start(out), pool.save):
            with pytest.raises(EngineError, match="game 17: failed before; the pool can only be closed"):
                order()
    healthy = TicTacToeGame().engine(64, 0)  # what was saved before goes on in another pool
    with HostPool(healthy) as pool:
        pool.load(states, np.full((64, 2), -1), out)
        pool.send(np.ones(64, np.int32), out)
        pool.recv()
        assert (out.info[:, 0] == 2).all()


class Broken:
    """A game whose every method but `start` gives something wrong."""

    def __init__(self, **answers):
        self.answers = answers

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        usual = {"start": None, "step": None, "player": 0, "legal": True, "ended": 0, "rewards": [0.0], "mask": [True]}
        answers = usual | {"observe": [0.0], "save": b"", "bot": 0, "load": None} | self.answers

        def method(*arguments):
            answer = answers[name]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return method


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"start": OSError("no file")}, "OSError: no file"),
        ({"observe": [0.0, 1.0]}, r"observe\(\) returned an array of shape \(2,\), not \(1,\)"),
        ({"mask": ValueError("no mask")}, "ValueError: no mask"),
        ({"player": 3}, r"player\(\) returned 3, which is no seat"),
        ({"player": -1}, "asks seat -1, which does not exist"),
        ({"rewards": ["much"]}, r"rewards\(\) returned an array of <U4, not float32"),
        ({"mask": [0.0]}, r"mask\(\) returned an array of float64, not bool"),
        ({"mask": [False]}, "asks a question to which its mask allows no answer: an engine must offer a legal action"),
        ({"legal": False}, r"its mask allows action 0, its legal\(\) does not"),
        ({"ended": 3}, r"ended\(\) returned 3, not 0, 1 or 2"),
        ({"start": SystemExit(7)}, "SystemExit: 7"),
        ({"rewards": [float("inf")]}, r"opening\[0\] is inf: an engine must give finite numbers"),
        ({"observe": [float("nan")]}, r"observation\[0\] is nan: an engine must give finite numbers"),
    ],
)
def test_wrong_answers_of_a_python_game_are_told(answers, message):
    sizes = {"num_players": 1, "num_actions": 1, "num_features": 1, "state_bytes": 4}
    engine = PythonEngine([Broken(), Broken(**answers)], **sizes)
    with HostPool(engine, threads=1) as pool, pytest.raises(EngineError, match="^game 1: .*" + message):
        pool.start(make_buffers(engine, 2))


@pytest.mark.parametrize("wrong", [0, 17, 39, None])
def test_every_feature_is_checked(wrong):
    """Great numbers are no fault, even where their sum is more than a float holds."""
    seen = np.full(40, 3e38, np.float32)
    if wrong is not None:
        seen[wrong] = -np.inf
    sizes = {"num_players": 1, "num_actions": 1, "num_features": 40, "state_bytes": 4}
    with HostPool(PythonEngine([Broken(observe=seen)], **sizes)) as pool:
        if wrong is None:
            pool.start(make_buffers(pool.engine, 1))
            return
        with pytest.raises(EngineError, match=rf"^game 0: observation\[{wrong}\] is -inf: an engine must give finite"):
            pool.start(make_buffers(pool.engine, 1))


def test_a_mask_that_contradicts_legal_later_is_the_engines_fault():
    """An engine error, not an error of the caller that trusted the mask; if both reject it, it is the caller's."""

    def forget(board, action):
        board.legal = lambda action: action != 4
        board.mask = lambda: [True] * 8 + [False]

    engine = TicTacToeGame(fault=forget).engine(2, 0)
    with begun(engine, threads=1) as (pool, out, act):
        act(np.zeros(2, np.int32))
        with pytest.raises(IllegalAction, match="game 0: action 8 is not legal"):
            engine.games[0].legal = lambda action: action not in (4, 8)
            pool.send(np.array([8, 1], np.int32), out)
        with pytest.raises(EngineError, match=r"^game 1: its mask allows action 4, its legal\(\) does not$"):
            pool.send(np.array([1, 4], np.int32), out)


def test_masks_of_all_seats_are_checked():
    engine = PicksGame().engine(2, 0)
    engine.games[1].mask = lambda seat: [seat == 0] * 4
    with HostPool(engine, threads=1) as pool, pytest.raises(EngineError, match="^game 1: asks a question to which"):
        pool.start(make_buffers(engine, 2))
    engine = PicksGame().engine(2, 0)
    engine.games[1].mask = lambda seat: [seat == 0 or action > 2 for action in range(4)]
    with HostPool(engine, threads=1) as pool:
        with pytest.raises(EngineError, match=r"^game 1: its legal\(\) allows action 0 of seat 1, its mask does not$"):
            pool.start(make_buffers(engine, 2))


def test_what_a_game_ends_with_is_checked():
    sizes = {"num_players": 1, "num_actions": 1, "num_features": 1, "state_bytes": 4}
    engine = PythonEngine([Broken(ended=1, observe=[float("nan")], player=-1)], **sizes)
    with HostPool(engine, mode="async", follow=False) as pool:
        pool.begin([0], make_buffers(engine, 1))
        with pytest.raises(EngineError, match="is nan: an engine must give finite numbers"):
            pool.recv(1)


def test_games_without_an_outside_seat_are_refused():
    engine = TicTacToeGame().engine(2, 0)
    with HostPool(engine, controllers=[[-1, -1], [0, 0]]) as pool:
        with pytest.raises(EngineError, match="game 1: 1000 games in a row asked no outside seat"):
            pool.start(make_buffers(engine, 2))
        assert pool.unasked >= 1000


def test_bots_that_do_not_exist():
    engine = TicTacToeGame().engine(2, 0)
    with HostPool(engine, controllers=[[-1, -1], [7, -1]]) as pool:
        with pytest.raises(EngineError, match="game 1: ValueError: there is no bot 7"):
            pool.start(make_buffers(engine, 2))
    with begun(NoopEngine(2), controllers=[[-1, 3]] * 2) as (_, _, act):
        with pytest.raises(EngineError, match="there is no such bot"):
            act(np.zeros(2, np.int32))


# ---- engines that hang ----------------------------------------------------------------------------------------------


def test_a_hung_engine_is_named_and_left_behind():
    release = threading.Event()

    def hang(board, action):
        if board.slot == 2:
            release.wait(30)

    engine = TicTacToeGame(fault=hang).engine(4, 0)
    pool = HostPool(engine, threads=2, timeout=0.4)
    try:
        out = make_buffers(engine, 4)
        pool.start(out)
        start = time.monotonic()
        pool.send(np.zeros(4, np.int32), out)
        with pytest.raises(HungEngine, match="game 2: has not answered for 0.4 s") as caught:
            pool.recv()
        assert caught.value.game == 2 and 0.4 <= time.monotonic() - start < 2.0
        with pytest.raises(EngineError, match="failed before"):
            pool.send(np.zeros(4, np.int32), out)
        start = time.monotonic()
        with pytest.warns(RuntimeWarning, match="game 2 does not return: engine . cannot be ended"):
            pool.close()
        assert time.monotonic() - start < 4.0
        assert len(engine_threads()) == 1
        pool.close()  # a second call has nothing left to do
    finally:
        release.set()


def test_slow_games_are_not_hung():
    """Progress in any game counts: the whole batch may take longer than the timeout."""
    engine = TicTacToeGame(fault=lambda board, action: time.sleep(0.1)).engine(12, 0)
    with begun(engine, threads=1, timeout=0.4) as (_, out, act):
        start = time.monotonic()
        act(np.zeros(12, np.int32))
        assert time.monotonic() - start > 1.0 and (out.length == 1).all()


def test_a_program_with_a_hung_engine_can_end():
    source = """
import time, numpy as np
from tests.support.host_games import PicksGame, TicTacToeGame
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import make_buffers
engine = TicTacToeGame(fault=lambda board, action: time.sleep(3600)).engine(2, 0)
pool = HostPool(engine, threads=2)
out = make_buffers(engine, 2)
pool.start(out)
pool.send(np.zeros(2, np.int32), out)
print("sent")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=25, check=False)
    assert (done.returncode, done.stdout) == (0, "sent\n"), done.stderr


def test_signals_are_seen_while_waiting():
    source = """
import os, signal, threading, time, numpy as np
from tests.support.host_games import TicTacToeGame
from tests.support.pools import begun
engine = TicTacToeGame(fault=lambda board, action: time.sleep(2)).engine(1, 0)
with begun(engine) as (pool, out, _):
    pool.send(np.zeros(1, np.int32), out)
    start = time.monotonic()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background without it
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        pool.recv()
    except KeyboardInterrupt:
        print("stopped", time.monotonic() - start < 1.0)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=25, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped True\n"), done.stderr


# ---- nothing is left behind -----------------------------------------------------------------------------------------


def test_pools_come_and_go():
    before = threading.active_count()
    engine = NoopEngine(64)
    out = make_buffers(engine, 64)
    for _ in range(100):
        with HostPool(engine, threads=4) as pool:
            pool.start(out)
            pool.send(np.zeros(64, np.int32), out)  # and leaves while games are in play
    assert threading.active_count() == before


def test_a_forgotten_pool_ends_its_threads():
    engine = NoopEngine(8)
    pool = HostPool(engine, threads=3)
    pool.start(make_buffers(engine, 8))
    assert len(engine_threads()) == 3
    del pool
    gc.collect()
    assert engine_threads() == []


def test_steps_do_not_grow_the_memory():
    import resource

    with begun(NoopEngine(256, num_features=64), threads=2, groups=2) as (pool, out, _):
        halves = [out.rows(slice(0, 128)), out.rows(slice(128, 256))]
        actions = np.zeros(128, np.int32)

        def play(steps):
            for _ in range(steps):
                for group, half in enumerate(halves):
                    pool.send(actions, half, group)
                for group in range(2):
                    pool.recv(group)
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        settled = play(2000)
        assert play(10_000) - settled < 2000  # kB
