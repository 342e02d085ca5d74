"""The sum-tree against a plain Python one, and its distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxrl.algorithms.dqn.sumtree import SumTree


class PlainTree:
    """The usual sum-tree in plain Python, as public implementations of prioritised replay have it."""

    def __init__(self, capacity: int):
        self.leaves = 1
        while self.leaves < capacity:
            self.leaves *= 2
        self.nodes = [0.0] * (2 * self.leaves)

    def set(self, number: int, priority: float) -> None:
        node = self.leaves + number
        self.nodes[node] = priority
        node //= 2
        while node:
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1]
            node //= 2

    def find(self, at: float) -> int:
        node = 1
        while node < self.leaves:
            node *= 2
            if at >= self.nodes[node] and self.nodes[node + 1] > 0:
                at -= self.nodes[node]
                node += 1
        return node - self.leaves


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def drawn(tree: SumTree, count: int, key: int = 3, draw: int = 0) -> tuple[np.ndarray, np.ndarray]:
    found, priorities = np.empty(count, np.int32), np.empty(count, np.float32)
    tree.sample(key, draw, found, priorities)
    return found, priorities


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 64, 1000])
def test_equals_a_plain_one(capacity: int) -> None:
    random = np.random.default_rng(capacity)
    tree, plain = SumTree(capacity), PlainTree(capacity)
    for _ in range(5):
        where = random.integers(0, capacity, 40).astype(np.int32)
        values = (random.random(40) * (random.random(40) < 0.7)).astype(np.float32)
        values[-1] = 0.5  # there is always something to draw
        tree.set(where, values)
        for number, value in zip(where, values, strict=True):
            plain.set(int(number), float(value))
        assert tree.total == plain.nodes[1]
        found, priorities = drawn(tree, 200)
        np.testing.assert_array_equal(priorities, tree.priorities()[found])
        parts = np.arange(201) * plain.nodes[1] / 200  # of the total, one number of each
        ends = [(plain.find(low), plain.find(high)) for low, high in itertools.pairwise(parts)]
        assert all(first <= number <= last for number, (first, last) in zip(found, ends, strict=True))


def test_drawn_in_proportion_to_the_priorities() -> None:
    """Chi-square: with k - 1 degrees of freedom the statistic has the mean k - 1 and the deviation sqrt(2 (k - 1))."""
    random = np.random.default_rng(0)
    priorities = (random.random(200) ** 2 * (random.random(200) < 0.8)).astype(np.float32)
    tree = SumTree(200)
    tree.load(priorities)
    # One at a time: numbers of one draw are more even than chi-square expects.
    counts = np.bincount([drawn(tree, 1, draw=draw)[0][0] for draw in range(40_000)], minlength=200)
    assert not counts[priorities == 0].any()
    expected = 40_000 * priorities[priorities > 0].astype(np.float64) / priorities.sum(dtype=np.float64)
    statistic = np.sum((counts[priorities > 0] - expected) ** 2 / expected)
    freedom = expected.size - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


def test_strata_and_streams() -> None:
    """Every equal part of the total gives one number, uniform within it; keys and draws give other ones."""
    tree = SumTree(1000)
    tree.load(np.ones(1000, np.float32))
    places = np.stack([drawn(tree, 100, draw=draw)[0] for draw in range(500)])
    np.testing.assert_array_equal(places // 10, np.broadcast_to(np.arange(100), (500, 100)))
    counts = np.bincount((places % 10).ravel(), minlength=10)
    assert np.sum((counts - 5000) ** 2 / 5000) < 9 + 5 * np.sqrt(18)
    np.testing.assert_array_equal(drawn(tree, 100, draw=7)[0], places[7])
    assert (drawn(tree, 100, key=4, draw=7)[0] != places[7]).any()
    assert len(np.unique(places, axis=0)) == 500


def test_sums_do_not_drift_and_are_rebuilt_bit_by_bit() -> None:
    random = np.random.default_rng(1)
    tree = SumTree(500)
    for _ in range(200):
        tree.set(random.integers(0, 500, 64).astype(np.int32), (10.0 ** random.uniform(-6, 6, 64)).astype(np.float32))
    again = SumTree(500)
    again.load(tree.priorities())
    assert again.total == tree.total
    for draw in range(5):
        np.testing.assert_array_equal(drawn(again, 64, draw=draw)[0], drawn(tree, 64, draw=draw)[0])
    tree.set(np.arange(500, dtype=np.int32), np.zeros(500, np.float32))
    assert tree.total == 0.0  # differences added up would have left a rest


def test_nothing_with_priority_zero_is_drawn_however_it_is_rounded() -> None:
    tree = SumTree(6)
    tree.load(floats(0, 1e-30, 0, 1e30, 0, 0))
    assert set(drawn(tree, 64)[0].tolist()) <= {1, 3}
    tree.load(floats(0, 0, 0, 0, 0, 3))
    assert drawn(tree, 64)[0].tolist() == [5] * 64


def test_the_later_of_two_counts() -> None:
    tree = SumTree(4)
    tree.set(numbers(2, 1, 2), floats(5, 1, 3))
    np.testing.assert_array_equal(tree.priorities(), floats(0, 1, 3, 0))
    assert tree.total == 4.0


def test_mistakes_change_nothing() -> None:
    tree = SumTree(4)
    with pytest.raises(ValueError, match="nothing can be drawn"):
        drawn(tree, 1)
    tree.set(numbers(0), floats(1))
    for where, values, error in [
        (numbers(1, 4), floats(1, 1), IndexError),
        (numbers(1, -1), floats(1, 1), IndexError),
        (numbers(1, 2), floats(1, -1), ValueError),
        (numbers(1, 2), floats(1, np.nan), ValueError),
        (numbers(1, 2), floats(1, np.inf), ValueError),
        (numbers(1, 2), floats(1), ValueError),
    ]:
        with pytest.raises(error):
            tree.set(where, values)
    with pytest.raises(ValueError, match="room for"):
        tree.sample(0, 0, np.empty(3, np.int32), np.empty(2, np.float32))
    with pytest.raises(ValueError, match="expected 4"):
        tree.load(floats(1, 2, 3))
    with pytest.raises(ValueError, match="at least 1"):
        SumTree(0)
    np.testing.assert_array_equal(tree.priorities(), floats(1, 0, 0, 0))
