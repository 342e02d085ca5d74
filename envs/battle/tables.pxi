# Rosters, maps and settings as C structs.

cdef class Rules:
    """What battles are played with.

    Args:
      maps: `envs.battle.maps.BattleMap`s; each battle takes one of them.
      pairs: of `envs.battle.rosters.Roster`s, for side 0 and side 1; a slot takes them in turn.
      settings: `envs.battle.settings.Settings`.

    Raises:
      UserError: a zone that is too deep for a map.
    """

    def __cinit__(self, maps, pairs, settings):
        cdef Py_ssize_t i
        if not maps or not pairs:
            raise UserError("a battle needs at least one map and two rosters.")
        self.maps, self.pairs, self.settings = tuple(maps), tuple(pairs), settings
        self.spec.maps, self.spec.pairs = len(maps), len(pairs)
        self.spec.map = <MapSpec*>calloc(len(maps), sizeof(MapSpec))
        self.spec.roster = <RosterSpec*>calloc(2 * len(pairs), sizeof(RosterSpec))
        if self.spec.map == NULL or self.spec.roster == NULL:
            raise MemoryError("no memory for the maps and rosters")
        for i, board in enumerate(maps):
            if not 4 <= settings.zone <= board.cols // 2 - 2:
                raise UserError(f"zone must be 4 to {board.cols // 2 - 2} on map {board.name!r}, got {settings.zone}.")
            fill_map(&self.spec.map[i], board)
        for i, pair in enumerate(pairs):
            fill_roster(&self.spec.roster[2 * i], pair[0])
            fill_roster(&self.spec.roster[2 * i + 1], pair[1])
        fill_settings(&self.spec, settings)

    def __dealloc__(self):
        release(self.spec.map)
        release(self.spec.roster)


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
    for r, c in covered(board.barricades):
        spec.barricade[r] |= <uint64_t>1 << <int>c
        for i in range(max(r - 3, 0), min(r + 4, board.rows)):
            for j in range(max(c - 3, 0), min(c + 4, board.cols)):
                spec.shelter[i] |= <uint64_t>1 << <int>j
    for r, c in covered(board.walls):
        spec.wall[r] |= <uint64_t>1 << <int>c
    spec.objectives = len(board.objectives)
    for o, (row, col, radius) in enumerate(board.objectives):
        row2, col2 = round(2 * row), round(2 * col)
        spec.row2[o], spec.col2[o], spec.radius[o] = row2, col2, radius
        for r in range(board.rows):
            for c in range(board.cols):
                if (2 * r - row2) ** 2 + (2 * c - col2) ** 2 <= 4 * radius**2:
                    spec.on[o][r] |= <uint64_t>1 << <int>c


def covered(rectangles):
    """The cells of inclusive rectangles (r0, c0, r1, c1)."""
    return [(r, c) for r0, c0, r1, c1 in rectangles for r in range(r0, r1 + 1) for c in range(c0, c1 + 1)]


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
