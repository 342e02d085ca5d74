"""The battle's table in plain Python: units, what the rules ask of the board, and setup (sections 2 to 4, 6 and 7)."""

from __future__ import annotations

from math import isqrt

from tests.jaxrl_envs.battle.referee.battle_dice import Dice, Stream, battle_key, mix
from tests.jaxrl_envs.battle.referee.battle_geometry import Board, Cell, distance2, near

REROLL, STEEL_NERVES, SNAP_FIRE, SMOKE, TAKE_COVER, COUNTER_CHARGE = range(6)
COSTS = [1, 1, 1, 1, 1, 2]
COMMAND, MOVEMENT, SHOOTING, CHARGING, FIGHTING = range(5)
FLAGS = ["moved", "advanced", "fell", "charged", "fought", "shocked", "smoked", "grounded"]  # bits 1, 2, 4, …


class Unit:
    """One squad."""

    def __init__(self, side: int, index: int, tree: dict):
        self.side, self.index, self.type = side, index, tree
        self.models, self.wounds = tree["models"], tree["W"]
        self.cells: list[Cell] = []
        self.lead = tree["W"]
        self.flags: set[str] = set()

    @property
    def alive(self) -> bool:
        return bool(self.cells)

    @property
    def hp(self) -> int:
        return (len(self.cells) - 1) * self.wounds + self.lead if self.cells else 0

    def has(self, keyword: str) -> bool:
        """Whether the unit has a keyword."""
        return keyword in self.type.get("keywords", [])

    def lose_model(self) -> None:
        """The last model is removed."""
        self.cells.pop()
        self.lead = self.wounds

    def state(self, cols: int) -> list:
        """[models, lead, flag bits, cells] as the golden files write it."""
        if not self.cells:
            return [0, 0, 0, []]
        bits = sum(1 << i for i, flag in enumerate(FLAGS) if flag in self.flags)
        return [len(self.cells), self.lead, bits, [r * cols + c for r, c in self.cells]]


class Table:
    """A battle without its course: everything that has a value at one moment."""

    def __init__(
        self,
        config: dict,
        rosters: list[dict],
        *,
        key: int | None = None,
        seed: int = 0,
        slot: int = 0,
        episode: int = 0,
        tape: list[int] | None = None,
    ):
        self.config = config
        self.boards = [Board(tree) for tree in config["maps"]]
        self.mission = config.get("mission", "hold")
        self.rounds = config.get("rounds", 5)
        self.zone = config.get("zone", 15)
        self.tiebreak = config.get("tiebreak", "none" if self.mission == "hold" else "damage")
        self.key = battle_key(seed, slot, episode) if key is None else key
        self.dice = Dice(self.key, tape)
        self.policies = [Stream(mix(self.key ^ (2 + side))) for side in range(2)]
        self.units = [[Unit(s, i, tree) for i, tree in enumerate(rosters[s]["units"])] for s in range(2)]
        self.cp = [config.get("cp_start", 0)] * 2
        self.vp = [0, 0]
        self.used: list[set[int]] = [set(), set()]
        self.round, self.phase, self.end, self.decisions = 1, COMMAND, 0, 0
        self.half_turns: list[list] = []
        self._setup()

    @property
    def state(self) -> list:
        """The state as the golden files write it."""
        sides = [[unit.state(self.board.cols) for unit in units] for units in self.units]
        return [self.round, self.active, list(self.cp), list(self.vp), sides]

    @property
    def hp(self) -> list[int]:
        return [sum(unit.hp for unit in units) for units in self.units]

    @property
    def start_hp(self) -> list[int]:
        return [sum(unit.models * unit.wounds for unit in units) for units in self.units]

    @property
    def winner(self) -> int | None:
        """Of a finished battle; None = draw."""
        if self.end in (1, 2):
            return 2 - self.end
        removed = [self.start_hp[1 - side] - self.hp[1 - side] for side in range(2)]
        compare = self.vp if self.vp[0] != self.vp[1] or self.tiebreak == "none" else removed
        return None if compare[0] == compare[1] else int(compare[1] > compare[0])

    @property
    def result(self) -> dict:
        """As the golden files write it."""
        head = {"winner": self.winner, "end": self.end, "vp": self.vp, "round": self.round}
        return {**head, "hp": self.hp, "decisions": self.decisions}

    # ---- what the rules ask of the board ----------------------------------------------------------------------------

    def mirrored(self, side: int) -> bool:
        """Whether the home frame of a side is."""
        return side != self.left

    def living(self, side: int) -> list[Unit]:
        """The living units of a side, in order."""
        return [unit for unit in self.units[side] if unit.alive]

    def engaged(self, unit: Unit) -> bool:
        """Whether one of its models touches an enemy model."""
        return any(self.touching(unit, enemy) for enemy in self.living(1 - unit.side))

    def touching(self, a: Unit, b: Unit) -> bool:
        """Whether two units are in contact."""
        return any(-1 <= m[0] - n[0] <= 1 and -1 <= m[1] - n[1] <= 1 for m in a.cells for n in b.cells)

    def apart2(self, a: Unit, b: Unit) -> int:
        """The squared distance of two units."""
        return min(distance2(m, n) for m in a.cells for n in b.cells)

    def barred(self, unit: Unit, target: Unit | None = None) -> set[Cell]:
        """The cells of the board that are not free for a unit (in a charge, contact with the target is)."""
        cells = self.board.barricades | self.board.walls
        for other in [*self.living(0), *self.living(1)]:
            if other is not unit:
                cells |= set(other.cells)
            if other.side != unit.side and other is not target:
                cells |= near(other.cells)
        return cells

    def end_of_move(self, unit: Unit, direction: int, allowance: int, falling_back: bool = False) -> list[Cell] | None:
        """The formation at the end of a move of at most `allowance`, None if there is no legal one."""
        return self.ends_of_moves(unit, [(direction, allowance)], falling_back)[0]

    def ends_of_moves(
        self, unit: Unit, moves: list[tuple[int, int]], falling_back: bool = False
    ) -> list[list[Cell] | None]:
        """The same for several (direction, allowance)."""
        board, barred, mirrored = self.board, self.barred(unit), self.mirrored(unit.side)
        enemies = None if falling_back else near(cell for enemy in self.living(1 - unit.side) for cell in enemy.cells)
        found = []
        for direction, allowance in moves:
            path = board.path(unit.cells[0], direction, allowance, mirrored, enemies, unit.has("fly"))
            formations = (board.pack(anchor, len(unit.cells), mirrored, barred) for anchor in reversed(path))
            found.append(next(filter(None, formations), None))
        return found

    def gaits(self, unit: Unit) -> list[int]:
        """The move allowances of the gaits half, full and (for the mask) advance."""
        return [(unit.type["M"] + 1) // 2, unit.type["M"], unit.type["M"] + 1]

    def payable(self, side: int, stratagem: int) -> bool:
        """Whether a side can use a stratagem now."""
        return stratagem not in self.used[side] and self.cp[side] >= COSTS[stratagem]

    def pay(self, side: int, stratagem: int) -> None:
        self.used[side].add(stratagem)
        self.cp[side] -= COSTS[stratagem]

    def control(self, side: int, objective: tuple) -> int:
        """The sum of OC of a side on an objective."""
        total = 0
        for unit in self.living(side):
            if "shocked" not in unit.flags:
                total += unit.type["OC"] * sum(self.board.on_objective(cell, objective) for cell in unit.cells)
        return total

    def needed(self, apart2: int) -> int:
        """The sum that a charge over this squared distance needs, as shown."""
        return max(1, isqrt(apart2 - 1))

    # ---- setup ------------------------------------------------------------------------------------------------------

    def _setup(self) -> None:
        self.map_index = self.dice.roll(len(self.boards)) - 1 if len(self.boards) > 1 else 0
        self.board = self.boards[self.map_index]
        self.left = self._roll_off(self.config.get("deploy", "roll"))
        for k in range(8):
            for side in (self.left, 1 - self.left):
                if k < len(self.units[side]):
                    self._deploy(self.units[side][k], len(self.units[side]))
        self.first = self._roll_off(self.config.get("first", "roll"))
        self.active = self.first

    def _roll_off(self, fixed: int | str) -> int:
        if fixed != "roll":
            return fixed
        while True:
            a, b = self.dice.roll(6), self.dice.roll(6)
            if a != b:
                return int(b > a)

    def _deploy(self, unit: Unit, n: int) -> None:
        board, mirrored = self.board, self.mirrored(unit.side)
        row = (unit.index + 1) * (board.rows - 1) // (n + 1) + self.dice.roll(7) - 4
        col = self.zone // 2 + self.dice.roll(5) - 3
        zone = {(r, board.home(c, mirrored)) for r in range(board.rows) for c in range(self.zone)}
        barred = self.barred(unit)
        anchors = [(r, c) for r in range(board.rows) for c in range(self.zone)]
        for r, c in sorted(anchors, key=lambda cell: (distance2(cell, (row, col)), *cell)):
            cells = board.pack((r, board.home(c, mirrored)), unit.models, mirrored, barred, zone)
            if cells:
                unit.cells = cells
                return
        raise ValueError("no legal deployment")
