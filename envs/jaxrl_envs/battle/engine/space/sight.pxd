"""Distances of units, sight, cover and who can fire (section 2 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game, MapSpec

cdef void measure_distance2(Game* g, int i, int j) noexcept nogil


cdef inline int unit_distance2(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Squared distance of a living unit and a living unit of the other side."""
    cdef int i = unit if side == 0 else enemy
    cdef int j = enemy if side == 0 else unit
    if not (g.c.distance_known[i] >> j) & 1:
        measure_distance2(g, i, j)
    return g.c.distance2[i][j]


cdef bint is_clear(const MapSpec* map, int a, int b) noexcept nogil
cdef bint cover(Game* g, int side, int unit, int enemy) noexcept nogil
cdef int models_within(Game* g, int side, int unit, int enemy, int reach2) noexcept nogil
cdef void count_firing(Game* g, int side, int unit, int enemy) noexcept nogil


cdef inline int firing_models(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Models of a unit that can fire at a living enemy unit at the range of their weapon, 0 without one."""
    if not g.roster[side].unit[unit].ranged.present:
        return 0
    if not (g.c.firing_known[side][unit] >> enemy) & 1:
        count_firing(g, side, unit, enemy)
    return g.c.firing[side][unit][enemy]


cdef inline int snap_models(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Models that can fire at an enemy unit as snap fire: no further than 24."""
    cdef int reach = g.roster[side].unit[unit].ranged.reach
    if reach <= 24:
        return firing_models(g, side, unit, enemy)
    return models_within(g, side, unit, enemy, 24 * 24)


cdef inline bint sees(const MapSpec* map, int a, int b) noexcept nogil:
    """Whether the centres of two cells see each other."""
    return not map.walled or is_clear(map, a, b)
