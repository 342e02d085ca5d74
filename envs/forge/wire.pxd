"""Lines of text over TCP and JSON in them, for threads that never take the interpreter lock.

    from envs.forge.wire cimport LINE_OK, Lease, Link, Tape, parse

A `Link` is a connection: `send` writes a line, `receive` waits for the next one. What it returns lies in the buffer of
the link and is valid until the next `receive` of that link. Different links may be used by different threads at once;
of one link, one thread sends and one receives at a time. Anybody may close it at any time.

`parse` turns a line into a `Tape` of tokens, a value before what it contains, in the order of the text. Token 0 is the
whole line, so 0 also says "there is none". Behind value i stands `tape.tokens[i].next`: one addition walks an array,

    item = array + 1
    while item != tape.tokens[array].next:
        ...
        item = tape.tokens[item].next

and `Fields` walks an object whose keys come in a known order.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, strlen

cdef enum:
    LINE_OK = 0
    LINE_TIMEOUT = 1
    LINE_CLOSED = 2  # by either side; a line without its end is none
    LINE_TOO_LONG = 3  # the link is closed
    LINE_BAD_UTF8 = 4  # this line only; the next one may be asked for

cdef enum:
    IDLE = 0  # states of a lease: kept, but nobody is using it
    RUNNING = 1
    GONE = 2  # for ever

cdef enum:  # kinds of values
    JSON_NULL = 0
    JSON_FALSE = 1
    JSON_TRUE = 2
    JSON_INT = 3
    JSON_DOUBLE = 4
    JSON_STRING = 5
    JSON_ARRAY = 6
    JSON_OBJECT = 7

cdef enum:
    MAX_DEPTH = 64  # containers in containers
    MAX_LINE = 4194304  # bytes without the end of line

cdef struct Wire  # what a link shares with the hub, see hub.pxi


cdef class Hub:
    """The one thread that reads for all links whose receivers sleep; `Hub.shared()`."""


cdef class Link:
    cdef Wire* wire
    cdef readonly str peer  # host:port
    cdef bint receiving  # from Python
    cdef object __weakref__

    cdef take(self, connection, str peer, size_t max_line)

    # Writes all of it, waiting for a slow reader; adds nothing, so give it the '\n'. LINE_OK or LINE_CLOSED.
    cdef int send(self, const char* data, size_t n) noexcept nogil
    # The next line without '\n' and '\r', waiting for it `seconds` at most. It is valid UTF-8 and may hold NUL bytes.
    cdef int receive(self, double seconds, const char** line, size_t* n) noexcept nogil


@cython.final
cdef class Lease:
    cdef readonly Link link
    cdef readonly object daemon
    cdef readonly double last_used  # seconds of the monotonic clock, when it was left
    cdef int state  # atomic
    cdef object __weakref__
    cdef double used  # seconds in which it was running, without the present ones
    cdef double since  # when it was entered

    # IDLE -> RUNNING; false if it is gone (or somebody else is using it).
    cpdef bint enter(self) noexcept nogil
    # RUNNING -> IDLE: from now on it may be evicted.
    cpdef void leave(self) noexcept nogil
    # RUNNING -> GONE, by its user; the link stays as it is.
    cpdef bint finish(self) noexcept nogil


cdef struct Token:
    uint32_t start  # the first byte of the value in the text; of a string: behind the quote
    uint32_t size  # of a string or number: bytes; of an array: elements; of an object: members
    uint32_t next  # the token behind this value and all it contains
    uint8_t kind
    uint8_t escaped  # a string with backslashes: its bytes are not its characters
    uint8_t overflow  # an integer beyond 64 bits


cdef struct Tape:  # zeros to begin with; used again for the next line, and freed by free_tape
    const char* text
    Token* tokens
    uint32_t count
    uint32_t room


cdef struct Fields:
    const Tape* tape
    uint32_t object
    uint32_t at  # the key to try first


# 0, or where the text stops being JSON: 1 for its first byte; -1: no memory. Strict as RFC 8259, in valid UTF-8; \u
# escapes must form characters. The tape refers to the text. Nothing is allocated unless the tape must grow.
cdef Py_ssize_t parse(const char* text, size_t size, Tape* tape) noexcept nogil
cdef void free_tape(Tape* tape) noexcept nogil
cdef bint valid_utf8(const char* text, size_t size) noexcept nogil

# Values; `otherwise` if token i is no such value, or 0.
cdef int64_t as_int(const Tape* tape, uint32_t i, int64_t otherwise) noexcept nogil
cdef double as_double(const Tape* tape, uint32_t i, double otherwise) noexcept nogil  # integers too
# The characters of a string in UTF-8: at most `room` bytes, whole characters; returns how many. Never more than its
# `size`. No zero is added.
cdef size_t unescape(const Tape* tape, uint32_t i, char* out, size_t room) noexcept nogil
# FNV-1a, 32 bits, of the characters in UTF-8; of no string: of no bytes.
cdef uint32_t string_hash(const Tape* tape, uint32_t i) noexcept nogil
cdef uint32_t hash_bytes(const char* text, size_t size) noexcept nogil


cdef inline bint is_string(const Tape* tape, uint32_t i) noexcept nogil:
    return i != 0 and tape.tokens[i].kind == JSON_STRING


cdef inline bint is_array(const Tape* tape, uint32_t i) noexcept nogil:
    return i != 0 and tape.tokens[i].kind == JSON_ARRAY


cdef inline bint is_object(const Tape* tape, uint32_t i) noexcept nogil:
    return tape.tokens[i].kind == JSON_OBJECT


cdef inline bint as_bool(const Tape* tape, uint32_t i) noexcept nogil:
    return i != 0 and tape.tokens[i].kind == JSON_TRUE


cdef inline uint32_t length(const Tape* tape, uint32_t i) noexcept nogil:
    """Elements of an array; 0 of anything else."""
    return tape.tokens[i].size if is_array(tape, i) else 0


cdef inline const char* raw(const Tape* tape, uint32_t i) noexcept nogil:
    """The bytes of a string or number, `tape.tokens[i].size` of them, with its escapes."""
    return tape.text + tape.tokens[i].start


cdef inline bint equals(const Tape* tape, uint32_t i, const char* word) noexcept nogil:
    """Whether token i is the string `word`, one that needs no escapes."""
    cdef size_t n = strlen(word)
    return (
        is_string(tape, i) and tape.tokens[i].size == n and not tape.tokens[i].escaped
        and memcmp(tape.text + tape.tokens[i].start, word, n) == 0
    )


cdef inline Fields fields(const Tape* tape, uint32_t i) noexcept nogil:
    """A walk over the members of object i; if i is no object, over none."""
    cdef Fields walk
    walk.tape, walk.object, walk.at = tape, i, i + 1
    return walk


cdef inline uint32_t field(Fields* walk, const char* key) noexcept nogil:
    """The value of a key without escapes, 0 if there is none. The keys behind the last one found are tried first."""
    cdef const Token* tokens = walk.tape.tokens
    cdef uint32_t first = walk.object + 1, end = tokens[walk.object].next, at = walk.at
    cdef size_t n = strlen(key)
    cdef bint wrapped = False
    if tokens[walk.object].kind != JSON_OBJECT:
        return 0
    while True:
        if at == end:
            if wrapped:
                return 0
            wrapped, at, end = True, first, walk.at
            if at == end:
                return 0
        if tokens[at].size == n and memcmp(walk.tape.text + tokens[at].start, key, n) == 0 and not tokens[at].escaped:
            walk.at = tokens[at + 1].next
            return at + 1
        at = tokens[at + 1].next


cdef inline uint32_t find(const Tape* tape, uint32_t i, const char* key) noexcept nogil:
    """The value of a key of object i, 0 if there is none."""
    cdef Fields walk = fields(tape, i)
    return field(&walk, key)
