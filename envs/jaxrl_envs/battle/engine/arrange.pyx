"""Arranges positions by hand, to see what a player would do or be shown in one. They are not played on."""

from libc.stdint cimport int16_t

from jaxrl_envs.battle.engine.phases.charge cimport ask_charge, ask_counter, needed_for
from jaxrl_envs.battle.engine.phases.command cimport ask_shock
from jaxrl_envs.battle.engine.play.decisions cimport ask
from jaxrl_envs.battle.engine.phases.fight cimport ask_fight
from jaxrl_envs.battle.engine.space.geometry cimport has, put
from jaxrl_envs.battle.engine.phases.movement cimport ask_move
from jaxrl_envs.battle.engine.players cimport CHARGE_CHANCE, melee_share, ranged_share
from jaxrl_envs.battle.engine.phases.shooting cimport ask_protect, ask_shoot
from jaxrl_envs.battle.engine.space.sight cimport unit_distance2
from jaxrl_envs.battle.engine.single cimport Battle
from jaxrl_envs.battle.engine.state cimport (
    CHARGE, COUNTER, FALL_BACK, FIGHT, MODELS, MOVE, NOTHING_ASKED, PROTECT, REROLL_CHARGE, SHOCK, SHOOT, SNAP, Game,
    Unit, UnitSpec, alive,
)
from jaxrl_envs.battle.engine.play.stratagems cimport ask_reroll, ask_snap


cdef bint _lives(const Game* g, int side, int unit) noexcept nogil:
    return 0 <= side < 2 and 0 <= unit < g.roster[side].count and alive(g, side, unit)


def arrange(Battle battle not None, int side, int unit, cells, *, lead=None, int flags=0):
    """Puts a unit of a battle elsewhere; of the rules only this holds: one model on a cell, and none in terrain.

    The open question is void; `pose` opens another one.

    Args:
      battle: changed in place.
      side, unit: which unit.
      cells: (row, col) of its models, the anchor first, at most as many as it began with; none = it is destroyed.
      lead: wounds left on the last model, default all.
      flags: the bits 1 moved, 2 advanced, 4 fell, 8 charged, 16 fought, 32 shocked, 64 smoked, 128 grounded.

    Raises:
      ValueError: the unit does not exist or has fewer models or wounds; a cell is off the board, in terrain or taken.
    """
    cdef Game* g = &battle.game
    cdef int16_t found[MODELS]
    cdef int k, i, cell, count = len(cells)
    cdef Unit* u
    cdef const UnitSpec* spec
    if side not in (0, 1) or not 0 <= unit < g.roster[side].count:
        raise ValueError(f"there is no unit {unit} of side {side}")
    u = &g.b.units[side][unit]
    spec = &g.roster[side].unit[unit]
    lead = spec.W if lead is None else lead
    if count > spec.models or not 1 <= lead <= spec.W:
        raise ValueError(f"unit {unit} has up to {spec.models} models of {spec.W} wounds, not {count} with {lead}")
    own = {u.cell[k] for k in range(u.models)}
    for k, (row, col) in enumerate(cells):
        cell = row * 64 + col
        if not (0 <= row < g.map.rows and 0 <= col < g.map.cols) or has(g.map.wall, cell) or has(g.map.barricade, cell):
            raise ValueError(f"no model can stand on cell {(row, col)}")
        taken = cell not in own and (has(g.c.occupied[0], cell) or has(g.c.occupied[1], cell))
        if taken or cell in [found[i] for i in range(k)]:
            raise ValueError(f"cell {(row, col)} is held by another model")
        found[k] = cell
    u.lead, u.flags = (lead, flags) if count else (0, 0)
    put(g, side, unit, found, count)
    ask(g, 0, NOTHING_ASKED, -1, -1, 0, 0)
    battle.arranged = True


def pose(Battle battle not None, int kind, int side, *, int unit=-1, int subject=-1, int roll=0, int cp=0):
    """Replaces the open question of a battle, with the ids that are legal in its position now.

    Args:
      battle: changed in place.
      kind: of the decision; `move` becomes `fall_back` where the unit is engaged.
      side: the side that is asked; in a question to the one whose turn it is not, the turn is the other side's.
      unit, subject: as section 8 of the rules defines them for this kind.
      roll: what was rolled, for the kinds that come after a roll.
      cp: command points of the side that is asked; nothing is marked as used in this phase.

    Raises:
      ValueError: there is no such kind, or a unit that it asks about is not alive.
    """
    cdef Game* g = &battle.game
    if not MOVE <= kind <= REROLL_CHARGE:
        raise ValueError(f"there is no kind of decision {kind}")
    if side not in (0, 1) or not (kind in (SNAP, COUNTER) or _lives(g, side, unit)):
        raise ValueError(f"there is no living unit {unit} of side {side} to ask about")
    if kind in (SNAP, PROTECT, COUNTER, REROLL_CHARGE) and not _lives(g, 1 - side, subject):
        raise ValueError(f"there is no living unit {subject} of side {1 - side} that this question could be about")
    battle.arranged = True
    g.b.active = 1 - side if kind in (SNAP, PROTECT, COUNTER) else side
    g.b.cp[side] = cp
    g.b.used[0] = g.b.used[1] = 0
    if kind in (MOVE, FALL_BACK):
        ask_move(g, unit)
    elif kind == SHOOT:
        ask_shoot(g, unit)
    elif kind == CHARGE:
        ask_charge(g, unit)
    elif kind == FIGHT:
        ask_fight(g, side, unit)
    elif kind == SNAP:
        ask_snap(g, side, subject)
    elif kind == PROTECT:
        ask_protect(g, unit, subject)
    elif kind == COUNTER:
        ask_counter(g, side, subject)
    elif kind == SHOCK:
        ask_shock(g, unit, roll)
    else:
        needed = needed_for(unit_distance2(g, side, unit, subject)) if kind == REROLL_CHARGE else 0
        ask_reroll(g, side, kind, unit, subject, roll, needed)


def shares(Battle battle not None, int side, int unit):
    """Expected damage of a living unit to each enemy unit: permille of its hp, as the scripted players estimate it.

    Returns:
      Two lists over the enemy units: with the ranged weapon, with the melee weapon; 0 for destroyed units.
    """
    cdef Game* g = &battle.game
    if not _lives(g, side, unit):
        raise ValueError(f"there is no living unit {unit} of side {side}")
    enemies = range(g.roster[1 - side].count)
    return (
        [ranged_share(g, side, unit, j) if alive(g, 1 - side, j) else 0 for j in enemies],
        [melee_share(g, side, unit, j) if alive(g, 1 - side, j) else 0 for j in enemies],
    )


def needed_roll(int d2):
    """The 2D6 that a charge over a squared distance (1 to 144) needs, and how many of the 36 results are enough."""
    if not 1 <= d2 <= 144:
        raise ValueError(f"a charge goes over a squared distance of 1 to 144, not {d2}")
    return needed_for(d2), CHARGE_CHANCE[d2]
