# Part of engine.pyx: a decision as a row of small questions with one legal action each; tests/referee/forge.py says the
# same slowly. Action 0 is to pass or to stop (numbers, colors, yes and no begin at 0), action 1 + i is option i.

cdef inline bint is_yes_no(int type) noexcept nogil:
    return type == CONFIRM_ACTION or type == PLAY_TRIGGER or type == MULLIGAN


cdef inline bint is_set(int type) noexcept nogil:
    return type == CHOOSE_TARGETS or type == CHOOSE_MODE or type == CHOOSE_CARDS or type == SCRY


cdef inline bint is_list(int type) noexcept nogil:
    return type == CHOOSE_ABILITY or type == CHOOSE_ENTITY


cdef inline bint has_stop(int type) noexcept nogil:
    """Whether action 0 says no."""
    return type != ANNOUNCE_VALUE and type != CHOOSE_COLOR


# ---- reading ---------------------------------------------------------------------------------------------------------

cdef uint32_t tokens_of(const Tape* tape, uint32_t array, uint32_t* out, uint32_t most) noexcept nogil:
    """The first elements of an array; returns how many."""
    cdef uint32_t item = array + 1, n = 0
    if not is_array(tape, array):
        return 0
    while item != tape.tokens[array].next and n < most:
        out[n] = item
        n += 1
        item = tape.tokens[item].next
    return n


cdef int32_t offered(Question* q, const Tape* tape, uint32_t array, bint merge) noexcept nogil:
    """Puts options into `q.option`; of cards of one name in library or hand only the first, if `merge`. Returns how
    many there are, also beyond the room for them."""
    cdef uint32_t hashes[MOST_OPTIONS]
    cdef uint8_t zones[MOST_OPTIONS]
    cdef uint32_t item = array + 1, hash
    cdef int32_t n = 0, known = 0, k
    cdef int zone
    cdef uint32_t place
    while item != tape.tokens[array].next:
        place = find(tape, item, b"zone")
        zone = 1 if equals(tape, place, b"Library") else 2 if equals(tape, place, b"Hand") else 0
        if merge and zone:
            hash, k = string_hash(tape, find(tape, item, b"name")), 0
            while k < known and (hashes[k] != hash or zones[k] != zone):
                k += 1
            if k < known:
                item = tape.tokens[item].next
                continue
            if known < MOST_OPTIONS:
                hashes[known], zones[known] = hash, zone
                known += 1
        if n < MOST_OPTIONS:
            q.option[n] = item
        n += 1
        item = tape.tokens[item].next
    return n


cdef void cut_options(Question* q, const Tape* tape, uint32_t array) noexcept nogil:
    """Offers no more options than there are actions."""
    cdef int32_t total = length(tape, array), merged
    q.num_options = tokens_of(tape, array, q.option, MOST_OPTIONS)
    if total > MOST_OPTIONS and q.type != CHOOSE_ACTION and q.type != ORDER:
        merged = offered(q, tape, array, True)
        if merged < (q.least if q.least < MOST_OPTIONS else MOST_OPTIONS):
            merged = offered(q, tape, array, False)
        total = merged
        q.num_options = total if total < MOST_OPTIONS else MOST_OPTIONS
    q.cut += total - q.num_options
    if not q.repeat:
        if q.cut and (q.type == ORDER or (is_set(q.type) and q.least > q.num_options)):
            q.ask_ai = True
        q.most = q.most if q.most < q.num_options else q.num_options
        q.least = q.least if q.least < q.most else q.most
    q.most = q.most if q.most < PICKS else PICKS
    if (is_list(q.type) or q.type == CHOOSE_COLOR) and q.num_options == 0 and not q.optional:
        q.ask_ai = True


cdef bint read_options(Question* q, const Tape* tape) noexcept nogil:
    cdef Fields walk = fields(tape, 0)
    cdef uint32_t array = field(&walk, b"actions" if q.type == CHOOSE_ACTION else b"options")
    cdef int32_t count = length(tape, array)
    if not is_array(tape, array):
        return False
    q.repeat = as_bool(tape, field(&walk, b"repeat"))
    q.optional = as_bool(tape, field(&walk, b"optional"))
    if q.type == SCRY:
        q.least, q.most = 0, count
    elif is_set(q.type):
        q.least, q.most = whole(tape, field(&walk, b"min"), 0), whole(tape, field(&walk, b"max"), count)
    elif q.type == ORDER:
        q.least = q.most = count
    else:
        q.least = q.most = 1
    cut_options(q, tape, array)
    return True


cdef bint read_attackers(Question* q, const Tape* tape) noexcept nogil:
    cdef uint32_t array = find(tape, 0, b"attackers")
    cdef int32_t i, n
    if not is_array(tape, array):
        return False
    q.num_attackers = tokens_of(tape, array, q.attacker, PICKS)
    q.cut += length(tape, array) - q.num_attackers
    for i in range(q.num_attackers):
        q.attacker_index[i] = whole(tape, find(tape, q.attacker[i], b"index"), i)
        n = length(tape, find(tape, q.attacker[i], b"defenders"))
        if q.type == DECLARE_ATTACKERS and n > MOST_OPTIONS:
            q.cut += n - MOST_OPTIONS
    return True


cdef bint read_blockers(Question* q, const Tape* tape) noexcept nogil:
    cdef uint32_t array = find(tape, 0, b"blockers")
    cdef int32_t i, n
    if not is_array(tape, array) or not read_attackers(q, tape):
        return False
    q.num_blockers = tokens_of(tape, array, q.blocker, PICKS)
    q.cut += length(tape, array) - q.num_blockers
    for i in range(q.num_attackers):
        q.room[i] = whole(tape, find(tape, q.attacker[i], b"max_blockers"), 0)
    for i in range(q.num_blockers):
        n = aim_blocker(q, tape, i)
        q.cut += n - MOST_OPTIONS if n > MOST_OPTIONS else 0
    return True


cdef int32_t aim_blocker(Question* q, const Tape* tape, int32_t blocker) noexcept nogil:
    """Puts the attackers that a blocker may block into `q.target`; returns how many, also beyond the room for them."""
    cdef uint32_t array = find(tape, q.blocker[blocker], b"can_block"), item = array + 1
    cdef int32_t n = 0, index, place
    q.num_targets = 0
    if not is_array(tape, array):
        return 0
    while item != tape.tokens[array].next:
        index, place = whole(tape, item, NOBODY), 0
        while place < q.num_attackers and q.attacker_index[place] != index:
            place += 1
        if place < q.num_attackers:
            if n < MOST_OPTIONS:
                q.target[n] = place
                q.num_targets = n + 1
            n += 1
        item = tape.tokens[item].next
    return n


cdef bint read_question(Question* q, const View* v) noexcept nogil:
    """The question of a decision, before its first action. False: something it needs is missing."""
    cdef const Tape* tape = &v.tape
    cdef int64_t span
    memset(q, 0, sizeof(Question))
    q.type, q.seat = v.type, v.seat
    if q.type == NO_TYPE:
        q.ask_ai = True
    elif q.type == DECLARE_ATTACKERS:
        if not read_attackers(q, tape):
            return False
    elif q.type == DECLARE_BLOCKERS:
        if not read_blockers(q, tape):
            return False
    elif q.type == ANNOUNCE_VALUE:
        q.first = whole(tape, find(tape, 0, b"min"), 0)
        span = <int64_t>whole(tape, find(tape, 0, b"max"), q.first) - q.first + 1
        span = 1 if span < 1 else LARGEST if span > LARGEST else span
        q.cut = <int32_t>(span - AT_NUM_ACTIONS) if span > AT_NUM_ACTIONS else 0
        q.span = <int32_t>span
    elif not is_yes_no(q.type):
        if not read_options(q, tape):
            return False
    q.answered = q.ask_ai
    settle(q, tape)
    return True


# ---- legal actions ---------------------------------------------------------------------------------------------------

cdef inline bint may_pick(const Question* q, int32_t i) noexcept nogil:
    """Picks come in ascending order, and enough options must be left for those that are still to come."""
    cdef int32_t last = q.pick[q.count - 1] if q.count else -1
    if i >= q.num_options or q.count >= q.most:
        return False
    if q.repeat:
        return i >= last
    return i > last and q.num_options - 1 - i >= q.least - q.count - 1


cdef inline bint picked(const Question* q, int32_t i) noexcept nogil:
    cdef int32_t k
    for k in range(q.count):
        if q.pick[k] == i:
            return True
    return False


cdef int32_t defenders_of(const Question* q, const Tape* tape) noexcept nogil:
    """What the attacker in question may attack, as many as there are actions for."""
    cdef int32_t n = length(tape, find(tape, q.attacker[q.count], b"defenders"))
    return n if n < MOST_OPTIONS else MOST_OPTIONS


cdef inline bint has_room(const Question* q, int32_t attacker) noexcept nogil:
    return q.room[attacker] <= 0 or q.assigned[attacker] < q.room[attacker]


cdef void list_combat(Question* q, const Tape* tape) noexcept nogil:
    """The legal actions of an attacker or blocker."""
    cdef int32_t i, n
    cdef bint must
    if q.type == DECLARE_ATTACKERS:
        n = defenders_of(q, tape)
        must = n > 0 and as_bool(tape, find(tape, q.attacker[q.count], b"must"))
        for i in range(n):
            q.legal[1 + i] = True
    else:
        aim_blocker(q, tape, q.count)
        n = q.num_targets
        must = False
        for i in range(n):
            q.legal[1 + i] = has_room(q, q.target[i])
            must |= q.legal[1 + i]
        must = must and as_bool(tape, find(tape, q.blocker[q.count], b"must"))
    q.legal[0] = not must


cdef void list_legal(Question* q, const Tape* tape) noexcept nogil:
    """Fills `q.legal` and `q.num_legal`."""
    cdef int32_t i, n = 0
    memset(q.legal, 0, sizeof(q.legal))
    if is_yes_no(q.type):
        q.legal[0] = q.legal[1] = True
    elif q.type == ANNOUNCE_VALUE:
        for i in range(q.span if q.span < AT_NUM_ACTIONS else AT_NUM_ACTIONS):
            q.legal[i] = True
    elif q.type == CHOOSE_COLOR:
        for i in range(q.num_options):
            q.legal[i] = True
    elif q.type == DECLARE_ATTACKERS or q.type == DECLARE_BLOCKERS:
        list_combat(q, tape)
    elif is_set(q.type):
        q.legal[0] = q.count >= q.least
        for i in range(q.num_options):
            q.legal[1 + i] = may_pick(q, i)
    else:
        q.legal[0] = q.type == CHOOSE_ACTION or (q.type == CHOOSE_ENTITY and q.optional)
        for i in range(q.num_options):
            q.legal[1 + i] = q.type != ORDER or not picked(q, i)
    for i in range(AT_NUM_ACTIONS):
        n += q.legal[i]
    q.num_legal = n


# ---- answering -------------------------------------------------------------------------------------------------------

cdef inline bint complete(const Question* q) noexcept nogil:
    """Whether all has been asked that this type asks."""
    if q.type == DECLARE_ATTACKERS:
        return q.count == q.num_attackers
    if q.type == DECLARE_BLOCKERS:
        return q.count == q.num_blockers
    return (is_set(q.type) or q.type == ORDER) and q.count >= q.most


cdef void take(Question* q, int action) noexcept nogil:
    """A legal action, and nothing that follows from it."""
    if q.type == DECLARE_ATTACKERS:
        q.pick[q.count] = action
        q.count += 1
    elif q.type == DECLARE_BLOCKERS:
        q.pick[q.count] = q.target[action - 1] if action else NOBODY
        if action:
            q.assigned[q.target[action - 1]] += 1
        q.count += 1
    elif (is_set(q.type) or q.type == ORDER) and action:
        q.pick[q.count] = action - 1
        q.count += 1
    else:
        q.yes = action
        q.answered = True


cdef void settle(Question* q, const Tape* tape) noexcept nogil:
    """Takes actions as long as there is no choice; then `q.legal` is what is asked, or the question is answered."""
    cdef int32_t i
    while not q.answered:
        if complete(q):
            q.answered = True
            return
        list_legal(q, tape)
        if q.num_legal == 0:  # a question that cannot be answered
            q.answered = q.ask_ai = True
        if q.num_legal != 1:
            return
        i = 0
        while not q.legal[i]:
            i += 1
        take(q, i)


cdef inline size_t write_number(char* out, int64_t number) noexcept nogil:
    cdef char digits[24]
    cdef size_t n = 0, k
    cdef uint64_t rest = <uint64_t>(-number) if number < 0 else <uint64_t>number
    while True:
        digits[n] = <char>(c'0' + rest % 10)
        rest //= 10
        n += 1
        if rest == 0:
            break
    if number < 0:
        digits[n] = c'-'
        n += 1
    for k in range(n):
        out[k] = digits[n - 1 - k]
    return n


cdef size_t write_item(char* out, size_t n, int64_t number, int64_t second, bint pair) noexcept nogil:
    """Adds "number" or "number:second" to a list; returns its new length."""
    if n:
        out[n] = c','
        n += 1
    n += write_number(out + n, number)
    if pair:
        out[n] = c':'
        n += 1 + write_number(out + n + 1, second)
    return n


cdef inline int32_t index_of(const Tape* tape, uint32_t item, int32_t place) noexcept nogil:
    """What the daemon calls an option."""
    return whole(tape, find(tape, item, b"index"), place)


cdef size_t compose_combat(const Question* q, const Tape* tape, char* out) noexcept nogil:
    cdef size_t n = 0
    cdef int32_t i, at
    cdef uint32_t array, item
    for i in range(q.count):
        if q.type == DECLARE_ATTACKERS and q.pick[i] > 0:
            array = find(tape, q.attacker[i], b"defenders")
            item = array + 1
            for at in range(q.pick[i] - 1):
                item = tape.tokens[item].next
            n = write_item(out, n, q.attacker_index[i], index_of(tape, item, q.pick[i] - 1), True)
        elif q.type == DECLARE_BLOCKERS and q.pick[i] >= 0:
            at = q.pick[i]
            if q.assigned[at] >= whole(tape, find(tape, q.attacker[at], b"min_blockers"), 0):
                n = write_item(out, n, index_of(tape, q.blocker[i], i), q.attacker_index[at], True)
    return n


cdef size_t compose(const Question* q, const Tape* tape, char* out) noexcept nogil:
    """The answer to an answered question, at most ANSWER bytes; returns how many."""
    cdef size_t n = 0
    cdef int32_t i, place = q.yes
    if q.ask_ai:
        memcpy(out, b"ai", 2)
        return 2
    if is_yes_no(q.type):
        out[0] = c'y' if q.yes else c'n'
        return 1
    if q.type == ANNOUNCE_VALUE:
        return write_number(out, <int64_t>q.first + q.yes)
    if q.type == DECLARE_ATTACKERS or q.type == DECLARE_BLOCKERS:
        return compose_combat(q, tape, out)
    if q.type == CHOOSE_ACTION or is_list(q.type) or q.type == CHOOSE_COLOR:
        if q.type != CHOOSE_COLOR:
            place -= 1
        return write_number(out, index_of(tape, q.option[place], place) if place >= 0 else -1)
    for i in range(q.count):
        n = write_item(out, n, index_of(tape, q.option[q.pick[i]], q.pick[i]), 0, False)
    return n
