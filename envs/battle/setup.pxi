# Setting up a battle (section 4 of the rules).

cdef void begin(Game* g, uint64_t key, int episode) noexcept nogil:
    """Sets up a battle with a battle key; `run` plays it to its first question."""
    cdef State* b = &g.b
    cdef uint64_t seed = b.seed, slot = b.slot
    cdef int side
    memset(b, 0, sizeof(State))
    b.seed, b.slot, b.key, b.episode = seed, slot, key, episode
    b.pair = (slot + episode) % g.rules.pairs
    set_streams(b, key)
    for side in range(2):
        b.style[side] = below(stream_word(mix(key ^ <uint64_t>(4 + side)), 0), STYLES)
    b.kind, b.unit, b.subject = NOTHING_ASKED, -1, -1
    b.winner = 3
    g.error = OK
    if g.tape != NULL:
        g.tape.count = 0
    if g.rules.maps > 1:
        b.map = die(g, g.rules.maps) - 1
    b.left = roll_off(g) if g.rules.deploy == ROLL_OFF else g.rules.deploy
    bind(g)
    if not deploy_all(g):
        if not g.error:
            g.error = NO_DEPLOYMENT
        return
    b.first = roll_off(g) if g.rules.first == ROLL_OFF else g.rules.first
    b.cp[0] = b.cp[1] = g.rules.cp_start
    b.round, b.active, b.stage = 1, b.first, BEGIN_HALF
    g.half_turn_done = 0


cdef void bind(Game* g) noexcept nogil:
    """Points to the map and the rosters of the battle, and forgets what was derived from an earlier one."""
    cdef int side
    g.map = &g.rules.map[g.b.map]
    for side in range(2):
        g.roster[side] = &g.rules.roster[2 * g.b.pair + side]
    forget_everything(g)


cdef int roll_off(Game* g) noexcept nogil:
    """The side with the higher D6; equal dice are rolled again."""
    cdef int a, b
    while not g.error:
        a = die(g, 6)
        b = die(g, 6)
        if a != b:
            return 0 if a > b else 1
    return 0


cdef bint deploy_all(Game* g) noexcept nogil:
    """Places all units, the left side's and the right side's in turn; False if one does not fit."""
    cdef int k, turn, side
    for k in range(UNITS):
        for turn in range(2):
            side = g.b.left if turn == 0 else 1 - g.b.left
            if k < g.roster[side].count and not deploy(g, side, k):
                return False
    return True


cdef bint deploy(Game* g, int side, int unit) noexcept nogil:
    """Places one unit as near as it fits to where it wants to be."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef int flip = mirrored(g, side), zone = g.rules.zone, rows = g.map.rows, last = g.map.cols - 1
    cdef int row = (unit + 1) * (rows - 1) // (g.roster[side].count + 1) + die(g, 7) - 4
    cdef int column = zone // 2 + die(g, 5) - 3
    cdef uint64_t free[ROWS]
    cdef uint64_t inside = (((<uint64_t>1) << zone) - 1) << (last + 1 - zone if flip else 0)
    cdef int i, r, c, h, d2, best = 1 << 30, anchor = -1
    free_cells(g, side, unit, -1, free)
    for r in range(rows):
        free[r] &= inside
    for i in range(REACHES):  # nearly always enough
        r, h = row + REACH[0][i][0], column + REACH[0][i][1]
        if 0 <= r < rows and 0 <= h < zone:
            c = last - h if flip else h
            if fits(free, rows, r, c, spec.models, flip):
                return place(g, side, unit, r * 64 + c, free)
    for r in range(rows):
        for h in range(zone):
            d2 = (r - row) * (r - row) + (h - column) * (h - column)
            c = last - h if flip else h
            if d2 < best and fits(free, rows, r, c, spec.models, flip):
                best, anchor = d2, r * 64 + c
    return anchor >= 0 and place(g, side, unit, anchor, free)


cdef bint place(Game* g, int side, int unit, int anchor, const uint64_t* free) noexcept nogil:
    """Puts a fresh unit on the board."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef int16_t cells[MODELS]
    pack(free, g.map.rows, row_of(anchor), col_of(anchor), spec.models, mirrored(g, side), cells)
    put(g, side, unit, cells, spec.models)
    g.b.units[side][unit].lead = spec.W
    return True
