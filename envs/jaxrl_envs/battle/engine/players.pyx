"""The scripted players and the random one."""

from libc.stdint cimport uint64_t

from jaxrl_envs.battle.engine.play.attack cimport wound_target
from jaxrl_envs.battle.engine.phases.charge cimport needed_for
from jaxrl_envs.battle.engine.play.decisions cimport is_legal, legal_count, nth_legal
from jaxrl_envs.battle.engine.play.dice cimport twice_mean
from jaxrl_envs.battle.engine.space.geometry cimport (
    Walk, col_of, end_of, free_cells, has, isqrt, of_unit, row_of, steps_within, walk,
)
from jaxrl_envs.battle.engine.space.sight cimport sees, unit_distance2
from jaxrl_envs.battle.engine.state cimport (
    ANNIHILATION, CHARGE, CHARGE_AT, COUNTER, COUNTER_BY, DECLINE, FALL_BACK, FIGHT, FIGHT_WITH, GO, HOLD, MOVE,
    OBJECTIVES, PROTECT, REROLL, REROLL_ADVANCE, ROWS, SHOCK, SHOCKED, SHOOT, SHOOT_AT, SMOKE, SNAP, SNAP_BY, STEEL,
    STYLES, TAKE_COVER, UNITS, Game, MapSpec, State, Unit, UnitSpec, Weapon, alive, hp_of,
)
from jaxrl_envs.host.engine cimport below, stream_word

BOT_NAMES = ("random", "balanced", "aggressor", "gunline", "objective", "turtle", "mixed")


cdef struct Style:
    int objective  # wO
    int approach  # wA
    int shoot  # wS
    int charge  # wH
    int danger  # wX
    int shelter  # wC
    int bias  # of a charge


cdef Style STYLE[STYLES]
cdef int P36[16]  # of the 36 results of 2D6, how many are at least so much


cdef void fill_script_tables():
    styles = (
        (10, 3, 8, 10, 3, 5, 0),
        (4, 12, 4, 20, 0, 0, 200),
        (5, 4, 16, 2, 8, 10, -200),
        (20, 1, 6, 6, 2, 5, 0),
        (8, 0, 10, 6, 8, 15, -100),
    )
    for i, (objective, approach, shoot, charge, danger, shelter, bias) in enumerate(styles):
        STYLE[i] = Style(objective, approach, shoot, charge, danger, shelter, bias)
    for n in range(16):
        P36[n] = sum(a + b >= n for a in range(1, 7) for b in range(1, 7))
    for d2 in range(145):
        CHARGE_CHANCE[d2] = P36[needed_for(d2)]


fill_script_tables()


cdef inline int floor_div(int a, int b) noexcept nogil:
    """⌊a / b⌋ for b > 0; the division of C would round towards 0."""
    return a // b - (a % b < 0)


# ---- section 11.1 ----------------------------------------------------------------------------------------------------

cdef int share_of(const Weapon* w, const UnitSpec* spec, int models, int hp, int h) noexcept nogil:
    """Expected permille of hp removed from a unit by `models` models that hit with h of 6 faces (torrent: with all)."""
    cdef int save, faces
    cdef long long removed
    if not w.present:
        return 0
    if w.torrent:
        h = 6
    save = max(2, spec.Sv + w.ap)
    if spec.Inv:
        save = min(save, spec.Inv)
    faces = 6 if save > 6 else save - 1
    removed = 1000 * models * twice_mean(&w.A)
    removed *= h * (7 - wound_target(w.S, spec.T)) * faces * min(twice_mean(&w.D), 2 * spec.W)
    return <int>min(<long long>1000, removed // 864 // hp)


cdef void fill_shares(Game* g, int side, int unit, int enemy) noexcept nogil:
    """Recomputes both shares of a pair."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef const UnitSpec* target = &g.roster[1 - side].unit[enemy]
    cdef int models = g.b.units[side][unit].models, hp = hp_of(g, 1 - side, enemy)
    g.c.share[0][side][unit][enemy] = share_of(&spec.ranged, target, models, hp, 7 - spec.ranged.skill)
    g.c.share[1][side][unit][enemy] = share_of(&spec.melee, target, models, hp, 7 - spec.melee.skill)
    g.c.share_known[side][unit] |= 1 << enemy


cdef inline int value_of(int share) noexcept nogil:
    return 1300 if share == 1000 else share


# ---- decisions but moves ---------------------------------------------------------------------------------------------

cdef int _attack(Game* g, int first) noexcept nogil:
    """The target of a shoot or fight question."""
    cdef const State* b = &g.b
    cdef int j, v, best = -1, found = first
    for j in range(g.roster[1 - b.side].count):
        if is_legal(b, first + j):
            v = ranged_share(g, b.side, b.unit, j) if first == SHOOT_AT else melee_share(g, b.side, b.unit, j)
            v = value_of(v)
            if of_unit(g, 1 - b.side, j).on_objective:
                v += 150
            if v > best:
                best = v
                found = first + j
    return found


cdef int _charge(Game* g, const Style* style) noexcept nogil:
    cdef const State* b = &g.b
    cdef int side = b.side, unit = b.unit, j, m, p, v, guns = 0, best = 0, found = DECLINE
    if not g.roster[side].unit[unit].melee.present:
        return DECLINE
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j):
            guns = max(guns, ranged_share(g, side, unit, j))
    for j in range(g.roster[1 - side].count):
        if not is_legal(b, CHARGE_AT + j):
            continue
        p = CHARGE_CHANCE[unit_distance2(g, side, unit, j)]
        if p < 6:
            continue
        m = melee_share(g, side, unit, j)
        v = m - melee_share(g, 1 - side, j, unit) * (1000 - m) // 1000
        v += ranged_share(g, 1 - side, j, unit) // 2 - guns // 2 + style.bias
        if of_unit(g, 1 - side, j).on_objective:
            v += 100
        v = floor_div(v * p, 36)
        if v > best:
            best = v
            found = CHARGE_AT + j
    return found


cdef int _snap(Game* g) noexcept nogil:
    """The unit that snap-fires: only sixes hit."""
    cdef const State* b = &g.b
    cdef const UnitSpec* target = &g.roster[1 - b.side].unit[b.subject]
    cdef int hp = hp_of(g, 1 - b.side, b.subject)
    cdef int i, v, best = -1, found = DECLINE
    for i in range(g.roster[b.side].count):
        if is_legal(b, SNAP_BY + i):
            v = share_of(&g.roster[b.side].unit[i].ranged, target, b.units[b.side][i].models, hp, 1)
            if v > best:
                best = v
                found = SNAP_BY + i
    return found if best + 40 * b.cp[b.side] >= 160 else DECLINE


cdef int _protect(Game* g) noexcept nogil:
    cdef const State* b = &g.b
    if ranged_share(g, 1 - b.side, b.subject, b.unit) < 250:
        return DECLINE
    return SMOKE if is_legal(b, SMOKE) else TAKE_COVER


cdef int _counter(Game* g) noexcept nogil:
    cdef const State* b = &g.b
    cdef int i, v, best = 299, found = DECLINE
    for i in range(g.roster[b.side].count):
        if is_legal(b, COUNTER_BY + i):
            v = melee_share(g, b.side, i, b.subject)
            if v > best:
                best = v
                found = COUNTER_BY + i
    return found


cdef int _shock(Game* g) noexcept nogil:
    if not of_unit(g, g.b.side, g.b.unit).on_objective:
        return DECLINE
    if is_legal(&g.b, STEEL):
        return STEEL
    return REROLL if is_legal(&g.b, REROLL) else DECLINE


# ---- moves -----------------------------------------------------------------------------------------------------------

cdef struct Foe:  # an enemy unit, as the scores of a move see it
    int row
    int col
    int value  # value(G(u, t))
    int strike  # P(u, t)
    int fire  # G(t, u)
    int fire2  # its range, squared; -1 without a ranged weapon
    int blow  # P(t, u)
    int blow2  # (M + 7) squared


cdef struct Plan:  # of the unit that moves
    int foes
    Foe foe[UNITS]
    int reach2  # of its ranged weapon, -1 without one
    int wanted  # distance to the enemy, in tenths
    int assault
    int infantry
    int objectives  # that it cares for
    int crowd[OBJECTIVES]  # own units that are nearer, times 40, minus ten times the radius
    int least[OBJECTIVES]  # the least that the objective's term can be: crowd * 40


cdef inline int objective_distance2(const MapSpec* map, int o, int cell) noexcept nogil:
    """The squared distance in doubled coordinates."""
    cdef int dr = 2 * row_of(cell) - map.row2[o], dc = 2 * col_of(cell) - map.col2[o]
    return dr * dr + dc * dc


cdef void _weigh_objectives(Game* g, int side, int unit, Plan* plan) noexcept nogil:
    """Counts the own units nearer to each objective than this one: those will take it."""
    cdef int o, i, mine, other, crowd
    plan.objectives = 0
    if g.rules.mission != HOLD or not g.roster[side].unit[unit].OC:
        return
    plan.objectives = g.map.objectives
    for o in range(g.map.objectives):
        mine = isqrt(25 * objective_distance2(g.map, o, g.b.units[side][unit].cell[0]))
        crowd = 0
        for i in range(g.roster[side].count):
            if i != unit and alive(g, side, i) and g.roster[side].unit[i].OC:
                other = isqrt(25 * objective_distance2(g.map, o, g.b.units[side][i].cell[0]))
                crowd += other < mine or (other == mine and i < unit)
        plan.least[o] = 40 * crowd
        plan.crowd[o] = 40 * crowd - 10 * g.map.radius[o]


cdef void _make_plan(Game* g, int side, int unit, Plan* plan) noexcept nogil:
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef const UnitSpec* enemy
    cdef Foe* foe
    cdef int j, G, P, guns = 0, blades = 0
    plan.foes = 0
    for j in range(g.roster[1 - side].count):
        if not alive(g, 1 - side, j):
            continue
        enemy = &g.roster[1 - side].unit[j]
        foe = &plan.foe[plan.foes]
        plan.foes += 1
        G = ranged_share(g, side, unit, j)
        P = melee_share(g, side, unit, j)
        guns = max(guns, G)
        blades = max(blades, P)
        foe.row = row_of(g.b.units[1 - side][j].cell[0])
        foe.col = col_of(g.b.units[1 - side][j].cell[0])
        foe.value = value_of(G)
        foe.strike = P
        foe.fire = ranged_share(g, 1 - side, j, unit)
        foe.fire2 = enemy.ranged.reach * enemy.ranged.reach if enemy.ranged.present else -1
        foe.blow = melee_share(g, 1 - side, j, unit)
        foe.blow2 = (enemy.M + 7) * (enemy.M + 7)
    plan.reach2 = spec.ranged.reach * spec.ranged.reach if spec.ranged.present else -1
    plan.assault = spec.ranged.present and spec.ranged.assault
    plan.infantry = spec.infantry
    plan.wanted = 10
    if spec.ranged.present and (not spec.melee.present or guns >= blades):
        plan.wanted = 15 * spec.ranged.reach // 2
    _weigh_objectives(g, side, unit, plan)


cdef int _score(Game* g, const Plan* plan, const Style* style, int cell, bint advance) noexcept nogil:
    """The score of ending at a cell."""
    cdef int r = row_of(cell), c = col_of(cell), j, o, dr, dc, d2, d, nearest = 1 << 20
    cdef int far = 1 << 20, shoot = 0, strike = 0, danger = 0
    cdef bint shoots = plan.reach2 >= 0 and (not advance or plan.assault), shoots_now, fired_at
    cdef const Foe* foe
    for j in range(plan.foes):
        foe = &plan.foe[j]
        dr = r - foe.row
        dc = c - foe.col
        d2 = dr * dr + dc * dc
        nearest = min(nearest, d2)
        if d2 <= 144 and not advance:
            strike = max(strike, foe.strike * CHARGE_CHANCE[d2])
        if d2 <= foe.blow2:
            danger += foe.blow
        shoots_now = shoots and d2 <= plan.reach2 and foe.value > shoot
        fired_at = d2 <= foe.fire2
        if (shoots_now or fired_at) and sees(g.map, cell, foe.row * 64 + foe.col):
            if shoots_now:
                shoot = foe.value
            if fired_at:
                danger += foe.fire
    d = 0
    if plan.objectives:
        for o in range(plan.objectives):
            d = isqrt(25 * objective_distance2(g.map, o, cell))
            far = min(far, max(plan.least[o], d + plan.crowd[o]))
        d = far
    d = -style.objective * d
    o = max(0, isqrt(100 * nearest) - plan.wanted)
    d -= style.approach * (3 * o if g.rules.mission == ANNIHILATION else o)
    d += floor_div(style.shoot * shoot + style.charge * (strike // 36) - style.danger * min(2000, danger), 10)
    if plan.infantry and has(g.map.shelter, cell):
        d += 10 * style.shelter
    return d


cdef int _move(Game* g, const Style* style) noexcept nogil:
    """The best of all legal moves, staying too."""
    cdef const State* b = &g.b
    cdef int side = b.side, unit = b.unit, M = g.roster[side].unit[unit].M, d, gait, cell, v, best, found = DECLINE
    cdef int distance[3]
    cdef uint64_t free[ROWS]
    cdef Plan plan
    cdef Walk path
    distance[0], distance[1], distance[2] = (M + 1) // 2, M, M + 3
    _make_plan(g, side, unit, &plan)
    free_cells(g, side, unit, -1, free)
    best = _score(g, &plan, style, b.units[side][unit].cell[0], False)
    for d in range(8):
        if not (b.legal[0] >> (GO + d)) & 0x010101:  # none of the three gaits
            continue
        walk(g, side, unit, d, steps_within(M + 3, d), False, &path)
        for gait in range(3):
            if not is_legal(b, GO + 8 * gait + d):
                continue
            cell = end_of(g, &path, free, steps_within(distance[gait], d))
            v = _score(g, &plan, style, cell, gait == 2)
            if v > best or (v == best and GO + 8 * gait + d < found):
                best = v
                found = GO + 8 * gait + d
    return found


cdef int _fall_back(Game* g, const Style* style) noexcept nogil:
    """Stays where the fight is worth it, else leaves in the best direction."""
    cdef const State* b = &g.b
    cdef const Unit* u = &g.b.units[b.side][b.unit]
    cdef int side = b.side, unit = b.unit, j, d, v, suffered = 0, dealt = 0, best = 0, found = DECLINE
    cdef int M = g.roster[side].unit[unit].M
    cdef uint64_t free[ROWS]
    cdef Plan plan
    cdef Walk path
    if not g.roster[side].unit[unit].ranged.present or u.flags & SHOCKED:
        return DECLINE
    for j in range(g.roster[1 - side].count):
        if alive(g, 1 - side, j) and unit_distance2(g, side, unit, j) <= 2:
            suffered += melee_share(g, 1 - side, j, unit)
            dealt = max(dealt, melee_share(g, side, unit, j))
    if suffered <= dealt + 200:
        return DECLINE
    _make_plan(g, side, unit, &plan)
    free_cells(g, side, unit, -1, free)
    for d in range(8):
        if not is_legal(b, GO + 8 + d):
            continue
        walk(g, side, unit, d, steps_within(M, d), True, &path)
        v = _score(g, &plan, style, end_of(g, &path, free, steps_within(M, d)), False)
        if found == DECLINE or v > best:
            best = v
            found = GO + 8 + d
    return found


# ---- the choice ------------------------------------------------------------------------------------------------------

cdef int script(Game* g, int style) noexcept nogil:
    """The action that a style (0 to 4) takes for the open question."""
    cdef const State* b = &g.b
    if b.kind == MOVE:
        return _move(g, &STYLE[style])
    if b.kind == FALL_BACK:
        return _fall_back(g, &STYLE[style])
    if b.kind == SHOOT:
        return _attack(g, SHOOT_AT)
    if b.kind == CHARGE:
        return _charge(g, &STYLE[style])
    if b.kind == FIGHT:
        return _attack(g, FIGHT_WITH)
    if b.kind == SNAP:
        return _snap(g)
    if b.kind == PROTECT:
        return _protect(g)
    if b.kind == COUNTER:
        return _counter(g)
    if b.kind == SHOCK:
        return _shock(g)
    if b.kind == REROLL_ADVANCE:
        return REROLL if b.roll <= 2 and b.cp[b.side] >= 3 else DECLINE
    return REROLL if P36[min(12, b.needed)] >= 15 else DECLINE


cdef int scripted(Game* g, int number) noexcept nogil:
    """The action of scripted player `number` (see BOT_NAMES) for the open question."""
    cdef int side = g.b.side, drawn
    if number == 0:
        drawn = below(stream_word(g.b.player_key[side], g.b.player_draws[side]), legal_count(&g.b))
        g.b.player_draws[side] += 1
        return nth_legal(&g.b, drawn)
    return script(g, g.b.style[side] if number == 1 + STYLES else number - 1)
