"""The movement phase."""

from libc.stdint cimport uint64_t

from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.play.dice cimport die
from jaxrl_envs.battle.engine.space.geometry cimport Walk, end_of, engaged, first_end, form_up, free_cells, steps_within, walk
from jaxrl_envs.battle.engine.phases.scoring cimport check_wipe_out, lose_model
from jaxrl_envs.battle.engine.state cimport (
    ADVANCED, DECLINE, FALL_BACK, FELL, GO, MOVE, MOVED, MOVES, REROLL, REROLL_ADVANCE, ROWS, SHOCKED, SHOOTING_PHASE,
    SHOTS, USE_REROLL, Game, Unit, alive,
)
from jaxrl_envs.battle.engine.play.stratagems cimport ask_reroll, ask_snap, enter_phase, pay


cdef void ask_move(Game* g, int unit) noexcept nogil:
    """`move` of a unit that is not engaged, `fall_back` of one that is."""
    cdef int side = g.b.active, direction, first, M = g.roster[side].unit[unit].M
    cdef bint falling = engaged(g, side, unit)
    cdef uint64_t free[ROWS]
    cdef int furthest = M if falling else M + 1
    ask(g, side, FALL_BACK if falling else MOVE, unit, -1, 0, 0)
    allow(&g.b, DECLINE)
    free_cells(g, side, unit, -1, free)
    for direction in range(8):
        first = first_end(g, side, unit, direction, steps_within(furthest, direction), falling, free)
        if falling:
            if first <= furthest:
                allow(&g.b, GO + 8 + direction)
            continue
        if first <= steps_within((M + 1) // 2, direction):
            allow(&g.b, GO + direction)
        if first <= steps_within(M, direction):
            allow(&g.b, GO + 8 + direction)
        if first <= steps_within(M + 1, direction):
            allow(&g.b, GO + 16 + direction)


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
