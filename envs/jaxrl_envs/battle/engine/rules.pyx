"""Rosters, maps and settings as C structs."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release

from jaxrl_envs.battle.engine.observation cimport fill_static_row
from jaxrl_envs.battle.engine.state cimport (
    ANNIHILATION, HOLD, MODELS, OBJECTIVES, ROLL_OFF, ROWS, UNITS, MapSpec, RosterSpec, RulesSpec, UnitSpec, Weapon,
)

import dataclasses
import itertools
import zlib

from jaxrl_envs.battle.maps import cells
from jaxrl_envs.shared.errors import UserError

cdef enum:
    MOST_MAPS = 255  # a die picks one, and its result is one byte of a tape


cdef class Rules:
    """The rules of battles: maps, rosters and settings.

    Args:
      maps: `jaxrl_envs.battle.maps.BattleMap`s; each battle takes one of them.
      pairs: of `jaxrl_envs.battle.rosters.Roster`s, for side 0 and side 1; a slot takes them in turn.
      settings: `jaxrl_envs.battle.settings.BattleSettings`.

    Raises:
      UserError: a zone that is too deep for a map, or too many maps.
      ValueError: more than the engine has room for; what was read by `rosters` and `maps` never is.
    """

    def __cinit__(self, maps, pairs, settings):
        cdef Py_ssize_t i
        if not maps or not pairs:
            raise UserError("a battle needs at least one map and two rosters.")
        if len(maps) > MOST_MAPS:
            raise UserError(f"there may be up to {MOST_MAPS} maps, got {len(maps)}.")
        require_room(maps, pairs)
        self.maps, self.pairs, self.settings = tuple(maps), tuple(pairs), settings
        self.spec.maps, self.spec.pairs = len(maps), len(pairs)
        self.spec.map = <MapSpec*>calloc(len(maps), sizeof(MapSpec))
        self.spec.roster = <RosterSpec*>calloc(2 * len(pairs), sizeof(RosterSpec))
        if self.spec.map == NULL or self.spec.roster == NULL:
            raise MemoryError("no memory for the maps and rosters")
        for i, board in enumerate(maps):
            if not 4 <= settings.zone <= board.cols // 2 - 2:
                raise UserError(
                    f"zone must be from 4 to {board.cols // 2 - 2} on map {board.name!r} with {board.cols} columns, "
                    f"got {settings.zone}."
                )
            fill_map(&self.spec.map[i], board)
        for i, pair in enumerate(pairs):
            fill_roster(&self.spec.roster[2 * i], pair[0])
            fill_roster(&self.spec.roster[2 * i + 1], pair[1])
        fill_settings(&self.spec, settings)
        course = self.maps, self.pairs, dataclasses.replace(settings, reward_vp=0.0)
        self.spec.mark = zlib.crc32(repr(course).encode())

    def __dealloc__(self):
        release(self.spec.map)
        release(self.spec.roster)


cdef require_room(maps, pairs):
    """Keeps maps and rosters that were made by hand within the arrays of C."""
    for board in maps:
        corners = [(board.rows - 1, board.cols - 1), *cells(board.barricades), *cells(board.walls)]
        if not all(0 <= r < ROWS and 0 <= c < 64 for r, c in corners) or len(board.objectives) > OBJECTIVES:
            raise ValueError(f"map {board.name!r} does not fit the engine: make maps with map_from_tree")
    for roster in itertools.chain.from_iterable(pairs):
        units = roster.units
        if not 1 <= len(units) <= UNITS or not all(1 <= u.models <= MODELS and 1 <= u.M <= 20 and 1 <= u.W <= 24 for u in units):
            raise ValueError(f"roster {roster.name!r} does not fit the engine: make rosters with roster_from_tree")


cdef fill_settings(RulesSpec* spec, settings):
    spec.mission = HOLD if settings.mission == "hold" else ANNIHILATION
    spec.rounds, spec.score_from, spec.zone = settings.rounds, settings.score_from, settings.zone
    spec.vp_each, spec.vp_cap, spec.cp_start = settings.vp_each, settings.vp_cap, settings.cp_start
    spec.damage_breaks_ties = settings.tiebreak == "damage"
    spec.deploy = ROLL_OFF if settings.deploy == "roll" else settings.deploy
    spec.first = ROLL_OFF if settings.first == "roll" else settings.first
    spec.reward_vp = settings.reward_vp


cdef fill_map(MapSpec* spec, board):
    spec.rows, spec.cols, spec.walled = board.rows, board.cols, len(board.walls) > 0
    for r in range(board.rows):
        spec.inside[r] = (1 << board.cols) - 1
    for r, c in cells(board.barricades):
        spec.barricade[r] |= <uint64_t>1 << <int>c
        for i in range(max(r - 3, 0), min(r + 4, board.rows)):
            for j in range(max(c - 3, 0), min(c + 4, board.cols)):
                spec.shelter[i] |= <uint64_t>1 << <int>j
    for r, c in cells(board.walls):
        spec.wall[r] |= <uint64_t>1 << <int>c
    spec.objectives = len(board.objectives)
    for o, (row, col, radius) in enumerate(board.objectives):
        row2, col2 = round(2 * row), round(2 * col)
        spec.row2[o], spec.col2[o], spec.radius[o] = row2, col2, radius
        for r in range(board.rows):
            for c in range(board.cols):
                if (2 * r - row2) ** 2 + (2 * c - col2) ** 2 <= 4 * radius**2:
                    spec.on[o][r] |= <uint64_t>1 << <int>c


cdef fill_roster(RosterSpec* spec, roster):
    spec.count = len(roster.units)
    for i, unit in enumerate(roster.units):
        fill_unit(&spec.unit[i], unit)
        spec.hp += unit.models * unit.W


cdef fill_unit(UnitSpec* spec, unit):
    spec.models, spec.M, spec.T, spec.Sv, spec.Inv = unit.models, unit.M, unit.T, unit.Sv, unit.Inv
    spec.W, spec.Ld, spec.OC, spec.regen, spec.kp = unit.W, unit.Ld, unit.OC, unit.regen, unit.kp
    spec.infantry, spec.smoke, spec.fly = unit.infantry, unit.smoke, unit.fly
    if unit.ranged is not None:
        fill_weapon(&spec.ranged, unit.ranged)
    if unit.melee is not None:
        fill_weapon(&spec.melee, unit.melee)
    fill_static_row(spec)


cdef fill_weapon(Weapon* spec, weapon):
    spec.present, spec.reach, spec.skill, spec.S, spec.ap = 1, weapon.range, weapon.skill, weapon.S, weapon.ap
    spec.A.n, spec.A.faces, spec.A.plus = weapon.A.n, weapon.A.faces, weapon.A.plus
    spec.D.n, spec.D.faces, spec.D.plus = weapon.D.n, weapon.D.faces, weapon.D.plus
    spec.lethal, spec.sustained = weapon.lethal_hits, weapon.sustained_hits
    spec.devastating, spec.twin, spec.rapid = weapon.devastating_wounds, weapon.twin_linked, weapon.rapid_fire
    spec.assault, spec.heavy, spec.torrent, spec.blast = weapon.assault, weapon.heavy, weapon.torrent, weapon.blast
