"""Cells, packing and paths (section 2 of the rules), and what is cached of a battle. Distances of units: `sight`."""

from libc.math cimport sqrt
from libc.stdint cimport int16_t, uint64_t

from jaxrl_envs.battle.engine.state cimport Game, Unit, UnitCache

cdef enum:
    REACHES = 441  # offsets within 12
    NEVER = 99  # more steps than any move has

cdef int REACH[2][REACHES][2]  # anchor offsets of a charge in order; [1]: for a mirrored home frame
cdef int REACH2[REACHES]  # their squared lengths


# ---- small arithmetic -------------------------------------------------------------------------------------------------

cdef inline int isqrt(int n) noexcept nogil:
    """The integer square root, 0 <= n < 2^31. Exact: the root of a double is rounded correctly, and has bits to spare."""
    return <int>sqrt(<double>n)


cdef inline int iabs(int n) noexcept nogil:
    return -n if n < 0 else n


cdef inline int row_of(int cell) noexcept nogil:
    return cell >> 6


cdef inline int col_of(int cell) noexcept nogil:
    return cell & 63


cdef inline bint has(const uint64_t* cells, int cell) noexcept nogil:
    return (cells[cell >> 6] >> (cell & 63)) & 1


cdef inline void add_cell(uint64_t* cells, int cell) noexcept nogil:
    cells[cell >> 6] |= (<uint64_t>1) << (cell & 63)


cdef inline void drop_cell(uint64_t* cells, int cell) noexcept nogil:
    cells[cell >> 6] &= ~((<uint64_t>1) << (cell & 63))


cdef inline void add_models(uint64_t* cells, const Unit* u) noexcept nogil:
    cdef int k
    for k in range(u.models):
        add_cell(cells, u.cell[k])


cdef inline void drop_models(uint64_t* cells, const Unit* u) noexcept nogil:
    cdef int k
    for k in range(u.models):
        drop_cell(cells, u.cell[k])


cdef inline int cell_distance2(int a, int b) noexcept nogil:
    cdef int dr = row_of(a) - row_of(b), dc = col_of(a) - col_of(b)
    return dr * dr + dc * dc


cdef inline int mirrored(const Game* g, int side) noexcept nogil:
    """1 if the home frame of a side has its columns mirrored."""
    return side != g.b.left


cdef inline int home_col(const Game* g, int side, int cell) noexcept nogil:
    return g.map.cols - 1 - col_of(cell) if mirrored(g, side) else col_of(cell)


# ---- where units stand, what is cached of it, and when that is forgotten ----------------------------------------------

cdef void touch(Game* g, int side, int unit) noexcept nogil
cdef void forget_everything(Game* g) noexcept nogil
cdef void put(Game* g, int side, int unit, const int16_t* cells, int count) noexcept nogil
cdef void remove_last_model(Game* g, int side, int unit) noexcept nogil
cdef void spread(const uint64_t* cells, int rows, uint64_t* out) noexcept nogil
cdef void look_around(Game* g, int side, int unit) noexcept nogil


cdef inline const uint64_t* near(Game* g, int side) noexcept nogil:
    """Cells in contact with a living model of a side."""
    if not g.c.near_known[side]:
        spread(g.c.occupied[side], g.map.rows, g.c.near[side])
        g.c.near_known[side] = 1
    return g.c.near[side]


cdef inline bint engaged(Game* g, int side, int unit) noexcept nogil:
    """Whether a model of the unit is in contact with an enemy model."""
    cdef const uint64_t* zone = near(g, 1 - side)
    cdef Unit* u = &g.b.units[side][unit]
    cdef int k
    for k in range(u.models):
        if has(zone, u.cell[k]):
            return True
    return False


cdef inline const UnitCache* of_unit(Game* g, int side, int unit) noexcept nogil:
    """Values derived from the place of a living unit."""
    if not (g.c.unit_known[side] >> unit) & 1:
        look_around(g, side, unit)
    return &g.c.unit[side][unit]


# ---- packing ----------------------------------------------------------------------------------------------------------

cdef void free_cells(Game* g, int side, int unit, int target, uint64_t* out) noexcept nogil
cdef bint pack(const uint64_t* free, int rows, int r, int c, int count, int flip, int16_t* out) noexcept nogil
cdef bint fits(const uint64_t* free, int rows, int r, int c, int count, int flip) noexcept nogil
cdef void form_up(Game* g, int side, int unit, int models, int anchor, const uint64_t* free) noexcept nogil
cdef int place_beside(Game* g, int side, int unit) noexcept nogil


cdef inline uint64_t window(const uint64_t* cells, int rows, int r, int c) noexcept nogil:
    """The 7 x 7 cells around (r, c), bit 7 * i + j; outside of the board 0."""
    cdef uint64_t found = 0, line
    cdef int i
    for i in range(7):
        if 0 <= r + i - 3 < rows:
            line = cells[r + i - 3]
            line = line >> (c - 3) if c >= 3 else line << (3 - c)
            found |= (line & 0x7F) << (7 * i)
    return found


# ---- paths ------------------------------------------------------------------------------------------------------------

cdef struct Walk:  # a unit's anchor on its way in one direction
    int cells[32]  # after 1, 2, ... steps (at most M + 6); index 0 is where it starts
    int length  # steps so far
    int dr
    int dc
    int flip
    int models
    int fly
    const uint64_t* zone  # cells in contact with an enemy bar it; NULL: they do not


cdef inline int steps_within(int distance, int direction) noexcept nogil:
    """Steps of a move of a distance in a direction."""
    return isqrt(distance * distance // 2) if direction & 1 else distance


cdef void walk(Game* g, int side, int unit, int direction, int steps, bint falling_back, Walk* out) noexcept nogil
cdef int end_of(const Game* g, const Walk* path, const uint64_t* free, int steps) noexcept nogil
cdef int first_end(
    Game* g, int side, int unit, int direction, int steps, bint falling_back, const uint64_t* free
) noexcept nogil
