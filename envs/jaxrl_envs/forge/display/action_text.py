"""Text of an answer to a decision: the rest of a sentence that begins with the player's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Called = Callable[[int | None, str], str]
"""The name of a card in text: (its id, its name) -> words."""


def plainly(card: int | None, name: str) -> str:
    """A `Called` that uses the card's name alone."""
    del card
    return name


def action_text(decision: Json, answer: str | None, called: Called = plainly) -> str:
    """Describes an answer as the rest of a sentence that begins with the player; "" if it does nothing."""
    kind = decision.get("decision_type", "")
    if answer is None:
        return "" if kind == "choose_action" else f"decides something ({kind})"
    if answer == "ai":
        return f"leaves it to Forge ({kind})"
    if answer.startswith("ai!"):
        return f"is played by Forge from here on ({answer[3:].strip() or 'default'})"
    try:
        return _meaning(kind, decision, answer.strip(), called)
    except (IndexError, KeyError, ValueError):
        return f"answers {answer!r} ({kind})"


def _meaning(kind: str, decision: Json, answer: str, called: Called) -> str:
    """Describes a valid answer; an invalid one raises IndexError, KeyError or ValueError."""
    source = decision.get("source") or {}
    about = f" for {called(source.get('card_id', source.get('id')), source['name'])}" if source.get("name") else ""
    match kind:
        case "choose_action":
            return _cast(decision["actions"][int(answer)], called) if int(answer) >= 0 else ""
        case "choose_targets":
            return f"targets {_listed(decision, answer, called)}{about}"
        case "order":
            return f"orders {_listed(decision, answer, called)}{about}"
        case "choose_mode" | "choose_ability" | "choose_cards" | "choose_entity" | "choose_color":
            return f"chooses {_listed(decision, answer, called)}{about}"
        case "declare_attackers":
            attacks = [_attack(decision, called, *part.split(":")) for part in answer.split(",") if part]
            return f"attacks with {', '.join(attacks)}" if attacks else ""
        case "declare_blockers":
            pairs = [map(int, part.split(":")) for part in answer.split(",") if part]
            both = [(decision["attackers"][a], decision["blockers"][b]) for b, a in pairs]
            blocks = [f"{_fighter(attacker, called)} with {_fighter(blocker, called)}" for attacker, blocker in both]
            return f"blocks {', '.join(blocks)}" if blocks else ""
        case "confirm_action" | "play_trigger":
            message = f" ({decision['message']})" if decision.get("message") else ""
            return f"says {'yes' if answer == 'y' else 'no'}{about}{message}"
        case "announce_value":
            return f"chooses {decision.get('name') or 'a number'} = {int(answer)}{about}"
        case "scry":
            place = "into the graveyard" if decision.get("bottom") == "graveyard" else "to the bottom"
            return f"looks at {len(decision['options'])} cards and puts {len(_numbers(answer))} {place}"
        case "mulligan":
            does = "takes a mulligan" if answer == "y" else "keeps"
            return f"{does} with {decision.get('hand_size', '?')} cards"
    raise KeyError(kind)


def _numbers(answer: str) -> list[int]:
    """The numbers of an answer like "0,2"; -1 chooses nothing."""
    return [int(part) for part in answer.split(",") if part.strip() and int(part) >= 0]


def _listed(decision: Json, answer: str, called: Called) -> str:
    """The names of the chosen options."""
    names = []
    for each in (decision["options"][index] for index in _numbers(answer)):
        if each.get("kind") == "card" and each.get("name"):
            names.append(called(each.get("id"), each["name"]))
        else:
            names.append(str(each.get("name") or each.get("description") or each.get("value") or each["index"]))
    return ", ".join(names) or "nothing"


def _cast(action: Json, called: Called) -> str:
    card = called(action.get("card_id"), action["card"]) if action.get("card") else action.get("description", "")
    if action.get("is_land"):
        return f"plays {card}"
    if action.get("kind") == "ability":
        return f"activates {card}: {action.get('description', '')}".rstrip(": ")
    return f"casts {card}{' for ' if action.get('mana_cost') else ''}{action.get('mana_cost', '')}"


def _fighter(creature: Json, called: Called) -> str:
    return called(creature.get("card_id"), creature["name"])


def _attack(decision: Json, called: Called, attacker: str, defender: str = "0") -> str:
    fields = decision["attackers"][int(attacker)]
    goal = fields.get("defenders", [{}])[int(defender)]
    return _fighter(fields, called) + (f" at {goal['name']}" if goal.get("kind") == "card" else "")
