"""The course of a battle: stages that run until a side has a choice (section 5 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void run(Game* g) noexcept nogil
cdef void answer(Game* g, int action) noexcept nogil
cdef void take(Game* g, int action) noexcept nogil
