"""The usual sum-tree of prioritised replay in Python: a NumPy array of sums, walked node by node and recursively.

It is what tutorials and many agents use, written here from the description of the data structure (Schaul et al. 2016,
https://arxiv.org/abs/1511.05952, appendix B.2.1): every push, draw and change of a priority is a call of its own.
"""

from __future__ import annotations

import numpy as np


class PythonSumTree:
    """Priorities of `capacity` transitions, all 0 at first; a push overwrites the oldest."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.nodes = np.zeros(2 * capacity - 1)  # the root is node 0, the leaves are the last `capacity` nodes
        self.next = 0

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self.nodes[0])

    def push(self, priority: float) -> int:
        """Gives the oldest place a new priority; returns its number."""
        number = self.next
        self.update(number, priority)
        self.next = (number + 1) % self.capacity
        return number

    def update(self, number: int, priority: float) -> None:
        """Changes one priority: the difference goes up to the root."""
        node = number + self.capacity - 1
        change = priority - self.nodes[node]
        self.nodes[node] = priority
        self._propagate(node, change)

    def _propagate(self, node: int, change: float) -> None:
        parent = (node - 1) // 2
        self.nodes[parent] += change
        if parent != 0:
            self._propagate(parent, change)

    def find(self, value: float) -> tuple[int, float]:
        """(number, priority) of the leaf at `value` of the total, from the left."""
        node = self._retrieve(0, value)
        return node - self.capacity + 1, float(self.nodes[node])

    def _retrieve(self, node: int, value: float) -> int:
        left = 2 * node + 1
        if left >= len(self.nodes):
            return node
        if value <= self.nodes[left]:
            return self._retrieve(left, value)
        return self._retrieve(left + 1, value - self.nodes[left])

    def sample(self, uniforms: np.ndarray) -> tuple[list[int], list[float]]:
        """A draw in each of n equal parts of the total, at the shares f64[n] of the parts: numbers and priorities."""
        part = self.total / len(uniforms)
        found = [self.find((i + uniform) * part) for i, uniform in enumerate(uniforms)]
        return [number for number, _ in found], [priority for _, priority in found]
