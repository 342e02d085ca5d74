# Part of engine.pyx: what a question and its actions are about, as numbers.

cdef int32_t text_id(const Tape* tape, uint32_t i) noexcept nogil:
    """The number of a text; numbers of cards in it, "(31)", do not count. See vocabulary.py."""
    cdef char room[TEXT]
    cdef uint32_t hash = hash_bytes(NULL, 0)
    cdef size_t n, k = 0, j
    if not is_string(tape, i) or tape.tokens[i].size == 0:
        return 0
    n = unescape(tape, i, room, TEXT)
    cdef bint any = False
    while k < n:
        if room[k] == c'(':
            j = k + 1
            while j < n and c'0' <= room[j] <= c'9':
                j += 1
            if k + 1 < j < n and room[j] == c')':
                k = j + 1
                continue
        hash = (hash ^ <unsigned char>room[k]) * 16777619
        any = True
        k += 1
    return fold(hash) if any else 0


cdef int cost_of(const Tape* tape, uint32_t i) noexcept nogil:
    """The mana value of a cost such as "{2}{G}{W/U}"; X counts nothing."""
    cdef char room[WORDS]
    cdef size_t n, k = 0, start
    cdef const char* text = characters(tape, i, room, &n)
    cdef int total = 0, number
    while k < n:
        if text[k] != c'{':
            k += 1
            continue
        start = k + 1
        k = start
        while k < n and text[k] != c'}' and text[k] != c'{':
            k += 1
        if k == n or text[k] == c'{' or k == start:
            continue
        if c'0' <= text[start] <= c'9':
            number = 0
            while c'0' <= text[start] <= c'9' and number < 1000:
                number = number * 10 + (text[start] - c'0')
                start += 1
            total += number if number < 1000 else 1000
        elif text[start] != c'X' and text[start] != c'Y' and text[start] != c'Z':
            total += 1
    return total


cdef int zone_of(const Tape* tape, uint32_t i) noexcept nogil:
    """A zone by its name; any other than ours is the library."""
    cdef char room[WORDS]
    cdef size_t n
    cdef const char* text = characters(tape, i, room, &n)
    if same(text, n, b"hand"):
        return IN_HAND
    if same(text, n, b"battlefield"):
        return ON_BATTLEFIELD
    if same(text, n, b"stack"):
        return ON_STACK
    if same(text, n, b"graveyard"):
        return IN_GRAVEYARD
    return IN_EXILE if same(text, n, b"exile") else IN_LIBRARY


# ---- one option ------------------------------------------------------------------------------------------------------

cdef inline void write_place(const Card* card, int32_t me, float* row) noexcept nogil:
    """The columns of a card that an option is about."""
    write_card(card, me, row)
    row[AT_FIRST_OPTION_ZONE + card.zone] = 1
    row[AT_OPTION_ENTITY] = 1 + card.row if card.row else 0


cdef void write_card_option(const View* v, uint32_t item, int32_t id, float* row) noexcept nogil:
    """A card, wherever it is; its own "card" says what it is if it is nowhere to be seen."""
    cdef const Tape* tape = &v.tape
    cdef uint32_t own
    cdef Card card
    cdef int place = find_card(v, id)
    row[AT_IS_CARD] = 1
    row[AT_OPTION_ID] = name_id(tape, find(tape, item, b"name"))
    if place >= 0:
        write_place(&v.cards[place], v.seat, row)
        return
    own = find(tape, item, b"card")
    if own != 0 and is_object(tape, own):
        read_card(tape, own, &card)
        card.controller = whole(tape, find(tape, item, b"controller"), NOBODY if card.owner == NOT_SAID else card.owner)
    else:
        blank_card(&card)
        card.controller, card.owner = whole(tape, find(tape, item, b"controller"), NOBODY), NOBODY
    card.zone, card.row = zone_of(tape, find(tape, item, b"zone")), 0
    write_place(&card, v.seat, row)


cdef void write_spell(const View* v, uint32_t item, int32_t id, float* row) noexcept nogil:
    cdef const Tape* tape = &v.tape
    cdef int place = find_item(v, id)
    cdef int32_t seat
    cdef Card card
    row[AT_IS_SPELL] = 1
    row[AT_OPTION_ID] = name_id(tape, find(tape, item, b"name"))
    if place >= 0:
        item_card(v, place, &card)
        write_place(&card, v.seat, row)
        seat = card.controller
    else:
        seat = whole(tape, find(tape, item, b"controller"), NOBODY)
    row[AT_ME], row[AT_THEM] = seat == v.seat, seat == 1 - v.seat


cdef void write_color(const Tape* tape, uint32_t item, float* row) noexcept nogil:
    cdef uint32_t name = find(tape, item, b"name")
    cdef int k
    row[AT_IS_COLOR] = 1
    for k in range(5):
        if equals(tape, name, COLOR_NAMES[k]):
            row[AT_FIRST_COLOR + k] = 1
    row[AT_OPTION_ID] = text_id(tape, name)


cdef int64_t small_number(const Tape* tape, uint32_t i) noexcept nogil:
    """The number that a text of at most nine digits is, else 0."""
    cdef const char* text = raw(tape, i)
    cdef size_t n = tape.tokens[i].size, k = 0
    cdef int64_t value = 0
    cdef bint minus
    if not is_string(tape, i) or n == 0:
        return 0
    minus = text[0] == c'-'
    k = minus
    if n - k < 1 or n - k > 9:
        return 0
    while k < n:
        if not c'0' <= text[k] <= c'9':
            return 0
        value = value * 10 + (text[k] - c'0')
        k += 1
    return -value if minus else value


cdef void write_option(const View* v, uint32_t item, float* row) noexcept nogil:
    """An option of a question, into a row of zeros."""
    cdef const Tape* tape = &v.tape
    cdef Fields walk = fields(tape, item)
    cdef uint32_t kind = field(&walk, b"kind"), id = field(&walk, b"id"), text
    cdef int32_t number
    row[AT_VALID] = 1
    number = whole(tape, id if id else find(tape, item, b"card_id"), NOBODY)
    if equals(tape, kind, b"card"):
        write_card_option(v, item, number, row)
    elif equals(tape, kind, b"player"):
        row[AT_IS_PLAYER], row[AT_ME], row[AT_THEM] = 1, number == v.seat, number == 1 - v.seat
    elif equals(tape, kind, b"spell"):
        write_spell(v, item, number, row)
    elif equals(tape, kind, b"number"):
        row[AT_IS_NUMBER], row[AT_NUMBER] = 1, ratio(small_number(tape, find(tape, item, b"name")), 10)
    elif equals(tape, kind, b"color"):
        write_color(tape, item, row)
    else:
        row[AT_IS_TEXT] = 1
        text = find(tape, item, b"description")
        if not is_string(tape, text) or tape.tokens[text].size == 0:
            text = find(tape, item, b"name")
        row[AT_OPTION_ID] = text_id(tape, text)


cdef void write_action(const View* v, uint32_t item, float* row) noexcept nogil:
    """An action of choose_action, into a row of zeros."""
    cdef const Tape* tape = &v.tape
    cdef Fields walk = fields(tape, item)
    cdef uint32_t description = field(&walk, b"description"), name = field(&walk, b"card")
    cdef int place = find_card(v, whole(tape, field(&walk, b"card_id"), NOBODY))
    cdef int cost = cost_of(tape, field(&walk, b"mana_cost"))
    cdef bint land = as_bool(tape, field(&walk, b"is_land"))
    cdef uint32_t kind = field(&walk, b"kind")
    row[AT_VALID] = 1
    if place >= 0:
        write_place(&v.cards[place], v.seat, row)
    row[AT_COST] = ratio(cost, 8)
    if equals(tape, kind, b"ability"):
        row[AT_USES_ABILITY] = 1
        row[AT_OPTION_ID] = text_id(tape, description)
        return
    if equals(tape, kind, b"land") or (land and not equals(tape, kind, b"spell")):
        row[AT_PLAYS_LAND] = 1
    else:
        row[AT_CASTS_SPELL] = 1
    row[AT_OPTION_ID] = name_id(tape, name)


# ---- all options of a question ---------------------------------------------------------------------------------------

cdef void write_defenders(const View* v, const Question* q, float* rows) noexcept nogil:
    cdef const Tape* tape = &v.tape
    cdef uint32_t item = find(tape, q.attacker[q.count], b"defenders") + 1
    cdef int32_t i
    for i in range(defenders_of(q, tape)):
        write_option(v, item, rows + (1 + i) * AT_OPTION)
        item = tape.tokens[item].next


cdef void write_targets(const View* v, const Question* q, float* rows) noexcept nogil:
    """The attackers that a blocker may block."""
    cdef const Tape* tape = &v.tape
    cdef int32_t i, place
    cdef uint32_t item
    cdef float* row
    for i in range(q.num_targets):
        place, row = q.target[i], rows + (1 + i) * AT_OPTION
        item = q.attacker[place]
        row[AT_VALID] = 1
        write_card_option(v, item, whole(tape, find(tape, item, b"card_id"), NOBODY), row)
        row[AT_TAKEN] = ratio(q.assigned[place], 2)


cdef void write_options(const View* v, const Question* q, float* rows) noexcept nogil:
    cdef const Tape* tape = &v.tape
    cdef int32_t i
    cdef float* row
    if has_stop(q.type) and q.type != CHOOSE_ABILITY and q.type != ORDER and (q.type != CHOOSE_ENTITY or q.optional):
        rows[AT_VALID] = rows[AT_STOP] = 1
    if is_yes_no(q.type):
        row = rows + AT_OPTION
        row[AT_VALID] = row[AT_IS_YES] = 1
        row[AT_OPTION_ID] = text_id(tape, find(tape, 0, b"message"))
    elif q.type == ANNOUNCE_VALUE:
        for i in range(q.span if q.span < AT_NUM_ACTIONS else AT_NUM_ACTIONS):
            row = rows + i * AT_OPTION
            row[AT_VALID] = row[AT_IS_NUMBER] = 1
            row[AT_NUMBER] = ratio(<int64_t>q.first + i, 10)
    elif q.type == DECLARE_ATTACKERS:
        write_defenders(v, q, rows)
    elif q.type == DECLARE_BLOCKERS:
        write_targets(v, q, rows)
    else:
        for i in range(q.num_options):
            if q.type == CHOOSE_ACTION:
                write_action(v, q.option[i], rows + (1 + i) * AT_OPTION)
            else:
                write_option(v, q.option[i], rows + (i + has_stop(q.type)) * AT_OPTION)
        for i in range(q.count):
            row = rows + (1 + q.pick[i]) * AT_OPTION
            row[AT_TAKEN] = ratio(times_picked(q, q.pick[i]), 2)


cdef int times_picked(const Question* q, int32_t option) noexcept nogil:
    cdef int n = 0, k
    for k in range(q.count):
        n += q.pick[k] == option
    return n


# ---- what they leave in the rows of entities -------------------------------------------------------------------------

cdef inline void mark(const View* v, uint32_t item, float* entities, int column, float value) noexcept nogil:
    """Writes into the row of a {"card_id"}, if it has one."""
    cdef int place = find_card(v, whole(&v.tape, find(&v.tape, item, b"card_id"), NOBODY))
    if place >= 0 and v.cards[place].row:
        entities[v.cards[place].row * AT_ENTITY + column] = value


cdef void mark_options(const Question* q, const float* rows, float* entities) noexcept nogil:
    """OFFERED, and PICKED of sets and orders."""
    cdef int32_t i, entity
    for i in range(AT_NUM_ACTIONS):
        entity = <int32_t>rows[i * AT_OPTION + AT_OPTION_ENTITY] - 1
        if entity >= 0 and q.legal[i]:
            entities[entity * AT_ENTITY + AT_OFFERED] = 1
    if q.type != DECLARE_ATTACKERS and q.type != DECLARE_BLOCKERS:
        for i in range(q.count):
            entity = <int32_t>rows[(1 + q.pick[i]) * AT_OPTION + AT_OPTION_ENTITY] - 1
            if entity >= 0:
                entities[entity * AT_ENTITY + AT_PICKED] = 1


cdef void mark_combat(const View* v, const Question* q, float* entities) noexcept nogil:
    """PICKED of attackers and blockers."""
    cdef int32_t i
    for i in range(q.count):
        if q.type == DECLARE_ATTACKERS:
            mark(v, q.attacker[i], entities, AT_PICKED, q.pick[i] > 0)
        else:
            mark(v, q.blocker[i], entities, AT_PICKED, q.pick[i] >= 0)
    if q.type == DECLARE_BLOCKERS:
        for i in range(q.num_attackers):
            mark(v, q.attacker[i], entities, AT_PICKED, ratio(q.assigned[i], 2))


cdef void show_subject(const View* v, uint32_t item, float* entities) noexcept nogil:
    """The {"card_id", "name"} that the question is about, in its own row and marked in the other one."""
    cdef const Tape* tape = &v.tape
    cdef float* row = entities + AT_SUBJECT_ROW * AT_ENTITY
    cdef int32_t id = whole(tape, find(tape, item, b"card_id"), NOBODY)
    cdef int place = find_card(v, id)
    cdef Card card
    if place >= 0:
        write_entity(&v.cards[place], v.seat, row)
        mark(v, item, entities, AT_SUBJECT, 1)
    elif find_item(v, id) >= 0:
        item_card(v, find_item(v, id), &card)
        write_entity(&card, v.seat, row)
    else:
        row[AT_PRESENT], row[AT_ENTITY_ID] = 1, name_id(tape, find(tape, item, b"name"))
    row[AT_SUBJECT] = 1


cdef void show_text(const View* v, float* entities) noexcept nogil:
    """A question about no card."""
    cdef const Tape* tape = &v.tape
    cdef uint32_t text = find(tape, 0, b"message")
    if not is_string(tape, text) or tape.tokens[text].size == 0:
        text = find(tape, 0, b"name")
    if is_string(tape, text) and tape.tokens[text].size:
        entities += AT_SUBJECT_ROW * AT_ENTITY
        entities[AT_PRESENT] = entities[AT_SUBJECT] = 1
        entities[AT_ENTITY_ID] = text_id(tape, text)


cdef void write_question(const View* v, const Question* q, float* out, float* entities, float* rows) noexcept nogil:
    """What is asked, once the rest is written."""
    cdef const Tape* tape = &v.tape
    cdef uint32_t source
    out[AT_ASKED] = 1
    out[AT_FIRST_TYPE + q.type] = 1
    if is_set(q.type) or q.type == ORDER:
        out[AT_CHOSEN], out[AT_LEAST], out[AT_MOST] = ratio(q.count, 8), ratio(q.least, 8), ratio(q.most, 8)
    out[AT_CHOICES] = ratio(q.num_legal, 16)
    out[AT_CAN_STOP] = has_stop(q.type) and q.legal[0]
    if q.type == DECLARE_ATTACKERS:
        out[AT_PROGRESS] = ratio(q.count, q.num_attackers)
    elif q.type == DECLARE_BLOCKERS:
        out[AT_PROGRESS] = ratio(q.count, q.num_blockers)
    elif q.type == SCRY:
        out[AT_TO_GRAVEYARD] = equals(tape, find(tape, 0, b"bottom"), b"graveyard")
    elif q.type == MULLIGAN:
        out[AT_MULLIGANS] = ratio(whole(tape, find(tape, 0, b"mulligans"), 0), 4)
    write_options(v, q, rows)
    mark_options(q, rows, entities)
    if q.type == DECLARE_ATTACKERS or q.type == DECLARE_BLOCKERS:
        mark_combat(v, q, entities)
        show_subject(v, q.attacker[q.count] if q.type == DECLARE_ATTACKERS else q.blocker[q.count], entities)
        return
    source = find(tape, 0, b"source")
    if source != 0 and is_object(tape, source):
        show_subject(v, source, entities)
    else:
        show_text(v, entities)
