"""Cells, packing and paths, and what is cached of a battle."""

from libc.stdint cimport int16_t, uint64_t
from libc.string cimport memcpy, memset

from jaxrl_envs.battle.engine.state cimport MODELS, ROWS, UNITS, Cache, Game, MapSpec, Unit, UnitCache

# ---- tables that never change ---------------------------------------------------------------------------------------

cdef int DIRECTION[8][2]
cdef int ORDER[2][49][2]  # offsets (dr, dc) on the board in packing order; [1]: for a mirrored home frame
cdef int ORDER_BIT[2][49]  # their bits in a 7 x 7 window
cdef uint64_t PREFIX[2][MODELS + 1]  # the first k of them
cdef uint64_t NEIGHBOURS[49]  # by bit in the window


cdef void fill_tables():
    order = sorted((dr * dr + dc * dc, dr, dc) for dr in range(-3, 4) for dc in range(-3, 4))
    reach = sorted((dr * dr + dc * dc, dr, dc) for dr in range(-12, 13) for dc in range(-12, 13) if dr * dr + dc * dc <= 144)
    assert len(reach) == REACHES
    steps = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    for i, (dr, dc) in enumerate(steps):
        DIRECTION[i][0], DIRECTION[i][1] = dr, dc
    for mirrored in range(2):
        sign = -1 if mirrored else 1
        taken = 0
        PREFIX[mirrored][0] = 0
        for i, (_, dr, dc) in enumerate(order):
            ORDER[mirrored][i][0], ORDER[mirrored][i][1] = dr, sign * dc
            bit = (dr + 3) * 7 + sign * dc + 3
            ORDER_BIT[mirrored][i] = bit
            taken |= 1 << bit
            if i < MODELS:
                PREFIX[mirrored][i + 1] = taken
        for i, (d2, dr, dc) in enumerate(reach):
            REACH[mirrored][i][0], REACH[mirrored][i][1], REACH2[i] = dr, sign * dc, d2
    for r in range(7):
        for c in range(7):
            around = [(r + i, c + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i or j)]
            NEIGHBOURS[r * 7 + c] = sum(1 << (i * 7 + j) for i, j in around if 0 <= i < 7 and 0 <= j < 7)


fill_tables()


# ---- where units stand, what is cached of it, and when that is forgotten ----------------------------------------------

cdef void touch(Game* g, int side, int unit) noexcept nogil:
    """Forgets what was derived from a unit: to be called when its cells, its models or its wounds have changed."""
    cdef int j, bit = 1 << unit
    if side == 0:
        g.c.distance_known[unit] = 0
    for j in range(UNITS):
        if side == 1:
            g.c.distance_known[j] &= ~bit
        g.c.firing_known[1 - side][j] &= ~bit
        g.c.share_known[1 - side][j] &= ~bit
    g.c.firing_known[side][unit] = 0
    g.c.share_known[side][unit] = 0
    g.c.unit_known[side] &= ~bit
    g.c.near_known[side] = 0


cdef void forget_everything(Game* g) noexcept nogil:
    """Rebuilds the occupancy from the units' cells and clears the rest: after a battle was loaded or set up."""
    cdef int side, i
    memset(&g.c, 0, sizeof(Cache))
    for side in range(2):
        for i in range(g.roster[side].count):
            add_models(g.c.occupied[side], &g.b.units[side][i])


cdef void put(Game* g, int side, int unit, const int16_t* cells, int count) noexcept nogil:
    """Places a unit's models on `count` cells, wherever they were before."""
    cdef Unit* u = &g.b.units[side][unit]
    drop_models(g.c.occupied[side], u)
    memset(u.cell, 0, sizeof(u.cell))
    memcpy(u.cell, cells, count * sizeof(int16_t))
    u.models = count
    add_models(g.c.occupied[side], u)
    touch(g, side, unit)


cdef void remove_last_model(Game* g, int side, int unit) noexcept nogil:
    """A casualty: the last model goes, the next one is unhurt."""
    cdef Unit* u = &g.b.units[side][unit]
    u.models -= 1
    drop_cell(g.c.occupied[side], u.cell[u.models])
    u.cell[u.models] = 0
    if u.models:
        u.lead = g.roster[side].unit[unit].W
    else:
        u.lead = 0
        u.flags = 0
    touch(g, side, unit)


cdef void spread(const uint64_t* cells, int rows, uint64_t* out) noexcept nogil:
    """The cells in contact with any of `cells`, and these themselves."""
    cdef int r
    cdef uint64_t above = 0, here = 0, below
    cdef uint64_t row = cells[0]
    here = row | (row << 1) | (row >> 1)
    for r in range(rows):
        below = 0
        if r + 1 < rows:
            row = cells[r + 1]
            below = row | (row << 1) | (row >> 1)
        out[r] = above | here | below
        above = here
        here = below


cdef void look_around(Game* g, int side, int unit) noexcept nogil:
    """Recomputes what `of_unit` caches."""
    cdef UnitCache* found = &g.c.unit[side][unit]
    cdef const Unit* u = &g.b.units[side][unit]
    cdef int o, k, dr, dc, d2, best = 1 << 28
    found.on_objective = 0
    for o in range(g.map.objectives):
        found.stand[o] = 0
        for k in range(u.models):
            found.stand[o] += has(g.map.on[o], u.cell[k])
        found.on_objective |= found.stand[o] > 0
        dr = 2 * row_of(u.cell[0]) - g.map.row2[o]
        dc = 2 * col_of(u.cell[0]) - g.map.col2[o]
        d2 = dr * dr + dc * dc
        best = min(best, d2)
    found.objective = isqrt(25 * best) if g.map.objectives else 0
    g.c.unit_known[side] |= 1 << unit


# ---- packing ----------------------------------------------------------------------------------------------------------

cdef void free_cells(Game* g, int side, int unit, int target, uint64_t* out) noexcept nogil:
    """The cells that are free for a living unit; models of the enemy unit `target` (-1: none) do not keep it away."""
    cdef int r, k
    cdef uint64_t without[ROWS]
    cdef uint64_t apart[ROWS]
    cdef const uint64_t* zone = near(g, 1 - side)
    cdef const Unit* u = &g.b.units[side][unit]
    if target >= 0:
        memcpy(without, g.c.occupied[1 - side], sizeof(without))
        drop_models(without, &g.b.units[1 - side][target])
        spread(without, g.map.rows, apart)
        zone = apart
    for r in range(g.map.rows):
        out[r] = g.map.inside[r] & ~(
            g.map.barricade[r] | g.map.wall[r] | g.c.occupied[0][r] | g.c.occupied[1][r] | zone[r]
        )
    for k in range(u.models):  # its own models do not stand in its way
        if not has(zone, u.cell[k]):
            add_cell(out, u.cell[k])


cdef bint fits(const uint64_t* free, int rows, int r, int c, int count, int flip) noexcept nogil:
    """Whether `count` models can be packed around (r, c)."""
    return pack(free, rows, r, c, count, flip, NULL)


cdef bint pack(const uint64_t* free, int rows, int r, int c, int count, int flip, int16_t* out) noexcept nogil:
    """Packs `count` models around (r, c); their cells in order if `out` is not NULL.

    Args:
      free: cells that may be taken.
      rows: of the board.
      r, c: the anchor, on the board.
      count: 1 to 20.
      flip: 1 in a mirrored home frame.
      out: room for `count` cells.
    """
    cdef uint64_t open_cells, taken = 0
    cdef int i, found = 0, bit
    if not (free[r] >> c) & 1:
        return False
    open_cells = window(free, rows, r, c)
    if (open_cells & PREFIX[flip][count]) == PREFIX[flip][count]:
        if out != NULL:
            for i in range(count):
                out[i] = (r + ORDER[flip][i][0]) * 64 + c + ORDER[flip][i][1]
        return True
    for i in range(49):
        bit = ORDER_BIT[flip][i]
        if (open_cells >> bit) & 1 and (i == 0 or NEIGHBOURS[bit] & taken):
            taken |= (<uint64_t>1) << bit
            if out != NULL:
                out[found] = (r + ORDER[flip][i][0]) * 64 + c + ORDER[flip][i][1]
            found += 1
            if found == count:
                return True
    return False


cdef void form_up(Game* g, int side, int unit, int models, int anchor, const uint64_t* free) noexcept nogil:
    """Places `models` models of a unit around an anchor where they fit."""
    cdef int16_t cells[MODELS]
    pack(free, g.map.rows, row_of(anchor), col_of(anchor), models, mirrored(g, side), cells)
    put(g, side, unit, cells, models)


cdef int place_beside(Game* g, int side, int unit) noexcept nogil:
    """The first free cell around the anchor that is in contact with a model of the unit, -1 without one."""
    cdef uint64_t free[ROWS]
    cdef uint64_t own = 0, open_cells
    cdef Unit* u = &g.b.units[side][unit]
    cdef int r = row_of(u.cell[0]), c = col_of(u.cell[0]), flip = mirrored(g, side), i, k, dr, dc, bit
    free_cells(g, side, unit, -1, free)
    open_cells = window(free, g.map.rows, r, c)
    for k in range(u.models):  # all of them are in the window
        dr, dc = row_of(u.cell[k]) - r, col_of(u.cell[k]) - c
        own |= (<uint64_t>1) << ((dr + 3) * 7 + dc + 3)
    for i in range(49):
        bit = ORDER_BIT[flip][i]
        if ((open_cells & ~own) >> bit) & 1 and NEIGHBOURS[bit] & own:
            return (r + ORDER[flip][i][0]) * 64 + c + ORDER[flip][i][1]
    return -1


# ---- paths ------------------------------------------------------------------------------------------------------------

cdef void set_out(Game* g, int side, int unit, int direction, bint falling_back, Walk* out) noexcept nogil:
    """Begins a walk in a direction of the home frame."""
    out.flip, out.models, out.length = mirrored(g, side), g.b.units[side][unit].models, 0
    out.dr, out.dc = DIRECTION[direction][0], -DIRECTION[direction][1] if out.flip else DIRECTION[direction][1]
    out.fly = g.roster[side].unit[unit].fly
    out.zone = NULL
    if not falling_back:
        out.zone = near(g, 1 - side)
    out.cells[0] = g.b.units[side][unit].cell[0]


cdef inline bint stride(const MapSpec* map, Walk* path) noexcept nogil:
    """Goes one step on; False if that is barred."""
    cdef int r = row_of(path.cells[path.length]), c = col_of(path.cells[path.length])
    cdef int to_r = r + path.dr, to_c = c + path.dc
    if not (0 <= to_r < map.rows and 0 <= to_c < map.cols):
        return False
    if not path.fly:
        if map.walled:
            if (map.wall[to_r] >> to_c) & 1:
                return False
            if path.dr and path.dc and (map.wall[to_r] >> c) & 1 and (map.wall[r] >> to_c) & 1:
                return False
        if path.zone != NULL and (path.zone[to_r] >> to_c) & 1:
            return False
    path.length += 1
    path.cells[path.length] = to_r * 64 + to_c
    return True


cdef void walk(Game* g, int side, int unit, int direction, int steps, bint falling_back, Walk* out) noexcept nogil:
    """Follows a direction (home frame) for up to `steps` steps, or until one is barred."""
    set_out(g, side, unit, direction, falling_back, out)
    while out.length < steps and stride(g.map, out):
        pass


cdef inline bint fits_after(const Game* g, const Walk* path, const uint64_t* free, int steps) noexcept nogil:
    """Whether the unit fits where it stands after `steps` steps of a walk."""
    return fits(free, g.map.rows, row_of(path.cells[steps]), col_of(path.cells[steps]), path.models, path.flip)


cdef int end_of(const Game* g, const Walk* path, const uint64_t* free, int steps) noexcept nogil:
    """The cell where a move of at most `steps` steps of a walk ends, -1 if it cannot end anywhere."""
    cdef int s
    for s in range(min(steps, path.length), 0, -1):
        if fits_after(g, path, free, s):
            return path.cells[s]
    return -1


cdef int first_end(
    Game* g, int side, int unit, int direction, int steps, bint falling_back, const uint64_t* free
) noexcept nogil:
    """The least number of steps in a direction after which a unit fits, NEVER if it is above `steps`."""
    cdef Walk path
    set_out(g, side, unit, direction, falling_back, &path)
    while path.length < steps and stride(g.map, &path):
        if fits_after(g, &path, free, path.length):
            return path.length
    return NEVER
