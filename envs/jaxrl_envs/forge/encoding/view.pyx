"""The view of a seat at a decision: the JSON of a line as cards in the rows of an observation."""

cimport cython

from jaxrl_envs.forge cimport layout as at
from jaxrl_envs.forge.encoding.values cimport LARGEST, MISSING, NOT_SAID, get, items, ratio, text, whole

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.encoding.facts import Facts
from jaxrl_envs.forge.encoding.card_words import BASICS, color_bits, keyword_bits, type_bits, zone_number, zone_of

TYPES = {name: number for number, name in enumerate(layout.TYPES)}
cdef unsigned int BASIC_TYPES = (1 << len(BASICS)) - 1


@cython.freelist(64)
@cython.no_gc
cdef class Card:
    """A card as it is printed and as it lies there. It refers to nothing that refers to it."""


cdef Card read_card(value, names):
    """A card from its object; where it is and whose is not part of it."""
    cdef Card card = Card()
    card.fields = value if type(value) is dict else {}
    card.id, card.attached_to = whole(get(value, "id"), MISSING), whole(get(value, "attached_to"), MISSING)
    card.controller, card.owner = MISSING, whole(get(value, "owner"), NOT_SAID)
    card.part = card.blocks = card.goals[0] = card.goals[1] = MISSING
    card.types, card.colors = type_bits(text(get(value, "types"))), color_bits(text(get(value, "colors")))
    name_card(card, text(get(value, "name")), names)
    if card.types >> at.CARD_TYPE_LAND & 1:
        card.colors |= card.makes & BASIC_TYPES
    card.mana_value, card.loyalty = whole(get(value, "cmc"), 0), whole(get(value, "loyalty"), 0)
    card.power, card.toughness = whole(get(value, "power"), 0), whole(get(value, "toughness"), 0)
    card.damage, card.attachments = whole(get(value, "damage"), 0), len(items(get(value, "attachments")))
    card.tapped, card.sick = get(value, "tapped") is True, get(value, "summoning_sick") is True
    card.token, card.face_down = get(value, "token") is True, get(value, "face_down") is True
    read_keywords(card, items(get(value, "keywords")))
    read_counters(card, get(value, "counters"))
    return card


cdef void name_card(Card card, str name, names) except *:
    """Its name, and what that says it can make: lands have basic types besides."""
    card.name, card.kind, card.makes = name, names.kind(name), 0
    if card.kind is not None:
        card.makes = card.kind.makes
    if card.types >> at.CARD_TYPE_LAND & 1:
        card.makes |= card.types >> at.NUM_CARD_TYPES & BASIC_TYPES


cdef void read_keywords(Card card, list keywords) except *:
    cdef unsigned int bits
    for keyword in keywords:
        bits = keyword_bits(text(keyword))
        card.keywords |= bits
        card.other_keywords += bits == 0


cdef void read_counters(Card card, counters) except *:
    if type(counters) is not dict:
        return
    for kind, number in (<dict>counters).items():
        if kind == "P1P1":
            card.plus += whole(number, 0)
        elif kind == "M1M1":
            card.plus -= whole(number, 0)
        elif kind != "LOYALTY":
            card.counters += whole(number, 0)


cdef class DecisionView:
    """The game as the seat that is asked sees it.

    Args:
      decision: a decision of the daemon, parsed.
      facts: what was told of the game's cards before.

    Raises:
      ValueError: it is not a decision.
    """

    def __init__(self, dict decision not None, facts=None):
        kind = get(decision, "decision_type")
        self.decision, self.seat, state = decision, whole(get(decision, "seat"), MISSING), get(decision, "game_state")
        if type(kind) is not str or not 0 <= self.seat <= 1 or type(state) is not dict:
            raise ValueError("this line is no decision")
        self.number, self.state = TYPES.get(kind, -1), state
        self.names = (Facts() if facts is None else facts).seats[self.seat]
        self.players, self.cards, self.others, self.places, self.stack = [None, None], [], [], {}, []
        self.combat = items(get(state, "combat"))
        for player in items(get(state, "players")):
            self._read_player(player)
        for value in items(get(state, "known"))[:MOST_CARDS]:
            self._read_known(value)
        for item in items(get(state, "stack"))[:MOST_ITEMS]:
            self.stack.append(self._spell(item))
        for option in items(get(decision, "options"))[:MOST_CARDS]:
            if get(option, "kind") == "card":
                self._read_offered(option)
        self._aim()
        self._place_all()

    def _read_player(self, player):
        cdef int seat = whole(get(player, "seat"), MISSING)
        if 0 <= seat <= 1:
            self.players[seat] = player
        self._read_zone(items(get(player, "hand")), seat, at.ZONE_HAND)
        self._read_zone(items(get(player, "battlefield")), seat, at.ZONE_BATTLEFIELD)
        self._read_zone(items(get(player, "graveyard")), seat, at.ZONE_GRAVEYARD)
        self._read_zone(items(get(player, "exile")), seat, at.ZONE_EXILE)

    def _read_zone(self, list cards, int seat, int zone):
        cdef Card card
        for value in cards[: MOST_CARDS - len(self.cards)]:
            card = read_card(value, self.names)
            card.controller, card.zone = seat, zone
            self.cards.append(card)
            if card.id >= 0:
                self.places.setdefault(card.id, card)

    def _read_known(self, value):
        """A hidden card that the seat has been shown."""
        cdef Card card = read_card(value, self.names)
        cdef int position = whole(get(value, "position"), LARGEST)
        card.controller, card.zone, card.known = card.owner, zone_of(text(get(value, "zone"))), True
        if card.zone == at.ZONE_LIBRARY and position != LARGEST:
            card.place = ratio(1, 1 + <double>position if position >= 0 else position)
        if card.id >= 0 and card.id not in self.places:
            self.places[card.id] = card
            self.others.append(card)

    def _read_offered(self, option):
        """A card that is offered; if it is nowhere to be seen, its own "card" says what it is."""
        cdef Card card
        number, own = get(option, "id"), get(option, "card")
        cdef int id = whole(get(option, "card_id") if number is None else number, MISSING)
        if id < 0 or id in self.places or self.find_spell(id) is not None:
            return
        card = read_card(own, self.names)
        if type(own) is not dict:
            card.owner = MISSING
        if not card.name:
            name_card(card, text(get(option, "name")), self.names)
        card.id, card.controller = id, whole(get(option, "controller"), MISSING if card.owner == NOT_SAID else card.owner)
        card.zone = zone_of(text(get(option, "zone")))
        self.places[id] = card
        self.others.append(card)

    def _spell(self, item):
        """An item of the stack as a card: its own, else the one elsewhere whose ability it is."""
        cdef Card source = self.find(whole(get(item, "card_id"), MISSING)), card
        own = get(item, "card")
        card = read_card(own if type(own) is dict or source is None else source.fields, self.names)
        card.fields = item if type(item) is dict else {}
        card.id, card.part = whole(get(item, "card_id"), MISSING), whole(get(item, "part"), MISSING)
        name_card(card, text(get(item, "name")), self.names)
        card.zone, card.controller = at.ZONE_STACK, whole(get(item, "controller"), MISSING)
        card.origin = zone_number(text(get(item, "from")))
        kind = get(item, "kind")
        card.ability, card.trigger = kind == "ability", kind == "trigger"
        return card

    # ---- who aims at whom -------------------------------------------------------------------------------------------

    cdef Card find(self, int id):
        return self.places.get(id) if id >= 0 else None

    cdef Card find_spell(self, int id):
        cdef Card card
        for card in self.stack:
            if card.id == id >= 0:
                return card
        return None

    cdef Card goal(self, Card card, int place):
        cdef int id = card.goals[place]
        return self.find_spell(id) if card.at_spell[place] else self.find(id)

    def _point(self, Card card, target):
        """Aims a card at a {"kind", "id"}."""
        cdef int id = whole(get(target, "id"), MISSING), place
        kind = get(target, "kind")
        if kind == "player":
            aim(card, id)
            return
        place = 0 if card.goals[0] == MISSING else 1 if card.goals[1] == MISSING else MISSING
        cdef Card other = self.find_spell(id) if kind == "spell" else self.find(id)
        if other is None:
            return
        other.aimed = True
        aim(card, other.controller)
        if place >= 0:
            card.goals[place], card.at_spell[place] = id, kind == "spell"

    def _aim(self):
        """Marks attackers and blockers, and adds up what cards are aimed at."""
        cdef Card card, other
        for card in self.cards:
            other = self.find(card.attached_to) if card.zone == at.ZONE_BATTLEFIELD else None
            if other is not None:
                other.aimed = True
                aim(card, other.controller)
        for card in self.stack:
            for target in items(get(card.fields, "targets")):
                self._point(card, target)
        for attack in self.combat:
            blockers = items(get(attack, "blockers"))
            card = self.find(whole(get(attack, "attacker"), MISSING))
            if card is not None and card.zone == at.ZONE_BATTLEFIELD:
                card.attacking, card.blocked = True, len(blockers)
                self._point(card, get(attack, "defender"))
            for blocker in blockers:
                other = self.find(whole(blocker, MISSING))
                if other is not None and other.zone == at.ZONE_BATTLEFIELD:
                    other.blocking = True
                    other.blocks = whole(get(attack, "attacker"), MISSING) if other.blocks == MISSING else other.blocks

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _place_all(self):
        """Which card stands in which row: what matters most comes first."""
        cdef int me = self.seat, them = 1 - self.seat
        mine, theirs = self._in_zone(me, at.ZONE_BATTLEFIELD), self._in_zone(them, at.ZONE_BATTLEFIELD)
        graves = [self._in_zone(seat, at.ZONE_GRAVEYARD)[::-1] for seat in (me, them)]  # the newest is the last
        self.rows, self.filled = [None] * at.ENTITIES, 1 + at.SUBJECT_ROW
        for card in self.stack[: at.STACK_ROWS]:
            self._put(card)
        self.unseen += max(0, len(self.stack) - at.STACK_ROWS)
        self._place(self._in_zone(me, at.ZONE_HAND))
        self._place(self._in_zone(them, at.ZONE_HAND))  # of a player whom I control
        self._place(lands(mine, False))
        self._place(lands(theirs, False))
        self._place(lands(mine, True))
        self._place(lands(theirs, True))
        self._place(self.others)
        for grave in graves:
            self._place(grave[: at.GRAVEYARD_ROWS])
        for seat in (me, them):
            self._place(self._in_zone(seat, at.ZONE_EXILE)[::-1])
        for grave in graves:
            self._place(grave[at.GRAVEYARD_ROWS :])

    def _in_zone(self, int seat, int zone):
        cdef Card card
        return [card for card in self.cards if card.controller == seat and card.zone == zone]

    def _put(self, Card card):
        """Into the next row."""
        self.rows[self.filled], card.row, card.count = card, self.filled, 1
        self.filled += 1

    def _place(self, list cards):
        """Cards of one place: equal ones share a row."""
        cdef Card card, first
        cdef dict seen = {}
        for card in cards:
            key = look(card)
            first = seen.get(key) if key is not None else None
            if first is not None:
                card.row = first.row
                first.count += 1
            elif self.filled < at.ENTITIES:
                self._put(card)
                seen[key] = card
            else:
                self.unseen += 1

    # ---- what a learner is paid for ---------------------------------------------------------------------------------

    def lead(self):
        """(life, board, cards): how far seat 0 is ahead, in twenties, tens and sevens."""
        cdef double board = 0
        cdef Card card
        for card in self.cards:
            if card.zone == at.ZONE_BATTLEFIELD and card.types >> at.CARD_TYPE_CREATURE & 1 and 0 <= card.controller <= 1:
                board += -card.power if card.controller else card.power
        life, cards = [
            whole(get(self.players[0], key), 0) - whole(get(self.players[1], key), 0) for key in ("life", "hand_size")
        ]
        return ratio(life, 20), ratio(board, 10), ratio(cards, 7)

    @property
    def turn(self):
        """None: it is not told."""
        turn = get(self.state, "turn")
        return whole(turn, 0) if type(turn) is int else None

    @property
    def life(self):
        """Of both seats, None: it is not told."""
        return [None if player is None else whole(get(player, "life"), 0) for player in self.players]


cdef inline void aim(Card card, int seat):
    if 0 <= seat <= 1:
        card.aims[seat] += 1


cdef list lands(list cards, bint wanted):
    cdef Card card
    return [card for card in cards if (card.types >> at.CARD_TYPE_LAND & 1) == wanted]


cdef tuple look(Card card):
    """The key that merges equal cards of one place; None: the card is tied to others and so unlike any other."""
    if card.attachments or card.attached_to >= 0 or card.attacking or card.blocking or card.aimed:
        return None
    return (
        *(card.name, card.types, card.colors, card.keywords, card.other_keywords, card.mana_value, card.power),
        *(card.toughness, card.damage, card.loyalty, card.owner, card.controller, card.zone, card.plus, card.counters),
        *(card.place, card.tapped, card.sick, card.token, card.face_down, card.known),
    )
