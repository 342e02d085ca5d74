# Part of wire.pyx: what the tokens of a tape say.

cdef enum:
    SHORT_NUMBER = 128  # bytes


cdef int64_t as_int(const Tape* tape, uint32_t i, int64_t otherwise) noexcept nogil:
    cdef const Token* token = &tape.tokens[i]
    cdef int64_t value = otherwise
    if i != 0 and token.kind == JSON_INT:
        integer(tape.text + token.start, token.size, &value)
    return value


cdef double as_double(const Tape* tape, uint32_t i, double otherwise) noexcept nogil:
    cdef const Token* token = &tape.tokens[i]
    cdef char short_copy[SHORT_NUMBER]
    cdef char* copy = short_copy
    cdef int64_t value
    cdef double result
    if i == 0 or (token.kind != JSON_INT and token.kind != JSON_DOUBLE):
        return otherwise
    if token.kind == JSON_INT and integer(tape.text + token.start, token.size, &value):
        return <double>value
    if token.size >= SHORT_NUMBER:  # not a number that anybody would send
        copy = <char*>malloc(token.size + 1)
        if copy == NULL:
            return otherwise
    memcpy(copy, tape.text + token.start, token.size)  # strtod wants a zero behind it
    copy[token.size] = 0
    result = strtod_l(copy, NULL, plain)
    if copy != short_copy:
        release(copy)
    return result


cdef size_t encode(unsigned int point, char* out) noexcept nogil:
    """A character in UTF-8, 1 to 4 bytes."""
    if point < 0x80:
        out[0] = <char>point
        return 1
    if point < 0x800:
        out[0] = <char>(0xC0 | point >> 6)
        out[1] = <char>(0x80 | point & 0x3F)
        return 2
    if point < 0x10000:
        out[0] = <char>(0xE0 | point >> 12)
        out[1] = <char>(0x80 | point >> 6 & 0x3F)
        out[2] = <char>(0x80 | point & 0x3F)
        return 3
    out[0] = <char>(0xF0 | point >> 18)
    out[1] = <char>(0x80 | point >> 12 & 0x3F)
    out[2] = <char>(0x80 | point >> 6 & 0x3F)
    out[3] = <char>(0x80 | point & 0x3F)
    return 4


cdef size_t character(const char** at, char* out) noexcept nogil:
    """The character at a place of a parsed string, 1 to 4 bytes; goes on to the next one."""
    cdef const char* p = at[0]
    cdef unsigned char lead = p[0]
    cdef size_t n
    cdef unsigned int point
    if lead != c'\\':
        n = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        memcpy(out, p, n)
        at[0] = p + n
        return n
    at[0] = p + 2
    if p[1] == c'u':
        point = hex4(p + 2)
        at[0] = p + 6
        if 0xD800 <= point <= 0xDBFF:
            point = 0x10000 + ((point - 0xD800) << 10) + (hex4(p + 8) - 0xDC00)
            at[0] = p + 12
        return encode(point, out)
    out[0] = (
        c'\b' if p[1] == c'b' else c'\f' if p[1] == c'f' else c'\n' if p[1] == c'n' else c'\r' if p[1] == c'r'
        else c'\t' if p[1] == c't' else p[1]
    )
    return 1


cdef size_t unescape(const Tape* tape, uint32_t i, char* out, size_t room) noexcept nogil:
    cdef const char* p
    cdef const char* end
    cdef char one[4]
    cdef size_t n, done = 0
    if not is_string(tape, i):
        return 0
    p = raw(tape, i)
    end = p + tape.tokens[i].size
    if not tape.tokens[i].escaped and tape.tokens[i].size <= room:
        memcpy(out, p, tape.tokens[i].size)
        return tape.tokens[i].size
    while p != end:
        n = character(&p, one)
        if done + n > room:
            break
        memcpy(out + done, one, n)
        done += n
    return done


cdef uint32_t hash_bytes(const char* text, size_t size) noexcept nogil:
    cdef uint32_t hash = 2166136261
    cdef size_t k
    for k in range(size):
        hash = (hash ^ <unsigned char>text[k]) * 16777619
    return hash


cdef uint32_t string_hash(const Tape* tape, uint32_t i) noexcept nogil:
    cdef uint32_t hash = hash_bytes(NULL, 0)
    cdef const char* p
    cdef const char* end
    cdef char one[4]
    cdef size_t n, k
    if not is_string(tape, i):
        return hash
    if not tape.tokens[i].escaped:
        return hash_bytes(raw(tape, i), tape.tokens[i].size)
    p = raw(tape, i)
    end = p + tape.tokens[i].size
    while p != end:
        n = character(&p, one)
        for k in range(n):
            hash = (hash ^ <unsigned char>one[k]) * 16777619
    return hash


cdef inline bint follows(unsigned char c) noexcept nogil:
    return c & 0xC0 == 0x80


cdef bint valid_utf8(const char* text, size_t size) noexcept nogil:
    """RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef const unsigned char* p = <const unsigned char*>text
    cdef const unsigned char* end = p + size
    cdef uint64_t words[2]
    while True:
        while end - p >= 16:
            memcpy(words, p, 16)
            if (words[0] | words[1]) & HIGH:
                break
            p += 16
        while p != end and p[0] < 0x80:
            p += 1
        if p == end:
            return True
        if 0xC2 <= p[0] <= 0xDF and end - p >= 2 and follows(p[1]):
            p += 2
        elif 0xE0 <= p[0] <= 0xEF and end - p >= 3 and follows(p[1]) and follows(p[2]):
            if (p[0] == 0xE0 and p[1] < 0xA0) or (p[0] == 0xED and p[1] > 0x9F):
                return False
            p += 3
        elif 0xF0 <= p[0] <= 0xF4 and end - p >= 4 and follows(p[1]) and follows(p[2]) and follows(p[3]):
            if (p[0] == 0xF0 and p[1] < 0x90) or (p[0] == 0xF4 and p[1] > 0x8F):
                return False
            p += 4
        else:
            return False
