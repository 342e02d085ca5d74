# Losses, victory points and the attack sequence (sections 5.6 and 7 of the rules).

cdef enum:  # how a unit attacks
    SHOOTING = 0
    SNAPPING = 1
    FIGHTING = 2


cdef inline int hp_of(const Game* g, int side, int unit) noexcept nogil:
    """Wounds left in a unit."""
    cdef const Unit* u = &g.b.units[side][unit]
    return (u.models - 1) * g.roster[side].unit[unit].W + u.lead if u.models else 0


cdef int side_hp(const Game* g, int side) noexcept nogil:
    cdef int i, total = 0
    for i in range(g.roster[side].count):
        total += hp_of(g, side, i)
    return total


cdef void end_battle(Game* g, int reason, int winner) noexcept nogil:
    g.b.end = reason
    g.b.winner = winner


cdef void lose_model(Game* g, int side, int unit) noexcept nogil:
    """Removes the last model of a unit; a destroyed unit gives its kill points at once."""
    remove_last_model(g, side, unit)
    if not g.b.units[side][unit].models and g.rules.mission == ANNIHILATION:
        g.b.vp[1 - side] += g.roster[side].unit[unit].kp


cdef void check_wipe_out(Game* g) noexcept nogil:
    """Ends the battle if a side has no living unit."""
    cdef int side, i, living
    for side in range(2):
        living = 0
        for i in range(g.roster[side].count):
            living += alive(g, side, i)
        if not living:
            end_battle(g, 1 + side, 1 - side)


cdef inline int wound_target(int S, int T) noexcept nogil:
    if S >= 2 * T:
        return 2
    if S > T:
        return 3
    if S == T:
        return 4
    return 6 if 2 * S <= T else 5


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
