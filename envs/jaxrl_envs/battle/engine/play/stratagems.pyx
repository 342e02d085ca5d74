"""Snap fire and the re-roll, and how a phase begins: without a stratagem in use."""

from jaxrl_envs.battle.engine.play.attack cimport SNAPPING, attack
from jaxrl_envs.battle.engine.play.decisions cimport allow, ask
from jaxrl_envs.battle.engine.space.geometry cimport engaged
from jaxrl_envs.battle.engine.space.sight cimport snap_models
from jaxrl_envs.battle.engine.state cimport (
    DECLINE, GROUNDED, REROLL, SHOCKED, SMOKED, SNAP, SNAP_BY, USE_REROLL, USE_SNAP, Game, alive,
)


cdef void enter_phase(Game* g, int phase, int stage) noexcept nogil:
    """The next phase begins, without a stratagem in use."""
    cdef int side, i
    g.b.phase, g.b.stage, g.b.index = phase, stage, 0
    for side in range(2):
        g.b.used[side] = 0
        for i in range(g.roster[side].count):
            g.b.units[side][i].flags &= ~(SMOKED | GROUNDED)


cdef void ask_snap(Game* g, int side, int subject) noexcept nogil:
    """Asks which unit of `side` fires at once at an enemy unit that moved or declared a charge."""
    cdef int i
    ask(g, side, SNAP, -1, subject, 0, 0)
    allow(&g.b, DECLINE)
    if not payable(&g.b, side, USE_SNAP):
        return
    for i in range(g.roster[side].count):
        if not alive(g, side, i) or not g.roster[side].unit[i].ranged.present or g.b.units[side][i].flags & SHOCKED:
            continue
        if snap_models(g, side, i, subject) and not engaged(g, side, i):
            allow(&g.b, SNAP_BY + i)


cdef void on_snap(Game* g, int action) noexcept nogil:
    g.b.stage = g.b.after
    if action != DECLINE:
        pay(&g.b, g.b.side, USE_SNAP)
        attack(g, g.b.side, action - SNAP_BY, g.b.subject, SNAPPING)


cdef void ask_reroll(Game* g, int side, int kind, int unit, int subject, int roll, int needed) noexcept nogil:
    """Asks whether to repeat the roll of an advance or a charge."""
    ask(g, side, kind, unit, subject, roll, needed)
    allow(&g.b, DECLINE)
    if payable(&g.b, side, USE_REROLL) and not g.b.units[side][unit].flags & SHOCKED:
        allow(&g.b, REROLL)
