"""A sum-tree: drawing numbers in proportion to priorities, and changing priorities, in O(log N) each.

The tree is one array of float64 sums: node 1 is the root, the children of node i are 2 i and 2 i + 1, and the leaves
are the priorities. A change recomputes the sums above it from their children, so the sums are a function of the leaves
alone: errors do not grow, and a tree rebuilt from saved leaves is equal bit by bit.
(Schaul et al. 2016, https://arxiv.org/abs/1511.05952, appendix B.2.1.)

All work is done in batches and without the GIL. A tree does not lock: one thread at a time uses it.
"""

from libc.math cimport isfinite
from libc.stdint cimport int32_t, uint64_t

import numpy as np

cdef enum:
    CHUNK = 64  # numbers that go down the tree together; written out below, where Cython wants to see its sign


cdef inline uint64_t _mixed(uint64_t x) noexcept nogil:
    """A bijection whose output bits each depend on every input bit (splitmix64, in the public domain)."""
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline double _uniform(uint64_t key, uint64_t number) noexcept nogil:
    """The uniform number in [0, 1) with this place in the stream of `key`."""
    return (_mixed(_mixed(key) + (number + 1) * <uint64_t>0x9E3779B97F4A7C15) >> 11) * (1.0 / 9007199254740992.0)


cdef class SumTree:
    """Priorities of `capacity` numbered things, all 0 at first.

    Attributes:
      capacity: N; numbers are 0 .. N - 1.
    """

    cdef readonly Py_ssize_t capacity
    cdef Py_ssize_t _leaves  # the next power of two; leaf i is node _leaves + i
    cdef double[::1] _nodes

    def __init__(self, Py_ssize_t capacity):
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity, self._leaves = capacity, 1
        while self._leaves < capacity:
            self._leaves *= 2
        self._nodes = np.zeros(2 * self._leaves, np.float64)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return self._nodes[1]

    def set(self, const int32_t[::1] numbers, const float[::1] priorities):
        """Changes priorities: i32[n] and f32[n]; of a number that comes twice the later one counts.

        Raises:
          ValueError: another length, or a priority that is negative, infinite or none; nothing was changed.
          IndexError: a number out of range; nothing was changed.
        """
        cdef Py_ssize_t i, n = numbers.shape[0], bad = -1
        cdef int32_t number
        if priorities.shape[0] != n:
            raise ValueError(f"{n} numbers, but {priorities.shape[0]} priorities")
        with nogil:
            for i in range(n):
                number = numbers[i]
                if number < 0 or number >= self.capacity or not (priorities[i] >= 0.0) or not isfinite(priorities[i]):
                    bad = i
                    break
        if bad >= 0 and 0 <= numbers[bad] < self.capacity:
            raise ValueError(f"a priority must be a number of at least 0, got {priorities[bad]}")
        if bad >= 0:
            raise IndexError(f"{numbers[bad]} is out of range: the tree holds 0 to {self.capacity - 1}")
        with nogil:
            for i in range(n):
                self._set(numbers[i], priorities[i])

    cdef inline void _set(self, Py_ssize_t number, double priority) noexcept nogil:
        cdef double* nodes = &self._nodes[0]
        cdef Py_ssize_t node = self._leaves + number
        cdef double total
        nodes[node] = priority
        node >>= 1
        while node:
            total = nodes[2 * node] + nodes[2 * node + 1]
            if total == nodes[node]:  # then everything above it is as it was too
                break
            nodes[node] = total
            node >>= 1

    def sample(self, uint64_t key, uint64_t draw, int32_t[::1] numbers, float[::1] priorities):
        """Draws n numbers in proportion to their priorities, one in each of n equal parts of the total.

        Args:
          key: of the stream of random numbers.
          draw: the place in that stream: a draw with the same key and number is the same again, on the same priorities.
          numbers: i32[n], written.
          priorities: f32[n], theirs, written.

        Raises:
          ValueError: all priorities are 0, or another length.
        """
        cdef Py_ssize_t i, begin, count, n = numbers.shape[0]
        cdef uint64_t first = draw * <uint64_t>n
        cdef double part
        cdef double at[CHUNK]
        self._require(n, priorities.shape[0])
        with nogil:
            part = self._nodes[1] / n
            for begin in range(0, n, 64):
                count = min(<Py_ssize_t>CHUNK, n - begin)
                for i in range(count):
                    at[i] = (begin + i + _uniform(key, first + begin + i)) * part
                self._find(at, count, &numbers[begin], &priorities[begin])

    cdef _require(self, Py_ssize_t n, Py_ssize_t room):
        if room != n:
            raise ValueError(f"{n} numbers, but room for {room} priorities")
        if not self._nodes[1] > 0.0:
            raise ValueError("nothing can be drawn: all priorities are 0")

    cdef void _find(self, const double* at, Py_ssize_t count, int32_t* numbers, float* priorities) noexcept nogil:
        """The leaves at `count` (at most CHUNK) sums from the left."""
        cdef const double* nodes = &self._nodes[0]
        cdef Py_ssize_t node[CHUNK]
        cdef double rest[CHUNK]
        cdef double left
        cdef Py_ssize_t i, right, first = 1
        for i in range(count):
            node[i], rest[i] = 1, at[i]
        # Level by level and without branches: the processor waits for the memory of many numbers at the same time.
        while first < self._leaves:
            for i in range(count):
                left = nodes[2 * node[i]]
                # Where rounding leads past the end of the right part, and that part is empty, the left one is meant.
                right = (rest[i] >= left) & (nodes[2 * node[i] + 1] > 0.0)
                rest[i] -= right * left
                node[i] = 2 * node[i] + right
            first *= 2
        for i in range(count):
            numbers[i] = <int32_t>(node[i] - self._leaves)
            priorities[i] = <float>nodes[node[i]]

    def priorities(self):
        """All priorities, a copy f32[N]."""
        return np.asarray(self._nodes[self._leaves : self._leaves + self.capacity]).astype(np.float32)

    def load(self, const float[::1] priorities):
        """Takes all priorities f32[N], e.g. saved ones.

        Raises:
          ValueError: another length, or a priority that is negative, infinite or none.
        """
        values = np.asarray(priorities)
        if values.shape[0] != self.capacity or not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError(f"expected {self.capacity} priorities of at least 0")
        nodes = np.asarray(self._nodes)
        nodes[self._leaves : self._leaves + self.capacity] = values
        first = self._leaves
        while first > 1:  # level by level: the same sums as `set` makes
            first //= 2
            children = nodes[2 * first : 4 * first]
            np.add(children[0::2], children[1::2], out=nodes[first : 2 * first])
