"""A position of the battle as plain Python, from which text, drawings, events and films are made.

Both sides see everything, so there is one view for all. Sides are 0 and 1; units are numbered from 1 in everything that
people read, and from 0 in arrays and actions. Cells are (row, col) from the top left, as on the map.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxrl_envs.battle.maps import Rectangle, cells
from jaxrl_envs.battle.rosters import UnitType

PHASES = ("command", "movement", "shooting", "charge", "fight")
KINDS = (
    *("move", "fall_back", "shoot", "charge", "fight", "snap", "protect", "counter", "shock"),
    *("reroll_advance", "reroll_charge"),
)
FLAGS = ("moved", "advanced", "fell", "charged", "fought", "shocked", "smoked", "grounded")
ENDS = ("", "side 0 is wiped out", "side 1 is wiped out", "the last round is over")

Cell = tuple[int, int]


@dataclass(frozen=True)
class Squad:
    """A unit."""

    side: int
    index: int
    name: str
    start: int  # models at the start
    wounds: int  # of one model
    control: int  # objective control of one model
    move: int  # cells
    cells: tuple[Cell, ...]  # of the living models, the anchor first; none = destroyed
    lead: int  # wounds left on the last model
    flags: frozenset[str]  # of FLAGS

    @property
    def number(self) -> int:
        """Its number in text, from 1."""
        return self.index + 1

    @property
    def alive(self) -> bool:
        """Whether a model is left."""
        return bool(self.cells)

    @property
    def health(self) -> int:
        """Wounds left on all models."""
        return (len(self.cells) - 1) * self.wounds + self.lead if self.cells else 0


class Marker(NamedTuple):
    """An objective."""

    row: float
    col: float
    radius: int
    control: tuple[int, int]  # objective control of both sides on it
    owner: int | None  # the side that controls it


class BattleQuestion(NamedTuple):
    """The open question, and the side and units that it concerns."""

    side: int
    kind: str  # of KINDS
    unit: int  # the deciding side's unit, -1 where the decision chooses one
    subject: int  # the other side's unit concerned, -1 without
    roll: int
    needed: int


class Ground(NamedTuple):
    """The board without the models."""

    rows: int
    cols: int
    barricades: tuple[Rectangle, ...]
    walls: tuple[Rectangle, ...]
    zone: int  # columns of a deployment zone


class BattlePosition(NamedTuple):
    """Everything on the table."""

    ground: Ground
    markers: tuple[Marker, ...]
    squads: tuple[tuple[Squad, ...], tuple[Squad, ...]]
    rosters: tuple[str, str]  # their names
    mission: str
    rounds: int  # of the whole battle
    round: int
    active: int  # the side of the half-turn
    first: int  # the side that has the first half-turn of a round
    left: int  # the side that deployed on the left
    phase: str  # of PHASES
    points: tuple[int, int]  # victory points
    command: tuple[int, int]  # command points
    question: BattleQuestion | None  # None: the battle is over
    end: int  # why, an index of ENDS
    winner: int | None  # None: a draw, or not over yet

    @property
    def over(self) -> bool:
        """Whether the battle has ended."""
        return self.question is None

    @property
    def engaged(self) -> frozenset[tuple[int, int]]:
        """(side, index) of every unit with a model beside one of an enemy."""
        pairs = [pair for pair in itertools.product(*self.squads) if _touch(*pair)]
        return frozenset((squad.side, squad.index) for pair in pairs for squad in pair)


def _touch(one: Squad, other: Squad) -> bool:
    return any(max(abs(a - c), abs(b - d)) <= 1 for a, b in one.cells for c, d in other.cells)


def look(battle: Any) -> BattlePosition:
    """Returns the current position of a `jaxrl_envs.battle.engine.single.Battle`."""
    rules, result = battle.rules, battle.result()
    field, rosters, settings = rules.maps[battle.map_index], rules.pairs[battle.pair], rules.settings
    number, active, command, points, units = battle.state()
    squads = tuple(
        tuple(_squad(side, i, roster.units[i], units[side][i], field.cols) for i in range(len(roster.units)))
        for side, roster in enumerate(rosters)
    )
    asked = battle.side, KINDS[battle.kind], battle.unit, battle.subject, battle.roll, battle.needed
    return BattlePosition(
        ground=Ground(field.rows, field.cols, field.barricades, field.walls, settings.zone),
        markers=tuple(_marker(marker, squads) for marker in field.objectives),
        squads=(squads[0], squads[1]),
        rosters=(_printable(rosters[0].name), _printable(rosters[1].name)),
        mission=settings.mission,
        rounds=settings.rounds,
        round=number,
        active=active,
        first=battle.first,
        left=battle.left,
        phase=PHASES[battle.phase],
        points=(points[0], points[1]),
        command=(command[0], command[1]),
        question=None if battle.over else BattleQuestion(*asked),
        end=result["end"],
        winner=result["winner"],
    )


def _squad(side: int, index: int, kind: UnitType, unit: Sequence[Any], cols: int) -> Squad:
    _, lead, bits, cells = unit
    return Squad(
        side=side,
        index=index,
        name=_printable(kind.name),
        start=kind.models,
        wounds=kind.W,
        control=kind.OC,
        move=kind.M,
        cells=tuple(divmod(cell, cols) for cell in cells),
        lead=lead,
        flags=frozenset(name for bit, name in enumerate(FLAGS) if bits >> bit & 1),
    )


def _printable(name: str) -> str:
    """Returns a user's name without line breaks and control characters, which neither a terminal nor XML would bear."""
    return "".join(letter if letter.isprintable() else " " for letter in name)


def _marker(marker: Sequence[float], squads: tuple[tuple[Squad, ...], ...]) -> Marker:
    row, col, radius = marker
    control = [0, 0]
    for side, units in enumerate(squads):
        for squad in units:
            if "shocked" not in squad.flags:
                on = sum((r - row) ** 2 + (c - col) ** 2 <= radius**2 for r, c in squad.cells)
                control[side] += on * squad.control
    owner = None if control[0] == control[1] else int(control[1] > control[0])
    return Marker(row, col, int(radius), (control[0], control[1]), owner)


def side_name(side: int, observer: int | None = None, *, capital: bool = True) -> str:
    """Returns the name of a side: "Side 0", or "You" for the observer's own."""
    text = "You" if side == observer else f"Side {side}"
    return text if capital else text[0].lower() + text[1:]


def shorten(words: str, length: int) -> str:
    """`words`, cut with an ellipsis if longer than `length` characters."""
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


def terrain(ground: Ground) -> Mapping[Cell, str]:
    """{cell: "barricade" | "wall"} of every cell that may not be stood on."""
    return dict.fromkeys(cells(ground.barricades), "barricade") | dict.fromkeys(cells(ground.walls), "wall")
