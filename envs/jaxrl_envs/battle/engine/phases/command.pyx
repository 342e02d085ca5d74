"""The command phase: shock tests and regeneration."""

from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.play.dice cimport die, two_dice
from jaxrl_envs.battle.engine.space.geometry cimport add_cell, place_beside, touch
from jaxrl_envs.battle.engine.state cimport (
    ADVANCED, CHARGED, COMMAND_PHASE, DECLINE, FELL, MOVED, REGENERATION, REROLL, SCORING, SHOCK, SHOCKED, SHOCK_TESTS,
    STEEL, USE_REROLL, USE_STEEL, Game, Unit, UnitSpec, alive, hp_of,
)
from jaxrl_envs.battle.engine.play.stratagems cimport enter_phase, pay, payable


cdef void begin_half(Game* g) noexcept nogil:
    cdef int i, active = g.b.active
    enter_phase(g, COMMAND_PHASE, SHOCK_TESTS)
    g.b.cp[0] += 1
    g.b.cp[1] += 1
    for i in range(g.roster[active].count):
        g.b.units[active][i].flags &= ~(MOVED | ADVANCED | FELL | CHARGED | SHOCKED)


cdef bint below_half(const Game* g, int side, int unit) noexcept nogil:
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef const Unit* u = &g.b.units[side][unit]
    return 2 * u.lead < spec.W if spec.models == 1 else 2 * u.models < spec.models


cdef void next_shock_test(Game* g) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index
    if unit == g.roster[side].count:
        g.b.stage = REGENERATION
    elif alive(g, side, unit) and below_half(g, side, unit):
        shock_test(g)
    else:
        g.b.index += 1


cdef void shock_test(Game* g) noexcept nogil:
    cdef int result = two_dice(g)
    if result < g.roster[g.b.active].unit[g.b.index].Ld:
        ask_shock(g, g.b.index, result)
    else:
        g.b.index += 1


cdef void ask_shock(Game* g, int unit, int result) noexcept nogil:
    """Asks about a failed shock test: decline or re-roll."""
    cdef int side = g.b.active
    ask(g, side, SHOCK, unit, -1, result, g.roster[side].unit[unit].Ld)
    allow(&g.b, DECLINE)
    if payable(&g.b, side, USE_REROLL):
        allow(&g.b, REROLL)
    if payable(&g.b, side, USE_STEEL):
        allow(&g.b, STEEL)


cdef void on_shock(Game* g, int action) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index
    if action == REROLL:
        pay(&g.b, side, USE_REROLL)
        shock_test(g)
        return
    if action == STEEL:
        pay(&g.b, side, USE_STEEL)
    else:
        g.b.units[side][unit].flags |= SHOCKED
    g.b.index += 1


cdef void regenerate_all(Game* g) noexcept nogil:
    cdef int i, side = g.b.active
    cdef const UnitSpec* spec
    for i in range(g.roster[side].count):
        spec = &g.roster[side].unit[i]
        if alive(g, side, i) and spec.regen and hp_of(g, side, i) < spec.models * spec.W:
            regenerate(g, side, i, die(g, spec.regen))
    g.b.stage = SCORING


cdef void regenerate(Game* g, int side, int unit, int points) noexcept nogil:
    """Heals the wounded model first; what is left brings models back beside the others."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef Unit* u = &g.b.units[side][unit]
    cdef int healed = min(points, spec.W - u.lead), cell
    u.lead += healed
    points -= healed
    while points > 0 and u.models < spec.models:
        cell = place_beside(g, side, unit)
        if cell < 0:
            break
        u.cell[u.models] = cell
        u.models += 1
        u.lead = min(spec.W, points)
        points -= u.lead
        add_cell(g.c.occupied[side], cell)
    touch(g, side, unit)
