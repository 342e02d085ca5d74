"""Counters: what they add up, over threads and reports; that disabled ones do nothing and cost nothing."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest

from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.networks.config import NetworkConfig
from jaxrl.training.config import TrainConfig
from jaxrl.training.timers import NAMES, NULL, PREFIX, Timers, forward_share
from tests.support import games


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when told to."""
    now = [0]
    monkeypatch.setattr("jaxrl.training.timers.time.perf_counter_ns", lambda: now[0])

    def move(nanoseconds: int) -> None:
        now[0] += nanoseconds

    return move


def test_blocks_and_measured_times_add_up(clock):
    timers = Timers(True)
    with timers.action:
        clock(2_000_000)
    with timers.action:
        clock(1_000_000)
    timers.add_ns("env_step", 500_000)
    assert timers.report(100) == {PREFIX + "action": 30.0, PREFIX + "env_step": 5.0}  # 3 ms and 0.5 ms for 100 steps


def test_a_report_speaks_of_the_time_since_the_last_one(clock):
    timers = Timers(True)
    timers.add_ns("log", 4_000_000)
    assert timers.report(1000) == {PREFIX + "log": 4.0}
    with timers.forward:
        clock(1_000_000)
    assert timers.report(500) == {PREFIX + "forward": 2.0, PREFIX + "log": 0.0}


def test_blocks_may_be_nested_and_survive_exceptions(clock):
    timers = Timers(True)
    with pytest.raises(RuntimeError), timers.action:
        with timers.forward:
            clock(1_000_000)
        clock(1_000_000)
        raise RuntimeError
    assert timers.report(1000) == {PREFIX + "action": 2.0, PREFIX + "forward": 1.0}


def test_blocks_of_two_threads_do_not_mix():
    timers = Timers(True)
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with timers.action:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    with timers.action:
        pass  # ends while the other thread's block is open: its start must not be taken for this one's
    own = timers.report(1000)[PREFIX + "action"]
    time.sleep(0.02)
    leave.set()
    thread.join()
    assert timers.report(1000)[PREFIX + "action"] >= 20.0 > own


def test_updates_are_shared_out_between_forward_and_backward():
    asked = []
    timers = Timers(True, lambda: asked.append(1) or 0.25)
    assert timers.report(1000) == {} and not asked  # only when there is something to share out
    timers.add_ns("backward", 4_000_000)
    assert timers.report(1000) == {PREFIX + "forward": 1.0, PREFIX + "backward": 3.0}
    timers.add_ns("backward", 8_000_000)
    assert timers.report(1000) == {PREFIX + "forward": 2.0, PREFIX + "backward": 6.0} and len(asked) == 1
    assert Timers(False, lambda: 1 / 0).report(1000) == {}


def test_the_share_is_measured():
    env, config = games.TicTacToe(), Config(network=NetworkConfig(hidden=(32,)))
    as_dqn = dataclasses.replace(config, train=TrainConfig(algorithm="dqn"))
    once, thrice = (forward_share(make_algorithm(each, env), env, 64) for each in (config, as_dqn))
    assert 0 < once <= 2 / 3 and 0 < thrice <= 6 / 7  # a backward pass is half a forward pass at least


def test_disabled_counters_are_one_shared_object_that_does_nothing():
    timers = Timers(False)
    assert all(getattr(timers, name) is NULL for name in NAMES)
    with timers.action as value:
        assert value is None
    timers.add_ns("env_step", 5)
    assert timers.report(1000) == {} and not timers.enabled
    with pytest.raises(KeyError), timers.log:  # and hides no error
        raise KeyError
