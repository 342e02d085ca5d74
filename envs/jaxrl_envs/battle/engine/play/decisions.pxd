"""The open question and its legal ids (section 8 of the rules).

In the parts of the phases `ask_x` opens a question, `on_x` carries out the answer, `next_x` goes on to the next unit.
"""

from libc.stdint cimport uint64_t

from jaxrl_envs.battle.engine.state cimport ACTIONS, Game, State

cdef extern from *:
    int popcount "__builtin_popcountll"(uint64_t) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(uint64_t) noexcept nogil


cdef inline void ask(Game* g, int side, int kind, int unit, int subject, int roll, int needed) noexcept nogil:
    """Opens a question without any legal id yet."""
    cdef State* b = &g.b
    b.side, b.kind, b.unit, b.subject, b.roll, b.needed = side, kind, unit, subject, roll, needed
    b.legal[0] = b.legal[1] = 0


cdef inline void allow(State* b, int action) noexcept nogil:
    b.legal[action >> 6] |= (<uint64_t>1) << (action & 63)


cdef inline bint is_legal(const State* b, int action) noexcept nogil:
    return 0 <= action < ACTIONS and (b.legal[action >> 6] >> (action & 63)) & 1


cdef inline int legal_count(const State* b) noexcept nogil:
    return popcount(b.legal[0]) + popcount(b.legal[1])


cdef inline int lowest_legal(const State* b) noexcept nogil:
    return trailing_zeros(b.legal[0]) if b.legal[0] else 64 + trailing_zeros(b.legal[1])


cdef inline int nth_legal(const State* b, int number) noexcept nogil:
    """The legal id with this number, in ascending order from 0."""
    cdef uint64_t bits = b.legal[0]
    cdef int base = 0, below = popcount(bits)
    if number >= below:
        number -= below
        bits = b.legal[1]
        base = 64
    while number:
        bits &= bits - 1
        number -= 1
    return base + trailing_zeros(bits)
