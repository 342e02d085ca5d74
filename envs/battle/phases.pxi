# The course of a battle (sections 4, 5 and 7 of the rules): stages that run until somebody has to be asked.

cdef enum:  # stages: where the rules go on when no question is open
    BEGIN_HALF = 0
    SHOCK_TESTS = 1
    REGENERATION = 2
    SCORING = 3
    MOVES = 4
    SHOTS = 5
    CHARGES = 6
    CHARGE_ROLL = 7
    CHARGES_FIGHT = 8
    OTHERS_FIGHT = 9
    END_HALF = 10
    NEXT_HALF = 11


cdef void run(Game* g) noexcept nogil:
    """Plays on until somebody has a choice, the battle is over, or (if watched) a half-turn has ended."""
    cdef State* b = &g.b
    while not b.end and not g.error:
        if b.kind == NOTHING_ASKED:
            run_stage(g)
            if g.watch and g.half_turn_done:
                return
        elif legal_count(b) > 1:
            return
        else:
            answer(g, lowest_legal(b))
    b.kind, b.side, b.unit, b.subject, b.roll, b.needed = NOTHING_ASKED, 0, -1, -1, 0, 0
    b.legal[0] = b.legal[1] = 0


cdef void run_stage(Game* g) noexcept nogil:
    cdef int stage = g.b.stage
    if stage == BEGIN_HALF:
        begin_half(g)
    elif stage == SHOCK_TESTS:
        next_shock_test(g)
    elif stage == REGENERATION:
        regenerate_all(g)
    elif stage == SCORING:
        score(g, False)
        enter_phase(g, MOVEMENT_PHASE, MOVES)
    elif stage == MOVES:
        next_move(g)
    elif stage == SHOTS:
        next_shot(g)
    elif stage == CHARGES:
        next_charge(g)
    elif stage == CHARGE_ROLL:
        charge_roll(g)
    elif stage == CHARGES_FIGHT:
        next_charger_fights(g)
    elif stage == OTHERS_FIGHT:
        next_fight(g)
    elif stage == END_HALF:
        score(g, True)
        g.half_turn_done = 1
        g.b.stage = NEXT_HALF
    else:
        next_half(g)


cdef void answer(Game* g, int action) noexcept nogil:
    """Carries out a legal answer to the open question."""
    cdef int kind = g.b.kind
    g.b.kind = NOTHING_ASKED
    if kind == MOVE:
        on_move(g, action)
    elif kind == FALL_BACK:
        on_fall_back(g, action)
    elif kind == REROLL_ADVANCE:
        on_reroll_advance(g, action)
    elif kind == SNAP:
        on_snap(g, action)
    elif kind == SHOOT:
        on_shoot(g, action)
    elif kind == PROTECT:
        on_protect(g, action)
    elif kind == CHARGE:
        on_charge(g, action)
    elif kind == REROLL_CHARGE:
        on_reroll_charge(g, action)
    elif kind == COUNTER:
        on_counter(g, action)
    elif kind == FIGHT:
        on_fight(g, action)
    else:
        on_shock(g, action)


# ---- turns and phases -------------------------------------------------------------------------------------------------

cdef void enter_phase(Game* g, int phase, int stage) noexcept nogil:
    cdef int side, i
    g.b.phase, g.b.stage, g.b.index = phase, stage, 0
    for side in range(2):
        g.b.used[side] = 0
        for i in range(g.roster[side].count):
            g.b.units[side][i].flags &= ~(SMOKED | GROUNDED)


cdef void begin_half(Game* g) noexcept nogil:
    cdef int i, active = g.b.active
    enter_phase(g, COMMAND_PHASE, SHOCK_TESTS)
    g.b.cp[0] += 1
    g.b.cp[1] += 1
    for i in range(g.roster[active].count):
        g.b.units[active][i].flags &= ~(MOVED | ADVANCED | FELL | CHARGED | SHOCKED)


cdef void next_half(Game* g) noexcept nogil:
    cdef State* b = &g.b
    b.stage = BEGIN_HALF
    if b.active == b.first:
        b.active = 1 - b.first
    elif b.round == g.rules.rounds:
        end_at_limit(g)
    else:
        b.active = b.first
        b.round += 1


cdef void end_at_limit(Game* g) noexcept nogil:
    """The larger number of victory points wins, then whoever removed more, if that breaks ties."""
    cdef State* b = &g.b
    cdef int lead = b.vp[0] - b.vp[1]
    if not lead and g.rules.damage_breaks_ties:
        lead = (g.roster[1].hp - side_hp(g, 1)) - (g.roster[0].hp - side_hp(g, 0))
    end_battle(g, 3, 0 if lead > 0 else 1 if lead < 0 else 2)


# ---- command ----------------------------------------------------------------------------------------------------------

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
    touch(g, side, unit)
    while points > 0 and u.models < spec.models:
        cell = place_beside(g, side, unit)
        if cell < 0:
            return
        u.cell[u.models] = cell
        u.models += 1
        u.lead = min(spec.W, points)
        points -= u.lead
        g.c.occupied[side][row_of(cell)] |= (<uint64_t>1) << col_of(cell)
        touch(g, side, unit)


cdef int place_beside(Game* g, int side, int unit) noexcept nogil:
    """The first free cell around the anchor that is in contact with a model of the unit, -1 without one."""
    cdef uint64_t free[ROWS]
    cdef uint64_t own = 0, open_cells
    cdef Unit* u = &g.b.units[side][unit]
    cdef int r = row_of(u.cell[0]), c = col_of(u.cell[0]), flip = mirrored(g, side), i, k, dr, dc, bit
    free_cells(g, side, unit, -1, free)
    open_cells = window(free, g.map.rows, r, c)
    for k in range(u.models):  # all of them are in the window
        dr, dc = row_of(u.cell[k]) - r, col_of(u.cell[k]) - c
        own |= (<uint64_t>1) << ((dr + 3) * 7 + dc + 3)
    for i in range(49):
        bit = ORDER_BIT[flip][i]
        if ((open_cells & ~own) >> bit) & 1 and NEIGHBOURS[bit] & own:
            return (r + ORDER[flip][i][0]) * 64 + c + ORDER[flip][i][1]
    return -1


cdef void score(Game* g, bint at_end) noexcept nogil:
    """Victory points of the active side for objectives, in its command phase or, for the late scorer, at the end."""
    cdef State* b = &g.b
    cdef bint late = b.active != b.first and b.round == g.rules.rounds
    cdef int o, points = 0
    if g.rules.mission != HOLD or b.round < g.rules.score_from or late != at_end:
        return
    for o in range(g.map.objectives):
        if control_sum(g, b.active, o) > control_sum(g, 1 - b.active, o):
            points += g.rules.vp_each
    b.vp[b.active] += min(points, g.rules.vp_cap)


cdef int control_sum(Game* g, int side, int objective) noexcept nogil:
    """Objective control of a side's models on an objective."""
    cdef int i, total = 0
    for i in range(g.roster[side].count):
        if alive(g, side, i) and not g.b.units[side][i].flags & SHOCKED:
            total += g.roster[side].unit[i].OC * of_unit(g, side, i).stand[objective]
    return total


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
    if result <= 3 and may_reroll(g, side, unit):
        ask(g, side, REROLL_ADVANCE, unit, -1, result, 0)
        allow(&g.b, DECLINE)
        allow(&g.b, REROLL)
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
    cdef int side = g.b.active, unit = g.b.index, end
    cdef uint64_t free[ROWS]
    cdef Walk path
    free_cells(g, side, unit, -1, free)
    walk(g, side, unit, g.b.target, steps_within(distance, g.b.target), falling_back, &path)
    end = end_of(g, &path, free, path.length)
    relocate(g, side, unit, end, free)
    g.b.index += 1
    g.b.after = MOVES
    ask_snap(g, 1 - side, unit)


cdef void relocate(Game* g, int side, int unit, int anchor, const uint64_t* free) noexcept nogil:
    """Packs a unit around an anchor where it fits."""
    cdef int16_t cells[MODELS]
    cdef int models = g.b.units[side][unit].models
    pack(free, g.map.rows, row_of(anchor), col_of(anchor), models, mirrored(g, side), cells)
    lift(g, side, unit)
    put(g, side, unit, cells, models)


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


# ---- charges ----------------------------------------------------------------------------------------------------------

cdef void next_charge(Game* g) noexcept nogil:
    cdef int side = g.b.active, unit = g.b.index
    if unit == g.roster[side].count:
        enter_phase(g, FIGHT_PHASE, CHARGES_FIGHT)
        begin_fights(g)
    elif alive(g, side, unit) and not g.b.units[side][unit].flags & (FELL | ADVANCED) and not engaged(g, side, unit):
        ask_charge(g, unit)
    else:
        g.b.index += 1


cdef void on_charge(Game* g, int action) noexcept nogil:
    if action == DECLINE:
        g.b.index += 1
        return
    set_charger(g, g.b.active, g.b.index, action - CHARGE_AT)
    g.b.after = CHARGE_ROLL
    ask_snap(g, 1 - g.b.active, g.b.index)


cdef void set_charger(Game* g, int side, int unit, int target) noexcept nogil:
    g.b.charger, g.b.charger_unit, g.b.charger_target = side, unit, target


cdef void charge_roll(Game* g) noexcept nogil:
    """The first roll of a charge or a counter-charge, unless snap fire has destroyed the charger."""
    cdef int side = g.b.charger, unit = g.b.charger_unit, result, d2
    if not alive(g, side, unit):
        next_charger(g)
        return
    result = two_dice(g)
    if charge_move(g, result):
        after_charge(g)
    elif may_reroll(g, side, unit):
        d2 = unit_distance2(g, side, unit, g.b.charger_target)
        ask(g, side, REROLL_CHARGE, unit, g.b.charger_target, result, needed_for(d2))
        allow(&g.b, DECLINE)
        allow(&g.b, REROLL)
    else:
        next_charger(g)


cdef void on_reroll_charge(Game* g, int action) noexcept nogil:
    if action == REROLL:
        pay(&g.b, g.b.charger, USE_REROLL)
        if charge_move(g, two_dice(g)):
            after_charge(g)
            return
    next_charger(g)


cdef bint charge_move(Game* g, int distance) noexcept nogil:
    """Moves the charger into contact with its target if it gets there with this roll; returns whether it did."""
    cdef int side = g.b.charger, unit = g.b.charger_unit, target = g.b.charger_target
    cdef int flip = mirrored(g, side), fly = g.roster[side].unit[unit].fly, i, k, r, c
    cdef Unit* u = &g.b.units[side][unit]
    cdef Unit* t = &g.b.units[1 - side][target]
    cdef uint64_t free[ROWS]
    cdef uint64_t contact[ROWS]
    cdef uint64_t models[ROWS]
    cdef int16_t cells[MODELS]
    free_cells(g, side, unit, target, free)
    memset(models, 0, sizeof(models))
    for k in range(t.models):
        models[row_of(t.cell[k])] |= (<uint64_t>1) << col_of(t.cell[k])
    spread(models, g.map.rows, contact)
    for i in range(REACHES):
        if REACH2[i] > distance * distance:
            return False
        r, c = row_of(u.cell[0]) + REACH[flip][i][0], col_of(u.cell[0]) + REACH[flip][i][1]
        if not (0 <= r < g.map.rows and 0 <= c < g.map.cols) or not window(contact, g.map.rows, r, c):
            continue
        if not pack(free, g.map.rows, r, c, u.models, flip, cells) or not any_in(contact, cells, u.models):
            continue
        if not fly and not sees(g.map, u.cell[0], r * 64 + c):
            continue
        lift(g, side, unit)
        put(g, side, unit, cells, u.models)
        u.flags |= MOVED
        return True
    return False


cdef bint any_in(const uint64_t* cells, const int16_t* models, int count) noexcept nogil:
    cdef int k
    for k in range(count):
        if has(cells, models[k]):
            return True
    return False


cdef void after_charge(Game* g) noexcept nogil:
    """After the charge of the active side the other may counter it; after a counter-charge the next unit charges."""
    if g.b.charger != g.b.active:
        next_charger(g)
        return
    g.b.units[g.b.active][g.b.index].flags |= CHARGED
    ask_counter(g, 1 - g.b.active, g.b.index)


cdef void on_counter(Game* g, int action) noexcept nogil:
    if action == DECLINE:
        next_charger(g)
        return
    pay(&g.b, 1 - g.b.active, USE_COUNTER)
    set_charger(g, 1 - g.b.active, action - COUNTER_BY, g.b.index)
    g.b.stage = CHARGE_ROLL


cdef void next_charger(Game* g) noexcept nogil:
    g.b.index += 1
    g.b.stage = CHARGES


# ---- fights -----------------------------------------------------------------------------------------------------------

cdef void begin_fights(Game* g) noexcept nogil:
    cdef int side, i
    for side in range(2):
        for i in range(g.roster[side].count):
            g.b.units[side][i].flags &= ~FOUGHT


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
