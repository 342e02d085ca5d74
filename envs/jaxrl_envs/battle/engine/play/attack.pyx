"""The attack sequence."""

from jaxrl_envs.battle.engine.play.dice cimport die, roll
from jaxrl_envs.battle.engine.space.geometry cimport touch
from jaxrl_envs.battle.engine.phases.scoring cimport check_wipe_out, lose_model
from jaxrl_envs.battle.engine.space.sight cimport cover, firing_models, models_within, snap_models
from jaxrl_envs.battle.engine.state cimport GROUNDED, MOVED, SMOKED, Game, Unit, UnitSpec, Weapon


cdef int save_target(const Game* g, int side, int unit, int ap, bint covered) noexcept nogil:
    """The number that saves the models of a unit; above 6 there is no save."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef int armour = spec.Sv + ap, invulnerable = spec.Inv if spec.Inv else 7
    if covered and not (spec.Sv <= 3 and ap == 0):
        armour -= 1
    if g.b.units[side][unit].flags & GROUNDED:
        invulnerable = min(invulnerable, 6)
    return min(max(armour, 2), invulnerable)


cdef int number_of_attacks(Game* g, int side, int unit, int enemy, const Weapon* weapon, int how) noexcept nogil:
    """Rolls the attacks of all models that can attack."""
    cdef int models, attacks = 0, i
    if how == FIGHTING:
        models = g.b.units[side][unit].models
    elif how == SNAPPING:
        models = snap_models(g, side, unit, enemy)
    else:
        models = firing_models(g, side, unit, enemy)
    for i in range(models):
        attacks += roll(g, &weapon.A)
    if how != FIGHTING:
        if weapon.rapid:
            attacks += weapon.rapid * models_within(g, side, unit, enemy, weapon.reach * weapon.reach // 4)  # 4 d^2 <= reach^2
        if weapon.blast:
            attacks += models * (g.b.units[1 - side][enemy].models // 5)
    return attacks


cdef void attack(Game* g, int side, int unit, int enemy, int how) noexcept nogil:
    """A unit attacks a unit of the other side; ends the battle if that was the last one."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef const Weapon* weapon = &spec.melee if how == FIGHTING else &spec.ranged
    cdef Unit* t = &g.b.units[1 - side][enemy]
    cdef int attacks, target, modifier = 0, i, wounding, result
    cdef bint covered = False
    if how != FIGHTING:
        covered = (t.flags & (SMOKED | GROUNDED)) != 0 or cover(g, side, unit, enemy)
    if how == SHOOTING:
        if weapon.heavy and not g.b.units[side][unit].flags & MOVED:
            modifier += 1
        if t.flags & SMOKED:
            modifier -= 1
    target = save_target(g, 1 - side, enemy, weapon.ap, covered)
    wounding = wound_target(weapon.S, g.roster[1 - side].unit[enemy].T)
    attacks = number_of_attacks(g, side, unit, enemy, weapon, how)
    for i in range(attacks):
        if not t.models:
            break
        if weapon.torrent:
            strike(g, 1 - side, enemy, weapon, wounding, target, False)
            continue
        result = die(g, 6)
        if result == 6:
            critical_hit(g, 1 - side, enemy, weapon, wounding, target)
        elif result != 1 and how != SNAPPING and result + modifier >= weapon.skill:
            strike(g, 1 - side, enemy, weapon, wounding, target, False)
    check_wipe_out(g)


cdef void critical_hit(Game* g, int side, int unit, const Weapon* weapon, int wounding, int target) noexcept nogil:
    """The hit itself, then its sustained extra hits."""
    cdef int extra
    strike(g, side, unit, weapon, wounding, target, weapon.lethal != 0)
    for extra in range(weapon.sustained):
        if not g.b.units[side][unit].models:
            return
        strike(g, side, unit, weapon, wounding, target, False)


cdef void strike(Game* g, int side, int unit, const Weapon* weapon, int wounding, int target, bint lethal) noexcept nogil:
    """One hit on a living unit of `side`: wound, save, damage."""
    cdef Unit* u = &g.b.units[side][unit]
    cdef int result = 0
    if not lethal:
        result = die(g, 6)
        if result < wounding and weapon.twin:
            result = die(g, 6)
        if result < wounding:
            return
    if not (weapon.devastating and result == 6) and target <= 6 and die(g, 6) >= target:
        return
    u.lead -= roll(g, &weapon.D)
    if u.lead <= 0:
        lose_model(g, side, unit)
    else:
        touch(g, side, unit)
