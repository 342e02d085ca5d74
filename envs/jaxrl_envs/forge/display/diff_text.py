"""Text of a state difference: sentences about what changed between two states that the same seats were shown."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
ZONES = {"battlefield": "enters the battlefield", "graveyard": "goes to the graveyard", "exile": "is exiled"}
BEFORE_DAMAGE = ("COMBAT_BEGIN", "COMBAT_DECLARE_ATTACKERS", "COMBAT_DECLARE_BLOCKERS")
VERBS = {"ability": "activates", "trigger": "has a trigger of"}


class CardNames:
    """Names of cards for text: `Name`, `Name#id` if two on the table share it, creatures with power/toughness."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.sizes: dict[int, str] = {}  # of creatures on the battlefield, as they were last seen there
        self.shared: set[str] = set()

    def see(self, state: Json) -> None:
        """Remembers the cards of a state."""
        there: collections.Counter[str] = collections.Counter()
        for player in state.get("players", []):
            for zone in ("hand", *ZONES):
                for card in player.get(zone, []):
                    name = self.names[card["id"]] = card["name"] or "a face-down card"
                    if zone == "battlefield":
                        there[name] += "Land" not in card.get("types", "").split()
                        self.sizes[card["id"]] = size_of(card)
        self.shared |= {name for name, count in there.items() if count > 1}

    def called(self, card: int | None, name: str = "") -> str:
        """The name of a card, with its power and toughness if it is a creature in play."""
        name = name or self.names.get(-1 if card is None else card, "a card")
        if card is None:
            return name
        size = self.sizes.get(card, "")
        return (f"{name}#{card}" if name in self.shared else name) + (f" {size}" if size else "")


def size_of(card: Json) -> str:
    """Power and toughness as text, "" for a card without."""
    return f"{card['power']}/{card['toughness']}" if "power" in card else ""


class StateChanges:
    """Follows the states that the seats of one game are shown.

    Attributes:
      cards: what they are called.
      watched: seats that are asked themselves, and so see what they draw; None: all.
      done: by id, cards whose use was already reported and that have not resolved yet, so that they are not reported
        again when they appear on the stack; the value is in how many more states they may be missing there.
      aims: by id of such a card, the seats that were chosen as targets; no entry without a choice of targets.
      attack: by seat, the reported attackers of the turn of the last state.
    """

    def __init__(self, cards: CardNames, watched: set[int] | None = None):
        self.cards, self.watched = cards, watched
        self.done: dict[int, int] = {}
        self.aims: dict[int, set[int]] = {}
        self.attack: dict[int, list[int]] = {}
        self._struck: set[int] = set()  # seats whose attackers have dealt their damage this turn
        self._before: Json = {}
        self._where: dict[int, str] = {}  # zone by card id, of the public zones
        self._hands: dict[int, dict[int, str]] = {}  # the last hand of every seat, as it saw it

    def between(self, state: Json) -> Iterator[str]:
        """Sentences about the differences from the previous state; for the first state only about the hand."""
        if not state.get("players"):
            return
        before, self._before = self._before, state
        old_sizes = dict(self.cards.sizes)
        self.cards.see(state)
        yield from self._drawn(before, state)
        if before:
            yield from self._on_the_stack(before, state)
            yield from self._players(before, state)
        yield from self._moved(before, state)
        if before:
            yield from self._grown(before, state, old_sizes)
        self._forget(before, state)

    def _forget(self, before: Json, state: Json) -> None:
        """Drops reported cards and attacks that can explain no later change: resolved, or of a past turn."""
        waiting = {item.get("card_id") for item in state.get("stack", [])}
        for card in self.done.keys() - waiting:
            self.done[card] -= 1  # a question may come between its announcement and the stack
        gone = {card for card, zone in self._where.items() if zone != "battlefield"} - waiting
        self.done = {card: left for card, left in self.done.items() if left > 0 and card not in gone}
        self.aims = {card: seats for card, seats in self.aims.items() if card in self.done}
        if before.get("turn") != state.get("turn"):
            self.attack, self._struck = {}, set()

    # ---- hands ------------------------------------------------------------------------------------------------------

    def _drawn(self, before: Json, state: Json) -> Iterator[str]:
        """Cards that came into a hand: by name for the seat itself, as a count for a seat that is never asked."""
        for number, player in enumerate(state.get("players", [])):
            name = player.get("name", "?")
            if "hand" in player:
                hand = {card["id"]: card["name"] for card in player["hand"]}
                old = self._hands.get(number)
                self._hands[number] = hand
                new = [card for card in hand if old is not None and card not in old]
                back = [self.cards.called(card) for card in new if card in self._where]
                drawn = [self.cards.called(card) for card in new if card not in self._where]
                yield from ([f"{name} draws {', '.join(drawn)}"] if drawn else [])
                yield from ([f"{name} takes {', '.join(back)} back into the hand"] if back else [])
            elif before and self.watched is not None and number not in self.watched:
                earlier = before["players"][number]
                count = earlier.get("library_size", 0) - player.get("library_size", 0)
                if count > 0 and player.get("hand_size", 0) > earlier.get("hand_size", 0):
                    yield f"{name} draws {count} card{'s' if count > 1 else ''}"

    # ---- the stack --------------------------------------------------------------------------------------------------

    def _on_the_stack(self, before: Json, state: Json) -> Iterator[str]:
        """Spells, abilities and triggers on the stack that were not reported yet."""
        old = collections.Counter(map(_item, before.get("stack", [])))
        for item in reversed(state.get("stack", [])):  # the lowest came first
            if old[_item(item)]:
                old[_item(item)] -= 1
                continue
            kind = item.get("kind") or ("ability" if self._where.get(item.get("card_id")) == "battlefield" else "spell")
            if kind != "trigger" and item.get("card_id") in self.done:
                continue
            who = state["players"][item.get("controller", 0)].get("name", "?")
            text = "" if kind == "spell" or not item.get("description") else f": {item['description']}"
            aims = [self._aim(target, state) for target in item.get("targets", [])]
            yield (
                f"{who} {VERBS.get(kind, 'casts')} {self.cards.called(item.get('card_id'), item.get('name', ''))}{text}"
                f"{' -> ' if aims else ''}{', '.join(aims)}"
            )

    def _aim(self, target: Json, state: Json) -> str:
        if target.get("kind") == "player":
            return str(state["players"][target["id"]].get("name", "?"))
        return self.cards.called(target.get("id"), target.get("name", ""))

    # ---- players ----------------------------------------------------------------------------------------------------

    def _players(self, before: Json, state: Json) -> Iterator[str]:
        """Life and counters of players, with what was seen to change them."""
        for seat, (old, new) in enumerate(zip(before["players"], state.get("players", []), strict=False)):
            for key in ("life", "poison", "energy"):
                change = new.get(key, 0) - old.get(key, 0)
                if change:
                    why = self._why(before, state, seat, change) if key == "life" else ""
                    yield f"{new['name']}: {key} {old.get(key, 0)} -> {new.get(key, 0)}{why}"

    def _why(self, before: Json, state: Json, seat: int, change: int) -> str:
        """Possible causes of a change of life: attackers that were not seen blocked, and what has resolved."""
        combat = [*(before.get("combat") or []), *(state.get("combat") or [])]
        blocked = {attack.get("attacker") for attack in combat if attack.get("blockers")}
        seen = [attack["attacker"] for attack in combat if attack.get("defender") == {"kind": "player", "id": seat}]
        hits = [each for each in dict.fromkeys([*seen, *self.attack.get(seat, [])]) if each not in blocked]
        early = state.get("phase") in BEFORE_DAMAGE and before.get("turn") == state.get("turn")
        names = [self.cards.called(each) for each in hits if change < 0 and not early and seat not in self._struck]
        self._struck |= {seat} if names else set()
        left = {item.get("card_id") for item in before.get("stack", [])} | self.done.keys()
        left -= {item.get("card_id") for item in state.get("stack", [])}
        stays = {card["id"] for player in state.get("players", []) for card in player["battlefield"]}
        aims = {item.get("card_id"): _seats(item) for item in before.get("stack", [])} | self.aims
        names += [self.cards.called(each) for each in left - stays if seat in aims.get(each, {seat})]
        return f" ({', '.join(names)})" if names else ""

    # ---- cards ------------------------------------------------------------------------------------------------------

    def _moved(self, before: Json, state: Json) -> Iterator[str]:
        """Cards that came into a public zone, or left the battlefield for none."""
        where: dict[int, str] = {}
        for player in state.get("players", []):
            for zone, words in ZONES.items():
                for card in player.get(zone, []):
                    where[card["id"]] = zone
                    if before and self._where.get(card["id"]) != zone:
                        yield f"{self.cards.called(card['id'])} {words} ({player['name']})"
        gone = [each for each, zone in self._where.items() if zone == "battlefield" and each not in where]
        self._where = where
        yield from (f"{self.cards.called(each)} leaves the battlefield" for each in gone if before)

    def _grown(self, before: Json, state: Json, old: dict[int, str]) -> Iterator[str]:
        """Creatures and planeswalkers that are larger or smaller than before."""
        loyalty = {card["id"]: card.get("loyalty") for player in before["players"] for card in player["battlefield"]}
        for player in state.get("players", []):
            for card in player["battlefield"]:
                name = self.cards.called(card["id"]).removesuffix(f" {size_of(card)}")
                if card["id"] in loyalty and old.get(card["id"], "") != size_of(card):
                    yield f"{name} {old.get(card['id']) or '-'} is now {size_of(card) or 'no creature'}"
                if loyalty.get(card["id"]) is not None and loyalty[card["id"]] != card.get("loyalty"):
                    yield f"{name}: loyalty {loyalty[card['id']]} -> {card.get('loyalty')}"


def _seats(item: Json) -> set[int]:
    """The players whom an item of the stack targets; both if it has no targets at all."""
    aims = item.get("targets", [])
    return {aim["id"] for aim in aims if aim.get("kind") == "player"} if aims else {0, 1}


def _item(item: Json) -> tuple[Any, Any, Any]:
    """The identity of an item of the stack, equal for the same item in two states."""
    return item.get("card_id"), item.get("name"), item.get("description")
