"""The fight phase (section 5.5 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void begin_fights(Game* g) noexcept nogil
cdef void ask_fight(Game* g, int side, int unit) noexcept nogil
cdef void next_charger_fights(Game* g) noexcept nogil
cdef void next_fight(Game* g) noexcept nogil
cdef void on_fight(Game* g, int action) noexcept nogil
