"""The shooting phase."""

from jaxrl_envs.battle.engine.play.attack cimport SHOOTING, attack
from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.space.geometry cimport engaged
from jaxrl_envs.battle.engine.space.sight cimport firing_models
from jaxrl_envs.battle.engine.state cimport (
    ADVANCED, CHARGES, CHARGE_PHASE, DECLINE, FELL, GROUNDED, PROTECT, SHOCKED, SHOOT, SHOOT_AT, SMOKE, SMOKED,
    TAKE_COVER, USE_COVER, USE_SMOKE, Game, UnitSpec, Weapon, alive,
)
from jaxrl_envs.battle.engine.play.stratagems cimport enter_phase, pay, payable


cdef void ask_shoot(Game* g, int unit) noexcept nogil:
    cdef int side = g.b.active, j
    ask(g, side, SHOOT, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and firing_models(g, side, unit, j) and not engaged(g, 1 - side, j):
            allow(&g.b, SHOOT_AT + j)


cdef void ask_protect(Game* g, int unit, int shooter) noexcept nogil:
    """Asks how the target of an attack protects itself: not, by smoke or by cover."""
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


cdef void next_shot(Game* g) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index, flags
    cdef const Weapon* weapon
    if unit == g.roster[side].count:
        enter_phase(g, CHARGE_PHASE, CHARGES)
        return
    flags = g.b.units[side][unit].flags
    weapon = &g.roster[side].unit[unit].ranged
    if (
        alive(g, side, unit)
        and weapon.present
        and not flags & FELL
        and (weapon.assault or not flags & ADVANCED)
        and not engaged(g, side, unit)
    ):
        ask_shoot(g, unit)
    else:
        g.b.index += 1


cdef void on_shoot(Game* g, int action) noexcept nogil:
    if action == DECLINE:
        g.b.index += 1
        return
    g.b.target = action - SHOOT_AT
    ask_protect(g, g.b.target, g.b.index)


cdef void on_protect(Game* g, int action) noexcept nogil:
    cdef int side = 1 - g.b.active
    if action == SMOKE:
        pay(&g.b, side, USE_SMOKE)
        g.b.units[side][g.b.target].flags |= SMOKED
    elif action == TAKE_COVER:
        pay(&g.b, side, USE_COVER)
        g.b.units[side][g.b.target].flags |= GROUNDED
    attack(g, g.b.active, g.b.index, g.b.target, SHOOTING)
    g.b.index += 1
