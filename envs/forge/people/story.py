"""A recorded game as a text that people can read: who did what, and what came of it.

    Turn 5, Agent(1)-aggro: life 20-14, hand 3-5, lands 4-4
      MAIN1  Agent(1)-aggro casts Goblin Guide
             Goblin Guide enters the battlefield (Agent(1)-aggro)
      COMBAT_DECLARE_ATTACKERS  Agent(1)-aggro attacks with Goblin Guide
             Agent(2)-control: life 14 -> 12

Only what the recorded seats were shown is in it: in games that somebody plays against Forge's AI, the AI's moves are
seen by what they changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from jaxrl.envs.errors import UserError
from jaxrl.envs.forge.people import recording
from jaxrl.envs.forge.people.recording import Conversation

Json = dict[str, Any]
ZONES = {"battlefield": "enters the battlefield", "graveyard": "goes to the graveyard", "exile": "is exiled"}
INDENT = "  "
DETAIL = INDENT + " " * 7


def story(conversation: Conversation, passes: bool = False) -> Iterator[str]:
    """The lines of a game's story; `passes`: with every decision to do nothing."""
    meta = conversation.meta
    decks = " vs ".join(map(recording.deck_name, meta.get("decks", ())))
    forge = f", Forge {meta['forge']}" if meta.get("forge") else ""
    yield f"{decks or 'A game'}, seed {meta.get('seed', 'unknown')}{forge}"
    teller = Teller(passes)
    for line, answer in conversation.decisions():
        yield from teller.tell(recording.parsed(line), answer)
    yield f"Result: {conversation.result}" if conversation.complete else "The recording breaks off here."


class Teller:
    """Tells one decision after the other, and what has changed between them."""

    def __init__(self, passes: bool = False):
        self.passes = passes
        self.turn = -1
        self.state: Json = {}
        self.where: dict[int, str] = {}  # zone by card id, of the public zones
        self.names: dict[int, str] = {}  # of every card that was seen there

    def tell(self, decision: Json, answer: str | None) -> Iterator[str]:
        """The lines of one decision and of what happened before it."""
        state = decision.get("game_state", {})
        players = state.get("players", [])
        yield from self._changes(state)
        if state.get("turn", self.turn) != self.turn and len(players) == 2:
            self.turn = state["turn"]
            yield self._headline(state)
        what = deed(decision, answer)
        if what or self.passes:
            yield f"{INDENT}{decision.get('phase', '')}  {decision.get('player', '?')} {what or 'passes'}"

    def _headline(self, state: Json) -> str:
        players = state["players"]
        active = next((each["name"] for each in players if each["seat"] == state.get("active")), "nobody")
        lands = [sum("Land" in card.get("types", "").split() for card in each["battlefield"]) for each in players]
        return (
            f"Turn {state['turn']}, {active}: life {players[0]['life']}-{players[1]['life']}, "
            f"hand {players[0]['hand_size']}-{players[1]['hand_size']}, lands {lands[0]}-{lands[1]}"
        )

    def _changes(self, state: Json) -> Iterator[str]:
        """What is different from the state of the decision before."""
        before, self.state = self.state, state
        for old, new in zip(before.get("players", []), state.get("players", []), strict=False):
            for key in ("life", "poison", "energy"):
                if old.get(key, 0) != new.get(key, 0):
                    yield f"{DETAIL}{new['name']}: {key} {old.get(key, 0)} -> {new.get(key, 0)}"
        where: dict[int, str] = {}
        lines = []
        for player in state.get("players", []):
            for zone, words in ZONES.items():
                for card in player.get(zone, []):
                    name = self.names[card["id"]] = card["name"] or "a face-down card"
                    where[card["id"]] = zone
                    if before and self.where.get(card["id"]) != zone:
                        lines.append(f"{DETAIL}{name} {words} ({player['name']})")
        if before:
            gone = [each for each, zone in self.where.items() if zone == "battlefield" and each not in where]
            lines += [f"{DETAIL}{self.names[each]} leaves the battlefield" for each in gone]
        self.where = where
        yield from lines


# ---- decisions in words ---------------------------------------------------------------------------------------------


def deed(decision: Json, answer: str | None) -> str:
    """What an answer means, as the rest of a sentence that begins with the player; "" if nothing is done."""
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
    """What a usable answer means; others raise IndexError, KeyError or ValueError."""
    source = (decision.get("source") or {}).get("name")
    about = f" for {source}" if source else ""
    match kind:
        case "choose_action":
            return played(decision["actions"][int(answer)]) if int(answer) >= 0 else ""
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
            blocks = [f"{decision['attackers'][a]['name']} with {decision['blockers'][b]['name']}" for b, a in pairs]
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


def _listed(decision: Json, answer: str) -> str:
    """What the chosen options are called."""
    chosen = [decision["options"][index] for index in _numbers(answer)]
    names = [str(each.get("name") or each.get("description") or each.get("value") or each["index"]) for each in chosen]
    return ", ".join(names) or "nothing"


def played(action: Json) -> str:
    """An action of choose_action, as the rest of a sentence."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `jaxrl forge story`."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="a recording, or a folder of recordings")
    parser.add_argument("--game", type=int, metavar="N", help="only the N-th game, from 1")
    parser.add_argument("--passes", action="store_true", help="with every decision to do nothing")


def main(args: argparse.Namespace) -> int:
    """Prints the games of recordings."""
    number = 0
    for path in recording.find(args.paths):
        for conversation in recording.read(path):
            number += 1
            if args.game in (None, number):
                print("\n".join(story(conversation, args.passes)), end="\n\n" if args.game is None else "\n")
    if args.game is not None and not 1 <= args.game <= number:
        raise UserError(f"--game {args.game}: there are {number} games in it.")
    if number == 0:
        raise UserError(f"there is no game in {', '.join(map(str, args.paths))}.")
    return 0
