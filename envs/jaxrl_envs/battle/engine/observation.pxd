"""Observations of a side (section 9 of the rules), and the planes."""

from libc.stdint cimport uint8_t

from jaxrl_envs.battle.engine.state cimport Game, UnitSpec

cdef void fill_static_row(UnitSpec* spec)
cdef void observe(Game* g, int seat, float* out) noexcept nogil
cdef void planes(Game* g, int seat, uint8_t* terrain, uint8_t* own, uint8_t* enemy) noexcept nogil
