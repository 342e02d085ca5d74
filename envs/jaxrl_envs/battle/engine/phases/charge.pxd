"""The charge phase, with the counter-charge (sections 5.4 and 6 of the rules)."""

from jaxrl_envs.battle.engine.space.geometry cimport isqrt
from jaxrl_envs.battle.engine.state cimport Game

cdef void ask_charge(Game* g, int unit) noexcept nogil
cdef void ask_counter(Game* g, int side, int charger) noexcept nogil
cdef void next_charge(Game* g) noexcept nogil
cdef void on_charge(Game* g, int action) noexcept nogil
cdef void charge_roll(Game* g) noexcept nogil
cdef void on_reroll_charge(Game* g, int action) noexcept nogil
cdef void on_counter(Game* g, int action) noexcept nogil


cdef inline int needed_for(int d2) noexcept nogil:
    """The 2D6 that a charge over a squared distance needs, as shown with a re-roll."""
    return max(1, isqrt(d2 - 1)) if d2 > 1 else 1
