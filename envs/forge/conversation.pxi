# Part of engine.pyx: one conversation with a daemon, from NEWGAME to the result, without the interpreter lock.
#
# A live is always at some position of its game: `count` actions have been taken, and either a question is open or the
# next line is awaited. `forward` takes it to the position of a state.

cdef enum:  # what keeps a live from getting on
    NOTHING = 0
    NO_LEASE = 1  # there is none, or it was taken away
    NO_LINE = 2
    CLOSED = 3
    TOO_LONG_A_LINE = 4
    NOT_UTF8 = 5
    GARBAGE = 6
    DIFFERENT = 7  # the game is another one than before
    REFUSED = 8  # NEWGAME
    SLOW = 9  # played again, the game runs out of time
    NO_ROOM = 10


cdef inline bint starts(const char* line, size_t n, const char* word) noexcept nogil:
    cdef size_t size = strlen(word)
    return n >= size and memcmp(line, word, size) == 0


cdef u64 hash_line(u64 hash, const char* line, size_t n) noexcept nogil:
    """A hash of all lines so far."""
    cdef u64 word
    cdef size_t i = 0
    hash = mix(hash ^ (<u64>n * <u64>0x9E3779B97F4A7C15))
    while i + 8 <= n:
        memcpy(&word, line + i, 8)
        hash = (hash ^ word) * <u64>0xBF58476D1CE4E5B9
        hash ^= hash >> 32
        i += 8
    word = 0
    memcpy(&word, line + i, n - i)
    return mix(hash ^ word)


# ---- lives -----------------------------------------------------------------------------------------------------------

cdef void free_view(View* v) noexcept nogil:
    if v != NULL:
        release(v.text)
        free_tape(&v.tape)
        release(v)


cdef void free_live(Live* l) noexcept nogil:
    cdef int i
    if l != NULL:
        for i in range(2):
            free_view(l.view[i])
        free_view(l.spare)
        release(l.done)
        release(l)


cdef Live* new_live(Py_ssize_t max_decisions) noexcept nogil:
    """A live of no game; NULL: no memory."""
    cdef Live* l = <Live*>calloc(1, sizeof(Live))
    cdef int i
    if l == NULL:
        return NULL
    l.done = <int16_t*>calloc(max_decisions + 1, sizeof(int16_t))
    l.spare = <View*>calloc(1, sizeof(View))
    for i in range(2):
        l.view[i] = <View*>calloc(1, sizeof(View))
    if l.done == NULL or l.spare == NULL or l.view[0] == NULL or l.view[1] == NULL:
        free_live(l)
        return NULL
    reset_live(l, 0)
    return l


cdef void clear_tally(Tally* t) noexcept nogil:
    memset(t, 0, sizeof(Tally))
    t.asked, t.type = NOBODY, NO_TYPE


cdef void reset_live(Live* l, u64 key) noexcept nogil:
    """The beginning of a game; the lease stays."""
    l.key, l.count = key, 0
    l.open = l.over = l.told = l.heard = l.checking = l.refused = False
    l.how, l.winner, l.last_id = STILL_RUNNING, NOBODY, NOBODY
    l.view[0].seat = l.view[1].seat = NOBODY
    clear_tally(&l.tally)


cdef inline bint leads_to(const Live* l, const State* b, const int16_t* actions) noexcept nogil:
    """Whether a live is at the position of a state or before it."""
    if l.key != b.key or l.count > b.count or (l.over and l.count < b.count):
        return False
    if l.count == b.count and (l.open or l.over) and (l.tally.seen != b.tally.seen or l.tally.hash != b.tally.hash):
        return False
    return memcmp(l.done, actions, l.count * sizeof(int16_t)) == 0


# ---- listening -------------------------------------------------------------------------------------------------------

cdef double potential_of(const View* v, const double* shaping) noexcept nogil:
    """Of seat 0: how far it is ahead in life, board and cards, each weighted."""
    cdef double life[2]
    cdef double cards[2]
    cdef double board[2]
    cdef double total = 0
    cdef Fields walk
    cdef int seat, i
    board[0] = board[1] = 0
    for i in range(v.num_cards):
        if v.cards[i].zone == ON_BATTLEFIELD and v.cards[i].types & CREATURE and 0 <= v.cards[i].controller <= 1:
            board[v.cards[i].controller] += v.cards[i].power
    for seat in range(2):
        walk = fields(&v.tape, v.player[seat])
        life[seat] = whole(&v.tape, field(&walk, b"life"), 0) if v.player[seat] else 0
        cards[seat] = whole(&v.tape, field(&walk, b"hand_size"), 0) if v.player[seat] else 0
    total += shaping[0] * ratio(life[0] - life[1], 20)
    total += shaping[1] * ratio(board[0] - board[1], 10)
    return total + shaping[2] * ratio(cards[0] - cards[1], 7)


cdef bint keep_text(View* v, const char* text, size_t n) noexcept nogil:
    """Copies a line. False: no memory."""
    cdef char* room
    if n >= v.room:
        room = <char*>realloc(v.text, n + n // 2 + 1024)
        if room == NULL:
            return False
        v.text, v.room = room, n + n // 2 + 1024
    memcpy(v.text, text, n)
    v.size = n
    return True


cdef int hear_decision(Live* l, const Settings* s, const char* text, size_t n) noexcept nogil:
    """A decision, behind its "DECISION:"."""
    cdef View* v = l.spare
    cdef Question* q = &l.question
    cdef Tally* t = &l.tally
    cdef int32_t id
    cdef int seat
    if not keep_text(v, text, n):
        return NO_ROOM
    if not read_view(v) or not read_question(q, v):
        return GARBAGE
    l.spare, l.view[v.seat] = l.view[v.seat], v
    id = whole(&v.tape, find(&v.tape, 0, b"decision_id"), NOBODY)
    if l.refused and id == l.last_id:  # asked again: our answer was no good, so Forge's AI gives one
        q.ask_ai = q.answered = True
    l.refused, l.last_id, l.open = False, id, True
    t.hash = hash_line(t.hash, text, n)
    t.seen += 1
    t.partial, t.asked, t.type = 0, v.seat, v.type
    t.turn = whole(&v.tape, find(&v.tape, v.state, b"turn"), t.turn)
    for seat in range(2):
        if v.player[seat]:
            t.life[seat] = whole(&v.tape, find(&v.tape, v.player[seat], b"life"), 0)
    t.options_cut += q.cut
    t.cards_cut = v.unseen if v.unseen > t.cards_cut else t.cards_cut
    t.unknown_types += v.type == NO_TYPE
    t.potential = potential_of(v, s.shaping)
    return NOTHING


cdef int hear_result(Live* l, const char* text, size_t n) noexcept nogil:
    """`Agent(1)-deck won in 5ms` or `Draw in 5ms`."""
    cdef size_t k = 0
    l.over, l.told, l.open = True, True, False
    l.tally.asked, l.tally.type = NOBODY, NO_TYPE
    if l.how != STILL_RUNNING:  # out of time, or broken
        return NOTHING
    if starts(text, n, b"Draw in "):
        l.how = DRAWN
        return NOTHING
    if not (starts(text, n, b"Agent(") or starts(text, n, b"Ai(")):
        return GARBAGE
    while text[k] != c'(':
        k += 1
    if k + 2 >= n or not c'1' <= text[k + 1] <= c'2' or text[k + 2] != c')':
        return GARBAGE
    l.how, l.winner = WON, text[k + 1] - c'1'
    return NOTHING


cdef int hear(Live* l, const Settings* s, char* why, const char* line, size_t n) noexcept nogil:
    """One line; l.open or l.over tells whether it is what was awaited."""
    l.heard = True
    if starts(line, n, b"DECISION:"):
        return hear_decision(l, s, line + 9, n - 9)
    if starts(line, n, b"GAME_RESULT: "):
        return hear_result(l, line + 13, n - 13)
    if starts(line, n, b"ERROR"):
        if l.tally.seen == 0:
            n = n if n < WORDS - 1 else WORDS - 1
            memcpy(why, line, n)
            why[n] = 0
            return REFUSED
        l.tally.refused += 1
        l.refused = True
    elif starts(line, n, b"GAME_TIMEOUT"):
        l.how = OUT_OF_TIME
    elif starts(line, n, b"GAME_ERROR"):
        l.how = BROKEN
    elif not (starts(line, n, b"INFO:") or starts(line, n, b"GAME_START:") or starts(line, n, b"SEED:")):
        return GARBAGE
    return NOTHING


cdef int listen(Live* l, const Settings* s, char* why) noexcept nogil:
    """Waits for a decision or the result."""
    cdef const char* line = NULL
    cdef size_t n = 0
    cdef int status, fault
    while not l.open and not l.over:
        status = (<Lease>l.lease).link.receive(s.ai_patience if l.tally.held else s.patience, &line, &n)
        if status != LINE_OK:
            return (
                NO_LINE if status == LINE_TIMEOUT else TOO_LONG_A_LINE if status == LINE_TOO_LONG
                else NOT_UTF8 if status == LINE_BAD_UTF8 else CLOSED
            )
        if s.recording:
            record(l.lease, line, n, False)
        fault = hear(l, s, why, line, n)
        if fault != NOTHING:
            return fault
    return NOTHING


# ---- getting on ------------------------------------------------------------------------------------------------------

cdef inline bint present(Live* l) noexcept nogil:
    """Whether we can talk to the daemon; it is ours until `leave`."""
    if l.lease != NULL and not l.entered:
        l.entered = (<Lease>l.lease).enter()
    return l.lease != NULL and l.entered


cdef void leave(Live* l) noexcept nogil:
    """From now on the fleet may take the daemon away."""
    if l.lease != NULL and l.entered:
        l.entered = False
        (<Lease>l.lease).leave()


cdef int say(Live* l, const Settings* s, int action) noexcept nogil:
    """Sends the answer to the open question; `action`: the last one."""
    cdef char text[ANSWER]
    cdef const char* line = text
    cdef size_t n
    if action >= AT_NUM_ACTIONS:
        line = <const char*>s.profile[action - AT_NUM_ACTIONS]
        n = s.profile_size[action - AT_NUM_ACTIONS]
    else:
        n = compose(&l.question, &l.view[l.question.seat].tape, text)
        text[n] = c'\n'
        n += 1
    l.open = False
    if s.recording:
        record(l.lease, line, n - 1, True)
    return NOTHING if (<Lease>l.lease).link.send(line, n) == LINE_OK else CLOSED


cdef int act(Live* l, const Settings* s, int action) noexcept nogil:
    """Takes an action of the state's history."""
    cdef Question* q = &l.question
    if not 0 <= action < AT_NUM_ACTIONS + s.num_profiles or (action < AT_NUM_ACTIONS and not q.legal[action]):
        return DIFFERENT
    l.done[l.count] = <int16_t>action
    l.count += 1
    l.tally.partial += 1
    l.tally.decisions[q.seat] += 1
    if action >= AT_NUM_ACTIONS:
        l.tally.held |= 1 << q.seat
        q.answered = True
    else:
        take(q, action)
        settle(q, &l.view[q.seat].tape)
    return NOTHING


cdef int check(Live* l, const State* b) noexcept nogil:
    """Whether a game that is played again is the one that it was."""
    if l.checking and l.tally.seen == b.tally.seen:
        l.checking = False
        if l.tally.hash != b.tally.hash:
            return DIFFERENT
    return NOTHING


cdef inline bint stands_still(const Live* l, const State* b) noexcept nogil:
    """Whether a state that is over has been reached: what ended it is not asked for again."""
    return l.count == b.count and b.how != STILL_RUNNING and b.how != TOO_LONG and l.tally.seen == b.tally.seen


cdef int forward(Live* l, const Settings* s, const State* b, const int16_t* actions, char* why) noexcept nogil:
    """To the position of a state, by answering what it has answered. NOTHING: there it is."""
    cdef int fault
    cdef int action
    while not l.over:
        if l.open and not l.question.answered:
            if l.count == b.count:
                break
            fault = act(l, s, actions[l.count])
        elif l.open and stands_still(l, b):
            l.over, l.how, l.winner = True, b.how, b.winner
            fault = NOTHING
        elif not present(l):
            return NO_LEASE
        elif l.open:
            action = l.done[l.count - 1] if l.count and l.tally.partial else 0
            fault = say(l, s, action)
        else:
            fault = listen(l, s, why)
            if fault == NOTHING and l.over and l.how == OUT_OF_TIME and l.count < b.count:
                fault = SLOW
            if fault == NOTHING and l.open:
                fault = check(l, b)
        if fault != NOTHING:
            return fault
    return DIFFERENT if l.count != b.count or l.checking else NOTHING
