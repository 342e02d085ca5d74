"""The scripted players of section 11 of the rules: deterministic, integer arithmetic only; and the random one."""

from jaxrl_envs.battle.engine.state cimport Game

cdef int CHARGE_CHANCE[145]  # of the 36 results of 2D6, how many are enough for a charge over a squared distance

cdef int scripted(Game* g, int number) noexcept nogil
cdef int script(Game* g, int style) noexcept nogil

# Section 11.1: what a unit does to one of the other side, both alive, permille of its remaining hp.
cdef void fill_shares(Game* g, int side, int unit, int enemy) noexcept nogil


cdef inline int ranged_share(Game* g, int side, int unit, int enemy) noexcept nogil:
    """G of a living unit against a living unit of the other side."""
    if not (g.c.share_known[side][unit] >> enemy) & 1:
        fill_shares(g, side, unit, enemy)
    return g.c.share[0][side][unit][enemy]


cdef inline int melee_share(Game* g, int side, int unit, int enemy) noexcept nogil:
    """P of a living unit against a living unit of the other side."""
    if not (g.c.share_known[side][unit] >> enemy) & 1:
        fill_shares(g, side, unit, enemy)
    return g.c.share[1][side][unit][enemy]
