"""What happened in one step of the battle, in short sentences for people, and who struck whom in it.

One step may hold more than the action: the engine goes on until the next question, so dice are rolled, units without a
choice act, and half-turns end. Everything told here follows from the positions before and after.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from envs.battle import actions as a
from envs.battle.render import called, outcome
from envs.battle.view import Position, Squad, side_name

COMPASS = ("east", "south-east", "south", "south-west", "west", "north-west", "north", "north-east")


class Blow(NamedTuple):
    """One unit that attacked another in a step, as it stood before."""

    attacker: Squad
    target: Squad
    melee: bool


def describe(before: Position, action: int, after: Position, seat: int | None = None) -> str:
    """The step as sentences: the decision, moves, losses, flags, points, the turn of half-turns, the end.

    Args:
      before, after: the positions around the step.
      action: of the side asked in `before`.
      seat: who is told, called "you"; both sides see everything.
    """
    question = before.question
    if question is None:
        return "The battle is over."
    said = [_decision(before, action, after, seat)]
    lead = (question.side, question.unit)
    for side in (question.side, 1 - question.side):
        for old, new in zip(before.squads[side], after.squads[side], strict=True):
            moved = old.alive and new.alive and old.cells[0] != new.cells[0]
            if moved and ((side, old.index) != lead or question.kind not in ("move", "fall_back")):
                charge = "charged" in new.flags - old.flags or a.FIRST_COUNTER <= action < a.REROLL
                verb = "charges, moving" if charge else "moves"
                said.append(f"{_whose(new, seat)} {verb} {_way(old, new)}.")
            said += _changes(old, new, seat)
    said += _gains(before, after, seat)
    if after.over:
        said.append(f"The battle is over: {outcome(after, seat)}.")
    elif (before.round, before.active) != (after.round, after.active):
        who = side_name(after.active, seat, capital=False)
        said.append(f"Round {after.round}: the half-turn of {who} begins.")
    return " ".join(said)


def blows(before: Position, action: int, after: Position) -> list[Blow]:
    """The attacks that are known to have been made in the step: those that its question was about.

    An attack without any choice (a fight with one opponent) is not asked about, so it is not listed.
    """
    question = before.question
    if question is None:
        return []
    own, enemies = before.squads[question.side], before.squads[1 - question.side]
    now = after.question
    if question.kind == "shoot" and action:
        target = enemies[action - a.FIRST_SHOOT]
        waits = now is not None and (now.kind, now.subject, now.unit) == ("protect", question.unit, target.index)
        return [] if waits else [Blow(own[question.unit], target, False)]
    if question.kind == "protect":
        return [Blow(enemies[question.subject], own[question.unit], False)]
    if question.kind == "snap" and action:
        return [Blow(own[action - a.FIRST_SNAP], enemies[question.subject], False)]
    if question.kind == "fight":
        return [Blow(own[question.unit], enemies[action - a.FIRST_FIGHT], True)]
    return []


def _decision(before: Position, action: int, after: Position, seat: int | None) -> str:
    """The first sentence: what the asked side chose."""
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
        return f"{who} roll{s} again for {_whose(own[question.unit], seat, capital=False)}."
    if action != a.DECLINE:
        words = {a.STEEL: "keeps its nerve (steel nerves)", a.SMOKE: "goes into smoke", a.COVER: "takes cover"}
        return f"{unit} {words[action]}."
    return {
        "shoot": f"{unit} holds fire.",
        "charge": f"{unit} does not charge.",
        "snap": f"{who} let{s} {subject} pass.",
        "protect": f"{unit} stands in the fire of {subject}.",
        "counter": f"{who} do{'' if question.side == seat else 'es'} not charge in return.",
        "shock": f"{unit} loses its nerve.",
        "reroll_advance": f"{unit} advances by {question.roll} more.",
        "reroll_charge": f"{unit} fails to reach {subject}.",
    }[kind]


def _march(old: Squad, new: Squad, action: int, kind: str, seat: int | None) -> str:
    """A movement decision and where it led."""
    unit = _whose(old, seat)
    if not action:
        return f"{unit} stays in the fight." if kind == "fall_back" else f"{unit} stays."
    gait = (action - a.FIRST_MOVE) // 8
    verb = "falls back" if kind == "fall_back" else "advances" if gait == a.ADVANCE else "moves"
    moved = new.alive and old.alive and new.cells[0] != old.cells[0]
    return f"{unit} {verb} {_way(old, new)}." if moved else f"{unit} {verb}."


def _changes(old: Squad, new: Squad, seat: int | None) -> list[str]:
    """Losses, healing and shock of one unit."""
    unit = _whose(new, seat)
    lost = len(old.cells) - len(new.cells)
    if old.alive and not new.alive:
        return [f"{unit} is destroyed."]
    said = []
    if lost > 0:
        rest = len(new.cells)
        said.append(f"{unit} loses {lost} model{'s' * (lost > 1)}, {rest} {'is' if rest == 1 else 'are'} left.")
    elif lost < 0:
        who = _whose(new, seat, capital=False)
        said.append(f"{-lost} model{'s' * (lost < -1)} of {who} return{'s' * (lost == -1)}.")
    elif new.lead < old.lead:
        wounds = old.lead - new.lead
        said.append(f"{unit} loses {wounds} wound{'s' * (wounds > 1)}.")
    elif new.lead > old.lead:
        wounds = new.lead - old.lead
        said.append(f"{unit} heals {wounds} wound{'s' * (wounds > 1)}.")
    if "shocked" in new.flags - old.flags:
        said.append(f"{unit} is shocked.")
    return said


def _gains(before: Position, after: Position, seat: int | None) -> list[str]:
    """Points of both sides."""
    said = []
    for side in (0, 1):
        won = after.points[side] - before.points[side]
        if won:
            verb = "score" if side == seat else "scores"
            said.append(f"{side_name(side, seat)} {verb} {won} VP ({after.points[side]}).")
        spent = before.command[side] - after.command[side]
        if spent > 0:
            said.append(f"{side_name(side, seat)} {'pay' if side == seat else 'pays'} {spent} CP.")
    return said


def _way(old: Squad, new: Squad) -> str:
    """Distance and direction of a unit's anchor: "8.5 north-east"."""
    down, right = (new.cells[0][i] - old.cells[0][i] for i in (0, 1))
    octant = round(math.atan2(down, right) / (math.pi / 4)) % 8
    return f"{math.hypot(down, right):.1f}".removesuffix(".0") + f" {COMPASS[octant]}"


def _whose(squad: Squad, seat: int | None, *, capital: bool = True) -> str:
    """A unit with its owner: "Side 1's Captain (1)"."""
    owner = "Your" if squad.side == seat else f"Side {squad.side}'s"
    return f"{owner if capital else owner[0].lower() + owner[1:]} {called(squad)}"
