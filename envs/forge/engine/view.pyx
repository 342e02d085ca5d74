"""What a seat is shown by a decision: the JSON of a line as cards in the rows of an observation."""

cimport cython

from jaxrl.envs.forge cimport layout as at
from jaxrl.envs.forge.engine.values cimport NOBODY, NOT_SAID, get, items, ratio, text, whole

from jaxrl.envs.forge import layout
from jaxrl.envs.forge.engine.words import BASICS, color_bits, keyword_bits, type_bits
from jaxrl.envs.forge.vocabulary import name_id

TYPES = {name: number for number, name in enumerate(layout.TYPES)}
cdef unsigned int BASIC_TYPES = (1 << len(BASICS)) - 1


@cython.freelist(64)
@cython.no_gc
cdef class Card:
    """A card as it is printed and as it lies there. It refers to nothing that refers to it."""


cdef Card read_card(value):
    """A card from its object; where it is and whose is not part of it."""
    cdef Card card = Card()
    card.fields = value if type(value) is dict else {}
    card.id, card.attached_to = whole(get(value, "id"), NOBODY), whole(get(value, "attached_to"), NOBODY)
    card.controller, card.owner = NOBODY, whole(get(value, "owner"), NOT_SAID)
    card.name = name_id(text(get(value, "name")))
    card.types, card.colors = type_bits(text(get(value, "types"))), color_bits(text(get(value, "colors")))
    if card.types >> at.CARD_TYPE_LAND & 1:
        card.colors |= card.types >> at.NUM_CARD_TYPES & BASIC_TYPES
    card.mana_value, card.loyalty = whole(get(value, "cmc"), 0), whole(get(value, "loyalty"), 0)
    card.power, card.toughness = whole(get(value, "power"), 0), whole(get(value, "toughness"), 0)
    card.damage, card.attachments = whole(get(value, "damage"), 0), len(items(get(value, "attachments")))
    card.tapped, card.sick = get(value, "tapped") is True, get(value, "summoning_sick") is True
    card.token, card.face_down = get(value, "token") is True, get(value, "face_down") is True
    read_keywords(card, items(get(value, "keywords")))
    read_counters(card, get(value, "counters"))
    return card


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


cdef class View:
    """The game as the seat that is asked sees it.

    Args:
      decision: a decision of the daemon, parsed.

    Raises:
      ValueError: it is none.
    """

    def __init__(self, dict decision not None):
        kind = get(decision, "decision_type")
        self.decision, self.seat, state = decision, whole(get(decision, "seat"), NOBODY), get(decision, "game_state")
        if type(kind) is not str or not 0 <= self.seat <= 1 or type(state) is not dict:
            raise ValueError("this line is no decision")
        self.number, self.state = TYPES.get(kind, -1), state
        self.players, self.cards, self.places, self.stack = [None, None], [], {}, []
        self.combat = items(get(state, "combat"))
        for player in items(get(state, "players")):
            self._read_player(player)
        for item in items(get(state, "stack"))[:MOST_ITEMS]:
            self.stack.append(self._spell(item))
        self._aim()
        self._place_all()

    def _read_player(self, player):
        cdef int seat = whole(get(player, "seat"), NOBODY)
        if 0 <= seat <= 1:
            self.players[seat] = player
        self._read_zone(items(get(player, "hand")), seat, at.ZONE_HAND)
        self._read_zone(items(get(player, "battlefield")), seat, at.ZONE_BATTLEFIELD)
        self._read_zone(items(get(player, "graveyard")), seat, at.ZONE_GRAVEYARD)
        self._read_zone(items(get(player, "exile")), seat, at.ZONE_EXILE)

    def _read_zone(self, list cards, int seat, int zone):
        cdef Card card
        for value in cards[: MOST_CARDS - len(self.cards)]:
            card = read_card(value)
            card.controller, card.zone = seat, zone
            self.cards.append(card)
            if card.id >= 0:
                self.places.setdefault(card.id, card)

    def _spell(self, item):
        """An item of the stack as a card: its own, else the one elsewhere whose ability it is."""
        cdef Card source = self.find(whole(get(item, "card_id"), NOBODY)), card
        own = get(item, "card")
        card = read_card(own if type(own) is dict or source is None else source.fields)
        card.fields = item if type(item) is dict else {}
        card.id, card.name = whole(get(item, "card_id"), NOBODY), name_id(text(get(item, "name")))
        card.zone, card.controller = at.ZONE_STACK, whole(get(item, "controller"), NOBODY)
        card.row = at.STACK_ROW + len(self.stack) if len(self.stack) < at.STACK_ROWS else 0
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

    def _seat_of(self, target):
        """Whom a {"kind", "id"} is or belongs to, NOBODY if it is not known."""
        cdef int id = whole(get(target, "id"), NOBODY)
        cdef Card card
        kind = get(target, "kind")
        if kind == "player":
            return id
        card = self.find_spell(id) if kind == "spell" else self.find(id)
        return NOBODY if card is None else card.controller

    def _aim(self):
        """Marks attackers and blockers, and adds up what cards are aimed at."""
        cdef Card card, other
        for card in self.cards:
            other = self.find(card.attached_to) if card.zone == at.ZONE_BATTLEFIELD else None
            if other is not None:
                aim(card, other.controller)
        for card in self.stack:
            for target in items(get(card.fields, "targets")):
                aim(card, self._seat_of(target))
        for attack in self.combat:
            blockers = items(get(attack, "blockers"))
            card = self.find(whole(get(attack, "attacker"), NOBODY))
            if card is not None and card.zone == at.ZONE_BATTLEFIELD:
                card.attacking, card.blocked = True, len(blockers)
                aim(card, self._seat_of(get(attack, "defender")))
            for blocker in blockers:
                card = self.find(whole(blocker, NOBODY))
                if card is not None and card.zone == at.ZONE_BATTLEFIELD:
                    card.blocking = True

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _place_all(self):
        """Which card stands in which row."""
        cdef int me = self.seat, them = 1 - self.seat
        self.rows = [None] * at.ENTITIES
        self._place(self._in_zone(me, at.ZONE_HAND), at.HAND_ROW, at.HAND_ROWS)
        self._place(lands_last(self._in_zone(me, at.ZONE_BATTLEFIELD)), at.MY_BATTLEFIELD_ROW, at.BATTLEFIELD_ROWS)
        self._place(lands_last(self._in_zone(them, at.ZONE_BATTLEFIELD)), at.THEIR_BATTLEFIELD_ROW, at.BATTLEFIELD_ROWS)
        self.unseen += max(0, len(self.stack) - at.STACK_ROWS)
        for place, card in enumerate(self.stack[: at.STACK_ROWS]):
            self.rows[at.STACK_ROW + place] = card
        newest = self._in_zone(me, at.ZONE_GRAVEYARD)[::-1][: at.GRAVEYARD_ROWS]  # it is the last of its graveyard
        self._place(newest, at.MY_GRAVEYARD_ROW, at.GRAVEYARD_ROWS)
        newest = self._in_zone(them, at.ZONE_GRAVEYARD)[::-1][: at.GRAVEYARD_ROWS]
        self._place(newest, at.THEIR_GRAVEYARD_ROW, at.GRAVEYARD_ROWS)

    def _in_zone(self, int seat, int zone):
        cdef Card card
        return [card for card in self.cards if card.controller == seat and card.zone == zone]

    def _place(self, list cards, int first, int rows):
        cdef Card card
        cdef int row = first
        for card in cards[:rows]:
            self.rows[row], card.row = card, row
            row += 1
        self.unseen += max(0, len(cards) - rows)

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


cdef list lands_last(list cards):
    cdef Card card
    return (
        [card for card in cards if not card.types >> at.CARD_TYPE_LAND & 1]
        + [card for card in cards if card.types >> at.CARD_TYPE_LAND & 1]
    )
