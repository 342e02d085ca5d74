# Saved battles: their bytes, sealed, so that damaged ones and those of other rules are refused.

cdef uint64_t seal_of(const State* b, uint64_t mark) noexcept nogil:
    """A hash of a state whose own seal is 0, and of the mark of the rules it is played by."""
    cdef uint64_t word, found = mark
    cdef size_t i
    for i in range(sizeof(State) // 8):
        memcpy(&word, <const char*>b + 8 * i, 8)
        found = (found ^ word) * <uint64_t>0xBF58476D1CE4E5B9
        found ^= found >> 32
    return found


cdef void save_state(const Game* g, unsigned char* out) noexcept nogil:
    """u8[sizeof(State)]; equal battles give equal bytes."""
    cdef State saved
    memcpy(&saved, &g.b, sizeof(State))
    saved.seal = seal_of(&saved, g.rules.mark)
    memcpy(out, &saved, sizeof(State))


cdef bint load_state(Game* g, const unsigned char* data) noexcept nogil:
    """Continues from saved bytes; False, and nothing has changed, if they are not those of a battle of these rules."""
    cdef State saved
    cdef uint64_t seal
    memcpy(&saved, data, sizeof(State))
    seal = saved.seal
    saved.seal = 0
    if seal_of(&saved, g.rules.mark) != seal:
        return False
    memcpy(&g.b, &saved, sizeof(State))
    g.error = OK
    bind(g)
    return True
