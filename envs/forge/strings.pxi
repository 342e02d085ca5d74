# Part of engine.pyx: numbers and texts of a line.

cdef enum:
    LARGEST = 2147483647
    NOBODY = -1
    NOT_SAID = -2  # an owner
    WORDS = 256  # bytes of a text whose words matter; only one with escapes is ever cut there


cdef inline int32_t whole(const Tape* tape, uint32_t i, int32_t otherwise) noexcept nogil:
    """An integer, cut to 32 bits; `otherwise` if token i is none."""
    cdef int64_t value = as_int(tape, i, otherwise)
    return <int32_t>(LARGEST if value > LARGEST else -LARGEST if value < -LARGEST else value)


cdef inline int32_t fold(uint32_t hash) noexcept nogil:
    return 1 + <int32_t>(hash % (AT_VOCABULARY - 1))


cdef inline int32_t name_id(const Tape* tape, uint32_t i) noexcept nogil:
    """The number of a name, 0 of none; see vocabulary.py."""
    return fold(string_hash(tape, i)) if is_string(tape, i) and tape.tokens[i].size else 0


cdef inline char lowered(char c) noexcept nogil:
    return c + 32 if c'A' <= c <= c'Z' else c


cdef inline bint same(const char* text, size_t n, const char* word) noexcept nogil:
    """Whether n characters are a word of small letters, whatever their case."""
    cdef size_t k
    for k in range(n):
        if lowered(text[k]) != word[k] or word[k] == 0:
            return False
    return word[n] == 0


cdef const char* characters(const Tape* tape, uint32_t i, char* room, size_t* n) noexcept nogil:
    """The text of a string; `room` holds WORDS bytes for one with escapes."""
    n[0] = 0
    if not is_string(tape, i):
        return room
    if tape.tokens[i].escaped:
        n[0] = unescape(tape, i, room, WORDS)
        return room
    n[0] = tape.tokens[i].size
    return raw(tape, i)
