# The course of a battle: stages that run until somebody has to be asked; the command phase and scoring (sections 4, 5.1, 7).

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
    ask(g, 0, NOTHING_ASKED, -1, -1, 0, 0)


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
