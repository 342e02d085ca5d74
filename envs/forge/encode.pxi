# Part of engine.pyx: what a seat sees as numbers, f32[AT_FEATURES]; layout.py says what stands where and
# tests/referee/forge_view.py writes the same slowly.

cdef inline float ratio(double a, double b) noexcept nogil:
    """a / b within the limit, divided in double precision."""
    cdef double q = a / b
    return <float>(AT_LIMIT if q > AT_LIMIT else -AT_LIMIT if q < -AT_LIMIT else q)


# ---- cards -----------------------------------------------------------------------------------------------------------

cdef void write_card(const Card* card, int32_t me, float* row) noexcept nogil:
    """The first AT_CARD columns; they are zeros before."""
    cdef uint32_t bits
    cdef int32_t owner = card.controller if card.owner == NOT_SAID else card.owner
    cdef int k
    bits = card.types & 255
    while bits:
        row[AT_FIRST_CARD_TYPE + lowest_bit(bits)] = 1
        bits &= bits - 1
    row[AT_MANA_VALUE] = ratio(card.mana_value, 8)
    for k in range(5):
        row[AT_FIRST_COLOR + k] = (card.colors >> k) & 1
    row[AT_POWER] = ratio(card.power, 8)
    row[AT_TOUGHNESS] = ratio(<int64_t>card.toughness - card.damage, 8)
    row[AT_DAMAGE] = ratio(card.damage, 8)
    row[AT_LOYALTY] = ratio(card.loyalty, 8)
    row[AT_PLUS] = ratio(card.plus, 4)
    row[AT_COUNTERS] = ratio(card.counters, 4)
    row[AT_TAPPED] = card.tapped
    row[AT_SICK] = card.sick
    row[AT_TOKEN] = card.token
    row[AT_MINE] = card.controller == me
    row[AT_OWN] = owner == me
    row[AT_ATTACKING] = card.attacking
    row[AT_BLOCKING] = card.blocking
    row[AT_BLOCKED] = ratio(card.blocked, 2)
    row[AT_ATTACHMENTS] = ratio(card.attachments, 2)
    row[AT_ATTACHED] = card.attached_to >= 0
    bits = card.keywords
    while bits:
        row[AT_FIRST_KEYWORD + lowest_bit(bits)] = 1
        bits &= bits - 1
    row[AT_OTHER_KEYWORDS] = ratio(card.other_keywords, 4)


cdef inline void write_aims(const Card* card, int32_t me, float* row) noexcept nogil:
    row[AT_AIMS_AT_ME] = ratio(card.aims[me], 2)
    row[AT_AIMS_AT_THEM] = ratio(card.aims[1 - me], 2)


cdef void write_entity(const Card* card, int32_t me, float* row) noexcept nogil:
    """A row of zeros becomes that of a card, without the marks of the question."""
    write_card(card, me, row)
    row[AT_PRESENT] = 1
    row[AT_FIRST_ZONE + card.zone] = 1
    row[AT_FACE_DOWN] = card.face_down
    row[AT_ENTITY_ID] = card.name
    if card.zone == ON_BATTLEFIELD:
        write_aims(card, me, row)


cdef void write_entities(const View* v, float* out) noexcept nogil:
    cdef Card card
    cdef uint32_t targets, target
    cdef int i
    for i in range(AT_ENTITIES):
        if v.rows[i] >= 0:
            write_entity(&v.cards[v.rows[i]], v.seat, out + i * AT_ENTITY)
    for i in range(v.num_items if v.num_items < AT_STACK_ROWS else AT_STACK_ROWS):
        item_card(v, i, &card)
        targets = find(&v.tape, v.item[i], b"targets")
        if is_array(&v.tape, targets):
            target = targets + 1
            while target != v.tape.tokens[targets].next:
                aim(&card, seat_of(v, target))
                target = v.tape.tokens[target].next
        write_entity(&card, v.seat, out + card.row * AT_ENTITY)
        write_aims(&card, v.seat, out + card.row * AT_ENTITY)


# ---- globals ---------------------------------------------------------------------------------------------------------

cdef void write_board(const View* v, int32_t seat, float* out) noexcept nogil:
    """What the permanents of a seat add up to."""
    cdef int64_t power = 0, free_power = 0, toughness = 0, flying = 0
    cdef int lands = 0, free_lands = 0, creatures = 0, free_creatures = 0, walkers = 0, others = 0, i, k
    cdef int colors[5]
    cdef const Card* card
    memset(colors, 0, sizeof(colors))
    for i in range(v.num_cards):
        card = &v.cards[i]
        if card.controller != seat or card.zone != ON_BATTLEFIELD:
            continue
        if card.types & LAND:
            lands += 1
            free_lands += not card.tapped
            for k in range(5):
                colors[k] += 0 if card.tapped else <int>(card.types >> (FIRST_BASIC + k)) & 1
        if card.types & CREATURE:
            creatures += 1
            power += card.power
            toughness += <int64_t>card.toughness - card.damage
            if not card.tapped:
                free_creatures += 1
                free_power += card.power
            if card.keywords & 1:
                flying += card.power
        walkers += (card.types & PLANESWALKER) != 0
        others += card.types & (LAND | CREATURE | PLANESWALKER) == 0
    out[AT_LANDS], out[AT_FREE_LANDS] = ratio(lands, 8), ratio(free_lands, 8)
    for k in range(5):
        out[AT_FREE_COLORS + k] = ratio(colors[k], 4)
    out[AT_CREATURES], out[AT_FREE_CREATURES] = ratio(creatures, 8), ratio(free_creatures, 8)
    out[AT_TOTAL_POWER], out[AT_FREE_POWER] = ratio(power, 16), ratio(free_power, 16)
    out[AT_TOTAL_TOUGHNESS], out[AT_FLYING_POWER] = ratio(toughness, 16), ratio(flying, 16)
    out[AT_PLANESWALKERS], out[AT_OTHERS] = ratio(walkers, 2), ratio(others, 4)


cdef void write_pool(const Tape* tape, uint32_t i, float* out) noexcept nogil:
    """Mana in the pool."""
    cdef int amount[6]
    cdef const char* text = raw(tape, i)
    cdef uint32_t k
    memset(amount, 0, sizeof(amount))
    if is_string(tape, i):
        for k in range(tape.tokens[i].size):
            amount[0] += text[k] == c'W'
            amount[1] += text[k] == c'U'
            amount[2] += text[k] == c'B'
            amount[3] += text[k] == c'R'
            amount[4] += text[k] == c'G'
            amount[5] += text[k] == c'C'
    for k in range(6):
        out[k] = ratio(amount[k], 4)


cdef void write_player(const View* v, int32_t seat, float* out) noexcept nogil:
    cdef const Tape* tape = &v.tape
    cdef Fields walk = fields(tape, v.player[seat])
    if v.player[seat] == 0:
        return
    out[AT_LIFE] = ratio(whole(tape, field(&walk, b"life"), 0), 20)
    out[AT_POISON] = ratio(whole(tape, field(&walk, b"poison"), 0), 10)
    out[AT_HAND] = ratio(whole(tape, field(&walk, b"hand_size"), 0), 7)
    out[AT_LIBRARY] = ratio(whole(tape, field(&walk, b"library_size"), 0), 60)
    out[AT_GRAVEYARD] = ratio(length(tape, field(&walk, b"graveyard")), 20)
    out[AT_EXILE] = ratio(length(tape, field(&walk, b"exile")), 20)
    write_board(v, seat, out)
    write_pool(tape, field(&walk, b"mana_pool"), out + AT_MANA)
    out[AT_LANDS_PLAYED] = ratio(whole(tape, field(&walk, b"lands_played"), 0), 2)
    out[AT_ENERGY] = ratio(whole(tape, field(&walk, b"energy"), 0), 8)


cdef void write_attack(const View* v, float* out) noexcept nogil:
    """The combat in sum."""
    cdef const Tape* tape = &v.tape
    cdef uint32_t attack = v.combat + 1
    cdef int64_t power = 0, free = 0
    cdef int place
    if not is_array(tape, v.combat):
        return
    while attack != tape.tokens[v.combat].next:
        place = find_card(v, whole(tape, find(tape, attack, b"attacker"), NOBODY))
        if place >= 0:
            power += v.cards[place].power
            if length(tape, find(tape, attack, b"blockers")) == 0:
                free += v.cards[place].power
            out[AT_I_ATTACK] = v.cards[place].controller == v.seat
        attack = tape.tokens[attack].next
    out[AT_ATTACKERS] = ratio(length(tape, v.combat), 8)
    out[AT_ATTACK_POWER], out[AT_FREE_ATTACK_POWER] = ratio(power, 16), ratio(free, 16)


cdef void write_globals(const View* v, float* out) noexcept nogil:
    cdef const Tape* tape = &v.tape
    cdef Fields walk = fields(tape, v.state)
    cdef uint32_t phase
    cdef int k
    out[AT_TURN] = ratio(whole(tape, field(&walk, b"turn"), 0), 20)
    phase = field(&walk, b"phase")
    for k in range(NUM_PHASES):
        if equals(tape, phase, PHASE_NAMES[k]):
            out[AT_FIRST_PHASE + k] = 1
            break
    out[AT_MY_TURN] = whole(tape, field(&walk, b"active"), NOBODY) == v.seat
    out[AT_MY_PRIORITY] = whole(tape, field(&walk, b"priority"), NOBODY) == v.seat
    write_player(v, v.seat, out + AT_FIRST_PLAYER)
    write_player(v, 1 - v.seat, out + AT_FIRST_PLAYER + AT_PLAYER)
    out[AT_STACK_SIZE] = ratio(length(tape, v.stack), 4)
    if v.num_items:
        out[AT_TOP_IS_MINE] = item_seat(v, 0) == v.seat
        out[AT_TOP_IS_THEIRS] = item_seat(v, 0) == 1 - v.seat
    write_attack(v, out)


# ---- everything ------------------------------------------------------------------------------------------------------

cdef void encode(const View* v, const Question* q, float* out) noexcept nogil:
    """What a seat sees; `q` is NULL unless it is asked. Writes every element."""
    memset(out, 0, AT_FEATURES * sizeof(float))
    if v.seat == NOBODY:
        return
    write_globals(v, out)
    write_entities(v, out + AT_ENTITIES_AT)
    if q != NULL and not q.answered:
        write_question(v, q, out, out + AT_ENTITIES_AT, out + AT_OPTIONS_AT)
