"""What a seat sees of a game of Magic, as arrays: the part of the referee of
`tests/jaxrl_envs/forge/referee/forge.py` for cards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.encoding.vocabulary import text_id
from tests.jaxrl_envs.forge.referee.forge_facts import NameKind, Tables, Told
from tests.jaxrl_envs.forge.referee.forge_globals import write_globals
from tests.jaxrl_envs.forge.referee.forge_words import (
    BASICS,
    cost_of,
    counters_of,
    keyword_of,
    ratio,
    sort,
    types_of,
    whole,
    zone_of,
)

MOST_CARDS = 640  # of one decision; further ones are not seen
MOST_ITEMS = 64  # of the stack


class View:
    """One decision's game_state in arrays, which the question is then written into.

    Attributes:
      cards: every card that is seen, in the order of the line, as its JSON with "zone" and "controller".
      others: cards that are known or offered without being seen.
      stack: the items, as cards.
      globals, entities, options, tables: the parts of the observation.
      unseen: cards without a row.
    """

    def __init__(self, decision: dict[str, Any], told: Told | None = None):
        state = decision["game_state"]
        self.me = decision["seat"]
        self.names = (told or Told()).seat(self.me)
        self.tables = Tables()
        self.state, self.players = state, {player["seat"]: player for player in state["players"]}
        self.combat = state.get("combat", [])
        self.cards = list(self._all_cards())[:MOST_CARDS]
        for card in self.cards:
            self.names.see(card.get("name", ""))
        self.others = list(self._known_cards(state.get("known", [])[:MOST_CARDS]))
        self.items = state.get("stack", [])[:MOST_ITEMS]
        self.stack = [self.item_card(item) for item in self.items]
        self.others += self._offered_cards(decision.get("options", [])[:MOST_CARDS])
        self.rows: dict[int, int] = {}  # id of a card object here -> row
        self.counts: dict[int, int] = {}  # row -> cards in it
        self.unseen = 0
        self.globals = np.zeros(at.GLOBALS, np.float32)
        self.entities = np.zeros((at.ENTITIES, at.ENTITY), np.float32)
        self.options = np.zeros((at.OPTIONS, at.OPTION), np.float32)
        write_globals(self)
        self._place_all()

    def arrays(self) -> np.ndarray:
        for row, card in self.placed.items():
            marks = self.entities[row].copy()
            self.entities[row] = self.entity_row(card) + marks
            self.entities[row, at.COUNT] = ratio(self.counts[row], 4)
            if card["zone"] == "hand" and card["controller"] == self.me and "land" not in types_of(card):
                self.entities[row, at.CASTABLE] = self.affords(card, now=True)
                self.entities[row, at.CASTABLE_NEXT] = self.affords(card, now=False)
        tables = (self.tables.kinds, self.tables.parts)
        return np.concatenate([part.ravel() for part in (self.globals, self.entities, self.options, *tables)])

    # ---- cards ------------------------------------------------------------------------------------------------------

    def _all_cards(self) -> Iterable[dict[str, Any]]:
        for player in self.state["players"]:
            for zone in ("hand", "battlefield", "graveyard", "exile"):
                for card in player.get(zone, []):
                    yield card | {"zone": zone, "controller": player["seat"]}

    def _known_cards(self, known: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        seen = {card.get("id", -1) for card in self.cards}
        for card in known:
            self.names.see(card.get("name", ""))
            if card.get("id", -1) >= 0 and card["id"] not in seen:
                seen.add(card["id"])
                place, zone = card.get("position"), zone_of(card.get("zone", ""))
                found = card | {"zone": zone, "controller": whole(card.get("owner"), -2), "known": True, "place": 0.0}
                if place is not None and zone == "library":
                    found["place"] = ratio(1, 1 + place if place >= 0 else place)
                yield found

    def _offered_cards(self, options: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        seen = {card.get("id", -1) for card in (*self.cards, *self.others, *self.stack)}
        for option in options:
            card_id = option.get("id", option.get("card_id", -1))
            if option.get("kind") != "card" or card_id < 0 or card_id in seen:
                continue
            seen.add(card_id)
            own = option.get("card", {"owner": -1})
            self.names.see(own.get("name", ""))
            name = own.get("name") or option.get("name", "")
            self.names.see(name)
            controller = whole(option.get("controller"), whole(own.get("owner"), -1))
            where = {"zone": zone_of(option.get("zone", "")), "controller": controller}
            yield own | {"id": card_id, "name": name} | where

    def find(self, card_id: Any) -> dict[str, Any] | None:
        for card in (*self.cards, *self.others):
            if card.get("id") == card_id and card_id is not None and card_id >= 0:
                return card
        return None

    def find_spell(self, card_id: Any) -> dict[str, Any] | None:
        """The first on the stack."""
        for card in self.stack:
            if card.get("id") == card_id and card_id is not None and card_id >= 0:
                return card
        return None

    def item_card(self, item: dict[str, Any]) -> dict[str, Any]:
        """The card of a stack item: its own, else the one elsewhere whose ability it is."""
        card = item["card"] if isinstance(item.get("card"), dict) else self.find(item.get("card_id"))
        card = {key: value for key, value in (card or {}).items() if key not in ("known", "place")}
        self.names.see(card.get("name", ""))
        self.names.see(item.get("name", ""))
        seat = {"zone": "stack", "controller": item.get("controller"), "item": item}
        return card | {"name": item.get("name", ""), "id": item.get("card_id", -1)} | seat

    def row_of(self, card: dict[str, Any] | None) -> int:
        """1 + its row, 0: none."""
        row = 0 if card is None else self.rows.get(id(card), 0)
        return 1 + row if row else 0

    def makes(self, card: dict[str, Any]) -> set[str]:
        """Letters of the mana that it can make."""
        words, kind = types_of(card), self.names.kind(card.get("name", ""))
        basics = {letter for letter, basic in zip("WUBRG", BASICS, strict=True) if basic in words}
        return (kind.makes if kind else set()) | (basics if "land" in words else set())

    def entity_row(self, card: dict[str, Any]) -> np.ndarray:
        """f32[ENTITY], without the marks of the question."""
        row = np.zeros(at.ENTITY, np.float32)
        words = types_of(card)
        row[at.CARD_TYPE_BITS] = sum(2**k for k, name in enumerate(at.CARD_TYPES) if name in words)
        colors = set(card.get("colors", "")) | (self.makes(card) if "land" in words else set())
        row[at.COLOR_BITS] = sum(2**k for k, letter in enumerate("WUBRG") if letter in colors)
        row[at.MANA_VALUE] = ratio(whole(card.get("cmc")), 8)
        damage = whole(card.get("damage"))
        row[at.POWER] = ratio(whole(card.get("power")), 8)
        row[at.TOUGHNESS] = ratio(whole(card.get("toughness")) - damage, 8)
        row[at.DAMAGE], row[at.LOYALTY] = ratio(damage, 8), ratio(whole(card.get("loyalty")), 8)
        plus, others = counters_of(card)
        row[at.PLUS], row[at.COUNTERS] = ratio(plus, 4), ratio(others, 4)
        row[at.TAPPED], row[at.SICK] = card.get("tapped") is True, card.get("summoning_sick") is True
        row[at.TOKEN], row[at.FACE_DOWN] = card.get("token") is True, card.get("face_down") is True
        row[at.MINE] = card["controller"] == self.me
        row[at.OWN] = whole(card.get("owner"), card["controller"]) == self.me
        row[at.KNOWN], row[at.POSITION] = card.get("known", False), card.get("place", 0.0)
        row[at.ATTACHMENTS] = ratio(len(card.get("attachments", [])), 2)
        row[at.ATTACHED] = whole(card.get("attached_to"), -1) >= 0
        names = [keyword_of(text) for text in card.get("keywords", [])]
        known = set(names) | ({"first strike"} if "double strike" in names else set())
        row[at.KEYWORD_BITS] = sum(2**k for k, name in enumerate(at.KEYWORDS) if name in known)
        row[at.OTHER_KEYWORDS] = ratio(names.count(None), 4)
        row[at.PRESENT], row[at.ZONE] = 1, 1 + at.ZONES.index(card["zone"])
        row[at.ENTITY_KIND] = self.tables.kind(self.names.kind(card.get("name", "")))
        if "item" in card:
            self._write_item(row, card, card["item"])
        self._write_combat(row, card)
        self._write_aims(row, card)
        return row

    def _write_item(self, row: np.ndarray, card: dict[str, Any], item: dict[str, Any]) -> None:
        row[at.ABILITY], row[at.TRIGGER] = item.get("kind") == "ability", item.get("kind") == "trigger"
        row[at.FROM] = 1 + at.ZONES.index(zone_of(item["from"])) if item.get("from") else 0
        row[at.ENTITY_PART] = self.tables.part(self.names.kind(card["name"]), whole(item.get("part"), -1))

    def _write_combat(self, row: np.ndarray, card: dict[str, Any]) -> None:
        if card["zone"] != "battlefield":
            return
        for attack in self.combat:
            if attack.get("attacker") == card.get("id"):
                row[at.ATTACKING] = 1
                row[at.BLOCKED] = ratio(len(attack.get("blockers", [])), 2)
            if card.get("id") in attack.get("blockers", []):
                row[at.BLOCKS] = row[at.BLOCKS] if row[at.BLOCKING] else self.row_of(self.find(attack.get("attacker")))
                row[at.BLOCKING] = 1

    def targets(self, card: dict[str, Any]) -> list[dict[str, Any]]:
        """What a card aims at: players {"kind", "id"}, cards as they are here; what is not seen is left out."""
        told = list(card["item"].get("targets", [])) if "item" in card else []
        if card["zone"] == "battlefield":
            told += [a["defender"] for a in self.combat if a.get("attacker") == card.get("id") and "defender" in a]
        found = []
        for target in told:
            spell = target.get("kind") == "spell"
            other = self.find_spell(target.get("id")) if spell else self.find(target.get("id"))
            found.append(target if target.get("kind") == "player" else other)
        return [each for each in found if each is not None]

    def _write_aims(self, row: np.ndarray, card: dict[str, Any]) -> None:
        host = self.find(card.get("attached_to")) if card["zone"] == "battlefield" else None
        goals = self.targets(card)
        seats = [goal["id"] if goal.get("kind") == "player" else goal["controller"] for goal in goals]
        seats += [host["controller"]] if host is not None and any(card is each for each in self.cards) else []
        row[at.AIMS_AT_ME] = ratio(seats.count(self.me), 2)
        row[at.AIMS_AT_THEM] = ratio(seats.count(1 - self.me), 2)
        row[at.ATTACHED_TO] = self.row_of(host)
        cards = [goal for goal in goals if goal.get("kind") != "player"]
        for place, goal in enumerate(cards[:2]):
            row[at.AIM + place] = self.row_of(goal)

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _place_all(self) -> None:
        def of(seat: int, zone: str) -> list[dict[str, Any]]:
            return [card for card in self.cards if card["controller"] == seat and card["zone"] == zone]

        def fields(seat: int, lands: bool) -> list[dict[str, Any]]:
            return [card for card in of(seat, "battlefield") if ("land" in types_of(card)) == lands]

        me, them = self.me, 1 - self.me
        self.placed: dict[int, dict[str, Any]] = {}
        self.aimed = {id(target) for card in (*self.cards, *self.others, *self.stack) for target in self.targets(card)}
        for card in self.cards:
            if card["zone"] == "battlefield" and self.find(card.get("attached_to")) is not None:
                self.aimed.add(id(self.find(card.get("attached_to"))))
        graves = [of(seat, "graveyard")[::-1] for seat in (me, them)]
        for card in self.stack[: at.STACK_ROWS]:
            self._place([card])
        self.unseen += max(0, len(self.stack) - at.STACK_ROWS)
        hand_and_field = [
            of(me, "hand"),
            of(them, "hand"),
            fields(me, False),
            fields(them, False),
            fields(me, True),
            fields(them, True),
        ]
        newest = [grave[: at.GRAVEYARD_ROWS] for grave in graves]
        exiles = [of(seat, "exile")[::-1] for seat in (me, them)]
        oldest = [grave[at.GRAVEYARD_ROWS :] for grave in graves]
        for cards in (*hand_and_field, self.others, *newest, *exiles, *oldest):
            self._place(cards)

    def tied(self, card: dict[str, Any]) -> bool:
        """Whether it is tied to another card, and so like no other one."""
        fighting = card["zone"] == "battlefield" and any(
            card.get("id") == attack.get("attacker") or card.get("id") in attack.get("blockers", [])
            for attack in self.combat
        )
        attached = bool(card.get("attachments")) or whole(card.get("attached_to"), -1) >= 0
        return fighting or attached or id(card) in self.aimed

    def _place(self, cards: list[dict[str, Any]]) -> None:
        """Into the next rows; cards that look the same share one."""
        seen: dict[str, int] = {}
        for card in cards:
            look = repr(self.look(card))
            if not self.tied(card) and look in seen:
                self.rows[id(card)] = seen[look]
                self.counts[seen[look]] += 1
            elif 1 + len(self.placed) < at.ENTITIES:
                row = 1 + len(self.placed)
                self.placed[row], self.counts[row], self.rows[id(card)] = card, 1, row
                if not self.tied(card):
                    seen[look] = row
            else:
                self.unseen += 1

    def look(self, card: dict[str, Any]) -> Any:
        """What tells it from others."""
        words = [word for word in (*at.CARD_TYPES, *BASICS) if word in types_of(card)]
        numbers = [whole(card.get(key)) for key in ("cmc", "power", "toughness", "damage", "loyalty")]
        flags = [card.get(key) is True for key in ("tapped", "summoning_sick", "token", "face_down", "known")]
        names = [keyword_of(text) for text in card.get("keywords", [])]
        known = set(names) | ({"first strike"} if "double strike" in names else set())
        keywords = [name for name in at.KEYWORDS if name in known], names.count(None)
        owner, place = whole(card.get("owner"), -2), card.get("place", 0.0)
        colors = [letter for letter in "WUBRG" if letter in card.get("colors", "")]
        named = card.get("name", ""), words, numbers, flags, keywords, counters_of(card)
        return *named, owner, place, colors, card["controller"], card["zone"]

    def mark(self, card: dict[str, Any] | None, column: int, value: float) -> None:
        """Adds to the row of a card, if it has one."""
        if self.row_of(card):
            row = self.entities[self.row_of(card) - 1]
            row[column] = ratio(row[column] + np.float32(value), 1)

    def show_subject(self, card_id: int, name: str) -> None:
        """What the question is about, in its own row and marked in the other one."""
        card = self.find(card_id)
        if self.row_of(card):
            self.entities[self.row_of(card) - 1, at.SUBJECT] = 1
        card = card or self.find_spell(card_id)
        row = self.entities[at.SUBJECT_ROW]
        if card is None:
            self.names.see(name)
            row[at.PRESENT], row[at.ENTITY_KIND] = 1, self.tables.kind(self.names.kind(name))
        else:
            row[:] = self.entity_row(card)
        row[at.SUBJECT] = 1

    def show_text(self, text: str) -> None:
        """A question about no card."""
        row = self.entities[at.SUBJECT_ROW]
        row[at.PRESENT] = row[at.SUBJECT] = 1
        row[at.ENTITY_KIND] = self.tables.kind(self.text(text))

    def text(self, text: str) -> NameKind | None:
        return NameKind(text_id(text), None, text) if text else None

    # ---- mana -------------------------------------------------------------------------------------------------------

    def affords(self, card: dict[str, Any], now: bool) -> bool:
        """Whether untapped sources and the pool are enough, or all sources and one land more, by number and color."""
        mine = [each for each in self.cards if each["controller"] == self.me]
        sources = []
        for each in mine:
            asleep = "creature" in types_of(each) and each.get("summoning_sick") is True
            if each["zone"] == "battlefield" and not (now and (each.get("tapped") is True or asleep)):
                sources.append(self.makes(each))
        if now:
            sources += [{letter} for letter in self.players[self.me].get("mana_pool", "") if letter in at.POOL]
        else:
            lands = [self.makes(each) for each in mine if each["zone"] == "hand" and "land" in types_of(each)]
            sources.append(set().union(*lands))
        sources = [each for each in sources if each]
        kind = self.names.kind(card.get("name", ""))
        told = kind is not None and kind.least is not None
        if (kind.least if told else whole(card.get("cmc"))) > len(sources):
            return False
        if kind is None or kind.hybrid:
            return True
        return all(kind.pips.count(c) <= sum(c in each for each in sources) for c in "WUBRG")

    # ---- options ----------------------------------------------------------------------------------------------------

    def named(self, name: str) -> int:
        """The row of a card's name."""
        self.names.see(name)
        return self.tables.kind(self.names.kind(name))

    def write_card(self, row: np.ndarray, card_id: Any, name: str) -> None:
        """An option that is a card, wherever it is."""
        card = self.find(card_id)
        row[at.SORT], row[at.OPTION_KIND] = sort("card"), self.named(name)
        if card is not None:
            row[at.OPTION_ENTITY] = self.row_of(card)
            row[at.ME], row[at.THEM] = card["controller"] == self.me, card["controller"] == 1 - self.me

    def write_option(self, row: np.ndarray, option: dict[str, Any]) -> None:
        """An option of a question."""
        kind, name = option.get("kind", "text"), option.get("name", "")
        identity = option.get("id", option.get("card_id"))
        if "parts" in option:
            row[at.OPTION_PART] = self.tables.add(option["parts"], 0)
        if kind == "card":
            self.write_card(row, identity, name)
        elif kind == "player":
            row[at.SORT], row[at.ME], row[at.THEM] = sort(kind), identity == self.me, identity == 1 - self.me
        elif kind == "spell":
            spell = self.find_spell(identity)
            row[at.SORT], row[at.OPTION_KIND] = sort(kind), self.named(name)
            row[at.OPTION_ENTITY] = self.row_of(spell)
            seat = whole(option.get("controller"), -1) if spell is None else spell["controller"]
            row[at.ME], row[at.THEM] = seat == self.me, seat == 1 - self.me
        elif kind == "number":
            row[at.SORT] = sort(kind)
            row[at.NUMBER] = ratio(int(name) if re.fullmatch(r"-?[0-9]{1,9}", name) else 0, 10)
        elif kind == "color":
            row[at.SORT], row[at.OPTION_KIND] = sort(kind), self.tables.kind(self.text(name))
            row[at.OPTION_COLOR] = 1 + at.COLORS.index(name) if name in at.COLORS else 0
        else:
            text = option.get("description") or name
            row[at.SORT], row[at.OPTION_KIND] = sort("text"), self.tables.kind(self.text(text))

    def write_action(self, row: np.ndarray, action: dict[str, Any]) -> None:
        """An action of choose_action."""
        kind = {"land": "land", "ability": "ability", "spell": "cast"}.get(action.get("kind", ""))
        kind = kind or ("land" if action.get("is_land") is True else "cast")
        name = action.get("card", "")
        self.names.see(name)
        row[at.SORT], row[at.COST] = sort(kind), ratio(cost_of(action.get("mana_cost", "")), 8)
        row[at.OPTION_ENTITY] = self.row_of(self.find(action.get("card_id")))
        row[at.OPTION_PART] = self.tables.part(self.names.kind(name), whole(action.get("part"), -1))
        text = action.get("description", "")
        row[at.OPTION_KIND] = self.tables.kind(self.text(text)) if kind == "ability" else self.named(name)
