"""The tables of names and of abilities in an observation."""


cdef class Tables:
    cdef float* kinds  # [KINDS, KIND]
    cdef float* parts  # [PARTS, PART]
    cdef dict rows  # kind: its row
    cdef dict firsts  # kind: the row of its first part
    cdef int used  # parts

    cdef int kind(self, kind) except -1  # 1 + its row
    cdef int add(self, bytes parts, int count, int kind) except -1  # 1 + the row of the first
    cdef int part(self, kind, int number) except -1  # 1 + its row
