"""A game of Magic in a terminal: the table as one seat sees it, what it is asked, and actions in words."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxrl_envs.forge.display.narration import ZONES, action_text, changes
from jaxrl_envs.forge.engine.daemon_leases import seed_of
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.engine.state import ENDS, GameState
from jaxrl_envs.forge.wire.link import parsed

Json = dict[str, Any]
WIDTH = 100
ENOUGH = ("choose_targets", "choose_mode", "choose_cards", "scry")


class ForgePosition(NamedTuple):
    """A saved game as plain Python, for text.

    Attributes:
      how: way in which it ended, "running" if it did not.
      winner: a seat or None.
      asked: the seat that has to decide, -1: no seat.
      turn, seed: turn and seed of the game.
      decisions: last decision shown to each seat, None before its first question.
      question: the open one, or None.
    """

    how: str
    winner: int | None
    asked: int
    turn: int
    seed: int
    decisions: tuple[Json | None, ...]
    question: ForgeDecision | None


def position(state: GameState, lines: tuple[bytes | None, ...]) -> ForgePosition:
    """Returns the position of what `jaxrl_envs.forge.engine.games.look` returns."""
    decisions = tuple(None if line is None else parsed(line) for line in lines)
    asked, question = state.progress.asked, None
    if asked >= 0 and (line := lines[asked]) is not None:
        question = ForgeDecision(line)
        for action in state.actions[len(state.actions) - state.progress.partial :]:
            question.step(action)
    winner = state.winner if state.winner >= 0 else None
    return ForgePosition(ENDS[state.how], winner, asked, state.progress.turn, seed_of(state.key), decisions, question)


# ---- actions --------------------------------------------------------------------------------------------------------


def label(question: ForgeDecision, action: int) -> str:
    """Returns a legal action in words, as the rest of a sentence that begins with the player."""
    kind, decision = question.type, question.view.decision
    if kind in ("declare_attackers", "declare_blockers"):
        number, goals = question.pairing()
        if action == 0:
            name = decision[kind.removeprefix("declare_")][len(question.picks)]["name"]
            return f"keeps {name} back" if kind == "declare_attackers" else f"does not block with {name}"
        answer = f"{number}:{goals[action - 1]}"
    elif kind in ("confirm_action", "play_trigger", "mulligan"):
        answer = "ny"[action]
    elif kind == "announce_value":
        answer = str(question.first + action)
    elif kind == "choose_color":
        answer = str(question.index(action))
    elif action == 0:
        return "passes" if kind == "choose_action" else "chooses no more" if kind in ENOUGH else "chooses nothing"
    else:
        answer = str(question.index(action - 1))
    told = {"source": None, "message": ""} | ({"decision_type": "choose_cards"} if kind == "scry" else {})
    return shorten(action_text(decision | told, answer), WIDTH)


def shorten(text: str, width: int) -> str:
    """Returns the beginning of a text."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def event(before: ForgePosition, action: int, after: ForgePosition, seat: int | None, delegates: int) -> str:
    """Returns the events of a step, as `seat` was told them.

    Another seat than the one that decided is told what it sees itself: what has changed on the table since it was
    shown it last.

    Args:
      before, after: the positions around the step.
      action: action of the seat that was asked before.
      seat: the observer; None sees everything.
      delegates: the first action that leaves the seat to Forge's AI.
    """
    actor, end = before.asked, _ending(after)
    decision = before.decisions[actor]
    if seat is not None and seat != actor:
        return " ".join([*_changes(before.decisions[seat], after.decisions[seat], actor), *end])
    if action >= delegates or before.question is None or decision is None:
        return " ".join([f"Seat {actor} is played by Forge's AI from here on.", *end])
    return " ".join([f"{decision['player']} {label(before.question, action)}.", *end])


def _changes(old: Json | None, new: Json | None, actor: int) -> Iterable[str]:
    if new is None or new == old:
        return [f"Seat {actor} decides."]
    changed = changes((old or {}).get("game_state", {}), new.get("game_state", {}))
    return [f"{line}." for line in changed] or [f"Seat {actor} decides."]


def _ending(after: ForgePosition) -> list[str]:
    if after.how == "running":
        return []
    return [f"Seat {after.winner} wins." if after.winner is not None else f"The game is over: {after.how}."]


# ---- the table ------------------------------------------------------------------------------------------------------


def render_text(view: ForgePosition, seat: int | None = None) -> str:
    """Returns the table as `seat` sees it; None: as the seat that decides does, and the other one's hand."""
    shown = seat if seat is not None else view.asked if view.asked >= 0 else 0
    decision = view.decisions[shown]
    if decision is None and seat is None:
        shown, decision = 1 - shown, view.decisions[1 - shown]
    head = f"Game {view.seed}"
    if decision is None:
        return "\n".join([f"{head}: seat {shown} has seen nothing yet.", *_ending(view), *_question(view, seat)])
    state = decision["game_state"]
    phase = state.get("phase", "").lower().replace("_", " ")
    active = "your turn" if state.get("active") == shown else f"turn of seat {state.get('active')}"
    lines = [f"{head}, turn {state.get('turn')}, {phase}, {active}"]
    cards = [card for player in state["players"] for zone in (*ZONES, "hand") for card in player.get(zone, [])]
    names = {card["id"]: card["name"] or "a face-down card" for card in cards}
    for player in sorted(state["players"], key=lambda player: player["seat"] == shown):
        hand = player.get("hand")
        if hand is None and seat is None:
            hand = _own_hand(view.decisions[player["seat"]])
        lines += ["", *_player(player, player["seat"] == shown, hand, names)]
    lines += _stack(state, names) + _combat(state, names) + _question(view, seat) + _ending(view)
    return "\n".join(lines)


def _own_hand(decision: Json | None) -> list[Json] | None:
    players = decision["game_state"]["players"] if decision is not None else []
    return next((player["hand"] for player in players if "hand" in player), None)


def _player(player: Json, own: bool, hand: list[Json] | None, names: dict[int, str]) -> list[str]:
    mana = f", mana {player['mana_pool']}" if player.get("mana_pool") else ""
    poison = f", poison {player['poison']}" if player.get("poison") else ""
    lines = [
        f"{'you' if own else 'seat'} {player['name']}: life {player['life']}{poison}, hand {player['hand_size']}, "
        f"library {player['library_size']}, graveyard {len(player['graveyard'])}{mana}"
    ]
    lands = [card for card in player["battlefield"] if "Land" in card.get("types", "").split()]
    others = [card for card in player["battlefield"] if card not in lands]
    if lands:
        lines.append("  lands: " + ", ".join(_counted(_short(card) for card in lands)))
    lines += [f"  {text}" for text in _counted(_long(card, names) for card in others)]
    if hand is not None:
        cards = _counted(f"{card['name']} {card.get('mana_cost', '')}".strip() for card in hand)
        lines.append(f"  hand: {', '.join(cards) or 'empty'}")
    return lines


def _counted(texts: Iterable[str]) -> list[str]:
    """Returns equal texts once, with their number before them."""
    counts = collections.Counter(texts)
    return [text if number == 1 else f"{number} {text}" for text, number in counts.items()]


def _short(card: Json) -> str:
    return (card["name"] or "a face-down card") + (" (tapped)" if card.get("tapped") else "")


def _long(card: Json, names: dict[int, str]) -> str:
    words = [card["name"] or "a face-down card"]
    if "power" in card:
        words.append(f"{card['power']}/{card['toughness']}")
    if "loyalty" in card:
        words.append(f"loyalty {card['loyalty']}")
    notes = [shorten(text.split(":")[0].lower(), 30) for text in card.get("keywords", [])]
    notes += [f"{number} {name}" for name, number in card.get("counters", {}).items() if name != "LOYALTY"]
    notes += [f"damage {card['damage']}"] if card.get("damage") else []
    notes += [name for name in ("tapped", "token") if card.get(name)]
    notes += ["summoning sick"] if card.get("summoning_sick") and "power" in card else []
    if card.get("attached_to", -1) >= 0:
        notes.append(f"on {names.get(card['attached_to'], 'something')}")
    return " ".join(words) + (f" ({', '.join(notes)})" if notes else "")


def _stack(state: Json, names: dict[int, str]) -> list[str]:
    lines = []
    for item in state.get("stack", []):
        aims = [f"seat {t['id']}" if t["kind"] == "player" else names.get(t["id"], "a spell") for t in item["targets"]]
        aim = f" -> {', '.join(aims)}" if aims else ""
        lines.append(f"  {item['name']} of seat {item['controller']}{aim}")
    return ["", "stack, the top first:", *lines] if lines else []


def _combat(state: Json, names: dict[int, str]) -> list[str]:
    lines = []
    for attack in state.get("combat", []):
        blockers = ", ".join(names.get(each, "?") for each in attack["blockers"])
        lines.append(f"  {names.get(attack['attacker'], '?')}" + (f", blocked by {blockers}" if blockers else ""))
    return ["", "attackers:", *lines] if lines else []


def _question(view: ForgePosition, seat: int | None) -> list[str]:
    """Returns lines that name the seat asked; for the seat itself the question."""
    if view.question is None or view.question.answered:
        return []
    decision = view.decisions[view.asked]
    if decision is None or seat not in (None, view.asked):
        return ["", f"seat {view.asked} decides"]
    source = (decision.get("source") or {}).get("name", "")
    about = ", ".join(filter(None, [source, shorten(decision.get("message", ""), WIDTH)]))
    choices = [f"  {action}: {label(view.question, action)}" for action in view.question.legal]
    kind = view.question.type.replace("_", " ")
    return ["", f"seat {view.asked} decides: {kind}{f' ({about})' if about else ''}", *choices]
