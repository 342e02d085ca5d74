# Part of engine.pyx: words on cards as bits and places in lists.

cdef enum:  # bits of basic land types, behind those of layout.CARD_TYPES
    FIRST_BASIC = 8


cdef inline uint32_t type_bit(const char* word, size_t n) noexcept nogil:
    """A word of a type line as a bit, 0 if it is no matter."""
    cdef char c = lowered(word[0])
    if c == c'c':
        return CREATURE if same(word, n, b"creature") else 0
    if c == c'l':
        return LAND if same(word, n, b"land") else 128 if same(word, n, b"legendary") else 0
    if c == c'a':
        return 4 if same(word, n, b"artifact") else 0
    if c == c'e':
        return 8 if same(word, n, b"enchantment") else 0
    if c == c'i':
        return 16 if same(word, n, b"instant") else 2 << FIRST_BASIC if same(word, n, b"island") else 0
    if c == c's':
        return 32 if same(word, n, b"sorcery") else 4 << FIRST_BASIC if same(word, n, b"swamp") else 0
    if c == c'p':
        return PLANESWALKER if same(word, n, b"planeswalker") else 1 << FIRST_BASIC if same(word, n, b"plains") else 0
    if c == c'm':
        return 8 << FIRST_BASIC if same(word, n, b"mountain") else 0
    if c == c'f':
        return 16 << FIRST_BASIC if same(word, n, b"forest") else 0
    return 0


cdef uint32_t type_bits(const Tape* tape, uint32_t i) noexcept nogil:
    """The words of a type line as bits."""
    cdef char room[WORDS]
    cdef size_t n, k, start = 0
    cdef const char* text = characters(tape, i, room, &n)
    cdef uint32_t bits = 0
    for k in range(n + 1):
        if k == n or text[k] == c' ':
            if k > start:
                bits |= type_bit(text + start, k - start)
            start = k + 1
    return bits


cdef inline bint begins(const char* text, size_t n, const char* word) noexcept nogil:
    """Whether a text is that keyword, perhaps with something behind a blank or a colon."""
    cdef size_t size = strlen(word), k
    if n < size or (n > size and text[size] != c' ' and text[size] != c':'):
        return False
    for k in range(size):
        if lowered(text[k]) != word[k]:
            return False
    return True


cdef inline bint same_start(const char* text, const char* word) noexcept nogil:
    cdef size_t k
    for k in range(strlen(word)):
        if lowered(text[k]) != word[k]:
            return False
    return True


cdef int keyword_of(const char* text, size_t n) noexcept nogil:
    """The place in layout.KEYWORDS, -1 of another one."""
    cdef char c = lowered(text[0]) if n else 0
    if c == c'f' and begins(text, n, b"flying"):
        return 0
    if c == c'f':
        return 1 if begins(text, n, b"first strike") else 13 if begins(text, n, b"flash") else -1
    if c == c'd' and begins(text, n, b"double strike"):
        return 2
    if c == c'd':
        return 3 if begins(text, n, b"deathtouch") else 9 if begins(text, n, b"defender") else -1
    if c == c'l':
        return 4 if begins(text, n, b"lifelink") else -1
    if c == c't':
        return 5 if begins(text, n, b"trample") else -1
    if c == c'v':
        return 6 if begins(text, n, b"vigilance") else -1
    if c == c'h':
        return 7 if begins(text, n, b"haste") else 11 if begins(text, n, b"hexproof") else -1
    if c == c'r':
        return 8 if begins(text, n, b"reach") else -1
    if c == c'm':
        return 10 if begins(text, n, b"menace") else -1
    if c == c'i':
        return 12 if begins(text, n, b"indestructible") else -1
    if begins(text, n, b"shroud") or begins(text, n, b"ward") or begins(text, n, b"protection"):
        return 11
    if c == c'u':
        return 14 if begins(text, n, b"unblockable") else -1
    if c == c'c':
        return 14 if n >= 25 and same_start(text, b"cardname can't be blocked") else -1
    return -1


cdef void read_keywords(const Tape* tape, uint32_t i, Card* card) noexcept nogil:
    cdef char room[WORDS]
    cdef const char* text
    cdef size_t n
    cdef int number
    cdef uint32_t item = i + 1
    if not is_array(tape, i):
        return
    while item != tape.tokens[i].next:
        text = characters(tape, item, room, &n)
        number = keyword_of(text, n)
        if number < 0:
            card.other_keywords += 1
        else:
            card.keywords |= 6 if number == 2 else <uint32_t>1 << number  # double strike is first strike too
        item = tape.tokens[item].next


cdef uint32_t color_bits(const Tape* tape, uint32_t i) noexcept nogil:
    """Letters of colors, W U B R G."""
    cdef uint32_t bits = 0, k
    cdef const char* text
    if is_string(tape, i):
        text = raw(tape, i)
        for k in range(tape.tokens[i].size):
            bits |= (
                1 if text[k] == c'W' else 2 if text[k] == c'U' else 4 if text[k] == c'B' else 8 if text[k] == c'R'
                else 16 if text[k] == c'G' else 0
            )
    return bits


cdef void read_counters(const Tape* tape, uint32_t i, Card* card) noexcept nogil:
    cdef uint32_t key = i + 1
    cdef int64_t number
    if not is_object(tape, i):
        return
    while key != tape.tokens[i].next:
        number = whole(tape, key + 1, 0)
        if equals(tape, key, b"P1P1"):
            card.plus += number
        elif equals(tape, key, b"M1M1"):
            card.plus -= number
        elif not equals(tape, key, b"LOYALTY"):
            card.counters += number
        key = tape.tokens[key + 1].next
