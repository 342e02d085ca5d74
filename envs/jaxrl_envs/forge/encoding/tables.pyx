"""The tables of names and of abilities in an observation."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

from jaxrl_envs.forge cimport layout as at


cdef class Tables:
    """The kinds and parts of an observation, in the order in which they are first named."""

    def __cinit__(self):
        self.rows, self.firsts = {}, {}

    cdef int kind(self, kind) except -1:
        """1 + the row of a kind, which is written if it has none; 0: nothing, or there is no room."""
        cdef int row
        if kind is None:
            return 0
        found = self.rows.get(kind)
        if found is not None:
            return 1 + <int>found
        row = len(self.rows)
        if row >= at.KINDS:
            return 0
        self.rows[kind] = row
        memcpy(self.kinds + row * at.KIND, PyBytes_AS_STRING(kind.numbers), at.KIND * sizeof(float))
        self.firsts[kind] = self.used
        self.add(kind.parts, kind.count, 1 + row)
        if self.used - <int>self.firsts[kind] < <int>kind.count:  # no room: it is not known what it does
            self.kinds[row * at.KIND + at.TOLD] = 0
        return 1 + row

    cdef int add(self, bytes parts, int count, int kind) except -1:
        """1 + the row of the first of `count` parts; 0: no parts, or no room."""
        cdef int first = self.used, i
        cdef float* row
        count = min(count, at.PARTS - first)
        if count == 0:
            return 0
        memcpy(self.parts + first * at.PART, PyBytes_AS_STRING(parts), count * at.PART * sizeof(float))
        for i in range(first, first + count):
            row = self.parts + i * at.PART
            row[at.PART_KIND] = kind
            row[at.PART_OF] += 1 + first
        self.used += count
        return 1 + first

    cdef int part(self, kind, int number) except -1:
        """1 + the row of a part of a kind; 0: none."""
        if kind is None or not 0 <= number < <int>kind.count or not self.kind(kind):
            return 0
        return 1 + <int>self.firsts[kind] + number if <int>self.firsts[kind] + number < self.used else 0
