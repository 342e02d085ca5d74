"""Setting up a battle (section 4 of the rules), also from the bytes of a saved one."""

from libc.stdint cimport uint64_t

from jaxrl_envs.battle.engine.rules cimport Rules
from jaxrl_envs.battle.engine.state cimport Game, State

cdef void begin(Game* g, uint64_t key, int episode) noexcept nogil
cdef void draw_styles(State* b, uint64_t key) noexcept nogil
cdef void bind(Game* g) noexcept nogil
cdef str no_room(Rules rules, const Game* g)

# Saved battles are sealed, so that damaged ones and those of other rules are refused.
cdef void save_state(const Game* g, unsigned char* out) noexcept nogil
cdef bint load_state(Game* g, const unsigned char* data) noexcept nogil
