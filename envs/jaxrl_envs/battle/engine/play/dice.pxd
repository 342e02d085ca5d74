"""Random numbers and the tape (section 3 of the rules)."""

from libc.stdint cimport uint64_t

from jaxrl_envs.battle.engine.state cimport Expression, Game, State
from jaxrl_envs.host.engine cimport below, stream_word

cdef void set_streams(State* b, uint64_t key) noexcept nogil
cdef int die_of_tape(Game* g, int faces) noexcept nogil


cdef inline int die(Game* g, int faces) noexcept nogil:
    """One die, 1 .. faces."""
    cdef int result
    if g.tape != NULL:
        result = die_of_tape(g, faces)
    else:
        result = below(stream_word(g.b.dice_key, g.b.dice), faces) + 1
    g.b.dice += 1
    return result


cdef inline int two_dice(Game* g) noexcept nogil:
    """The sum of two D6, drawn one after the other."""
    cdef int first = die(g, 6)
    return first + die(g, 6)


cdef inline int roll(Game* g, const Expression* dice) noexcept nogil:
    """An expression such as 2D6+1."""
    cdef int i, total = dice.plus
    for i in range(dice.n):
        total += die(g, dice.faces)
    return total


cdef inline int twice_mean(const Expression* dice) noexcept nogil:
    """Twice the mean of a dice expression."""
    return dice.n * (dice.faces + 1) + 2 * dice.plus
