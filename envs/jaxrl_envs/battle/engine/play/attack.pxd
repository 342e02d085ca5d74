"""The attack sequence (section 5.6 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef enum:  # how a unit attacks
    SHOOTING = 0
    SNAPPING = 1
    FIGHTING = 2


cdef void attack(Game* g, int side, int unit, int enemy, int how) noexcept nogil


cdef inline int wound_target(int S, int T) noexcept nogil:
    if S >= 2 * T:
        return 2
    if S > T:
        return 3
    if S == T:
        return 4
    return 6 if 2 * S <= T else 5
