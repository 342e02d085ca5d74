"""The movement phase (section 5.2 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void ask_move(Game* g, int unit) noexcept nogil
cdef void next_move(Game* g) noexcept nogil
cdef void on_move(Game* g, int action) noexcept nogil
cdef void on_reroll_advance(Game* g, int action) noexcept nogil
cdef void on_fall_back(Game* g, int action) noexcept nogil
