# The movement and shooting phases (sections 5.2, 5.3 and 6 of the rules).

# ---- movement ---------------------------------------------------------------------------------------------------------

cdef void next_move(Game* g) noexcept nogil:
    cdef int side = g.b.active
    if g.b.index == g.roster[side].count:
        enter_phase(g, SHOOTING_PHASE, SHOTS)
    elif alive(g, side, g.b.index):
        ask_move(g, g.b.index)
    else:
        g.b.index += 1


cdef void on_move(Game* g, int action) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index, gait = (action - GO) >> 3, result
    cdef int M = g.roster[side].unit[unit].M
    if action == DECLINE:
        g.b.index += 1
        return
    g.b.target = (action - GO) & 7  # the direction
    g.b.units[side][unit].flags |= MOVED  # by the choice, before any die
    if gait < 2:
        make_move(g, M if gait else (M + 1) // 2, False)
        return
    g.b.units[side][unit].flags |= ADVANCED
    result = die(g, 6)
    if result <= 3:
        ask_reroll(g, side, REROLL_ADVANCE, unit, -1, result, 0)
    else:
        make_move(g, M + result, False)


cdef void on_reroll_advance(Game* g, int action) noexcept nogil:
    cdef int result = g.b.roll
    if action == REROLL:
        pay(&g.b, g.b.active, USE_REROLL)
        result = die(g, 6)
    make_move(g, g.roster[g.b.active].unit[g.b.index].M + result, False)


cdef void on_fall_back(Game* g, int action) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index, losses = 0, i
    cdef Unit* u = &g.b.units[side][unit]
    if action == DECLINE:
        g.b.index += 1
        return
    g.b.target = (action - GO) & 7
    u.flags |= FELL | MOVED
    if u.flags & SHOCKED:
        for i in range(u.models):
            losses += die(g, 6) <= 2
        for i in range(losses):
            lose_model(g, side, unit)
        check_wipe_out(g)
    if u.models:
        make_move(g, g.roster[side].unit[unit].M, True)
    else:
        g.b.index += 1


cdef void make_move(Game* g, int distance, bint falling_back) noexcept nogil:
    """Moves the unit whose turn it is in the direction it chose, then lets the other side fire at it."""
    cdef int side = g.b.active, unit = g.b.index
    cdef uint64_t free[ROWS]
    cdef Walk path
    free_cells(g, side, unit, -1, free)
    walk(g, side, unit, g.b.target, steps_within(distance, g.b.target), falling_back, &path)
    form_up(g, side, unit, path.models, end_of(g, &path, free, path.length), free)
    g.b.index += 1
    g.b.after = MOVES
    ask_snap(g, 1 - side, unit)


cdef void on_snap(Game* g, int action) noexcept nogil:
    g.b.stage = g.b.after
    if action != DECLINE:
        pay(&g.b, g.b.side, USE_SNAP)
        attack(g, g.b.side, action - SNAP_BY, g.b.subject, SNAPPING)


# ---- shooting ---------------------------------------------------------------------------------------------------------

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
