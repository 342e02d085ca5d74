# What a side may choose: every kind of question and its legal ids (sections 5, 6 and 8 of the rules).

cdef inline void allow(State* b, int action) noexcept nogil:
    b.legal[action >> 6] |= (<uint64_t>1) << (action & 63)


cdef inline bint is_legal(const State* b, int action) noexcept nogil:
    return 0 <= action < ACTIONS and (b.legal[action >> 6] >> (action & 63)) & 1


cdef inline int legal_count(const State* b) noexcept nogil:
    return popcount(b.legal[0]) + popcount(b.legal[1])


cdef inline int lowest_legal(const State* b) noexcept nogil:
    return trailing_zeros(b.legal[0]) if b.legal[0] else 64 + trailing_zeros(b.legal[1])


cdef int nth_legal(const State* b, int number) noexcept nogil:
    """The legal id with this number, in ascending order from 0."""
    cdef uint64_t bits = b.legal[0]
    cdef int base = 0, below = popcount(bits)
    if number >= below:
        number -= below
        bits = b.legal[1]
        base = 64
    while number:
        bits &= bits - 1
        number -= 1
    return base + trailing_zeros(bits)


cdef inline int cost_of(int stratagem) noexcept nogil:
    """In command points."""
    return 2 if stratagem == USE_COUNTER else 1


cdef inline bint payable(const State* b, int side, int stratagem) noexcept nogil:
    """Whether a side has not used a stratagem in this phase and has the command points for it."""
    return b.cp[side] >= cost_of(stratagem) and not (b.used[side] >> stratagem) & 1


cdef inline void pay(State* b, int side, int stratagem) noexcept nogil:
    b.cp[side] -= cost_of(stratagem)
    b.used[side] |= 1 << stratagem


cdef void ask(Game* g, int side, int kind, int unit, int subject, int roll, int needed) noexcept nogil:
    """Opens a question without any legal id yet."""
    cdef State* b = &g.b
    b.side, b.kind, b.unit, b.subject, b.roll, b.needed = side, kind, unit, subject, roll, needed
    b.legal[0] = b.legal[1] = 0


cdef void ask_move(Game* g, int unit) noexcept nogil:
    """`move` of a unit that is not engaged, `fall_back` of one that is."""
    cdef int side = g.b.active, direction, first, M = g.roster[side].unit[unit].M
    cdef bint falling = engaged(g, side, unit)
    cdef uint64_t free[ROWS]
    cdef int furthest = M if falling else M + 1
    ask(g, side, FALL_BACK if falling else MOVE, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    free_cells(g, side, unit, -1, free)
    for direction in range(8):
        first = first_end(g, side, unit, direction, steps_within(furthest, direction), falling, free)
        if falling:
            if first <= furthest:
                allow(&g.b, GO + 8 + direction)
            continue
        if first <= steps_within((M + 1) // 2, direction):
            allow(&g.b, GO + direction)
        if first <= steps_within(M, direction):
            allow(&g.b, GO + 8 + direction)
        if first <= steps_within(M + 1, direction):
            allow(&g.b, GO + 16 + direction)


cdef void ask_snap(Game* g, int side, int subject) noexcept nogil:
    """Who of `side` fires at once at an enemy unit that moved or declared a charge."""
    cdef int i
    ask(g, side, SNAP, -1, subject, 0, 0)
    allow(&g.b, DECLINE)
    if not payable(&g.b, side, USE_SNAP):
        return
    for i in range(g.roster[side].count):
        if not alive(g, side, i) or not g.roster[side].unit[i].ranged.present or g.b.units[side][i].flags & SHOCKED:
            continue
        if snap_models(g, side, i, subject) and not engaged(g, side, i):
            allow(&g.b, SNAP_BY + i)


cdef void ask_shoot(Game* g, int unit) noexcept nogil:
    cdef int side = g.b.active, j
    ask(g, side, SHOOT, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and firing_models(g, side, unit, j) and not engaged(g, 1 - side, j):
            allow(&g.b, SHOOT_AT + j)


cdef void ask_protect(Game* g, int unit, int shooter) noexcept nogil:
    """What the target of an attack does about it."""
    cdef int side = 1 - g.b.active
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    ask(g, side, PROTECT, unit, shooter, 0, 0)
    allow(&g.b, DECLINE)
    if g.b.units[side][unit].flags & SHOCKED:
        return
    if spec.smoke and payable(&g.b, side, USE_SMOKE):
        allow(&g.b, SMOKE)
    if spec.infantry and payable(&g.b, side, USE_COVER):
        allow(&g.b, TAKE_COVER)


cdef void ask_charge(Game* g, int unit) noexcept nogil:
    cdef int side = g.b.active, j
    ask(g, side, CHARGE, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and unit_distance2(g, side, unit, j) <= 144:
            allow(&g.b, CHARGE_AT + j)


cdef void ask_counter(Game* g, int side, int charger) noexcept nogil:
    """Who of `side` charges the unit that made a charge move."""
    cdef int i
    ask(g, side, COUNTER, -1, charger, 0, 0)
    allow(&g.b, DECLINE)
    if not payable(&g.b, side, USE_COUNTER):
        return
    for i in range(g.roster[side].count):
        if not alive(g, side, i) or g.b.units[side][i].flags & SHOCKED:
            continue
        if unit_distance2(g, side, i, charger) <= 36 and not engaged(g, side, i):
            allow(&g.b, COUNTER_BY + i)


cdef void ask_fight(Game* g, int side, int unit) noexcept nogil:
    cdef int j
    g.b.units[side][unit].flags |= FOUGHT  # it has its turn, whomever it attacks
    ask(g, side, FIGHT, unit, -1, 0, 0)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and unit_distance2(g, side, unit, j) <= 2:
            allow(&g.b, FIGHT_WITH + j)


cdef void ask_shock(Game* g, int unit, int result) noexcept nogil:
    """What is done about a failed shock test."""
    cdef int side = g.b.active
    ask(g, side, SHOCK, unit, -1, result, g.roster[side].unit[unit].Ld)
    allow(&g.b, DECLINE)
    if payable(&g.b, side, USE_REROLL):
        allow(&g.b, REROLL)
    if payable(&g.b, side, USE_STEEL):
        allow(&g.b, STEEL)


cdef void ask_reroll(Game* g, int side, int kind, int unit, int subject, int roll, int needed) noexcept nogil:
    """What is done about the roll of an advance or a charge that may be made again."""
    ask(g, side, kind, unit, subject, roll, needed)
    allow(&g.b, DECLINE)
    if payable(&g.b, side, USE_REROLL) and not g.b.units[side][unit].flags & SHOCKED:
        allow(&g.b, REROLL)
