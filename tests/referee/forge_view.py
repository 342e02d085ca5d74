"""What a seat sees of a game of Magic, as arrays: the part of the referee of `tests/referee/forge.py` for cards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxrl.envs.forge import layout as at
from jaxrl.envs.forge.vocabulary import name_id, text_id

BASICS = ("plains", "island", "swamp", "mountain", "forest")
MOST_CARDS = 640  # of one decision; further ones are not seen
MOST_ITEMS = 64  # of the stack
LARGEST = 2**31 - 1
KIND_COLUMNS = {
    "stop": at.STOP,
    "land": at.PLAYS_LAND,
    "cast": at.CASTS_SPELL,
    "ability": at.USES_ABILITY,
    "card": at.IS_CARD,
    "player": at.IS_PLAYER,
    "spell": at.IS_SPELL,
    "text": at.IS_TEXT,
    "number": at.IS_NUMBER,
    "color": at.IS_COLOR,
    "yes": at.IS_YES,
}
ID_KEYWORDS = {"shroud": "hexproof", "ward": "hexproof", "protection": "hexproof"}


def ratio(a: float, b: float) -> np.float32:
    """a / b within the limit, divided in double precision."""
    return np.float32(min(max(float(a) / float(b), -at.LIMIT), at.LIMIT))


def whole(value: Any, otherwise: int = 0) -> int:
    """An integer of 32 bits; anything else is `otherwise`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return max(-LARGEST, min(LARGEST, value))


def cost_of(text: str) -> int:
    """The mana value of a cost such as "{2}{G}{W/U}"; X counts nothing."""
    total = 0
    for symbol in re.findall(r"\{([^{}]*)\}", text):
        digits = re.match(r"[0-9]+", symbol)
        if digits:
            total += min(int(digits[0]), 1000)
        elif symbol[:1] not in ("X", "Y", "Z", ""):
            total += 1
    return total


def keyword_of(text: str) -> str | None:
    """The keyword of our list that a text such as "Ward:2" or "Protection from red" is, None if it is another."""
    text = text.lower()
    if text.startswith("cardname can't be blocked"):
        return "unblockable"
    for word in (*at.KEYWORDS, *ID_KEYWORDS):
        if text == word or text.startswith((word + " ", word + ":")):
            return ID_KEYWORDS.get(word, word)
    return None


class View:
    """One decision's game_state in arrays, which the question is then written into.

    Attributes:
      cards: every card that is seen, in the order of the line, as its JSON with "zone" and "controller".
      stack: the items.
      globals, entities, options: the parts of the observation.
      unseen: cards of hand, battlefields and stack without a row.
    """

    def __init__(self, decision: dict[str, Any]):
        state = decision["game_state"]
        self.me = decision["seat"]
        self.state, self.players = state, {player["seat"]: player for player in state["players"]}
        self.stack = state.get("stack", [])[:MOST_ITEMS]
        self.combat = state.get("combat", [])
        self.cards = list(self._all_cards())[:MOST_CARDS]
        self.rows: dict[int, int] = {}  # card id -> row
        self.unseen = 0
        self.globals = np.zeros(at.GLOBALS, np.float32)
        self.entities = np.zeros((at.ENTITIES, at.ENTITY), np.float32)
        self.options = np.zeros((at.OPTIONS, at.OPTION), np.float32)
        self._write_globals(decision)
        self._place_cards()
        self._place_stack()

    def arrays(self) -> np.ndarray:
        return np.concatenate([self.globals, self.entities.ravel(), self.options.ravel()])

    # ---- cards ------------------------------------------------------------------------------------------------------

    def _all_cards(self) -> Iterable[dict[str, Any]]:
        for player in self.state["players"]:
            for zone in ("hand", "battlefield", "graveyard", "exile"):
                for card in player.get(zone, []):
                    yield card | {"zone": zone, "controller": player["seat"]}

    def find(self, card_id: Any) -> dict[str, Any] | None:
        for card in self.cards:
            if card.get("id") == card_id and card_id is not None and card_id >= 0:
                return card
        return None

    def find_item(self, card_id: Any) -> int | None:
        """The place in the stack of the first item of a card."""
        for place, item in enumerate(self.stack):
            if item.get("card_id") == card_id and card_id is not None and card_id >= 0:
                return place
        return None

    def card_row(self, card: dict[str, Any]) -> np.ndarray:
        """f32[CARD]."""
        row = np.zeros(at.CARD, np.float32)
        words = card.get("types", "").lower().split(" ")
        for column, name in enumerate(at.CARD_TYPES):
            row[at.FIRST_CARD_TYPE + column] = name in words
        row[at.MANA_VALUE] = ratio(whole(card.get("cmc")), 8)
        for column, letter in enumerate("WUBRG"):
            given = "land" in words and BASICS[column] in words
            row[at.FIRST_COLOR + column] = letter in card.get("colors", "") or given
        damage = whole(card.get("damage"))
        row[at.POWER] = ratio(whole(card.get("power")), 8)
        row[at.TOUGHNESS] = ratio(whole(card.get("toughness")) - damage, 8)
        row[at.DAMAGE], row[at.LOYALTY] = ratio(damage, 8), ratio(whole(card.get("loyalty")), 8)
        plus, others = 0, 0
        for name, number in card.get("counters", {}).items():
            if name in ("P1P1", "M1M1"):
                plus += whole(number) if name == "P1P1" else -whole(number)
            elif name != "LOYALTY":
                others += whole(number)
        row[at.PLUS], row[at.COUNTERS] = ratio(plus, 4), ratio(others, 4)
        row[at.TAPPED], row[at.SICK] = card.get("tapped") is True, card.get("summoning_sick") is True
        row[at.TOKEN] = card.get("token") is True
        row[at.MINE] = card["controller"] == self.me
        row[at.OWN] = whole(card.get("owner"), card["controller"]) == self.me
        self._write_combat(row, card)
        row[at.ATTACHMENTS] = ratio(len(card.get("attachments", [])), 2)
        row[at.ATTACHED] = whole(card.get("attached_to"), -1) >= 0
        other_keywords = 0
        for text in card.get("keywords", []):
            name = keyword_of(text)
            if name is None:
                other_keywords += 1
                continue
            row[at.FIRST_KEYWORD + at.KEYWORDS.index(name)] = 1
            if name == "double strike":
                row[at.FIRST_KEYWORD + at.KEYWORDS.index("first strike")] = 1
        row[at.OTHER_KEYWORDS] = ratio(other_keywords, 4)
        return row

    def _write_combat(self, row: np.ndarray, card: dict[str, Any]) -> None:
        if card["zone"] != "battlefield":
            return
        for attack in self.combat:
            if attack.get("attacker") == card.get("id"):
                row[at.ATTACKING] = 1
                row[at.BLOCKED] = ratio(len(attack.get("blockers", [])), 2)
            if card.get("id") in attack.get("blockers", []):
                row[at.BLOCKING] = 1

    def seat_of(self, target: dict[str, Any]) -> int | None:
        """Whom a target is or belongs to."""
        if target.get("kind") == "player":
            return target.get("id")
        if target.get("kind") == "spell":
            place = self.find_item(target.get("id"))
            return None if place is None else self.stack[place].get("controller")
        card = self.find(target.get("id"))
        return None if card is None else card["controller"]

    def _aims(self, row: np.ndarray, targets: list[dict[str, Any]]) -> None:
        seats = [self.seat_of(target) for target in targets]
        row[at.AIMS_AT_ME] = ratio(seats.count(self.me), 2)
        row[at.AIMS_AT_THEM] = ratio(seats.count(1 - self.me), 2)

    # ---- entities ---------------------------------------------------------------------------------------------------

    def entity_row(self, card: dict[str, Any]) -> np.ndarray:
        """f32[ENTITY], without the marks of the question."""
        row = np.zeros(at.ENTITY, np.float32)
        row[: at.CARD] = self.card_row(card)
        row[at.PRESENT] = 1
        row[at.FIRST_ZONE + at.ZONES.index(card["zone"])] = 1
        row[at.FACE_DOWN] = card.get("face_down") is True
        row[at.ENTITY_ID] = name_id(card.get("name", ""))
        if card["zone"] == "battlefield":
            targets = [{"kind": "card", "id": card["attached_to"]}] if whole(card.get("attached_to"), -1) >= 0 else []
            targets += [a["defender"] for a in self.combat if a.get("attacker") == card.get("id") and "defender" in a]
            self._aims(row, targets)
        return row

    def _place_cards(self) -> None:
        def of(seat: int, zone: str) -> list[dict[str, Any]]:
            return [card for card in self.cards if card["controller"] == seat and card["zone"] == zone]

        def lands_last(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return sorted(cards, key=lambda card: self.card_row(card)[1] == 1)

        mine, theirs = of(self.me, "battlefield"), of(1 - self.me, "battlefield")
        self._place(of(self.me, "hand"), at.HAND_ROW, at.HAND_ROWS)
        self._place(lands_last(mine), at.MY_BATTLEFIELD_ROW, at.BATTLEFIELD_ROWS)
        self._place(lands_last(theirs), at.THEIR_BATTLEFIELD_ROW, at.BATTLEFIELD_ROWS)
        for seat, first in ((self.me, at.MY_GRAVEYARD_ROW), (1 - self.me, at.THEIR_GRAVEYARD_ROW)):
            newest = of(seat, "graveyard")[::-1]
            self._place(newest[: at.GRAVEYARD_ROWS], first, at.GRAVEYARD_ROWS)

    def _place(self, cards: list[dict[str, Any]], first: int, count: int) -> None:
        for row, card in enumerate(cards[:count], first):
            self.entities[row] = self.entity_row(card)
            if card.get("id", -1) >= 0:
                self.rows.setdefault(card["id"], row)
        self.unseen += max(0, len(cards) - count)

    def item_card(self, item: dict[str, Any]) -> dict[str, Any]:
        """The card of a stack item: its own, else the one elsewhere whose ability it is."""
        card = item["card"] if isinstance(item.get("card"), dict) else self.find(item.get("card_id"))
        seat = {"zone": "stack", "controller": item.get("controller")}
        return (card or {}) | {"name": item.get("name", ""), "id": item.get("card_id", -1)} | seat

    def _place_stack(self) -> None:
        for row, item in enumerate(self.stack[: at.STACK_ROWS], at.STACK_ROW):
            self.entities[row] = self.entity_row(self.item_card(item))
            self._aims(self.entities[row], item.get("targets", []))
        self.unseen += max(0, len(self.stack) - at.STACK_ROWS)

    def mark(self, card_id: int, column: int, value: float) -> None:
        """Writes into the row of a card, if it has one."""
        if card_id in self.rows:
            self.entities[self.rows[card_id], column] = value

    def show_subject(self, card_id: int, name: str) -> None:
        """What the question is about, in its own row and marked in the other one."""
        place = self.find_item(card_id)
        card = self.find(card_id)
        if card is None and place is not None:
            card = self.item_card(self.stack[place])
        if card is None:
            self.show_text(None)
            self.entities[at.SUBJECT_ROW, at.ENTITY_ID] = name_id(name)
            return
        self.entities[at.SUBJECT_ROW] = self.entity_row(card)
        self.entities[at.SUBJECT_ROW, at.SUBJECT] = 1
        self.mark(card_id, at.SUBJECT, 1.0)

    def show_text(self, text: str | None) -> None:
        """A question about no card."""
        row = self.entities[at.SUBJECT_ROW]
        row[at.PRESENT] = row[at.SUBJECT] = 1
        row[at.ENTITY_ID] = text_id(text) if text else 0

    # ---- options ----------------------------------------------------------------------------------------------------

    def card_option(self, card_id: Any, name: str, own: Any = None, zone: str = "", controller: Any = None) -> dict:
        """An option that is a card, wherever it is; `own` is its JSON if it is nowhere to be seen."""
        card = self.find(card_id)
        if card is None and isinstance(own, dict):
            where = zone.lower() if zone.lower() in at.ZONES else "library"
            card = own | {"zone": where, "controller": whole(controller, whole(own.get("owner"), -1))}
        if card is None:
            where = zone.lower() if zone.lower() in at.ZONES else "library"
            card = {"zone": where, "controller": whole(controller, -1), "owner": -1}
        return {"kind": "card", "card": card, "entity": self.rows.get(card_id, 0), "name": name}

    def option(self, option: dict[str, Any]) -> dict[str, Any]:
        """An option of a question as `write_option` takes it."""
        kind, name = option.get("kind", "text"), option.get("name", "")
        identity = option.get("id", option.get("card_id"))
        if kind == "card":
            own, zone = option.get("card"), option.get("zone", "")
            return self.card_option(identity, name, own, zone, option.get("controller"))
        if kind == "player":
            return {"kind": kind, "seat": identity, "entity": 0}
        if kind == "spell":
            place = self.find_item(identity)
            found = {"kind": kind, "seat": option.get("controller"), "entity": 0, "name": name}
            if place is not None:
                found |= {"card": self.item_card(self.stack[place]), "seat": self.stack[place].get("controller")}
                found["entity"] = at.STACK_ROW + place if place < at.STACK_ROWS else 0
            return found
        if kind == "number":
            return {"kind": kind, "number": int(name) if re.fullmatch(r"-?[0-9]{1,9}", name) else 0, "entity": 0}
        if kind == "color":
            return {"kind": kind, "color": name, "text": name, "entity": 0}
        return {"kind": "text", "text": option.get("description") or name, "entity": 0}

    def action(self, action: dict[str, Any]) -> dict[str, Any]:
        """An action of choose_action as `write_option` takes it."""
        kind = {"land": "land", "ability": "ability", "spell": "cast"}.get(action.get("kind", ""))
        kind = kind or ("land" if action.get("is_land") is True else "cast")
        card = self.find(action.get("card_id"))
        found = {"kind": kind, "entity": self.rows.get(action.get("card_id"), 0)}
        found["cost"] = cost_of(action.get("mana_cost", ""))
        if card is not None:
            found["card"] = card
        if kind == "ability":
            return found | {"text": action.get("description", "")}
        return found | {"name": action.get("card", "")}

    def write_option(self, index: int, option: dict[str, Any]) -> None:
        row, kind = self.options[index], option["kind"]
        row[at.VALID] = 1
        row[KIND_COLUMNS[kind]] = 1
        if "card" in option:
            row[: at.CARD] = self.card_row(option["card"])
            row[at.FIRST_OPTION_ZONE + at.ZONES.index(option["card"]["zone"])] = 1
        if "seat" in option:
            row[at.ME], row[at.THEM] = option["seat"] == self.me, option["seat"] == 1 - self.me
        if kind == "color" and option["color"] in at.COLORS:
            row[at.FIRST_COLOR + at.COLORS.index(option["color"])] = 1
        row[at.COST] = ratio(option.get("cost", 0), 8)
        row[at.NUMBER] = ratio(option.get("number", 0), 10)
        row[at.TAKEN] = option.get("taken", 0)
        row[at.OPTION_ENTITY] = 1 + option["entity"] if option.get("entity") else 0
        row[at.OPTION_ID] = name_id(option.get("name", "")) or (text_id(option["text"]) if option.get("text") else 0)

    # ---- globals ----------------------------------------------------------------------------------------------------

    def _write_globals(self, decision: dict[str, Any]) -> None:
        state, out = self.state, self.globals
        out[at.TURN] = ratio(whole(state.get("turn")), 20)
        out[at.MY_TURN] = state.get("active") == self.me
        out[at.MY_PRIORITY] = state.get("priority") == self.me
        if state.get("phase") in at.PHASES:
            out[at.FIRST_PHASE + at.PHASES.index(state["phase"])] = 1
        self._write_player(out[at.FIRST_PLAYER :], self.me)
        self._write_player(out[at.FIRST_PLAYER + at.PLAYER :], 1 - self.me)
        out[at.STACK_SIZE] = ratio(len(state.get("stack", [])), 4)
        if self.stack:
            out[at.TOP_IS_MINE] = self.stack[0].get("controller") == self.me
            out[at.TOP_IS_THEIRS] = self.stack[0].get("controller") == 1 - self.me
        power, free = 0, 0
        for attack in self.combat:
            card = self.find(attack.get("attacker"))
            if card is not None:
                power += whole(card.get("power"))
                free += 0 if attack.get("blockers") else whole(card.get("power"))
                out[at.I_ATTACK] = card["controller"] == self.me
        out[at.ATTACKERS] = ratio(len(self.combat), 8)
        out[at.ATTACK_POWER], out[at.FREE_ATTACK_POWER] = ratio(power, 16), ratio(free, 16)

    def _write_player(self, out: np.ndarray, seat: int) -> None:
        player = self.players.get(seat)
        if player is None:
            return
        scales = {"life": 20, "poison": 10, "hand_size": 7, "library_size": 60}
        for column, (key, scale) in enumerate(scales.items()):
            out[column] = ratio(whole(player.get(key)), scale)
        out[at.GRAVEYARD] = ratio(len(player.get("graveyard", [])), 20)
        out[at.EXILE] = ratio(len(player.get("exile", [])), 20)
        sums = dict.fromkeys((at.LANDS, at.FREE_LANDS, *range(at.FREE_COLORS, at.LANDS_PLAYED)), 0)
        for card in self.cards:
            if card["controller"] == seat and card["zone"] == "battlefield":
                self._count(card, sums)
        for column, number in sums.items():
            scale = {at.OTHERS: 4, at.PLANESWALKERS: 2}.get(column, 8)
            scale = 16 if at.TOTAL_POWER <= column <= at.FLYING_POWER else scale
            scale = 4 if at.FREE_COLORS <= column < at.CREATURES else scale
            out[column] = ratio(number, scale)
        out[at.LANDS_PLAYED] = ratio(whole(player.get("lands_played")), 2)
        out[at.ENERGY] = ratio(whole(player.get("energy")), 8)
        for column, letter in enumerate("WUBRGC"):
            out[at.MANA + column] = ratio(player.get("mana_pool", "").count(letter), 4)

    def _count(self, card: dict[str, Any], sums: dict[int, int]) -> None:
        words = card.get("types", "").lower().split(" ")
        tapped, power = card.get("tapped") is True, whole(card.get("power"))
        if "land" in words:
            sums[at.LANDS] += 1
            sums[at.FREE_LANDS] += not tapped
            for column, name in enumerate(BASICS):
                sums[at.FREE_COLORS + column] += not tapped and name in words
        if "creature" in words:
            sums[at.CREATURES] += 1
            sums[at.FREE_CREATURES] += not tapped
            sums[at.TOTAL_POWER] += power
            sums[at.FREE_POWER] += 0 if tapped else power
            sums[at.TOTAL_TOUGHNESS] += whole(card.get("toughness")) - whole(card.get("damage"))
            flies = any(keyword_of(text) == "flying" for text in card.get("keywords", []))
            sums[at.FLYING_POWER] += power if flies else 0
        sums[at.PLANESWALKERS] += "planeswalker" in words
        sums[at.OTHERS] += not {"land", "creature", "planeswalker"} & set(words)
