# Part of engine.pyx: faults in words.

MESSAGES = {
    FAILED: "the game failed before",
    BAD_STATE: "the saved game is damaged, or belongs to other decks or options",
    NO_SUCH_BOT: "there is no such bot",
    NO_MEMORY: "there is no memory for the game",
}
REASONS = {  # for the counts of the fleet
    NO_LINE: "timeout",
    CLOSED: "closed",
    TOO_LONG_A_LINE: "too long a line",
    NOT_UTF8: "not UTF-8",
    GARBAGE: "garbage",
    DIFFERENT: "different game",
    SLOW: "out of time",
    NO_ROOM: "no memory",
}
NO_START = "no start"  # NEWGAME was not answered in time
WHAT_HAPPENED = {
    NO_LINE: "it did not answer for {patience:g} s",
    CLOSED: "it closed the connection",
    TOO_LONG_A_LINE: "it sent a line of more than four million bytes",
    NOT_UTF8: "it sent a line that is not UTF-8",
    GARBAGE: "it sent a line that is no message of its protocol",
    SLOW: "the game takes more than twice the CPU time of game_limit when it is played again",
    NO_ROOM: "there is no memory for its lines",
}


def sentence(int fault, u64 key, int turn, double patience, str why):
    """Why a game cannot be played on."""
    if fault == REFUSED:
        return f"Forge's daemon does not begin the game ({why.removeprefix('ERROR:').strip()})"
    if fault == DIFFERENT:
        return (
            f"the engine plays seed {seed_of(key)} differently than before, so that the game cannot be continued: was "
            "Forge, Java or a deck changed since it began?"
        )
    what = WHAT_HAPPENED[fault].format(patience=patience)
    return f"Forge failed {ATTEMPTS} times at the same place of the game with seed {seed_of(key)} (turn {turn}): {what}"


cdef u64 seed_of(u64 key) noexcept:
    """What the daemon gets, 63 bits."""
    return key >> 1 if key > 1 else 1


def give_back(fleet, dict leases, list writers):
    """An engine that was dropped gives its daemons back and closes its files."""
    while leases:
        lease = leases.popitem()[1]
        writers.append(_WRITERS.pop(id(lease), None))
        try:
            fleet.release(lease, finished=False)
        except Exception:  # the process ends, the fleet has gone before
            pass
    while writers:
        writer = writers.pop()
        if writer is not None:
            writer.close()


cdef Py_ssize_t state_size(Py_ssize_t max_decisions) noexcept:
    return (sizeof(State) + max_decisions * sizeof(int16_t) + 7) // 8 * 8


def state_bytes_of(max_decisions):
    """The size of a saved game."""
    return state_size(max_decisions)


cdef int nth_legal(const Question* q, int k) noexcept nogil:
    """The legal action number k."""
    cdef int action
    for action in range(AT_NUM_ACTIONS):
        if q.legal[action]:
            if k == 0:
                return action
            k -= 1
    return 0


cdef int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


# ---- conversations on their way into files, if somebody wants them ---------------------------------------------------

_WRITERS = {}  # address of a lease: recording.Writer


cdef void record(void* lease, const char* line, size_t n, bint sent) noexcept nogil:
    """A line of a conversation, without its end."""
    with gil:
        writer = _WRITERS.get(<size_t>lease)
        if writer is not None:
            (writer.sent if sent else writer.received)(line[:n])
