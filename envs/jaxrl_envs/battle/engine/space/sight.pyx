"""Distances of units, sight, cover and who can fire."""

from libc.stdint cimport int16_t, uint64_t
from libc.string cimport memcpy

from jaxrl_envs.battle.engine.space.geometry cimport cell_distance2, col_of, has, iabs, row_of
from jaxrl_envs.battle.engine.state cimport MODELS, ROWS, Game, MapSpec, Unit

# ---- distances --------------------------------------------------------------------------------------------------------

cdef enum:
    LANES = 24  # MODELS, rounded up to whole vectors of 8 numbers
    FAR = 32767

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef int16_t eight __attribute__((vector_size(16)));

    /* For 8 cells the squared distance to the nearest of `count` cells: 8 at once, which compilers do not find alone. */
    static inline void nearest_of_eight(const int16_t *from, const int16_t *to, int count, int16_t *out) {
        eight rows, cols, dr, dc, d2, nearer, best = {32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767};
        int j;
        memcpy(&cols, from, sizeof(cols));
        rows = cols >> 6;
        cols &= 63;
        for (j = 0; j < count; j++) {
            dr = rows - (int16_t)(to[j] >> 6);
            dc = cols - (int16_t)(to[j] & 63);
            d2 = dr * dr + dc * dc;
            nearer = d2 < best;
            best = (nearer & d2) | (~nearer & best);
        }
        memcpy(out, &best, sizeof(best));
    }
    """
    void nearest_of_eight(const int16_t* from_, const int16_t* to, int count, int16_t* out) noexcept nogil


cdef void nearest2(const Unit* a, const Unit* b, int16_t* out) noexcept nogil:
    """For every model of a the squared distance to the nearest model of b: int16[LANES]; beyond its models FAR."""
    cdef int16_t cells[LANES]
    cdef int i
    memcpy(cells, a.cell, sizeof(a.cell))
    for i in range(MODELS, LANES):
        cells[i] = 0
    for i in range(0, a.models, 8):
        nearest_of_eight(cells + i, b.cell, b.models, out + i)
    for i in range(a.models, LANES):
        out[i] = FAR


cdef void measure_distance2(Game* g, int i, int j) noexcept nogil:
    """Recomputes the squared distance of unit i of side 0 and unit j of side 1."""
    cdef int16_t near2[LANES]
    cdef int16_t best = FAR
    cdef int k
    nearest2(&g.b.units[0][i], &g.b.units[1][j], near2)
    for k in range(LANES):
        best = near2[k] if near2[k] < best else best
    g.c.distance2[i][j] = best
    g.c.distance_known[i] |= 1 << j


# ---- sight ------------------------------------------------------------------------------------------------------------

cdef struct Line:  # the exact way from the centre of a cell to that of another
    int r
    int c
    int end_r
    int end_c
    int dr  # absolute differences
    int dc
    int down  # +1 or -1
    int right
    int e  # > 0: a column step is next, < 0: a row step, 0: the line passes exactly through a corner


cdef inline void begin_line(Line* line, int a, int b) noexcept nogil:
    line.r, line.c, line.end_r, line.end_c = row_of(a), col_of(a), row_of(b), col_of(b)
    line.dr, line.dc = iabs(line.end_r - line.r), iabs(line.end_c - line.c)
    line.down = 1 if line.end_r > line.r else -1
    line.right = 1 if line.end_c > line.c else -1
    line.e = line.dc - line.dr


cdef inline bint at_end(const Line* line) noexcept nogil:
    return line.r == line.end_r and line.c == line.end_c


cdef inline void go_on(Line* line) noexcept nogil:
    """To the next cell that the line visits."""
    cdef int e = line.e
    if e >= 0:
        line.c += line.right
        line.e -= 2 * line.dr
    if e <= 0:
        line.r += line.down
        line.e += 2 * line.dc


cdef bint is_clear(const MapSpec* map, int a, int b) noexcept nogil:
    """Whether the centres of two cells see each other past walls."""
    cdef Line line
    begin_line(&line, a, b)
    while not at_end(&line):
        if line.e == 0 and (map.wall[line.r + line.down] >> line.c) & 1 and (map.wall[line.r] >> (line.c + line.right)) & 1:
            return False
        go_on(&line)
        if (map.wall[line.r] >> line.c) & 1 and not at_end(&line):
            return False
    return True


cdef bint sheltered(const MapSpec* map, int target, int shooter) noexcept nogil:
    """Whether an inner cell of the line is a barricade within 3 (max norm) of the target's anchor."""
    cdef Line line
    if not has(map.shelter, target):
        return False
    begin_line(&line, target, shooter)
    while True:
        go_on(&line)
        if at_end(&line) or iabs(line.r - row_of(target)) > 3 or iabs(line.c - col_of(target)) > 3:
            return False
        if (map.barricade[line.r] >> line.c) & 1:
            return True


cdef bint cover(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Whether unit `enemy` of the other side has cover against a unit, by where both stand."""
    cdef int a = g.b.units[side][unit].cell[0], t = g.b.units[1 - side][enemy].cell[0]
    if not sees(g.map, a, t):
        return True
    return g.roster[1 - side].unit[enemy].infantry and a != t and sheltered(g.map, t, a)


cdef bint open_between(const MapSpec* map, const Unit* a, const Unit* b) noexcept nogil:
    """Whether no wall stands in the rectangle around both units: then all their models see each other."""
    cdef int r, c, k, top = ROWS, bottom = 0, left = 64, right = 0
    cdef uint64_t walls = 0
    if not map.walled:
        return True
    for k in range(a.models + b.models):
        r = a.cell[k] if k < a.models else b.cell[k - a.models]
        c = col_of(r)
        r = row_of(r)
        top = min(top, r)
        bottom = max(bottom, r)
        left = min(left, c)
        right = max(right, c)
    for r in range(top, bottom + 1):
        walls |= map.wall[r]
    return not (walls >> left) & ((<uint64_t>2 << (right - left)) - 1)


cdef int models_within(Game* g, int side, int unit, int enemy, int reach2) noexcept nogil:
    """Models of a unit with a visible living model of an enemy unit within a distance, given squared."""
    cdef const Unit* u = &g.b.units[side][unit]
    cdef const Unit* t = &g.b.units[1 - side][enemy]
    cdef int16_t near2[LANES]
    cdef int i, j, count = 0
    if unit_distance2(g, side, unit, enemy) > reach2:
        return 0
    nearest2(u, t, near2)
    if open_between(g.map, u, t):
        for i in range(LANES):
            count += near2[i] <= reach2
        return count
    for i in range(u.models):
        if near2[i] > reach2:
            continue
        for j in range(t.models):
            if cell_distance2(u.cell[i], t.cell[j]) <= reach2 and sees(g.map, u.cell[i], t.cell[j]):
                count += 1
                break
    return count


cdef void count_firing(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Recounts the models that can fire at an enemy unit."""
    cdef int reach = g.roster[side].unit[unit].ranged.reach
    g.c.firing[side][unit][enemy] = models_within(g, side, unit, enemy, reach * reach)
    g.c.firing_known[side][unit] |= 1 << enemy
