"""Command points and the stratagems that more than one phase knows, snap fire and re-roll (section 6 of the rules)."""

from jaxrl_envs.battle.engine.state cimport USE_COUNTER, Game, State

cdef void enter_phase(Game* g, int phase, int stage) noexcept nogil
cdef void ask_snap(Game* g, int side, int subject) noexcept nogil
cdef void on_snap(Game* g, int action) noexcept nogil
cdef void ask_reroll(Game* g, int side, int kind, int unit, int subject, int roll, int needed) noexcept nogil


cdef inline int cost_of(int stratagem) noexcept nogil:
    """In command points."""
    return 2 if stratagem == USE_COUNTER else 1


cdef inline bint payable(const State* b, int side, int stratagem) noexcept nogil:
    """Whether a side has not used a stratagem in this phase and has the command points for it."""
    return b.cp[side] >= cost_of(stratagem) and not (b.used[side] >> stratagem) & 1


cdef inline void pay(State* b, int side, int stratagem) noexcept nogil:
    b.cp[side] -= cost_of(stratagem)
    b.used[side] |= 1 << stratagem
