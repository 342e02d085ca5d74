"""What a seat is told and must not be: a check of conversations in which the client holds both seats.

`leaks(conversation)` knows each hand from that seat's own decisions, and looks at every line to the other seat. A card
may be named to a seat once it was in its own hand, in a public zone or on the stack, was revealed to it, or was offered
to it by an effect that searches or looks at cards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jaxrl_envs.forge.recordings.recording import Conversation

ALIAS = 1_000_000  # cards that a seat must not know have numbers from here on, which say nothing about the card
PUBLIC = ("battlefield", "graveyard", "exile")
REVEALING = ("Telepathy",)  # permanents of a seat that show it the other hand
LOOKING = ("choose_cards", "choose_entity", "choose_targets", "order", "scry")  # decisions that may show hidden cards
# lines to no seat: of a name that the next line has, and of a game that is over
UNSEATED = tuple(b'< INFO:{"info_type":"%s"' % kind for kind in (b"facts", b"left"))
Json = dict[str, Any]


class Line:
    """A line of the daemon, to one seat."""

    def __init__(self, number: int, text: str, answer: str):
        self.number, self.text, self.answer = number, text, answer
        self.fields: Json = json.loads(text.partition(":")[2])
        self.seat: int = self.fields["seat"]
        self.asks = text.startswith("DECISION:")
        self.state: Json = self.fields.get("game_state", {})

    @property
    def hand(self) -> dict[int, str]:
        """The hands that it may see, its own and that of a player whom it controls, name by id."""
        own = (self.seat, self.state.get("controls"))
        return {
            card["id"]: card["name"]
            for each in self.state.get("players", [])
            for card in each.get("hand", [])
            if each["seat"] in own
        }

    @property
    def revealed(self) -> dict[int, str]:
        """What it knows at a glance, name by id."""
        own = [each for each in self.state.get("players", []) if each["seat"] == self.seat]
        sees = any(card["name"] in REVEALING for each in own for card in each["battlefield"])
        return {card["id"]: card["name"] for card in self.state["known"]} if sees else {}

    @property
    def in_the_open(self) -> dict[int, str]:
        """The cards that both seats see, name by id."""
        cards = [card for each in self.state.get("players", []) for zone in PUBLIC for card in each[zone]]
        return {card["id"]: card["name"] for card in cards if "face_down" not in card}

    def made(self) -> dict[int, str]:
        """The source that it is asked about, where the engine has made it in the open: an emblem, or a copy of a spell
        on the stack that is not there itself yet."""
        source, stack = self.fields.get("source", {}), {item["name"] for item in self.state.get("stack", [])}
        name = source.get("name", "")
        emblem = name.endswith(" Emblem") or name.startswith("Emblem - ")  # by the version of Forge
        return {source["card_id"]: name} if "card_id" in source and (name in stack or emblem) else {}

    def without(self, field: str) -> str:
        """Returns the line in JSON without one of its fields."""
        return json.dumps({key: each for key, each in self.fields.items() if key != field}, ensure_ascii=False)

    def shown(self) -> dict[int, str]:
        """Returns the cards that the line may tell of for themselves, name by id."""
        found = dict(self.hand)
        for player in self.state.get("players", []):
            found |= {card["id"]: card["name"] for zone in PUBLIC for card in player[zone]}
        found |= {item["card_id"]: item["name"] for item in self.state.get("stack", [])}
        found |= self.made()
        # its own cards that it put back, in a mulligan without a question, say
        found |= {card["id"]: card["name"] for card in self.state.get("known", []) if card["owner"] == self.seat}
        if self.fields.get("info_type") == "reveal":
            found |= {card["id"]: card["name"] for card in self.fields.get("cards", [])}
        elif self.fields.get("decision_type") in LOOKING:
            found |= {each["id"]: each["name"] for each in self.fields.get("options", []) if "card" in each}
        return found


def lines_of(conversation: Conversation) -> list[Line]:
    """Returns the lines of a conversation that tell a seat something."""
    found = []
    for number, line in enumerate(conversation.lines):
        if line.startswith((b"< DECISION:", b"< INFO:")) and not line.startswith(UNSEATED):
            after = conversation.lines[number + 1] if number + 1 < len(conversation.lines) else b""
            found.append(Line(number, line[2:].decode(), after[2:].decode() if after.startswith(b"> ") else ""))
    return found


def ids_in(fields: Json) -> set[int]:
    """Returns every id of a card in a line, wherever it stands."""
    return {each for each in _ids(fields) if 0 <= each < ALIAS}


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("id", "card_id", "attacker", "attached_to"):
                if value.get("kind") != "player":
                    yield each
            elif name == "attachments" or (name == "blockers" and "attacker" in value):
                yield from each
            else:
                yield from _ids(each)
    elif isinstance(value, list):
        for each in value:
            yield from _ids(each)


def leaks(conversation: Conversation) -> list[str]:
    """Returns what is wrong with a conversation, in words."""
    lines, found = lines_of(conversation), []
    owned = names_by_owner(lines)
    known: tuple[dict[int, str], dict[int, str]] = ({}, {})  # by seat: the cards it has been told of
    for place, line in enumerate(lines):
        seat, where = line.seat, f"line {line.number + 1}, to seat {line.seat}"
        for player in line.state.get("players", []):
            if ("hand" in player) != (player["seat"] in (seat, line.state.get("controls"))) or "library" in player:
                found.append(f"{where}: shows the cards of a hand or a library of seat {player['seat']}")
        if line.state and line.state["you"] != seat:
            found.append(f"{where}: is the view of seat {line.state['you']}")
        shown = line.shown()
        known[seat].update(line.revealed)
        seen = line.in_the_open  # played, and back in hand by the next question
        hidden = {card: name for card, name in hand_around(lines, place, 1 - seat).items() if card not in seen}
        offered = {each["id"] for each in line.fields.get("options", []) if each.get("zone") == "Hand"}
        for card in hidden.keys() & ids_in(line.fields) - known[seat].keys() - line.hand.keys() - offered:
            if line.asks:  # not a reveal
                found.append(f"{where}: {hidden[card]} ({card}) is in the other hand")
        found += [f"{where}: {each} is not where the seat knows it" for each in misplaced(line, lines, place)]
        known[seat].update(shown)
        known[1 - seat].update(line.in_the_open)  # it is not asked at once, but sees what comes and goes
        for card in ids_in(line.fields) - known[seat].keys():
            found.append(f"{where}: card {card} was never shown to this seat")
        names = owned[1 - seat] - owned[seat] - set(known[seat].values())
        text = line.text
        if line.fields.get("decision_type") == "choose_ability":  # names of the own deck may be offered
            text = line.without("options")
        elif line.fields.get("info_type") == "reveal":  # it says what reveals, which resolves
            text = line.without("message")
        for name in {name for name in known[seat].values() if any(each in name for each in names)}:
            text = text.replace(name, "")  # a Shock in a Sudden Shock
        found += [f"{where}: names {name}" for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    return found + looked_at(lines)


def misplaced(line: Line, lines: list[Line], place: int) -> list[str]:
    """Returns cards that a seat is told to know of, but that lie in the open or are not in the other hand."""
    players = line.state.get("players", [])
    public = {card["id"] for player in players for zone in PUBLIC for card in player[zone]} | line.hand.keys()
    last = next((at for at in range(place - 1, -1, -1) if lines[at].asks and lines[at].seat != line.seat), place)
    held = set(lines[last].hand) if last < place else set()
    for each in lines[last : place + 1]:  # what was drawn meanwhile may have been shown, and be gone before it is asked
        held |= each.shown().keys() if held and each.seat == line.seat else set()
    after = first_asked(lines[place:], 1 - line.seat)
    held |= after.hand.keys() | after.in_the_open.keys() if after else set()  # it may have been discarded at once
    return [
        card["name"]
        for card in line.state.get("known", [])
        if card["id"] in public or (card["zone"] == "Hand" and last < place and after and card["id"] not in held)
    ]


def names_by_owner(lines: list[Line]) -> tuple[set[str], set[str]]:
    """Returns the names of all cards of each player that a seat has seen."""
    found: tuple[set[str], set[str]] = (set(), set())

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("name") and value.get("owner") in (0, 1):
                found[value["owner"]].add(value["name"])
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    for line in lines:
        walk(line.fields)
    return found


def first_asked(lines: Iterable[Line], seat: int) -> Line | None:
    """Returns the first of the lines that asks a seat."""
    return next((each for each in lines if each.asks and each.seat == seat), None)


def hand_around(lines: list[Line], place: int, seat: int) -> dict[int, str]:
    """Returns the cards that a seat holds before and after a line, without the one it has just played."""
    before, after = first_asked(reversed(lines[:place]), seat), first_asked(lines[place:], seat)
    if before is None or after is None:
        return {}
    actions = before.fields.get("actions", [])
    played = actions[int(before.answer)]["card_id"] if actions and re.fullmatch(r"\d+", before.answer) else -1
    return {card: name for card, name in before.hand.items() if card in after.hand and card != played}


def looked_at(lines: list[Line]) -> list[str]:
    """Returns cards that one seat scries and the other is told of at the same moment."""
    found = []
    for before, line in zip(lines, lines[1:], strict=False):
        if line.fields.get("decision_type") == "scry" and "cards" in before.fields and before.seat != line.seat:
            cards = {each["id"] for each in line.fields["options"]} & {each["id"] for each in before.fields["cards"]}
            found += [
                f"line {before.number + 1}: tells seat {before.seat} of {card}, which is scried" for card in cards
            ]
    return found
