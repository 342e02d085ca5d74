"""The command phase but for its scoring (section 5.1 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void begin_half(Game* g) noexcept nogil
cdef void ask_shock(Game* g, int unit, int result) noexcept nogil
cdef void next_shock_test(Game* g) noexcept nogil
cdef void on_shock(Game* g, int action) noexcept nogil
cdef void regenerate_all(Game* g) noexcept nogil
