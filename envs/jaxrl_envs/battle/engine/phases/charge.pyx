"""The charge phase."""

from libc.stdint cimport int16_t, uint64_t
from libc.string cimport memset

from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.play.dice cimport two_dice
from jaxrl_envs.battle.engine.phases.fight cimport begin_fights
from jaxrl_envs.battle.engine.space.geometry cimport (
    REACH, REACH2, REACHES, add_models, col_of, engaged, free_cells, has, mirrored, pack, put, row_of, spread, window,
)
from jaxrl_envs.battle.engine.space.sight cimport sees, unit_distance2
from jaxrl_envs.battle.engine.state cimport (
    ADVANCED, CHARGE, CHARGED, CHARGES, CHARGES_FIGHT, CHARGE_AT, CHARGE_ROLL, COUNTER, COUNTER_BY, DECLINE, FELL,
    FIGHT_PHASE, MODELS, MOVED, REROLL, REROLL_CHARGE, ROWS, SHOCKED, USE_COUNTER, USE_REROLL, Game, Unit, alive,
)
from jaxrl_envs.battle.engine.play.stratagems cimport ask_reroll, ask_snap, enter_phase, pay, payable


cdef void ask_charge(Game* g, int unit) noexcept nogil:
    cdef int side = g.b.active, j
    ask(g, side, CHARGE, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and unit_distance2(g, side, unit, j) <= 144:
            allow(&g.b, CHARGE_AT + j)


cdef void ask_counter(Game* g, int side, int charger) noexcept nogil:
    """Asks which unit of `side` counter-charges the unit that made a charge move."""
    cdef int i
    ask(g, side, COUNTER, -1, charger, 0, 0)
    allow(&g.b, DECLINE)
    if not payable(&g.b, side, USE_COUNTER):
        return
    for i in range(g.roster[side].count):
        if not alive(g, side, i) or g.b.units[side][i].flags & SHOCKED:
            continue
        if unit_distance2(g, side, i, charger) <= 36 and not engaged(g, side, i):
            allow(&g.b, COUNTER_BY + i)


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
        end_charge(g)
        return
    result = two_dice(g)
    if charge_move(g, result):
        after_charge(g)
    else:
        d2 = unit_distance2(g, side, unit, g.b.charger_target)
        ask_reroll(g, side, REROLL_CHARGE, unit, g.b.charger_target, result, needed_for(d2))


cdef void on_reroll_charge(Game* g, int action) noexcept nogil:
    if action == REROLL:
        pay(&g.b, g.b.charger, USE_REROLL)
        if charge_move(g, two_dice(g)):
            after_charge(g)
            return
    end_charge(g)


cdef bint charge_move(Game* g, int distance) noexcept nogil:
    """Moves the charger into contact with its target if it gets there with this roll; returns whether it did."""
    cdef int side = g.b.charger, unit = g.b.charger_unit, target = g.b.charger_target
    cdef int flip = mirrored(g, side), fly = g.roster[side].unit[unit].fly, i, r, c
    cdef Unit* u = &g.b.units[side][unit]
    cdef uint64_t free[ROWS]
    cdef uint64_t contact[ROWS]
    cdef uint64_t models[ROWS]
    cdef int16_t cells[MODELS]
    free_cells(g, side, unit, target, free)
    memset(models, 0, sizeof(models))
    add_models(models, &g.b.units[1 - side][target])
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
        end_charge(g)
        return
    g.b.units[g.b.active][g.b.index].flags |= CHARGED
    ask_counter(g, 1 - g.b.active, g.b.index)


cdef void on_counter(Game* g, int action) noexcept nogil:
    if action == DECLINE:
        end_charge(g)
        return
    pay(&g.b, 1 - g.b.active, USE_COUNTER)
    set_charger(g, 1 - g.b.active, action - COUNTER_BY, g.b.index)
    g.b.stage = CHARGE_ROLL


cdef void end_charge(Game* g) noexcept nogil:
    """The next unit may charge."""
    g.b.index += 1
    g.b.stage = CHARGES
