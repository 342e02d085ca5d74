"""Text of one step of the battle, in short sentences for people.

One step may hold more than the action: the engine goes on until the next question, so dice are rolled, units without a
choice act, and half-turns end. Everything told here follows from the positions before and after.
"""

from __future__ import annotations

import math

from jaxrl_envs.battle import actions as a
from jaxrl_envs.battle.display.position import BattlePosition, Squad, side_name
from jaxrl_envs.battle.display.render import called, outcome

# Command points that actions cost.
COSTS = dict.fromkeys((*range(a.FIRST_SNAP, a.FIRST_COUNTER), a.REROLL, a.STEEL, a.SMOKE, a.COVER), 1)
COSTS |= dict.fromkeys(range(a.FIRST_COUNTER, a.REROLL), 2)
COMPASS = ("east", "south-east", "south", "south-west", "west", "north-west", "north", "north-east")


def describe(before: BattlePosition, action: int, after: BattlePosition, seat: int | None = None) -> str:
    """Returns the step as sentences: the decision, moves, losses, flags, points, the turn of half-turns, the end.

    Args:
      before, after: the positions around the step.
      action: action of the side asked in `before`.
      seat: the reader, called "you"; both sides see everything.
    """
    question = before.question
    if question is None:
        return "The battle is over."
    turned = (before.round, before.active) != (after.round, after.active)
    said = [_decision(before, action, after, seat)]
    said += _moves(before, action, after, seat)
    said += _short_charge(before, action, after, seat)
    later: list[str] = []  # what the next half-turn begins with
    for side in (question.side, 1 - question.side):
        for old, new in zip(before.squads[side], after.squads[side], strict=True):
            said += _losses(old, new, seat)
            (later if turned and side == after.active else said).extend(_changes(old, new, seat))
    if action in COSTS:
        verb = "pay" if question.side == seat else "pays"
        said.append(f"{side_name(question.side, seat)} {verb} {COSTS[action]} CP.")
    for side in (0, 1):
        scored = turned and side == after.active and after.mission == "hold"
        if won := after.points[side] - before.points[side]:
            verb = "score" if side == seat else "scores"
            (later if scored else said).append(f"{side_name(side, seat)} {verb} {won} VP ({after.points[side]}).")
    if after.over:
        said.append(f"The battle is over: {outcome(after, seat)}.")
    elif turned:
        who = "your half-turn" if after.active == seat else f"the half-turn of side {after.active}"
        said.append(f"Round {after.round}: {who} begins.")
    return " ".join(said + later)


def _decision(before: BattlePosition, action: int, after: BattlePosition, seat: int | None) -> str:
    """Returns the first sentence: what the asked side chose."""
    question = before.question
    assert question is not None
    own, enemies = before.squads[question.side], before.squads[1 - question.side]
    who = side_name(question.side, seat)
    s = "" if question.side == seat else "s"
    unit = _whose(own[question.unit], seat) if question.unit >= 0 else ""
    subject = _whose(enemies[question.subject], seat, capital=False) if question.subject >= 0 else ""
    kind = question.kind
    if kind in ("move", "fall_back"):
        return _march(own[question.unit], after.squads[question.side][question.unit], action, kind, seat)
    if a.FIRST_SHOOT <= action < a.FIRST_SNAP:
        verb = ("shoots at", "declares a charge on", "fights")[(action - a.FIRST_SHOOT) // 8]
        return f"{unit} {verb} {_whose(enemies[(action - a.FIRST_SHOOT) % 8], seat, capital=False)}."
    if a.FIRST_SNAP <= action < a.FIRST_COUNTER:
        return f"{_whose(own[action - a.FIRST_SNAP], seat)} fires at {subject} at once (snap fire)."
    if a.FIRST_COUNTER <= action < a.REROLL:
        return f"{_whose(own[action - a.FIRST_COUNTER], seat)} charges {subject} in return (counter-charge)."
    if action == a.REROLL:
        return f"{who} roll{s} again for {called(own[question.unit])}."
    if action != a.DECLINE:
        words = {a.STEEL: "keeps its nerve (steel nerves)", a.SMOKE: "goes into smoke", a.COVER: "takes cover"}
        return f"{unit} {words[action]}."
    return {
        "shoot": f"{unit} holds fire.",
        "charge": f"{unit} does not charge.",
        "snap": f"{who} do{'' if question.side == seat else 'es'} not fire at {subject}.",
        "protect": f"{unit} stands in the fire of {subject}.",
        "counter": f"{who} do{'' if question.side == seat else 'es'} not charge in return.",
        "shock": f"{unit} loses its nerve.",
        "reroll_advance": f"{unit} advances by {question.roll} more.",
        "reroll_charge": f"{unit} fails to reach {subject}.",
    }[kind]


def _march(old: Squad, new: Squad, action: int, kind: str, seat: int | None) -> str:
    """Returns a movement decision and where it led."""
    unit = _whose(old, seat)
    if not action:
        return f"{unit} stays in the fight." if kind == "fall_back" else f"{unit} stays."
    gait = (action - a.FIRST_MOVE) // 8
    verb = "falls back" if kind == "fall_back" else "advances" if gait == a.ADVANCE else "moves"
    moved = new.alive and old.alive and new.cells[0] != old.cells[0]
    return f"{unit} {verb} {_way(old, new)}." if moved else f"{unit} {verb}."


def _moves(before: BattlePosition, action: int, after: BattlePosition, seat: int | None) -> list[str]:
    """Units that moved, but for the one that a movement decision was about."""
    question = before.question
    assert question is not None
    said = []
    for side in (question.side, 1 - question.side):
        for old, new in zip(before.squads[side], after.squads[side], strict=True):
            told = question.kind in ("move", "fall_back") and (question.side, question.unit) == (side, old.index)
            if old.alive and new.alive and old.cells[0] != new.cells[0] and not told:
                charge = "charged" in new.flags - old.flags or a.FIRST_COUNTER <= action < a.REROLL
                said.append(f"{_whose(new, seat)} {'charges, moving' if charge else 'moves'} {_way(old, new)}.")
    return said


def _losses(old: Squad, new: Squad, seat: int | None) -> list[str]:
    """Returns models and wounds that a unit lost."""
    unit = _whose(new, seat)
    lost = len(old.cells) - len(new.cells)
    if old.alive and not new.alive:
        return [f"{unit} is destroyed."]
    if lost > 0:
        rest = len(new.cells)
        return [f"{unit} loses {_count(lost, 'model')}, {rest} {'is' if rest == 1 else 'are'} left."]
    if not lost and new.lead < old.lead:
        return [f"{unit} loses {_count(old.lead - new.lead, 'wound')}."]
    return []


def _changes(old: Squad, new: Squad, seat: int | None) -> list[str]:
    """Returns healing and shock of one unit."""
    unit = _whose(new, seat)
    said = []
    back = len(new.cells) - len(old.cells)
    if back > 0:
        said.append(f"{unit} gets {_count(back, 'model')} back.")
    elif not back and new.lead > old.lead:
        said.append(f"{unit} heals {_count(new.lead - old.lead, 'wound')}.")
    if "shocked" in new.flags - old.flags:
        said.append(f"{unit} is shocked.")
    return said


def _short_charge(before: BattlePosition, action: int, after: BattlePosition, seat: int | None) -> list[str]:
    """Returns a charge that did not reach its target, if no question was asked about it."""
    question = before.question
    assert question is not None
    if question.kind == "charge" and action:
        side, unit = question.side, question.unit
    elif question.kind == "snap" and before.phase == "charge":
        side, unit = 1 - question.side, question.subject
    elif action == a.REROLL and question.kind == "reroll_charge":
        side, unit = question.side, question.unit
    elif a.FIRST_COUNTER <= action < a.REROLL:
        side, unit = question.side, action - a.FIRST_COUNTER
    else:
        return []
    old, new, now = before.squads[side][unit], after.squads[side][unit], after.question
    open_still = now is not None and (now.kind == "reroll_charge" or (now.kind, now.subject) == ("snap", unit))
    if open_still or not new.alive or old.cells[0] != new.cells[0] or "charged" in new.flags:
        return []
    return [f"{_whose(new, seat)} falls short."]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _way(old: Squad, new: Squad) -> str:
    """Returns distance and direction of a unit's anchor: "8.5 north-east"."""
    down, right = (new.cells[0][i] - old.cells[0][i] for i in (0, 1))
    octant = round(math.atan2(down, right) / (math.pi / 4)) % 8
    return f"{math.hypot(down, right):.1f}".removesuffix(".0") + f" {COMPASS[octant]}"


def _whose(squad: Squad, seat: int | None, *, capital: bool = True) -> str:
    """Returns a unit with its owner: "Side 1's Captain (1)"."""
    owner = "Your" if squad.side == seat else f"Side {squad.side}'s"
    return f"{owner if capital else owner[0].lower() + owner[1:]} {called(squad)}"
