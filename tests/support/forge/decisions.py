"""Made-up decisions of every type, with everything in them that the protocol allows, and some of what it does not."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]
NAMES = (
    *("Forest", "Island", "Æther Vial", "Jötun Grunt", 'Say "no"', "Back\\slash", "Grizzly Bears", "Llanowar Elves"),
    *("Fire // Ice", "Snapcaster Mage", "Ornithopter", "日本", "Tab\tbed", "Emoji 🔥", "Wall (31)", ""),
)
TYPES = (
    *("Basic Land Forest", "Basic Snow Land Island", "Land Mountain Plains", "Land Creature Dryad Forest", "Instant"),
    *("Legendary Creature Elf Druid", "Artifact Creature Golem", "Enchantment Aura", "Artifact Equipment", "SORCERY"),
    *("Legendary Planeswalker Jace", "Tribal Instant Goblin", "Landscape", "", "Creature  Wall"),
)
KEYWORDS = (
    *("Flying", "First Strike", "double strike", "Deathtouch", "Lifelink", "Trample", "Vigilance", "Haste", "Reach"),
    *("Defender", "Menace", "Hexproof", "Hexproof from red", "Shroud", "Ward:2", "Protection from blue", "Flash"),
    *("Flashback:1 R", "Indestructible", "Unblockable", "CARDNAME can't be blocked.", "Cycling:2", "Reaching", ""),
    *("Trample over planeswalkers", "Prowess", "flying:x", "Banding"),
)
COSTS = ("", "{1}{G}", "{X}{R}{R}", "{2/W}{W/U}", "{10}", "no cost", "{}{C}", "{12345}", "{U/P}", "{G", "{{2}")
NUMBERS = (0, 1, 2, 3, 5, 20, -1, -3, 400, 2**31, -(2**40))
PHASES = ("UPKEEP", "DRAW", "MAIN1", "COMBAT_DECLARE_ATTACKERS", "COMBAT_END", "MAIN2", "CLEANUP", "NEVER")
COUNTERS = ("P1P1", "M1M1", "LOYALTY", "CHARGE", "AGE")
KINDS = (
    *("choose_action", "choose_targets", "choose_mode", "declare_attackers", "declare_blockers", "choose_ability"),
    *("choose_cards", "choose_entity", "confirm_action", "play_trigger", "announce_value", "choose_color", "order"),
    *("scry", "mulligan"),
)
APIS = ("DealDamage", "Draw", "Token", "PumpAll", "Mana", "ChangeZone", "Charm", "NeverHeardOf", "")
MODES = ("ChangesZone", "Attacks", "CantBlockBy", "MustAttack", "Continuous", "Moved", "NeverHeardOf", "")
MESSAGES = ("", "Sacrifice a creature?", "Grizzly Bears (12) deals damage", "Pay (2)? (x) (34", "Größe " * 400)


class Maker:
    """Draws decisions; ids of cards are distinct within one."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.next_id = 1

    def some(self, most: int) -> range:
        return range(self.draw.randint(0, most))

    def number(self) -> int:
        return self.draw.choice(NUMBERS)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.draw.random() < chance

    # ---- cards ------------------------------------------------------------------------------------------------------

    def card(self, battlefield: bool = False) -> Json:
        draw = self.draw
        self.next_id += draw.randint(1, 3)
        card: Json = {"id": self.next_id, "name": draw.choice(NAMES), "mana_cost": draw.choice(COSTS)}
        card |= {"cmc": abs(self.number()), "types": draw.choice(TYPES)}
        if "Creature" in card["types"]:
            card |= {"power": self.number(), "toughness": self.number()}
        if "Planeswalker" in card["types"]:
            card["loyalty"] = self.number()
        card["keywords"] = [draw.choice(KEYWORDS) for _ in self.some(4)]
        if battlefield:
            card |= {"tapped": self.maybe(), "summoning_sick": self.maybe(), "damage": draw.choice((0, 0, 1, 7))}
            card["counters"] = {name: self.number() for name in draw.sample(COUNTERS, draw.randint(0, 3))}
            card |= {"attachments": list(self.some(3)), "attached_to": -1, "token": self.maybe(0.2)}
        card |= {"owner": draw.randint(0, 1), "colors": draw.choice(("", "W", "UB", "RG", "WUBRG", "C"))}
        if self.maybe(0.05):
            card |= {"face_down": True, "name": ""}
        return card

    def cards(self, most: int, battlefield: bool = False) -> list[Json]:
        return [self.card(battlefield) for _ in self.some(most)]

    def state(self, seat: int, size: int) -> Json:
        draw = self.draw
        players = []
        for number in range(2):
            player: Json = {"seat": number, "name": f"Agent({number + 1})-a", "life": self.number()}
            player |= {"poison": draw.randint(0, 9), "hand_size": draw.randint(0, 9)}
            if number == seat:
                player["hand"] = self.cards(size)
            player |= {"library_size": draw.randint(0, 60), "battlefield": self.cards(2 * size, True)}
            player |= {"graveyard": self.cards(size), "exile": self.cards(3)}
            player |= {"mana_pool": draw.choice(("", "WWU", "CCCG")), "lands_played": draw.randint(0, 2), "energy": 0}
            players.append(player)
        state: Json = {"turn": draw.randint(1, 60), "phase": draw.choice(PHASES), "active": draw.randint(0, 1)}
        state |= {"priority": draw.randint(-1, 1), "you": seat, "players": players, "stack": [], "combat": []}
        table = [card for player in players for card in player["battlefield"]]
        for card in table:
            if self.maybe(0.1):
                card["attached_to"] = draw.choice(table)["id"]
        everything = table + [card for player in players for card in player["graveyard"] + player.get("hand", [])]
        state["stack"] = [self.item(everything) for _ in self.some(draw.choice((0, 2, 9)))]
        state["known"] = [self.known(everything) for _ in self.some(4)]
        state["combat"] = [self.attack(table) for _ in self.some(5)] if table and self.maybe() else []
        return state

    def known(self, cards: list[Json]) -> Json:
        """Returns a hidden card that the seat has been shown; once in a while one that it sees anyway."""
        card = self.draw.choice(cards) if cards and self.maybe(0.1) else self.card()
        card = card | {"zone": self.draw.choice(("Hand", "Library", "Library")), "owner": self.draw.randint(0, 1)}
        return card | ({"position": self.draw.choice((0, 1, 5, -1, -2))} if self.maybe() else {})

    def reference(self, cards: list[Json]) -> Json:
        kind = self.draw.choice(("card", "card", "player", "spell"))
        known = self.draw.choice(cards)["id"] if cards and self.maybe(0.9) else 99999
        return {"kind": kind, "id": self.draw.randint(0, 1) if kind == "player" else known}

    def item(self, cards: list[Json]) -> Json:
        draw = self.draw
        source = draw.choice(cards) if cards and self.maybe() else self.card()
        item: Json = {"card_id": source["id"], "name": source["name"], "controller": draw.randint(0, 1)}
        item |= {"description": draw.choice(MESSAGES), "targets": [self.reference(cards) for _ in self.some(3)]}
        if self.maybe(0.3):
            item["card"] = source
        if self.maybe():
            item |= {"part": draw.randint(-1, 3), "from": draw.choice(("", "Hand", "Graveyard", "Command"))}
            item |= {"kind": draw.choice(("spell", "ability", "trigger"))}
        return item

    def attack(self, table: list[Json]) -> Json:
        blockers = [self.draw.choice(table)["id"] for _ in self.some(2)]
        attack: Json = {"attacker": self.draw.choice(table)["id"], "blockers": blockers}
        return attack | ({"defender": self.reference(table)} if self.maybe(0.9) else {})

    # ---- options ----------------------------------------------------------------------------------------------------

    def options(self, state: Json, most: int) -> list[Json]:
        players = state["players"]
        cards = [
            card for player in players for zone in ("hand", "battlefield", "graveyard") for card in player.get(zone, [])
        ]
        searched = self.maybe(0.2)
        return [self.option(i, state, cards, searched) for i in self.some(most)]

    def option(self, index: int, state: Json, cards: list[Json], searched: bool) -> Json:
        draw = self.draw
        kind = (
            "card" if searched else draw.choice(("card", "card", "card", "player", "spell", "text", "number", "color"))
        )
        option: Json = {"index": index, "kind": kind}
        if kind == "card" and cards and not searched and self.maybe(0.9):
            card = draw.choice(cards)
            option |= {"id": card["id"], "name": card["name"], "controller": draw.randint(0, 1), "zone": "Battlefield"}
        elif kind == "card":
            card = self.card()
            option |= {
                "id": card["id"],
                "name": card["name"],
                "zone": draw.choice(("Library", "Hand", "Exile", "Void")),
            }
            option |= {"card": card} if self.maybe(0.8) else {}
        elif kind == "player":
            option |= {"id": draw.randint(0, 1), "name": "Agent(1)-a"}
        elif kind == "spell" and state["stack"]:
            option |= {"id": draw.choice(state["stack"])["card_id"], "name": draw.choice(NAMES)}
        elif kind == "spell":
            option |= {"id": 77777, "name": draw.choice(NAMES), "controller": draw.randint(0, 1)}
        elif kind == "number":
            option["name"] = draw.choice(("3", "-2", "+1", "many", "1234567890", "007", ""))
        elif kind == "color":
            option["name"] = draw.choice(("white", "blue", "black", "red", "green", "colorless"))
        else:
            option |= {"description": draw.choice(MESSAGES)} if self.maybe() else {"name": draw.choice(NAMES)}
        return option

    def source(self, state: Json) -> Json:
        """Returns, mostly, the source of a question."""
        cards = [card for player in state["players"] for card in player["battlefield"] + player.get("hand", [])]
        if not self.maybe(0.7):
            return {}
        if state["stack"] and self.maybe(0.3):
            item = self.draw.choice(state["stack"])
            return {"source": {"card_id": item["card_id"], "name": item["name"], "description": ""}}
        card = self.draw.choice(cards) if cards and self.maybe(0.9) else {"id": 88888, "name": "Elsewhere"}
        return {"source": {"card_id": card["id"], "name": card["name"], "description": "does something"}}

    # ---- what cards do ----------------------------------------------------------------------------------------------

    def part(self) -> Json:
        """Returns a part of a card, as the daemon tells it."""
        draw, sizes = self.draw, (0, 1, 3, -99, 40)
        part: Json = {"kind": draw.choice(("spell", "activated", "trigger", "static", "replacement", "wish"))}
        part |= {"api": draw.choice(APIS), "mode": draw.choice(MODES), "amount": draw.choice((0, 1, 2, -1, 30))}
        if self.maybe():
            part |= {"power": draw.choice(sizes), "toughness": draw.choice(sizes), "after": self.maybe()}
            part |= {"targets": draw.sample(("creature", "player", "any", "card", "pope"), draw.randint(0, 3))}
            part |= {"whose": draw.choice(("any", "you", "opponent")), "max_targets": draw.choice((0, 1, 2, -1))}
        if self.maybe(0.3):
            part |= {"mana": draw.choice((1, 5, -1)), "tap": self.maybe(), "life": draw.choice((0, 2, -1))}
            part |= {name: draw.choice((0, 1, -1)) for name in ("sacrifice", "discard", "exile", "remove_counters")}
            part |= {"origin": draw.choice(("Graveyard", "Command", "")), "destination": draw.choice(("Hand", "Exile"))}
            part |= {"keywords": draw.sample(KEYWORDS, 2)}
        return part

    def facts(self, name: str) -> Json:
        """Returns the line that tells what a card does."""
        pips, produces = self.draw.choice(("", "G", "WWU", "RG")), self.draw.choice(("", "", "G", "WUBRGC"))
        facts = {"pips": pips, "cmc": self.draw.randint(1, 4), "produces": produces}
        facts |= {"least": self.draw.randint(0, 3)} if self.maybe(0.3) else {}
        facts["parts"] = [self.part() for _ in self.some(self.draw.choice((2, 4, 20)))]
        return {"info_type": "facts", "card": name, "facts": facts}

    # ---- decisions --------------------------------------------------------------------------------------------------

    def decision(self, number: int = 1, seat: int | None = None, kind: str | None = None, size: int = 6) -> Json:
        """Returns a whole decision."""
        seat = self.draw.randint(0, 1) if seat is None else seat
        kind = kind or self.draw.choice(KINDS)
        state = self.state(seat, size if self.maybe(0.9) else 5 * size)
        head: Json = {"decision_type": kind, "decision_id": number, "player": f"Agent({seat + 1})-a", "seat": seat}
        head |= {"turn": state["turn"], "phase": state["phase"]}
        fields = getattr(self, kind, self._list)(state)
        controlled = {"for": 1 - seat} if self.maybe(0.1) else {}  # the player for whom the seat decides
        return head | controlled | fields | {"game_state": state}

    def many(self) -> int:
        return self.draw.choice((1, 3, 3, 6, 6, 6, 120))

    def choose_action(self, state: Json) -> Json:
        hand = next(player["hand"] for player in state["players"] if "hand" in player) or [self.card()]
        actions = []
        for index in self.some(self.many()):
            card = self.draw.choice(hand)
            action = {"index": index, "description": self.draw.choice(MESSAGES), "card": card["name"]}
            action |= {"card_id": card["id"], "mana_cost": card["mana_cost"], "is_land": "Land" in card["types"]}
            actions.append(
                action
                | ({"kind": self.draw.choice(("land", "spell", "ability"))} if self.maybe(0.9) else {})
                | ({"part": self.draw.randint(-1, 3)} if self.maybe() else {})
            )
        return {"actions": actions}

    def _bounds(self, count: int) -> Json:
        least = self.draw.randint(0, count) if self.maybe() else 0
        return {"min": least, "max": self.draw.choice((least, count, least + 1, 2**31 - 1))}

    def choose_targets(self, state: Json) -> Json:
        options = self.options(state, self.many())
        return self.source(state) | self._bounds(len(options)) | {"options": options}

    def choose_mode(self, state: Json) -> Json:
        texts = [{"index": i, "kind": "text", "description": self.draw.choice(MESSAGES)} for i in self.some(4)]
        for text in texts:
            text |= {"parts": [self.part() for _ in self.some(3)]} if self.maybe() else {}
        bounds = {"min": self.draw.randint(0, 2), "max": self.draw.randint(1, 4), "repeat": self.maybe()}
        return self.source(state) | bounds | {"options": texts}

    choose_cards = choose_targets

    def _list(self, state: Json) -> Json:
        return self.source(state) | {"message": self.draw.choice(MESSAGES), "options": self.options(state, self.many())}

    choose_ability = order = _list

    def choose_entity(self, state: Json) -> Json:
        return self._list(state) | {"optional": self.maybe()}

    def confirm_action(self, state: Json) -> Json:
        return self.source(state) | {"message": self.draw.choice(MESSAGES)}

    play_trigger = confirm_action

    def announce_value(self, state: Json) -> Json:
        least = self.draw.choice((0, 1, -5))
        return self.source(state) | {"name": "X", "min": least, "max": least + self.draw.choice((-1, 0, 5, 200, 2**33))}

    def choose_color(self, state: Json) -> Json:
        colors = self.draw.sample(("white", "blue", "black", "red", "green"), self.draw.randint(0, 5))
        return self.source(state) | {
            "options": [{"index": i, "kind": "color", "name": c} for i, c in enumerate(colors)]
        }

    def scry(self, state: Json) -> Json:
        cards = self.cards(4)
        options = [
            {"index": i, "kind": "card", "id": c["id"], "name": c["name"], "card": c} for i, c in enumerate(cards)
        ]
        return {"options": options, "bottom": self.draw.choice(("library", "graveyard"))}

    def mulligan(self, state: Json) -> Json:
        return {"hand_size": 7, "mulligans": self.draw.randint(0, 3)}

    def _combatants(self, state: Json, seat: int) -> list[Json]:
        cards = state["players"][seat]["battlefield"]
        return [{"index": i, "card_id": card["id"], "name": card["name"]} for i, card in enumerate(cards)]

    def declare_attackers(self, state: Json) -> Json:
        attackers = self._combatants(state, state["you"])
        for attacker in attackers:
            goals = [{"index": 0, "kind": "player", "id": 1 - state["you"], "name": "Agent(2)-a"}]
            for i in self.some(self.draw.choice((0, 0, 2, 100))):
                goals.append({"index": 1 + i} | self.reference(state["players"][1 - state["you"]]["battlefield"]))
            attacker |= {"must": self.maybe(0.2), "defenders": goals}
        return {"attackers": attackers}

    def declare_blockers(self, state: Json) -> Json:
        attackers = self._combatants(state, 1 - state["you"])
        for attacker in attackers:
            attacker |= {"min_blockers": self.draw.choice((1, 1, 2)), "max_blockers": self.draw.choice((0, 0, 1, 2))}
        blockers = self._combatants(state, state["you"])
        for blocker in blockers:
            able = [attacker["index"] for attacker in attackers if self.maybe()] + [500] * self.maybe(0.1)
            blocker |= {"can_block": able, "must": self.maybe(0.2)}
        return {"attackers": attackers, "blockers": blockers}
