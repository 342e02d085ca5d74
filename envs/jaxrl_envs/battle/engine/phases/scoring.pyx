"""Losses, victory points, rewards and the end of a battle."""

from jaxrl_envs.battle.engine.space.geometry cimport of_unit, remove_last_model
from jaxrl_envs.battle.engine.state cimport ANNIHILATION, HOLD, SHOCKED, Game, State, alive, side_hp


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


cdef void end_at_limit(Game* g) noexcept nogil:
    """The side with more victory points wins; on a tie, the side that removed more hp if `damage_breaks_ties`."""
    cdef State* b = &g.b
    cdef int lead = b.vp[0] - b.vp[1]
    if not lead and g.rules.damage_breaks_ties:
        lead = (g.roster[1].hp - side_hp(g, 1)) - (g.roster[0].hp - side_hp(g, 0))
    end_battle(g, 3, 0 if lead > 0 else 1 if lead < 0 else 2)


cdef void end_battle(Game* g, int reason, int winner) noexcept nogil:
    g.b.end = reason
    g.b.winner = winner


cdef void pay_out(Game* g, int before) noexcept nogil:
    cdef State* b = &g.b
    cdef int result = 1 if b.winner == 0 else -1 if b.winner == 1 else 0
    b.reward = <float>(g.rules.reward_vp * (b.vp[0] - b.vp[1] - before) + result)
