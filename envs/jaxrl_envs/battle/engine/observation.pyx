"""Observations of a side."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from jaxrl_envs.battle.engine.play.dice cimport twice_mean
from jaxrl_envs.battle.engine.space.geometry cimport engaged, has, home_col, isqrt, near, of_unit, row_of
from jaxrl_envs.battle.engine.space.sight cimport cover, firing_models, unit_distance2
from jaxrl_envs.battle.engine.state cimport (
    ADVANCED, ANNIHILATION, CHARGED, FELL, FOUGHT, GROUNDED, MODELS, MOVED, NOTHING_ASKED, OBJECTIVES, SHOCKED, SMOKED,
    UNITS, UNIT_FEATURES, Game, MapSpec, State, Unit, UnitCache, UnitSpec, Weapon, alive, hp_of, side_hp,
)

cdef enum:  # where the globals begin, behind the rows of both sides' units
    GLOBALS = 2 * UNITS * UNIT_FEATURES


cdef float DEAD[UNIT_FEATURES]  # the row of a dead unit: zeros, copied faster than they are set one by one


cdef inline float ratio(int a, int b) noexcept nogil:
    """a / b in double precision, rounded to float32."""
    return <float>(<double>a / <double>b)


# ---- what never changes ----------------------------------------------------------------------------------------------

cdef void _fill_common(const Weapon* w, float* out):
    """The values that both kinds of weapons have: 6 numbers and 4 abilities."""
    out[0] = ratio(twice_mean(&w.A), 24)
    out[1] = ratio(7 - w.skill, 6)
    out[2] = ratio(w.S, 16)
    out[3] = ratio(w.ap, 6)
    out[4] = ratio(twice_mean(&w.D), 12)
    out[5] = w.lethal != 0
    out[6] = ratio(w.sustained, 3)
    out[7] = w.devastating != 0
    out[8] = w.twin != 0


cdef void fill_static_row(UnitSpec* spec):
    """Fills spec.row: the features of a living unit that its roster alone decides; 0 elsewhere."""
    cdef float* row = spec.row
    memset(row, 0, sizeof(spec.row))
    row[0] = 1
    row[7] = ratio(spec.M, 12)
    row[8] = ratio(spec.T, 12)
    row[9] = ratio(spec.Sv, 7)
    row[10] = ratio(7 - spec.Inv, 6) if spec.Inv else 0
    row[11] = ratio(spec.W, 12)
    row[12] = ratio(spec.Ld, 12)
    row[13] = ratio(spec.OC, 5)
    row[14] = spec.infantry != 0
    row[15] = spec.smoke != 0
    row[16] = spec.fly != 0
    if spec.ranged.present:
        row[26] = 1
        row[27] = ratio(spec.ranged.reach, 48)
        _fill_common(&spec.ranged, row + 28)
        row[37] = ratio(spec.ranged.rapid, 3)
        row[38] = spec.ranged.assault != 0
        row[39] = spec.ranged.heavy != 0
        row[40] = spec.ranged.torrent != 0
        row[41] = spec.ranged.blast != 0
    if spec.melee.present:
        row[42] = 1
        _fill_common(&spec.melee, row + 43)
    row[54] = ratio(spec.regen, 6)


# ---- one unit --------------------------------------------------------------------------------------------------------

cdef void _observe_unit(Game* g, int seat, int side, int unit, bint contact, float* row) noexcept nogil:
    """The features 0 to 54 of a living unit; `contact`: whether any two models of both sides are in contact."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef const Unit* u = &g.b.units[side][unit]
    cdef const UnitCache* c = of_unit(g, side, unit)
    cdef int flags = u.flags
    memcpy(row, spec.row, sizeof(spec.row))
    row[1] = ratio(u.models, MODELS)
    row[2] = ratio(u.models, spec.models)
    row[3] = ratio(u.lead, spec.W)
    row[4] = ratio(hp_of(g, side, unit), spec.models * spec.W)
    row[5] = ratio(row_of(u.cell[0]), g.map.rows - 1)
    row[6] = ratio(home_col(g, seat, u.cell[0]), g.map.cols - 1)
    if flags:
        if flags & SHOCKED:
            row[13] = 0
            row[22] = 1
        row[17] = (flags & MOVED) != 0
        row[18] = (flags & ADVANCED) != 0
        row[19] = (flags & FELL) != 0
        row[20] = (flags & CHARGED) != 0
        row[23] = (flags & SMOKED) != 0
        row[24] = (flags & GROUNDED) != 0
        row[25] = (flags & FOUGHT) != 0
    if contact:
        row[21] = engaged(g, side, unit)
    row[52] = ratio(c.objective, 600)
    row[53] = c.on_objective != 0


cdef void _observe_relation(Game* g, int side, int unit, int enemy, float* row) noexcept nogil:
    """The features 57 to 59: a unit of `side` and the enemy unit that it would fire at."""
    row[57] = ratio(isqrt(100 * unit_distance2(g, side, unit, enemy)), 600)
    row[58] = ratio(firing_models(g, side, unit, enemy), g.b.units[side][unit].models)
    row[59] = cover(g, side, unit, enemy)  # by where both stand: smoke and taken cover have their own features


# ---- everything ------------------------------------------------------------------------------------------------------

cdef bint _any_contact(Game* g) noexcept nogil:
    """Whether any two models of both sides are in contact."""
    cdef const uint64_t* zone = near(g, 0)
    cdef uint64_t both = 0
    cdef int r
    for r in range(g.map.rows):
        both |= zone[r] & g.c.occupied[1][r]
    return both != 0


cdef void _observe_side(Game* g, int seat, int side, bint contact, float* out, int* held) noexcept nogil:
    """The rows of a side, and its OC on each objective."""
    cdef int i, o
    cdef const Unit* u
    cdef const UnitSpec* spec
    cdef int absent = UNITS - g.roster[side].count
    memset(out + g.roster[side].count * UNIT_FEATURES, 0, absent * UNIT_FEATURES * sizeof(float))
    for o in range(OBJECTIVES):
        held[o] = 0
    for i in range(g.roster[side].count):
        u = &g.b.units[side][i]
        if not u.models:
            memcpy(out + i * UNIT_FEATURES, DEAD, sizeof(DEAD))
            continue
        _observe_unit(g, seat, side, i, contact, out + i * UNIT_FEATURES)
        spec = &g.roster[side].unit[i]
        if g.c.unit[side][i].on_objective and spec.OC and not u.flags & SHOCKED:
            for o in range(g.map.objectives):
                held[o] += g.c.unit[side][i].stand[o] * spec.OC


cdef void _observe_battle(Game* g, int seat, const int* own, const int* enemy, float* out) noexcept nogil:
    """The globals, but for the open question: `own` and `enemy` are OC sums on each objective."""
    cdef const State* b = &g.b
    cdef const MapSpec* map = g.map
    cdef int i, o, top = 2 * (map.rows - 1), right = 2 * (map.cols - 1)
    out[0] = ratio(b.round, g.rules.rounds)
    out[1] = ratio(g.rules.rounds, 20)
    out[2] = b.active == seat
    out[3] = b.first == seat
    out[4] = ratio(b.vp[seat], 50)
    out[5] = ratio(b.vp[1 - seat], 50)
    out[6] = ratio(b.cp[seat], 10)
    out[7] = ratio(b.cp[1 - seat], 10)
    for i in range(5):
        out[8 + i] = b.phase == i
    memset(out + 13, 0, 14 * sizeof(float))
    out[24] = g.rules.mission == ANNIHILATION
    for i in range(6):
        out[27 + i] = (b.used[seat] >> i) & 1
        out[33 + i] = (b.used[1 - seat] >> i) & 1
    out[39] = ratio(map.rows, 64)
    out[40] = ratio(map.cols, 64)
    out += 41
    for o in range(map.objectives):
        out[0] = 1
        out[1] = ratio(map.row2[o], top)
        out[2] = ratio(right - map.col2[o] if seat != b.left else map.col2[o], right)
        out[3] = ratio(own[o], 20)
        out[4] = ratio(enemy[o], 20)
        out[5] = (own[o] > enemy[o]) - (own[o] < enemy[o])
        out += 6
    memset(out, 0, (OBJECTIVES - map.objectives) * 6 * sizeof(float))
    out += 6 * (OBJECTIVES - map.objectives)
    out[0] = ratio(side_hp(g, seat), g.roster[seat].hp)
    out[1] = ratio(side_hp(g, 1 - seat), g.roster[1 - seat].hp)


cdef void _observe_question(Game* g, float* out) noexcept nogil:
    """Adds the features of the open question, for the side that is asked."""
    cdef const State* b = &g.b
    cdef int side = b.side, i
    cdef float* own = out
    cdef float* enemy = out + UNITS * UNIT_FEATURES
    out[GLOBALS + 13 + b.kind] = 1
    out[GLOBALS + 25] = ratio(b.roll, 12)
    out[GLOBALS + 26] = ratio(b.needed, 12)
    if b.subject >= 0:
        enemy[b.subject * UNIT_FEATURES + 56] = 1
    if b.unit >= 0:
        own[b.unit * UNIT_FEATURES + 55] = 1
        for i in range(g.roster[1 - side].count):
            if alive(g, 1 - side, i):
                _observe_relation(g, side, b.unit, i, enemy + i * UNIT_FEATURES)
    elif b.subject >= 0:
        for i in range(g.roster[side].count):
            if alive(g, side, i):
                _observe_relation(g, side, i, b.subject, own + i * UNIT_FEATURES)


cdef void observe(Game* g, int seat, float* out) noexcept nogil:
    """Writes a side's observation, f32[FEATURES]; `b.kind` is NOTHING_ASKED where no question is open."""
    cdef int own[OBJECTIVES]
    cdef int enemy[OBJECTIVES]
    cdef bint contact = _any_contact(g)
    _observe_side(g, seat, seat, contact, out, own)
    _observe_side(g, seat, 1 - seat, contact, out + UNITS * UNIT_FEATURES, enemy)
    _observe_battle(g, seat, own, enemy, out + GLOBALS)
    if g.b.kind != NOTHING_ASKED and g.b.side == seat:
        _observe_question(g, out)


cdef void planes(Game* g, int seat, uint8_t* terrain, uint8_t* own, uint8_t* enemy) noexcept nogil:
    """The board in the home frame of a side, each u8[rows, cols]: terrain (1 barricade, 2 wall), unit index + 1 of models."""
    cdef int cols = g.map.cols, r, c, side, i, k, cell
    cdef bint flip = seat != g.b.left
    cdef uint8_t* plane
    cdef const Unit* u
    for r in range(g.map.rows):
        for c in range(cols):
            cell = r * 64 + (cols - 1 - c if flip else c)
            terrain[r * cols + c] = 2 if has(g.map.wall, cell) else has(g.map.barricade, cell)
    memset(own, 0, g.map.rows * cols)
    memset(enemy, 0, g.map.rows * cols)
    for side in range(2):
        plane = own if side == seat else enemy
        for i in range(g.roster[side].count):
            u = &g.b.units[side][i]
            for k in range(u.models):
                plane[row_of(u.cell[k]) * cols + home_col(g, seat, u.cell[k])] = i + 1
