"""The replay buffer on the host: what is remembered, and in which order it is used."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl.algorithms.base import Transition
from jaxrl.algorithms.dqn import device_replay, nstep
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.device_replay import RecordFormat
from jaxrl.algorithms.dqn.host_replay import HostReplay
from jaxrl.algorithms.dqn.nstep import END
from jaxrl.algorithms.dqn.prefetch import Prefetcher
from jaxrl.training.timers import Timers
from tests.support.host_games import TicTacToeGame
from tests.support.training import assert_identical

STEPS, LANES = 6, 4


def random_steps(seed: int, first: int) -> Transition:
    """A rollout of random steps of TicTacToe's shape on the host; every observation begins with a number of its own."""
    random = np.random.default_rng(seed)
    shape, asked = (STEPS, LANES), (STEPS, LANES, 1)
    observation = np.zeros((2, *asked, 18), np.float32)
    observation[..., 0] = first + np.arange(np.prod(asked)).reshape(asked)
    observation[1, ..., 0] += 1000
    terminated, truncated = random.random((2, *shape)) < 0.12
    seat, final_seat = random.integers(0, 2, asked), random.integers(-1, 2, asked)
    return Transition(
        observation=observation[0],
        mask=random.random((*asked, 9)) < 0.7,
        action=random.integers(0, 9, asked),
        log_prob=np.zeros(asked, np.float32),
        value=np.zeros(asked, np.float32),
        seat=seat,
        weight=(random.random(asked) < 0.8).astype(np.float32),
        rewards=random.integers(-2, 3, (*shape, 2)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        final_observation=observation[1],
        final_seat=final_seat,
        final_weight=((random.random(asked) < 0.7) & (final_seat >= 0)).astype(np.float32),
    )


def on_device(steps: Transition) -> Transition:
    """The same rollout for the memory on the device."""
    return steps._replace(mask=pack(steps.mask), final_seat=np.maximum(steps.final_seat, 0))


def pack(mask: np.ndarray) -> np.ndarray:
    """bool[T, B, S, A] -> u32[T, B, S, 1]."""
    return np.sum(mask.astype(np.uint32) << np.arange(9, dtype=np.uint32), axis=-1, dtype=np.uint32)[..., None]


FORM = RecordFormat(jax.ShapeDtypeStruct((18,), np.float32), 9, "float32")


@pytest.mark.parametrize("capacity", [60, 1000])
def test_remembers_what_the_memory_on_the_device_remembers(capacity: int) -> None:
    """The same rollouts give the same transitions in both memories, also when the ring has gone round."""
    dqn = DQNConfig(capacity=capacity, learning_starts=1)
    replay = HostReplay(TicTacToeGame(limit=5), dqn, LANES)
    memory = device_replay.empty(FORM, capacity, LANES, 2)
    append = jax.jit(lambda memory, steps: device_replay.append(memory, steps, FORM))
    for number in range(8):
        steps = random_steps(number, 100 * number)
        replay.push(steps)
        memory = append(memory, on_device(steps))
    host, device = replay.save(), transitions_of(memory)
    found = {}
    for record in np.flatnonzero(host.priority > 0):
        ends = nstep.n_step(np, replay._sequel, np.array([record]), np.float32(0.9), 3)
        stands = host.observation[ends.last[0], 0] if ends.discount[0] else -1.0
        mask = tuple(np.flatnonzero(host.mask[record]))
        values = (float(ends.reward[0]), float(ends.discount[0]), stands, int(host.action[record]), mask)
        found[float(host.observation[record, 0])] = values
    assert found.keys() == device.keys() and len(found) > 40
    for key, values in found.items():
        np.testing.assert_allclose(values[:3], device[key][:3], rtol=1e-6)
        assert values[3:] == device[key][3:]
    assert capacity == 60 or any(values[2] >= 1000 for values in found.values())  # some stand on final observations


def transitions_of(memory: device_replay.ReplayBuffer) -> dict[float, tuple]:
    """Observation -> (return, discount, where it stands, action, legal actions) of all that can be drawn."""
    links, content = np.asarray(memory.links), jax.jit(FORM.unpack)(memory.content)
    observation, masks, actions = np.asarray(content.observation)[:, 0], np.asarray(content.mask), content.action
    found = {}
    for record in np.flatnonzero(np.asarray(memory.priority).ravel() > 0):
        ends = nstep.n_step(
            np,
            lambda r: nstep.Sequel(links[r, 0], links[r, 1].view(np.float32)),
            np.array([record]),
            np.float32(0.9),
            3,
        )
        legal = tuple(a for a in range(9) if masks[record, 0] >> a & 1)
        stands = observation[ends.last[0]] if ends.discount[0] else -1.0
        values = (float(ends.reward[0]), float(ends.discount[0]), stands, int(actions[record]), legal)
        found[float(observation[record])] = values
    return found


def test_a_saved_memory_draws_the_same() -> None:
    dqn = DQNConfig(capacity=200, batch=16, learning_starts=1)
    first = HostReplay(TicTacToeGame(limit=5), dqn, LANES)
    for number in range(4):
        first.push(random_steps(number, 50 * number))
    room = first.room()
    first.use_key(jax.random.key(9))
    first.sample(3, room)
    first.reprioritise(room.records, np.linspace(0.1, 2.0, 16, dtype=np.float32))
    second = HostReplay(TicTacToeGame(limit=5), dqn, LANES)
    second.load(jax.tree.map(np.array, first.save()))
    second.use_key(jax.random.key(9))
    for memory in (first, second):
        memory.push(random_steps(9, 900))
    assert_identical(first.save(), second.save())
    rooms = [first.room(), second.room()]
    for memory, room in zip((first, second), rooms, strict=True):
        memory.sample(4, room)
    assert_identical(*rooms)
    assert first.save().following.min() < END and first.ready


# ---- the thread that draws ahead ----


class Diary(HostReplay):
    """Writes down what is done to it, and in what order; slow where it is told to be."""

    def __init__(self, *args: Any, slow: str = ""):
        super().__init__(*args)
        self.done: list[Any] = []
        self._slow = slow

    def _note(self, name: str, what: Any) -> None:
        time.sleep(0.02 if name == self._slow else 0.0)
        self.done.append(what)

    def push(self, steps: Transition) -> None:
        self._note("push", "push")
        super().push(steps)

    def sample(self, number: int, into: Any) -> None:
        self._note("sample", ("draw", number))
        super().sample(number, into)

    def reprioritise(self, records: np.ndarray, priority: np.ndarray) -> None:
        self._note("reprioritise", "priorities")
        super().reprioritise(records, priority)


FIRST_DRAWN: dict[str, list[np.ndarray]] = {}  # by the first of these tests


@pytest.mark.parametrize("slow", ["", "push", "sample", "reprioritise", "learn"])
def test_the_order_is_the_schedule_whichever_part_is_slow(slow: str) -> None:
    """Batch k + 1 is drawn after the push of its round and after the priorities of batch k - 1; the result is the same
    however long anything takes, so nothing is ever read half-written."""
    dqn = DQNConfig(capacity=200, batch=16, learning_starts=1)
    replay = Diary(TicTacToeGame(limit=5), dqn, LANES, slow=slow)
    prefetcher = Prefetcher(replay, Timers(False))
    drawn = []

    def learn(k: int, batch: Any) -> np.ndarray:
        time.sleep(0.02 if slow == "learn" else 0.0)
        drawn.append(np.array(batch.observation))
        return np.abs(batch.reward) + np.float32(0.5)

    for number in range(3):
        with prefetcher:
            prefetcher.push(random_steps(number, 50 * number))
            prefetcher.learn(4 * number, 4, learn)
    expected = []
    for number in range(3):
        draws = [("draw", 4 * number + k) for k in range(4)]
        expected += ["push", draws[0], draws[1], "priorities", draws[2], "priorities", draws[3]]
        expected += ["priorities", "priorities"]
    assert replay.done == expected
    np.testing.assert_array_equal(drawn, FIRST_DRAWN.setdefault("", drawn))


def test_an_error_in_the_thread_reaches_the_learner() -> None:
    prefetcher = Prefetcher(HostReplay(TicTacToeGame(), DQNConfig(capacity=2000), LANES), Timers(False))
    with prefetcher, pytest.raises(ValueError, match="nothing can be drawn"):
        prefetcher.learn(0, 3, lambda k, batch: batch.priority)
