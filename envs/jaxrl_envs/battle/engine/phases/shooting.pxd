"""The shooting phase, with smoke and cover (sections 5.3 and 6 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void ask_shoot(Game* g, int unit) noexcept nogil
cdef void ask_protect(Game* g, int unit, int shooter) noexcept nogil
cdef void next_shot(Game* g) noexcept nogil
cdef void on_shoot(Game* g, int action) noexcept nogil
cdef void on_protect(Game* g, int action) noexcept nogil
