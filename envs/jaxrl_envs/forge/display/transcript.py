"""Transcript of a recorded game: the players' actions and their effects as text.

    Turn 5, learner: life 20-14, hand 3-5, lands 4-4
      MAIN1  learner casts Goblin Guide for {R}
             Goblin Guide 2/2 enters the battlefield (learner)
      COMBAT_DECLARE_ATTACKERS  learner attacks with Goblin Guide 2/2
             random: life 14 -> 12 (Goblin Guide 2/2)

It holds only what the recorded seats were shown: in games against Forge's AI, the AI's moves appear by their effects.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from jaxrl_envs.forge.display.action_text import action_text
from jaxrl_envs.forge.display.diff_text import CardNames, StateChanges
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.shared.errors import UserError

Json = dict[str, Any]
OFFERED = {"choose_action": "actions", "choose_targets": "options", "declare_attackers": "attackers"}
INDENT = "  "
DETAIL = INDENT + " " * 7
LEGEND = """PHASE  player does something; indented further: its effects, until a player is asked again.
life, hand, lands: of both players, the first seat first; (in brackets behind life: what was seen to change it).
Name 2/2: power and toughness now; Name#7: the card with this number, where two on the table share a name.
"""


def transcript(conversation: Conversation, passes: bool = False) -> Iterator[str]:
    """The lines of a game's transcript; `passes`: with every decision to do nothing."""
    meta = conversation.meta
    decks = " vs ".join(map(recording.deck_name, meta.get("decks", ())))
    forge = f", Forge {meta['forge']}" if meta.get("forge") else ""
    yield f"{decks or 'A game'}, seed {meta.get('seed', 'unknown')}{forge}"
    writer, asked, names = TranscriptWriter(passes), set[int](), dict[str, str]()
    for line, _ in conversation.decisions():  # first: the players' names, and which cards share a name
        decision = recording.parsed(line)
        state = decision.get("game_state", {})
        writer.cards.see(state)
        asked |= {decision["seat"]} if "seat" in decision else set()
        names = names or labels([player.get("name", "") for player in state.get("players", [])], meta.get("players"))
    writer.cards.sizes.clear()
    writer.changes.watched = asked
    for text in _told(conversation, writer):
        for raw, label in names.items():
            text = text.replace(raw, label)
        yield text


def _told(conversation: Conversation, writer: TranscriptWriter) -> Iterator[str]:
    decisions = conversation.decisions()
    for line in conversation.lines:
        if line.startswith(b"< DECISION:") or (line.startswith(b"< INFO:") and b'"info_type":"observed"' in line[:64]):
            found, answer = next(decisions)
            yield from writer.tell(recording.parsed(found), answer)
        elif line.startswith(b"< INFO:") and b'"info_type":"reveal"' in line[:64]:
            yield from writer.reveal(recording.parsed(line[len(b"< INFO:") :]))
    yield f"Result: {conversation.result}" if conversation.complete else "The recording breaks off here."


def labels(seats: list[str], players: list[str] | None) -> dict[str, str]:
    """Labels of the seats of a game, by their names in it.

    Args:
      seats: those names, e.g. "Agent(1)-aggro".
      players: what they are, if that is known: "learner", "random", "snapshot 3", ...
    """
    known = players if players and len(players) == len(seats) else ["" for _ in seats]
    found = [each or ("Forge" if seat.startswith("Ai(") else seat) for each, seat in zip(known, seats, strict=True)]
    found = [re.sub(r"^forge(:|$)", r"Forge\1", each).replace(":", " ") for each in found]
    if len(set(found)) < len(found):
        found = [f"{each} {number}" for number, each in enumerate(found, 1)]
    return {seat: label for seat, label in zip(seats, found, strict=True) if seat and seat != label}


class TranscriptWriter:
    """Writes the transcript's lines: each decision, and the changes since the previous one."""

    def __init__(self, passes: bool = False):
        self.passes = passes
        self.turn = -1
        self.seats: dict[int, str] = {}  # their names
        self.cards = CardNames()
        self.changes = StateChanges(self.cards)

    def tell(self, decision: Json, answer: str | None) -> Iterator[str]:
        """The lines of one decision and of what happened before it."""
        state = decision.get("game_state", {})
        self.seats |= {player["seat"]: player["name"] for player in state.get("players", []) if "seat" in player}
        for change in self.changes.between(state):
            yield f"{DETAIL}{change}"
        if state.get("turn", self.turn) != self.turn and len(state.get("players", [])) == 2:
            self.turn = state["turn"]
            yield self._headline(state)
        what = action_text(decision, answer, self.cards.called)
        if what or self.passes:
            yield f"{INDENT}{decision.get('phase', '')}  {decision.get('player', '?')} {what or 'passes'}"
        if what and (answer or "")[:1].isdigit():
            self._remember(decision, str(answer))

    def _remember(self, decision: Json, answer: str) -> None:
        """Notes an answer as the possible cause of later changes."""
        chosen = [int(part.partition(":")[0]) for part in answer.split(",") if part[:1].isdigit()]
        offered = decision.get(OFFERED.get(decision.get("decision_type", ""), ""), [])
        picked = [offered[number] for number in chosen if number < len(offered)]
        match decision.get("decision_type"):
            case "choose_action":
                used = [each["card_id"] for each in picked if "card_id" in each and not each.get("is_land")]
                self.changes.done |= dict.fromkeys(used, 2)
            case "choose_targets":
                card = (decision.get("source") or {}).get("card_id", -1)
                self.changes.aims[card] = {each["id"] for each in picked if each.get("kind") == "player"}
            case "declare_attackers":
                attackers = [each["card_id"] for each in picked if "card_id" in each]
                self.changes.attack[1 - decision.get("seat", 0)] = attackers

    def reveal(self, told: Json) -> Iterator[str]:
        """Cards that the rules show to a seat."""
        names = ", ".join(str(card.get("name") or "a card") for card in told.get("cards", [])) or "nothing"
        message = f": {told['message']}" if told.get("message") else ""
        zone, owner = str(told.get("zone", "")).lower(), self._seat(told.get("owner"))
        yield f"{DETAIL}{self._seat(told.get('seat'))} is shown {names} ({zone} of {owner}){message}"

    def _seat(self, number: int | None) -> str:
        """The name of a seat, once its first state was seen."""
        return self.seats.get(-1 if number is None else number, f"seat {number}")

    def _headline(self, state: Json) -> str:
        players = state["players"]
        active = next((each["name"] for each in players if each["seat"] == state.get("active")), "no player")
        lands = [sum("Land" in card.get("types", "").split() for card in each["battlefield"]) for each in players]
        return (
            f"Turn {state['turn']}, {active}: life {players[0]['life']}-{players[1]['life']}, "
            f"hand {players[0]['hand_size']}-{players[1]['hand_size']}, lands {lands[0]}-{lands[1]}"
        )


# ---- jaxrl forge story ----------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `jaxrl forge story`."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="a recording, or a folder of recordings")
    parser.add_argument("--game", type=int, metavar="N", help="only the N-th game, from 1")
    parser.add_argument("--passes", action="store_true", help="with every decision to do nothing")


def main(args: argparse.Namespace) -> int:
    """Prints a legend and the transcripts of recordings."""
    number = 0
    print(LEGEND)
    for path in recording.find(args.paths):
        for conversation in recording.read(path):
            number += 1
            if args.game in (None, number):
                print("\n".join(transcript(conversation, args.passes)), end="\n\n" if args.game is None else "\n")
    if args.game is not None and not 1 <= args.game <= number:
        raise UserError(f"--game {args.game}: there are {number} games in it.")
    if number == 0:
        raise UserError(f"there is no game in {', '.join(map(str, args.paths))}.")
    return 0
