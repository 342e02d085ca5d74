"""Losses, victory points, rewards and the end of a battle (sections 7 and 10 of the rules)."""

from jaxrl_envs.battle.engine.state cimport Game

cdef void lose_model(Game* g, int side, int unit) noexcept nogil
cdef void check_wipe_out(Game* g) noexcept nogil
cdef void score(Game* g, bint at_end) noexcept nogil
cdef void end_at_limit(Game* g) noexcept nogil
cdef void pay_out(Game* g, int before) noexcept nogil
