"""The tabletop battle in plain Python: setup, phases, decisions, stratagems, scoring and end (sections 3 to 8).

The rules are written as one generator that stops wherever a player is asked; nothing is cached but sight lines, nothing
is packed. Rosters, maps and settings are the plain trees of their YAML files.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from tests.jaxrl_envs.battle.referee.battle_combat import attack, firing
from tests.jaxrl_envs.battle.referee.battle_dice import Stream, mix
from tests.jaxrl_envs.battle.referee.battle_geometry import CHARGES, PACKING, Cell, contact, near
from tests.jaxrl_envs.battle.referee.battle_table import (
    CHARGING,
    COMMAND,
    COUNTER_CHARGE,
    FIGHTING,
    MOVEMENT,
    REROLL,
    SHOOTING,
    SMOKE,
    SNAP_FIRE,
    STEEL_NERVES,
    TAKE_COVER,
    Table,
    Unit,
)

MOVE, FALL_BACK, SHOOT, CHARGE, FIGHT, SNAP, PROTECT, COUNTER, SHOCK, REROLL_ADVANCE, REROLL_CHARGE = range(11)

Play = Generator["Decision", int, int]


class Decision(NamedTuple):
    """A question to one side."""

    side: int
    kind: int
    unit: int
    subject: int
    roll: int
    needed: int
    legal: list[int]


class WipedOut(Exception):
    """A side has no living unit."""


class Battle(Table):
    """One battle; it always stands at `decision`, None when it is over."""

    def __init__(self, config: dict, rosters: list[dict], **identity):
        """`identity`: seed, slot and episode, or a key; or a tape."""
        super().__init__(config, rosters, **identity)
        self.decision: Decision | None = None
        self._play = self._battle()
        self._advance(None)

    # ---- for the players --------------------------------------------------------------------------------------------

    def step(self, action: int) -> None:
        """Takes a legal action and goes on to the next question."""
        assert self.decision and action in self.decision.legal
        self.decisions += 1
        self._advance(action)

    def random(self) -> int:
        """The action of the random player."""
        legal = self.decision.legal
        return legal[self.policies[self.decision.side].draw(len(legal))]

    def mixed_style(self, side: int) -> int:
        """The style of a mixed script player."""
        return Stream(mix(self.key ^ (4 + side))).draw(5)

    def _advance(self, action: int | None) -> None:
        try:
            self.decision = self._play.send(action)
        except StopIteration:
            self.decision = None

    # ---- the battle -------------------------------------------------------------------------------------------------

    def _ask(self, side: int, kind: int, legal: list[int], unit=-1, subject=-1, roll=0, needed=0) -> Play:
        """The answer of a side; a question with one legal id is not asked."""
        if len(legal) == 1:
            return legal[0]
        return (yield Decision(side, kind, unit, subject, roll, needed, sorted(legal)))

    def _battle(self) -> Play:
        try:
            for number in range(1, self.rounds + 1):
                for side in (self.first, 1 - self.first):
                    self.round, self.active = number, side
                    yield from self._half_turn(side)
                    self.half_turns.append(self.state)
            self.end = 3
        except WipedOut:
            self.half_turns.append(self.state)
        return 0

    def _half_turn(self, a: int) -> Play:
        late = self.round == self.rounds and a != self.first
        self._begin(COMMAND)
        yield from self._command(a)
        if not late:
            self._score(a)
        self._begin(MOVEMENT)
        for unit in self.units[a]:
            if unit.alive:
                yield from self._movement(unit)
        self._begin(SHOOTING)
        for unit in self.units[a]:
            if unit.alive:
                yield from self._shooting(unit)
        self._begin(CHARGING)
        for unit in self.units[a]:
            if unit.alive:
                yield from self._charge(unit)
        self._begin(FIGHTING)
        yield from self._fights(a)
        if late:
            self._score(a)

    def _begin(self, phase: int) -> None:
        self.phase = phase
        self.used = [set(), set()]
        for unit in self.units[0] + self.units[1]:
            unit.flags -= {"smoked", "grounded"}

    def _score(self, a: int) -> None:
        if self.mission == "hold" and self.round >= self.config.get("score_from", 2):
            objectives = self.board.objectives
            held = sum(self.control(a, objective) > self.control(1 - a, objective) for objective in objectives)
            self.vp[a] += min(self.config.get("vp_cap", 15), self.config.get("vp_each", 5) * held)

    def _losses(self, unit: Unit) -> None:
        """After an attack or fall-back losses: kill points, and the end if a side is wiped out."""
        if not unit.alive:
            unit.flags.clear()
            if self.mission == "annihilation":
                self.vp[1 - unit.side] += unit.type.get("kp", 1)
        if not self.living(unit.side):
            self.end = 1 + unit.side
            raise WipedOut

    def _attack(self, a: Unit, t: Unit, how: str) -> None:
        attack(self, a, t, how)
        self._losses(t)

    # ---- phases -----------------------------------------------------------------------------------------------------

    def _command(self, a: int) -> Play:
        self.cp = [cp + 1 for cp in self.cp]
        for unit in self.units[a]:
            unit.flags -= {"moved", "advanced", "fell", "charged", "shocked"}
        for unit in self.living(a):
            below = 2 * unit.lead < unit.wounds if unit.models == 1 else 2 * len(unit.cells) < unit.models
            if below:
                yield from self._shock_test(unit)
        for unit in self.living(a):
            if unit.type.get("regen", 0) and unit.hp < unit.models * unit.wounds:
                self._regenerate(unit, self.dice.roll(unit.type["regen"]))

    def _shock_test(self, unit: Unit) -> Play:
        side, needed = unit.side, unit.type["Ld"]
        while (total := self.dice.roll(6) + self.dice.roll(6)) < needed:
            legal = [0]
            legal += [65] if self.payable(side, REROLL) else []
            legal += [66] if self.payable(side, STEEL_NERVES) else []
            answer = yield from self._ask(side, SHOCK, legal, unit.index, -1, total, needed)
            if answer == 65:
                self.pay(side, REROLL)
                continue
            if answer == 66:
                self.pay(side, STEEL_NERVES)
            else:
                unit.flags.add("shocked")
            return 0
        return 0

    def _regenerate(self, unit: Unit, points: int) -> None:
        healed = min(points, unit.wounds - unit.lead)
        unit.lead += healed
        points -= healed
        while points and len(unit.cells) < unit.models:
            cell = self._place_for_one(unit)
            if cell is None:
                return
            unit.cells.append(cell)
            unit.lead = min(unit.wounds, points)
            points -= unit.lead

    def _place_for_one(self, unit: Unit) -> Cell | None:
        barred = self.barred(unit) | set(unit.cells)
        row, col = unit.cells[0]
        for dr, dc in PACKING:
            cell = (row + dr, col - dc if self.mirrored(unit.side) else col + dc)
            if self.board.inside(cell) and cell not in barred and any(contact(cell, own) for own in unit.cells):
                return cell
        return None

    def _movement(self, unit: Unit) -> Play:
        side, engaged = unit.side, self.engaged(unit)
        legal = [0]
        for gait, allowance in enumerate(self.gaits(unit)):
            if not engaged or gait == 1:
                ends = self.ends_of_moves(unit, [(d, allowance) for d in range(8)], engaged)
                legal += [1 + 8 * gait + d for d in range(8) if ends[d]]
        action = yield from self._ask(side, FALL_BACK if engaged else MOVE, legal, unit.index)
        if action == 0:
            return 0
        unit.flags.add("moved")
        gait, direction = divmod(action - 1, 8)
        allowance = unit.type["M"]
        if engaged:
            unit.flags.add("fell")
            if "shocked" in unit.flags:
                lost = sum(self.dice.roll(6) <= 2 for _ in range(len(unit.cells)))
                for _ in range(lost):
                    unit.lose_model()
                self._losses(unit)
                if not unit.alive:
                    return 0
        elif gait == 0:
            allowance = self.gaits(unit)[0]
        elif gait == 2:
            unit.flags.add("advanced")
            allowance += yield from self._advance_roll(unit)
        unit.cells = self.end_of_move(unit, direction, allowance, engaged)
        yield from self._snap_window(unit)
        return 0

    def _advance_roll(self, unit: Unit) -> Play:
        roll = self.dice.roll(6)
        if roll <= 3 and "shocked" not in unit.flags and self.payable(unit.side, REROLL):
            answer = yield from self._ask(unit.side, REROLL_ADVANCE, [0, 65], unit.index, -1, roll)
            if answer == 65:
                self.pay(unit.side, REROLL)
                roll = self.dice.roll(6)
        return roll

    def _snap_window(self, mover: Unit) -> Play:
        side, legal = 1 - mover.side, [0]
        if self.payable(side, SNAP_FIRE):
            for unit in self.living(side):
                ready = "ranged" in unit.type and "shocked" not in unit.flags and not self.engaged(unit)
                if ready and firing(self, unit, mover, min(24, unit.type["ranged"]["range"])):
                    legal.append(49 + unit.index)
        action = yield from self._ask(side, SNAP, legal, -1, mover.index)
        if action:
            self.pay(side, SNAP_FIRE)
            self._attack(self.units[side][action - 49], mover, "snap")
        return 0

    def _shooting(self, unit: Unit) -> Play:
        weapon = unit.type.get("ranged")
        if not weapon or "fell" in unit.flags or self.engaged(unit):
            return 0
        if "advanced" in unit.flags and not weapon.get("abilities", {}).get("assault"):
            return 0
        enemies = [enemy for enemy in self.living(1 - unit.side) if not self.engaged(enemy)]
        targets = [enemy for enemy in enemies if firing(self, unit, enemy, weapon["range"])]
        action = yield from self._ask(unit.side, SHOOT, [0, *(25 + enemy.index for enemy in targets)], unit.index)
        if action == 0:
            return 0
        target = self.units[1 - unit.side][action - 25]
        legal = [0]
        if "shocked" not in target.flags:
            legal += [67] if target.has("smoke") and self.payable(target.side, SMOKE) else []
            legal += [68] if target.has("infantry") and self.payable(target.side, TAKE_COVER) else []
        answer = yield from self._ask(target.side, PROTECT, legal, target.index, unit.index)
        if answer:
            self.pay(target.side, SMOKE if answer == 67 else TAKE_COVER)
            target.flags.add("smoked" if answer == 67 else "grounded")
        self._attack(unit, target, "shoot")
        return 0

    def _charge(self, unit: Unit) -> Play:
        if unit.flags & {"fell", "advanced"} or self.engaged(unit):
            return 0
        targets = [enemy for enemy in self.living(1 - unit.side) if self.apart2(unit, enemy) <= 144]
        action = yield from self._ask(unit.side, CHARGE, [0, *(33 + enemy.index for enemy in targets)], unit.index)
        if action == 0:
            return 0
        target = self.units[1 - unit.side][action - 33]
        yield from self._snap_window(unit)
        if unit.alive and (yield from self._charge_move(unit, target)):
            unit.flags |= {"charged", "moved"}
            yield from self._counter_window(unit)
        return 0

    def _counter_window(self, charger: Unit) -> Play:
        side, legal = 1 - charger.side, [0]
        if self.payable(side, COUNTER_CHARGE):
            for unit in self.living(side):
                if "shocked" not in unit.flags and not self.engaged(unit) and self.apart2(unit, charger) <= 36:
                    legal.append(57 + unit.index)
        action = yield from self._ask(side, COUNTER, legal, -1, charger.index)
        if action:
            self.pay(side, COUNTER_CHARGE)
            unit = self.units[side][action - 57]
            if (yield from self._charge_move(unit, charger)):
                unit.flags.add("moved")
        return 0

    def _charge_move(self, unit: Unit, target: Unit) -> Play:
        """Whether the charge arrived."""
        roll = self.dice.roll(6) + self.dice.roll(6)
        cells = self._charge_cells(unit, target, roll)
        if not cells and "shocked" not in unit.flags and self.payable(unit.side, REROLL):
            needed = self.needed(self.apart2(unit, target))
            ask = self._ask(unit.side, REROLL_CHARGE, [0, 65], unit.index, target.index, roll, needed)
            if (yield from ask) == 65:
                self.pay(unit.side, REROLL)
                roll = self.dice.roll(6) + self.dice.roll(6)
                cells = self._charge_cells(unit, target, roll)
        if cells:
            unit.cells = cells
        return int(bool(cells))

    def _charge_cells(self, unit: Unit, target: Unit, roll: int) -> list[Cell] | None:
        start, mirrored = unit.cells[0], self.mirrored(unit.side)
        barred, beside = self.barred(unit, target), near(target.cells)
        for dr, dc in CHARGES[roll]:
            anchor = (start[0] + dr, start[1] - dc if mirrored else start[1] + dc)
            cells = self.board.pack(anchor, len(unit.cells), mirrored, barred)
            if cells and any(cell in beside for cell in cells):
                if unit.has("fly") or self.board.sees(start, anchor):
                    return cells
        return None

    def _fights(self, a: int) -> Play:
        for unit in self.units[0] + self.units[1]:
            unit.flags.discard("fought")
        chargers = [unit for unit in self.units[a] if "charged" in unit.flags]
        for unit in chargers:
            if self._can_fight(unit):
                yield from self._fight(unit)
        picking, passed = 1 - a, 0
        while passed < 2:
            ready = [unit for unit in self.units[picking] if unit not in chargers and self._can_fight(unit)]
            if ready:
                yield from self._fight(ready[0])
            passed = 0 if ready else passed + 1
            picking = 1 - picking
        return 0

    def _can_fight(self, unit: Unit) -> bool:
        return unit.alive and "melee" in unit.type and "fought" not in unit.flags and self.engaged(unit)

    def _fight(self, unit: Unit) -> Play:
        enemies = [enemy for enemy in self.living(1 - unit.side) if self.touching(unit, enemy)]
        unit.flags.add("fought")  # already when it is asked: observations show it
        action = yield from self._ask(unit.side, FIGHT, [41 + enemy.index for enemy in enemies], unit.index)
        self._attack(unit, self.units[1 - unit.side][action - 41], "fight")
        return 0
