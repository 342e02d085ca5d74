"""Random numbers and the tape."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport realloc

from jaxrl_envs.battle.engine.state cimport NO_MEMORY, TAPE_ENDED, TAPE_MISFIT, Game, State, Tape
from jaxrl_envs.host.engine cimport below, mix, stream_word


cdef void set_streams(State* b, uint64_t key) noexcept nogil:
    """The streams of a battle key; how much has been drawn from them stays."""
    cdef int side
    b.dice_key = mix(key ^ 1)
    for side in range(2):
        b.player_key[side] = mix(key ^ <uint64_t>(2 + side))


cdef int die_of_tape(Game* g, int faces) noexcept nogil:
    """One die from the given results, or from the stream and kept; a tape that ends or does not fit stops the battle."""
    cdef Tape* tape = g.tape
    cdef int result = 1
    if tape.given == NULL:
        result = below(stream_word(g.b.dice_key, g.b.dice), faces) + 1
    elif tape.count >= tape.given_count:
        g.error = TAPE_ENDED
    elif not 1 <= tape.given[tape.count] <= faces:
        g.error = TAPE_MISFIT
    else:
        result = tape.given[tape.count]
    if tape.count == tape.room and not more_room(tape):
        g.error = NO_MEMORY
        return result
    tape.faces[tape.count] = faces
    tape.results[tape.count] = result
    tape.count += 1
    return result


cdef bint more_room(Tape* tape) noexcept nogil:
    """Room for more dice; only single battles keep theirs, so batches never allocate."""
    cdef Py_ssize_t room = 2 * tape.room + 1024
    cdef uint8_t* faces = <uint8_t*>realloc(tape.faces, room)
    cdef uint8_t* results
    if faces == NULL:
        return False
    tape.faces = faces
    results = <uint8_t*>realloc(tape.results, room)
    if results == NULL:
        return False
    tape.results, tape.room = results, room
    return True
