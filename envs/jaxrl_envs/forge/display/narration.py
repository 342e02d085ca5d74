"""Games of Magic in words: what the players do, and what has changed on the table.

    Turn 5, learner: life 20-14, hand 3-5, lands 4-4
      MAIN1  learner casts Goblin Guide for {R}
             Goblin Guide enters the battlefield (learner)
      COMBAT_DECLARE_ATTACKERS  learner attacks with Goblin Guide
             random: life 14 -> 12

Only what the recorded seats were shown is told: in games against Forge's AI, the AI's moves appear by their effects.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Collection, Iterator
from typing import Any

from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.shared.errors import UserError

Json = dict[str, Any]
ZONES = {"battlefield": "enters the battlefield", "graveyard": "goes to the graveyard", "exile": "is exiled"}
VERBS = {"ability": "activates", "trigger": "has a trigger of"}
INDENT = "  "
DETAIL = INDENT + " " * 7


class Narrator:
    """Tells one game, decision by decision."""

    def __init__(self) -> None:
        self._turn, self._before = -1, dict[str, Any]()
        self._cast: set[int] = set()  # cards whose use was told as an action, and need not be told on the stack

    def tell(self, decision: Json, answer: str | None) -> Iterator[str]:
        """Yields the lines of one decision and of what happened before it."""
        before, state = self._before, decision.get("game_state", {})
        self._before = state
        yield from (f"{DETAIL}{each}" for each in changes(before, state, self._cast))
        old, new = ({item.get("card_id") for item in each.get("stack", [])} for each in (before, state))
        self._cast -= old - new  # resolved, or countered
        if state.get("turn", self._turn) != self._turn and len(state.get("players", [])) == 2:
            self._turn = state["turn"]
            yield _headline(state)
        if what := action_text(decision, answer):
            yield f"{INDENT}{decision.get('phase', '')}  {decision.get('player', '?')} {what}"
        if decision.get("decision_type") == "choose_action" and (answer or "").isdigit():
            self._cast |= {each.get("card_id") for each in decision["actions"][int(answer or 0) :][:1]} - {None}


def told(conversation: Conversation) -> Iterator[str]:
    """Yields the lines of a recorded game."""
    meta, narrator, names = conversation.meta, Narrator(), dict[str, str]()
    decks = " vs ".join(map(recording.deck_name, meta.get("decks", ())))
    forge = f", Forge {meta['forge']}" if meta.get("forge") else ""
    yield f"{decks or 'A game'}, seed {meta.get('seed', 'unknown')}{forge}"
    for line, answer in conversation.decisions():
        decision = recording.parsed(line)
        players = [player.get("name", "") for player in decision.get("game_state", {}).get("players", [])]
        kinds = meta.get("players") or ()
        if not names and len({*kinds}) == len(players):
            names = {name: kind for name, kind in zip(players, kinds, strict=True) if name}
        for text in narrator.tell(decision, answer):
            for name, kind in names.items():
                text = text.replace(name, kind)
            yield text
    yield f"Result: {conversation.result}" if conversation.complete else "The recording breaks off here."


def _headline(state: Json) -> str:
    players = state["players"]
    active = next((each["name"] for each in players if each["seat"] == state.get("active")), "no player")
    lands = [sum("Land" in card.get("types", "").split() for card in each["battlefield"]) for each in players]
    return (
        f"Turn {state['turn']}, {active}: life {players[0]['life']}-{players[1]['life']}, "
        f"hand {players[0]['hand_size']}-{players[1]['hand_size']}, lands {lands[0]}-{lands[1]}"
    )


# ---- changes --------------------------------------------------------------------------------------------------------


def changes(before: Json, state: Json, known: Collection[int] = ()) -> Iterator[str]:
    """Sentences about the differences of two states that seats were shown.

    Args:
      before: the earlier state; empty: there is nothing to tell.
      state: the later one.
      known: cards on the stack that need no sentence.
    """
    if not before.get("players") or not state.get("players"):
        return
    where = {card["id"]: zone for player in before["players"] for zone in ZONES for card in player.get(zone, [])}
    for old, new in zip(before["players"], state["players"], strict=False):
        yield from _drawn(old, new, where)
    there = collections.Counter(map(_item, before.get("stack", [])))
    for item in reversed(state.get("stack", [])):  # the lowest came first
        there[_item(item)] -= 1
        if there[_item(item)] < 0 and not (item.get("kind") != "trigger" and item.get("card_id") in known):
            yield _put_on_the_stack(item, state)
    for old, new in zip(before["players"], state["players"], strict=False):
        for key in ("life", "poison", "energy"):
            if new.get(key, 0) != old.get(key, 0):
                yield f"{new['name']}: {key} {old.get(key, 0)} -> {new.get(key, 0)}"
    cards = [(card, zone, player) for player in state["players"] for zone in ZONES for card in player.get(zone, [])]
    for card, zone, player in cards:
        if where.get(card["id"]) != zone:
            yield f"{_name(card)} {ZONES[zone]} ({player['name']})"
    now = {card["id"] for card, _, _ in cards}
    gone = [each for player in before["players"] for each in player.get("battlefield", []) if each["id"] not in now]
    yield from (f"{_name(card)} leaves the battlefield" for card in gone)


def _drawn(old: Json, new: Json, where: Collection[int]) -> Iterator[str]:
    """Cards that came into a hand: by name where both states show it, else as a count."""
    if "hand" in old and "hand" in new:
        held = {card["id"] for card in old["hand"]} | set(where)
        if names := [_name(card) for card in new["hand"] if card["id"] not in held]:
            yield f"{new['name']} draws {', '.join(names)}"
        return
    count = old.get("library_size", 0) - new.get("library_size", 0)
    if count > 0 and new.get("hand_size", 0) > old.get("hand_size", 0):
        yield f"{new['name']} draws {count} card{'s' if count > 1 else ''}"


def _put_on_the_stack(item: Json, state: Json) -> str:
    who = state["players"][item.get("controller", 0)].get("name", "?")
    kind = item.get("kind", "spell")
    text = "" if kind == "spell" or not item.get("description") else f": {item['description']}"
    aims = [
        state["players"][aim["id"]].get("name", "?") if aim.get("kind") == "player" else aim.get("name") or "a card"
        for aim in item.get("targets", [])
    ]
    aimed = f" -> {', '.join(aims)}" if aims else ""
    return f"{who} {VERBS.get(kind, 'casts')} {item.get('name', 'a card')}{text}{aimed}"


def _item(item: Json) -> tuple[Any, Any, Any]:
    """Returns the identity of an item of the stack, equal for the same item in two states."""
    return item.get("card_id"), item.get("name"), item.get("description")


def _name(card: Json) -> str:
    return card["name"] or "a face-down card"


# ---- answers --------------------------------------------------------------------------------------------------------


def action_text(decision: Json, answer: str | None) -> str:
    """Describes an answer as the rest of a sentence that begins with the player; "" if it does nothing."""
    kind = decision.get("decision_type", "")
    if answer is None:
        return "" if kind == "choose_action" else f"decides something ({kind})"
    if answer == "ai":
        return f"leaves it to Forge ({kind})"
    if answer.startswith("ai!"):
        return f"is played by Forge from here on ({answer[3:].strip() or 'default'})"
    try:
        return _meaning(kind, decision, answer.strip())
    except (IndexError, KeyError, ValueError):
        return f"answers {answer!r} ({kind})"


def _meaning(kind: str, decision: Json, answer: str) -> str:
    """Describes a valid answer; an invalid one raises IndexError, KeyError or ValueError."""
    source = (decision.get("source") or {}).get("name")
    about = f" for {source}" if source else ""
    match kind:
        case "choose_action":
            return _cast(decision["actions"][int(answer)]) if int(answer) >= 0 else ""
        case "choose_targets":
            return f"targets {_listed(decision, answer)}{about}"
        case "order":
            return f"orders {_listed(decision, answer)}{about}"
        case "choose_mode" | "choose_ability" | "choose_cards" | "choose_entity" | "choose_color":
            return f"chooses {_listed(decision, answer)}{about}"
        case "declare_attackers":
            attacks = [_attack(decision, *part.split(":")) for part in answer.split(",") if part]
            return f"attacks with {', '.join(attacks)}" if attacks else ""
        case "declare_blockers":
            pairs = [map(int, part.split(":")) for part in answer.split(",") if part]
            both = [(decision["attackers"][a], decision["blockers"][b]) for b, a in pairs]
            blocks = [f"{attacker['name']} with {blocker['name']}" for attacker, blocker in both]
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
    """Returns the numbers of an answer like "0,2"; -1 chooses nothing."""
    return [int(part) for part in answer.split(",") if part.strip() and int(part) >= 0]


def _listed(decision: Json, answer: str) -> str:
    """Returns the names of the chosen options."""
    chosen = [decision["options"][index] for index in _numbers(answer)]
    names = [str(each.get("name") or each.get("description") or each.get("value") or each["index"]) for each in chosen]
    return ", ".join(names) or "nothing"


def _cast(action: Json) -> str:
    card = action.get("card") or action.get("description", "")
    if action.get("is_land"):
        return f"plays {card}"
    if action.get("kind") == "ability":
        return f"activates {card}: {action.get('description', '')}".rstrip(": ")
    return f"casts {card}{' for ' if action.get('mana_cost') else ''}{action.get('mana_cost', '')}"


def _attack(decision: Json, attacker: str, defender: str = "0") -> str:
    fields = decision["attackers"][int(attacker)]
    goal = fields.get("defenders", [{}])[int(defender)]
    return fields["name"] + (f" at {goal['name']}" if goal.get("kind") == "card" else "")


# ---- jaxrl forge story ----------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `jaxrl forge story`."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="a recording, or a folder of recordings")
    parser.add_argument("--game", type=int, metavar="N", help="only the N-th game, from 1")


def main(args: argparse.Namespace) -> int:
    """Prints recorded games."""
    number = 0
    for path in recording.find(args.paths):
        for conversation in recording.read(path):
            number += 1
            if args.game in (None, number):
                print(*told(conversation), sep="\n", end="\n\n" if args.game is None else "\n")
    if args.game is not None and not 1 <= args.game <= number:
        raise UserError(f"--game {args.game}: there are {number} games in it.")
    if number == 0:
        raise UserError(f"there is no game in {', '.join(map(str, args.paths))}.")
    return 0
