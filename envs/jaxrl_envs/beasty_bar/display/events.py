"""Text of one turn of Beasty Bar, in sentences for people, as one seat could see it."""

from __future__ import annotations

import jax.numpy as jnp

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.display.position import look, queue_codes, species
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared.display.seats import conjugated, does


def describe(env: Env, before: State, action: int, after: State, seat: int | None = None) -> str:
    """Returns a turn as sentences: the card and its choice, animals into the bar or thrown out, the draw, the end.

    Args:
      env: the `BeastyBar` of the states.
      before, after: the states around the turn, one game.
      action: action of ``before.current_player``.
      seat: the reader, called "you"; None is told everything. The card that another seat draws stays secret.
    """
    del env
    actor = int(before.current_player)
    if bool(after.illegal_action):
        return f"{does(actor, seat, 'choose')} an illegal action: the game is over."
    old, new = before.game, after.game
    said = [f"{does(actor, seat, 'play')} {_play(before, action, seat)}."]
    entered, thrown = _arrived(old.table.bar, new.table.bar), _arrived(old.table.out, new.table.out)
    if thrown:
        said.append(f"{_sentence(_names(thrown, seat))} {'are' if len(thrown) > 1 else 'is'} thrown out.")
    if entered:
        said.append(f"{_sentence(_names(entered, seat))} enter the bar.")
    drawn = _arrived(old.hands, new.hands)
    if drawn and seat in (None, actor):
        said.append(f"{does(actor, seat, 'draw')} the {c.card_name(drawn[0])}.")
    if bool(after.terminated):
        said.append(_end(after, seat))
    return " ".join(said)


def _play(before: State, action: int, seat: int | None) -> str:
    """Returns the card and its choice in words."""
    queue = before.game.table.queue
    play, found = rules.decode(queue, jnp.int32(action)), queue_codes(queue)
    text = f"the {c.NAMES[int(play.strength) - 1]}"
    kind, place = int(play.acts_as), int(play.copied)
    if place < len(found):
        text += f" as {_names([found[place]], seat)}"
    if kind == c.KANGAROO:
        hop = int(play.hop)
        return text + (f", hopping over {hop} card{'s' * (hop > 1)}" if hop else " into the empty queue")
    if kind == c.PARROT and int(play.victim) < len(found):
        return text + f" against {_names([found[int(play.victim)]], seat)}"
    return text


def _end(after: State, seat: int | None) -> str:
    table = look(after, seat)
    high, low = sorted((entry.points for entry in table.seats), reverse=True)
    if table.leader is None:
        return f"The game is over: a draw, {high} to {low}."
    verb = conjugated(table.leader, seat, "win")
    return f"The game is over: {table.name(table.leader)} {verb} {high} to {low}."


def _arrived(before, after) -> list[int]:
    """Returns the codes of the cards that are in the second set and not in the first."""
    new = int(after) & ~int(before)
    return [c.SPECIES * seat + strength - 1 for seat in range(2) for strength in species(new, seat)]


def _names(codes: list[int], seat: int | None) -> str:
    """Cards with their owners: "your lion and seat 1's skunk"."""
    names = []
    for code in codes:
        owner = code // c.SPECIES
        possessive = "your" if owner == seat else f"seat {owner}'s"
        names.append(f"{possessive} {c.card_name(code)}")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
