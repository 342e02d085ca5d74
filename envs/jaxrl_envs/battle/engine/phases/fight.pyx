"""The fight phase."""

from jaxrl_envs.battle.engine.play.attack cimport FIGHTING, attack
from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.space.geometry cimport engaged
from jaxrl_envs.battle.engine.space.sight cimport unit_distance2
from jaxrl_envs.battle.engine.state cimport CHARGED, END_HALF, FIGHT, FIGHT_WITH, FOUGHT, OTHERS_FIGHT, Game, alive


cdef void begin_fights(Game* g) noexcept nogil:
    cdef int side, i
    for side in range(2):
        for i in range(g.roster[side].count):
            g.b.units[side][i].flags &= ~FOUGHT


cdef void ask_fight(Game* g, int side, int unit) noexcept nogil:
    cdef int j
    g.b.units[side][unit].flags |= FOUGHT  # it has its turn, whomever it attacks
    ask(g, side, FIGHT, unit, -1, 0, 0)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and unit_distance2(g, side, unit, j) <= 2:
            allow(&g.b, FIGHT_WITH + j)


cdef bint can_fight(Game* g, int side, int unit) noexcept nogil:
    return (
        alive(g, side, unit)
        and g.roster[side].unit[unit].melee.present
        and not g.b.units[side][unit].flags & FOUGHT
        and engaged(g, side, unit)
    )


cdef void next_charger_fights(Game* g) noexcept nogil:
    """Pass 1: units that charged, in order."""
    cdef int side = g.b.active, unit = g.b.index
    if unit == g.roster[side].count:
        g.b.stage = OTHERS_FIGHT
        g.b.picking = 1 - side
        return
    g.b.index += 1
    if g.b.units[side][unit].flags & CHARGED and can_fight(g, side, unit):
        ask_fight(g, side, unit)


cdef void next_fight(Game* g) noexcept nogil:
    """Pass 2: all others, the sides in turn."""
    cdef int turn, i, side
    for turn in range(2):
        side = g.b.picking
        g.b.picking = 1 - side
        for i in range(g.roster[side].count):
            if can_fight(g, side, i):
                ask_fight(g, side, i)
                return
    g.b.stage = END_HALF


cdef void on_fight(Game* g, int action) noexcept nogil:
    attack(g, g.b.side, g.b.unit, action - FIGHT_WITH, FIGHTING)
