"""Text of the battle for a terminal: the board with one character a cell, and both sides' units beside it.

Black numbers and discs are side 0, white ones are side 1; a number stands on the anchor of its unit.
"""

from __future__ import annotations

from itertools import zip_longest

from jaxrl_envs.battle.display.position import ENDS, BattlePosition, BattleQuestion, Squad, shorten, side_name, terrain

WIDTH, NAME = 100, 13  # columns at most: of everything, of a unit's name

ANCHORS = ("❶❷❸❹❺❻❼❽", "①②③④⑤⑥⑦⑧")
MODELS = "●○"
TERRAIN = {"barricade": "▒", "wall": "█"}
GRID, OBJECTIVE = "·", "░"
EAST, WEST = "east", "west"


def render_text(view: BattlePosition, seat: int | None = None) -> str:
    """Returns the board as text, at most 100 columns wide but for the question; `seat` is called "you"."""
    board = _board(view)
    width = max(map(len, board))
    beside = _units(view, 0, seat) + [""] + _units(view, 1, seat) + [""] + _objectives(view)
    lines = [_headline(view, seat), ""]
    room = WIDTH - width - 2
    rows = zip_longest(board, beside, fillvalue="")
    lines += [f"{left:{width}}  {shorten(right, room)}".rstrip() for left, right in rows]
    question = ask(view, seat)
    return "\n".join([*lines, "", question] if question else lines)


def ask(view: BattlePosition, seat: int | None = None) -> str:
    """Returns the open question in one line: the deciding side and the subject; "" once the battle is over."""
    if view.question is None:
        return ""
    question = view.question
    who = side_name(question.side, seat)
    verb = "decide" if question.side == seat else "decides"
    forward = EAST if question.side == view.left else WEST
    heading = f" (forward is {forward})" if question.kind in ("move", "fall_back") else ""
    return f"{who} {verb}: {_matter(view, question)}{heading}"


def outcome(view: BattlePosition, seat: int | None = None) -> str:
    """Returns the result of a battle: "the last round is over: side 0 wins 20 to 15"."""
    if view.winner is None:
        return f"{ENDS[view.end]}: a draw, {view.points[0]} to {view.points[1]}"
    verb = "win" if view.winner == seat else "wins"
    points = f"{view.points[view.winner]} to {view.points[1 - view.winner]}"  # without models one loses also if ahead
    return f"{ENDS[view.end]}: {side_name(view.winner, seat, capital=False)} {verb}, {points}"


def called(squad: Squad) -> str:
    """Returns a unit's name and number: "Captain (1)"."""
    return f"{squad.name} ({squad.number})"


def _headline(view: BattlePosition, seat: int | None) -> str:
    if view.over:
        return f"Squad battle: {outcome(view, seat)}"
    turn = "first" if view.active == view.first else "second"
    who = side_name(view.active, seat, capital=False)
    return f"Squad battle, round {view.round} of {view.rounds}, {turn} half-turn ({who}), {view.phase} phase"


def _board(view: BattlePosition) -> list[str]:
    """Returns the cells with a scale of rows and columns."""
    ground = view.ground
    grid = [[GRID if r % 5 == 0 and c % 5 == 0 else " " for c in range(ground.cols)] for r in range(ground.rows)]
    for marker in view.markers:
        for r in range(ground.rows):
            for c in range(ground.cols):
                if (r - marker.row) ** 2 + (c - marker.col) ** 2 <= marker.radius**2:
                    grid[r][c] = OBJECTIVE
    for (r, c), kind in terrain(ground).items():
        grid[r][c] = TERRAIN[kind]
    for side, squads in enumerate(view.squads):
        for squad in squads:
            for place, (r, c) in enumerate(squad.cells):
                grid[r][c] = MODELS[side] if place else ANCHORS[side][squad.index]
    scale = "".join(f"{c:<10}" for c in range(0, ground.cols, 10))[: ground.cols].rstrip()
    return ["   " + scale] + [f"{r if r % 5 == 0 else '':>2} {''.join(row)}" for r, row in enumerate(grid)]


def _units(view: BattlePosition, side: int, seat: int | None) -> list[str]:
    """Returns one side: points, then a line for each unit with models and wounds of all that it started with."""
    place = "left" if side == view.left else "right"
    held = f"VP {view.points[side]}  CP {view.command[side]}"
    lines = [
        f"{MODELS[side]} {side_name(side, seat).upper()}, {view.rosters[side]}, from the {place}",
        f"  {held:15}models wounds",
    ]
    question = view.question
    for squad in view.squads[side]:
        deciding = question is not None and (question.side, question.unit) == (side, squad.index)
        concerned = question is not None and (1 - question.side, question.subject) == (side, squad.index)
        sign = ">" if deciding else "!" if concerned else " "
        models = f"{len(squad.cells)}/{squad.start}"
        wounds = f"{squad.health}/{squad.start * squad.wounds}"
        state = " ".join(conditions(view, squad)) if squad.alive else "destroyed"
        name = f"{ANCHORS[side][squad.index]} {squad.name[:NAME]:{NAME}}"
        lines.append(f"{sign} {name} {models:>5} {wounds:>6}")
        lines += [f"    {state}"] if state else []
    return lines


def conditions(view: BattlePosition, squad: Squad) -> list[str]:
    """Returns the conditions of a unit in words; a weaker word is left out where a stronger one implies it."""
    flags, question = squad.flags, view.question
    asked = question is not None and (question.side, question.unit) == (squad.side, squad.index)
    words = {  # the most important first: a terminal may have no room for all
        "shocked": "shocked" in flags,
        "engaged": (squad.side, squad.index) in view.engaged,
        "smoke": "smoked" in flags,
        "cover": "grounded" in flags,
        "advanced": "advanced" in flags,
        "fell back": "fell" in flags,
        "charged": "charged" in flags,
        "moved": "moved" in flags and not flags & {"advanced", "fell", "charged"},
        "fought": "fought" in flags and view.phase == "fight" and not asked,  # whose turn has come is marked as well
    }
    return [word for word, holds in words.items() if holds]


def _objectives(view: BattlePosition) -> list[str]:
    lines = ["objectives: row, column"] if view.markers else []
    for marker in view.markers:
        ours, theirs = marker.control
        owner = "no side" if marker.owner is None else f"side {marker.owner}"
        control = f", {ours} to {theirs}" if ours or theirs else ""
        lines.append(f"{OBJECTIVE} {marker.row:g}, {marker.col:g}: {owner}{control}")
    return lines


def _matter(view: BattlePosition, question: BattleQuestion) -> str:
    """Returns the question itself."""
    own = view.squads[question.side][question.unit] if question.unit >= 0 else None
    other = view.squads[1 - question.side][question.subject] if question.subject >= 0 else None
    unit, subject = (called(squad) if squad else "" for squad in (own, other))
    again = f"rolled {question.roll}, needs {question.needed}"
    return {
        "move": f"where does {unit} move?",
        "fall_back": f"does {unit}, engaged, fall back?",
        "shoot": f"at whom does {unit} shoot?",
        "charge": f"whom does {unit} charge?",
        "fight": f"against whom does {unit} fight?",
        "snap": f"does a unit fire at {subject} at once?",
        "protect": f"does {unit} protect itself from {subject}?",
        "counter": f"does a unit charge {subject} in return?",
        "shock": f"{unit} fails its shock test ({again})",
        "reroll_advance": f"{unit} advances by {question.roll} more: roll again?",
        "reroll_charge": f"{unit} charges {subject} and falls short ({again}): roll again?",
    }[question.kind]
