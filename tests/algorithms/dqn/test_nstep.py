"""n-step returns of seats that act now and then, against a brute-force definition."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.base import Transition
from jaxrl.algorithms.dqn import device_replay, nstep
from jaxrl.algorithms.dqn.device_replay import RecordFormat
from jaxrl.algorithms.dqn.nstep import END, LOST, NONE, OPEN, Recorded, Sequel, Waiting
from jaxrl.networks import distributions

LANES, SEATS, STEPS, ROLLOUTS = 5, 3, 7, 6
APPEND = jax.jit(lambda memory, decisions: device_replay.append(memory, decisions, FORM))
UNPACK = jax.jit(lambda rows: FORM.unpack(rows))
FORM = RecordFormat(jax.ShapeDtypeStruct((), np.int32), 4, "float16")


@dataclasses.dataclass
class Steps:
    """Random steps of many games, [T, B, ...]; every observation is a number of its own."""

    observation: np.ndarray  # i32[T, B]
    seat: np.ndarray
    weight: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_observation: np.ndarray
    final_seat: np.ndarray
    final_weight: np.ndarray


def random_steps(seed: int) -> Steps:
    """Games in which seat 1 of some is an opponent's, a third of the ends are cuts, a few of them both."""
    random = np.random.default_rng(seed)
    shape = (STEPS * ROLLOUTS, LANES)
    seat = random.integers(0, SEATS, shape)
    final_seat = random.integers(0, SEATS, shape)
    terminated, truncated = random.random(shape) < 0.08, random.random(shape) < 0.08
    game = np.cumsum(np.vstack([np.zeros((1, LANES), bool), (terminated | truncated)[:-1]]), axis=0)
    foreign = (game + np.arange(LANES)) % 3 == 0  # an opponent holds seat 1 in this game
    return Steps(
        observation=np.arange(seat.size).reshape(shape),
        seat=seat,
        weight=1.0 - (foreign & (seat == 1)),
        rewards=random.integers(-3, 4, (*shape, SEATS)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        final_observation=10_000 + np.arange(seat.size).reshape(shape),
        final_seat=final_seat,
        final_weight=1.0 - (foreign & (final_seat == 1)),
    )


def brute_force(steps: Steps, gamma: float, n: int) -> dict[int, tuple[float, float, int | None]]:
    """Observation of a decision -> (return, discount, observation on which it stands) by the definition.

    Decisions whose own end is not known are left out; where fewer than n decisions follow, the return is over those.
    """
    found = {}
    total = len(steps.seat)
    for lane in range(LANES):
        for t in range(total):
            if not steps.weight[t, lane]:
                continue
            seat, value, discount, now, stands = steps.seat[t, lane], 0.0, 1.0, t, None
            for _ in range(n):
                earned, after, end = 0.0, now, ""
                while not end:
                    earned += steps.rewards[after, lane, seat]
                    if steps.terminated[after, lane]:
                        end = "over"
                    elif steps.truncated[after, lane]:
                        asked = steps.final_seat[after, lane] == seat and steps.final_weight[after, lane]
                        end = "cut" if asked else "lost"
                    elif after + 1 == total:
                        end = "lost"
                    elif steps.seat[after + 1, lane] == seat and steps.weight[after + 1, lane]:
                        end = "next"
                    after += 1
                if end == "lost":
                    break
                value, discount = value + discount * earned, discount * gamma
                now, stands = after, steps.observation[after, lane] if end == "next" else None
                if end == "cut":
                    stands = steps.final_observation[after - 1, lane]
                if end == "over":
                    discount, stands = 0.0, None
                if end != "next":
                    break
            if stands is not None or discount == 0.0:
                found[int(steps.observation[t, lane])] = (value, discount, stands)
    return found


def in_rollouts(steps: Steps) -> list[Steps]:
    fields = {field.name: getattr(steps, field.name) for field in dataclasses.fields(Steps)}
    return [
        Steps(**{name: value[r * STEPS : (r + 1) * STEPS] for name, value in fields.items()}) for r in range(ROLLOUTS)
    ]


def remembered(steps: Steps, capacity: int) -> device_replay.ReplayBuffer:
    """The memory after all rollouts; masks say which action was taken."""
    memory = device_replay.empty(FORM, capacity, LANES, SEATS)
    for part in in_rollouts(steps):
        one: dict[str, Any] = {name: jnp.asarray(value)[..., None] for name, value in vars(part).items()}
        one |= {name: one[name][..., 0] for name in ("rewards", "terminated", "truncated")}
        action, nothing = one["observation"] % 4, jnp.zeros(part.seat.shape)[..., None]
        mask = distributions.pack_mask(jax.nn.one_hot(action, 4) > 0)
        memory = APPEND(memory, Transition(mask=mask, action=action, log_prob=nothing, value=nothing, **one))
    return memory


def returns_of(memory: device_replay.ReplayBuffer, gamma: float, n: int) -> dict[int, tuple[float, float, int]]:
    """Observation -> (return, discount, observation on which it stands) of everything that can be drawn."""
    records = np.flatnonzero(np.asarray(memory.priority).reshape(-1) > 0)
    links = np.asarray(memory.links)

    def sequel(those: np.ndarray) -> Sequel:
        return Sequel(links[those, 0], links[those, 1].view(np.float32))

    found = nstep.n_step(np, sequel, records, np.float32(gamma), n)
    observation = np.asarray(UNPACK(memory.content).observation)
    return {
        int(observation[i]): (r, d, int(observation[j]))
        for i, r, d, j in zip(records, found.reward, found.discount, found.last, strict=True)
    }


def assert_equal_returns(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for decision, (value, discount, stands) in expected.items():
        np.testing.assert_allclose(found[decision][:2], (value, discount), rtol=1e-5, atol=1e-5)
        assert stands is None or found[decision][2] == stands, decision


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_returns_are_those_of_the_definition(n: int) -> None:
    steps = random_steps(n)
    expected = brute_force(steps, 0.9, n)
    ends = {discount == 0.0 for _, discount, _ in expected.values()}
    assert ends == {True, False} and any(s is not None and s >= 10_000 for _, _, s in expected.values())
    memory = remembered(steps, 1000)
    assert_equal_returns(returns_of(memory, 0.9, n), expected)
    assert int(memory.written) == len(expected)


def test_the_newest_stay_when_the_ring_is_full() -> None:
    """What is overwritten is gone as a whole: the rest has the returns that it has in a memory without end."""
    steps = random_steps(7)
    small, expected = returns_of(remembered(steps, 80), 0.9, 3), brute_force(steps, 0.9, 3)
    assert 40 < len(small) <= 80 < len(expected)
    assert_equal_returns(small, {decision: expected[decision] for decision in small})
    newest = sorted(expected, key=lambda d: np.argwhere(steps.observation == d)[0][0])[-30:]
    assert set(newest) <= set(small)


def test_a_record_that_waits_too_long_is_not_written_over_by_its_end() -> None:
    """Seat 1 acts once, then seat 0 fills the ring; what seat 1 earned must not go into a record of seat 0."""
    memory = device_replay.empty(FORM, 6, 1, 2)

    def played(seats: list[int], first: int) -> Transition:
        seat = jnp.array(seats, jnp.int32)[:, None, None]
        none, nothing = jnp.zeros((len(seats), 1), bool), jnp.zeros(seat.shape)
        return Transition(
            observation=first + jnp.arange(len(seats))[:, None, None],
            mask=jnp.ones((len(seats), 1, 1, 1), jnp.uint32),
            action=jnp.zeros_like(seat),
            log_prob=nothing,
            value=nothing,
            seat=seat,
            weight=nothing + 1.0,
            rewards=jnp.ones((len(seats), 1, 2), jnp.float32) * jnp.array([1.0, 100.0]),
            terminated=none,
            truncated=none,
            final_observation=None,
            final_seat=seat,
            final_weight=nothing + 1.0,
        )

    for turn, seats in enumerate([[1, 0, 0], [0, 0, 0], [0, 1, 0]]):
        memory = APPEND(memory, played(seats, 3 * turn))
    found = returns_of(memory, 1.0, 1)
    assert {obs: float(value) for obs, (value, _, _) in found.items()} == {3: 1.0, 4: 1.0, 5: 1.0, 6: 2.0}
    at = int(np.flatnonzero(np.asarray(UNPACK(memory.content).observation) == 7)[0])
    assert int(memory.links[at, 0]) == OPEN  # seat 1's second decision waits as its first one did


def test_host_and_device_link_alike() -> None:
    random = np.random.default_rng(0)
    waiting = [Waiting(np.full((LANES, SEATS), NONE, np.int32), np.zeros((LANES, SEATS), np.float32))] * 2
    link = jax.jit(nstep.link)
    codes = set()
    for number in range(8):
        acted = random.random((STEPS, LANES, SEATS)) < 0.5
        record = np.where(acted, number * 1000 + np.arange(acted.size).reshape(acted.shape), NONE).astype(np.int32)
        over = random.random((2, STEPS, LANES)) < 0.15
        final = np.where(random.random(acted.shape) < 0.5, 50_000, NONE).astype(np.int32)
        rewards = random.normal(size=acted.shape).astype(np.float32)
        played = Recorded(record, rewards, over[0], over[1], final)
        host, device = nstep.link_on_host(played, waiting[0]), link(played, waiting[1])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), host, device)
        jax.tree.map(lambda a, b: np.testing.assert_equal(a.dtype, b.dtype), host, device)
        waiting = [host.waiting, device.waiting]
        codes |= set(np.unique(host.rollout.following[acted])) & {END, OPEN, LOST, 50_000}
    assert codes == {END, OPEN, LOST, 50_000}
