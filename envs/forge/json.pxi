# Part of wire.pyx: JSON as a tape of tokens. Strings are where the bytes are, so they are searched eight at a time.

cdef enum:
    FIRST_ROOM = 1024  # tokens
    LARGEST = 1073741824  # bytes of a text

cdef uint64_t EACH = <uint64_t>0x0101010101010101
cdef uint64_t HIGH = <uint64_t>0x8080808080808080
cdef uint64_t QUOTES = <uint64_t>0x2222222222222222
cdef uint64_t BACKSLASHES = <uint64_t>0x5C5C5C5C5C5C5C5C
cdef uint64_t BLANKS = <uint64_t>0x2020202020202020


cdef inline uint64_t special(uint64_t word) noexcept nogil:
    """The lowest bit set belongs to the first byte that is a quote, a backslash or a control character; 0: none is."""
    cdef uint64_t quote = word ^ QUOTES, backslash = word ^ BACKSLASHES
    # x - EACH borrows from the next byte only above a byte that is zero, so the lowest hit is a true one.
    quote = (quote - EACH) & ~quote
    backslash = (backslash - EACH) & ~backslash
    return (quote | backslash | ((word - BLANKS) & ~word)) & HIGH


cdef inline bint is_digit(char c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef int hex4(const char* p) noexcept nogil:
    """The value of four hexadecimal digits, -1 if they are none."""
    cdef int value = 0, i, c
    for i in range(4):
        c = p[i]
        if is_digit(p[i]):
            value = value * 16 + c - c'0'
        elif c'a' <= (c | 32) <= c'f':
            value = value * 16 + (c | 32) - c'a' + 10
        else:
            return -1
    return value


cdef size_t escape_size(const char* p, const char* end) noexcept nogil:
    """The bytes of the escape that starts at the backslash p; 0: it is none. A surrogate pair is one escape."""
    cdef int unit
    if end - p < 2:
        return 0
    if p[1] != c'u':
        return 2 if memchr(b'"\\/bfnrt', p[1], 8) != NULL else 0
    unit = hex4(p + 2) if end - p >= 6 else -1
    if unit < 0 or 0xDC00 <= unit <= 0xDFFF:
        return 0
    if not 0xD800 <= unit <= 0xDBFF:
        return 6
    if end - p < 12 or p[6] != c'\\' or p[7] != c'u' or not 0xDC00 <= hex4(p + 8) <= 0xDFFF:
        return 0
    return 12


cdef inline const char* string_end(const char* p, const char* end, uint8_t* escaped) noexcept nogil:
    """The quote that ends the string whose first byte is p; or the byte, never a quote, where it stops being one."""
    cdef uint64_t word, found
    cdef size_t size
    escaped[0] = False
    while True:
        while LITTLE_ENDIAN and end - p >= 8:
            memcpy(&word, p, 8)
            found = special(word)
            if found != 0:
                p += trailing_zeros(found) >> 3
                break
            p += 8
        while p != end and p[0] != c'"' and p[0] != c'\\' and <unsigned char>p[0] >= 32:
            p += 1
        if p == end or p[0] != c'\\':
            return p
        size = escape_size(p, end)
        if size == 0:
            return p
        escaped[0] = True
        p += size


cdef inline const char* digits_end(const char* p, const char* end) noexcept nogil:
    while p != end and is_digit(p[0]):
        p += 1
    return p


cdef inline const char* number_end(const char* p, const char* end, uint8_t* kind) noexcept nogil:
    """Behind the number that starts at p; NULL if it is none."""
    cdef const char* digits = p + 1 if p[0] == c'-' else p
    kind[0] = JSON_INT
    p = digits_end(digits, end)
    if p == digits or (digits[0] == c'0' and p - digits > 1):
        return NULL
    if p != end and p[0] == c'.':
        kind[0] = JSON_DOUBLE
        digits = p + 1
        p = digits_end(digits, end)
        if p == digits:
            return NULL
    if p != end and (p[0] | 32) == c'e':
        kind[0] = JSON_DOUBLE
        digits = p + 1
        if digits != end and (digits[0] == c'+' or digits[0] == c'-'):
            digits += 1
        p = digits_end(digits, end)
        if p == digits:
            return NULL
    return p


cdef bint integer(const char* p, size_t size, int64_t* value) noexcept nogil:
    """The value of a JSON integer; false if it is beyond 64 bits."""
    cdef bint negative = p[0] == c'-'
    cdef uint64_t sum = 0, limit = <uint64_t>INT64_MAX + negative
    cdef size_t i
    cdef uint64_t digit
    for i in range(1 if negative else 0, size):
        digit = p[i] - c'0'
        if sum > (limit - digit) / 10:
            return False
        sum = sum * 10 + digit
    value[0] = <int64_t>(0 - sum) if negative else <int64_t>sum
    return True


cdef inline const char* literal_end(const char* p, const char* end, uint8_t* kind) noexcept nogil:
    """Behind true, false or null; NULL if it is none of them."""
    if end - p >= 4 and memcmp(p, b"true", 4) == 0:
        kind[0] = JSON_TRUE
        return p + 4
    if end - p >= 5 and memcmp(p, b"false", 5) == 0:
        kind[0] = JSON_FALSE
        return p + 5
    if end - p >= 4 and memcmp(p, b"null", 4) == 0:
        kind[0] = JSON_NULL
        return p + 4
    return NULL


cdef inline const char* skip_blanks(const char* p, const char* end) noexcept nogil:
    while p != end and (p[0] == c' ' or p[0] == c'\t' or p[0] == c'\n' or p[0] == c'\r'):
        p += 1
    return p


cdef bint grow(Tape* tape) noexcept nogil:
    """Room for more tokens; false: there is no memory."""
    cdef uint32_t room = max(<uint32_t>FIRST_ROOM, 2 * tape.room)
    cdef Token* tokens = <Token*>realloc(tape.tokens, room * sizeof(Token))
    if tokens == NULL:
        return False
    tape.tokens, tape.room = tokens, room
    return True


cdef inline Token* append(Tape* tape, const char* start) noexcept nogil:
    """A new token; NULL: there is no memory."""
    cdef Token* token
    if tape.count == tape.room and not grow(tape):
        return NULL
    token = &tape.tokens[tape.count]
    tape.count += 1
    memset(token, 0, sizeof(Token))
    token.start, token.next = <uint32_t>(start - tape.text), tape.count
    return token


# A place `at` moves on behind what was read; where that is not what was looked for, false, and `at` is where it stops
# being it.

cdef inline bint scan_string(const char** at, const char* end, Token* token) noexcept nogil:
    """A string, from its first quote on."""
    cdef const char* start = at[0] + 1
    cdef const char* last = string_end(start, end, &token.escaped)
    token.kind = JSON_STRING
    token.start += 1
    token.size = <uint32_t>(last - start)
    at[0] = last
    if last == end or last[0] != c'"':
        return False
    at[0] = last + 1
    return True


cdef inline bint scan_scalar(const char** at, const char* end, Token* token) noexcept nogil:
    """A string, number or literal."""
    cdef const char* start = at[0]
    cdef const char* last
    cdef int64_t value
    if start[0] == c'"':
        return scan_string(at, end, token)
    if start[0] == c'-' or is_digit(start[0]):
        last = number_end(start, end, &token.kind)
        if last != NULL:
            token.size = <uint32_t>(last - start)
            if token.kind == JSON_INT and token.size > 18:
                token.overflow = not integer(start, token.size, &value)
    else:
        last = literal_end(start, end, &token.kind)
    if last != NULL:
        at[0] = last
    return last != NULL


cdef inline bint scan_key(Tape* tape, const char** at, const char* end) noexcept nogil:
    """A key and its colon; `at` is NULL if there is no memory."""
    cdef Token* token
    at[0] = skip_blanks(at[0], end)
    if at[0] == end or at[0][0] != c'"':
        return False
    token = append(tape, at[0])
    if token == NULL:
        at[0] = NULL
        return False
    if not scan_string(at, end, token):
        return False
    at[0] = skip_blanks(at[0], end)
    if at[0] == end or at[0][0] != c':':
        return False
    at[0] += 1
    return True


cdef inline bint in_object(const Tape* tape, const uint32_t* around, int depth) noexcept nogil:
    return depth > 0 and tape.tokens[around[depth - 1]].kind == JSON_OBJECT


cdef inline Py_ssize_t fault(const Tape* tape, const char* p) noexcept nogil:
    """What `parse` says of a text that stops being JSON at p; NULL: there is no memory."""
    return -1 if p == NULL else p - tape.text + 1


cdef Py_ssize_t scan(Tape* tape, const char* p, const char* end) noexcept nogil:
    """Fills the tape. See `parse`."""
    cdef uint32_t around[MAX_DEPTH]  # the containers around this place
    cdef Token* token
    cdef int depth = 0
    cdef bint keyed = False  # the innermost of them is an object
    while True:
        if keyed and not scan_key(tape, &p, end):
            return fault(tape, p)
        p = skip_blanks(p, end)
        token = append(tape, p)
        if token == NULL:
            return -1
        if p == end:
            return fault(tape, p)
        if p[0] != c'{' and p[0] != c'[':
            if not scan_scalar(&p, end, token):
                return fault(tape, p)
        elif depth == MAX_DEPTH:
            return fault(tape, p)
        else:
            keyed = p[0] == c'{'
            token.kind = JSON_OBJECT if keyed else JSON_ARRAY
            around[depth] = tape.count - 1
            depth += 1
            p = skip_blanks(p + 1, end)
            if p == end or p[0] != (c'}' if keyed else c']'):
                continue
            p += 1
            depth -= 1
            keyed = in_object(tape, around, depth)
        while True:  # a value is complete, and with it perhaps the containers around it
            p = skip_blanks(p, end)
            if depth == 0:
                return 0 if p == end else fault(tape, p)
            if p == end:
                return fault(tape, p)
            token = &tape.tokens[around[depth - 1]]
            token.size += 1
            if p[0] == c',':
                p += 1
                break
            if p[0] != (c'}' if keyed else c']'):
                return fault(tape, p)
            p += 1
            token.next = tape.count
            depth -= 1
            keyed = in_object(tape, around, depth)


cdef Py_ssize_t parse(const char* text, size_t size, Tape* tape) noexcept nogil:
    cdef Py_ssize_t place = 1
    tape.text, tape.count = text, 0
    if size < LARGEST:
        place = scan(tape, text, text + size)
    if place != 0:
        tape.count = 0
    return place


cdef void free_tape(Tape* tape) noexcept nogil:
    release(tape.tokens)
    memset(tape, 0, sizeof(Tape))
