# Part of engine.pyx: what a line says about the game, as plain numbers.

cdef inline void blank_card(Card* card) noexcept nogil:
    memset(card, 0, sizeof(Card))
    card.id = card.attached_to = card.controller = NOBODY
    card.owner = NOT_SAID


cdef void read_card(const Tape* tape, uint32_t i, Card* card) noexcept nogil:
    """A card from its object; where it is and whose is not part of it."""
    cdef uint32_t key = i + 1, value, n
    cdef const char* k
    blank_card(card)
    if not is_object(tape, i):
        return
    while key != tape.tokens[i].next:
        value, n, k = key + 1, tape.tokens[key].size, raw(tape, key)
        if n == 2 and memcmp(k, b"id", 2) == 0:
            card.id = whole(tape, value, NOBODY)
        elif n == 3 and memcmp(k, b"cmc", 3) == 0:
            card.mana_value = whole(tape, value, 0)
        elif n == 4 and memcmp(k, b"name", 4) == 0:
            card.name = name_id(tape, value)
        elif n == 5:
            if memcmp(k, b"types", 5) == 0:
                card.types = type_bits(tape, value)
            elif memcmp(k, b"power", 5) == 0:
                card.power = whole(tape, value, 0)
            elif memcmp(k, b"token", 5) == 0:
                card.token = as_bool(tape, value)
            elif memcmp(k, b"owner", 5) == 0:
                card.owner = whole(tape, value, NOT_SAID)
        elif n == 6:
            if memcmp(k, b"tapped", 6) == 0:
                card.tapped = as_bool(tape, value)
            elif memcmp(k, b"damage", 6) == 0:
                card.damage = whole(tape, value, 0)
            elif memcmp(k, b"colors", 6) == 0:
                card.colors = color_bits(tape, value)
        elif n == 7 and memcmp(k, b"loyalty", 7) == 0:
            card.loyalty = whole(tape, value, 0)
        elif n == 8 and memcmp(k, b"keywords", 8) == 0:
            read_keywords(tape, value, card)
        elif n == 8 and memcmp(k, b"counters", 8) == 0:
            read_counters(tape, value, card)
        elif n == 9 and memcmp(k, b"toughness", 9) == 0:
            card.toughness = whole(tape, value, 0)
        elif n == 9 and memcmp(k, b"face_down", 9) == 0:
            card.face_down = as_bool(tape, value)
        elif n == 11 and memcmp(k, b"attachments", 11) == 0:
            card.attachments = length(tape, value)
        elif n == 11 and memcmp(k, b"attached_to", 11) == 0:
            card.attached_to = whole(tape, value, NOBODY)
        elif n == 14 and memcmp(k, b"summoning_sick", 14) == 0:
            card.sick = as_bool(tape, value)
        key = tape.tokens[value].next
    if card.types & LAND:
        card.colors |= card.types >> FIRST_BASIC


cdef int find_card(const View* v, int32_t id) noexcept nogil:
    """The place of a card in v.cards, -1 if it is not seen."""
    cdef int i
    if id >= 0:
        for i in range(v.num_cards):
            if v.cards[i].id == id:
                return i
    return -1


cdef int find_item(const View* v, int32_t id) noexcept nogil:
    """The place in the stack of the first item of a card, -1."""
    cdef int i
    if id >= 0:
        for i in range(v.num_items):
            if whole(&v.tape, find(&v.tape, v.item[i], b"card_id"), NOBODY) == id:
                return i
    return -1


cdef inline int32_t item_seat(const View* v, int place) noexcept nogil:
    """Who controls an item of the stack."""
    return whole(&v.tape, find(&v.tape, v.item[place], b"controller"), NOBODY)


cdef void item_card(const View* v, int place, Card* card) noexcept nogil:
    """The card of an item of the stack: its own, else the one elsewhere whose ability it is."""
    cdef Fields walk = fields(&v.tape, v.item[place])
    cdef int32_t id = whole(&v.tape, field(&walk, b"card_id"), NOBODY)
    cdef uint32_t own = find(&v.tape, v.item[place], b"card")
    cdef int source = find_card(v, id)
    if own != 0 and is_object(&v.tape, own):
        read_card(&v.tape, own, card)
    elif source >= 0:
        memcpy(card, &v.cards[source], sizeof(Card))
    else:
        blank_card(card)
    card.id, card.name = id, name_id(&v.tape, find(&v.tape, v.item[place], b"name"))
    card.zone, card.controller = ON_STACK, item_seat(v, place)
    card.attacking, card.blocking, card.blocked, card.aims[0], card.aims[1] = False, False, 0, 0, 0
    card.row = AT_STACK_ROW + place if place < AT_STACK_ROWS else 0


cdef int32_t seat_of(const View* v, uint32_t target) noexcept nogil:
    """Whom a {"kind", "id"} is or belongs to, -1: nobody."""
    cdef uint32_t kind = find(&v.tape, target, b"kind")
    cdef int32_t id = whole(&v.tape, find(&v.tape, target, b"id"), NOBODY)
    cdef int place
    if equals(&v.tape, kind, b"player"):
        return id
    if equals(&v.tape, kind, b"spell"):
        place = find_item(v, id)
        return item_seat(v, place) if place >= 0 else NOBODY
    place = find_card(v, id)
    return v.cards[place].controller if place >= 0 else NOBODY


cdef inline void aim(Card* card, int32_t seat) noexcept nogil:
    if 0 <= seat <= 1:
        card.aims[seat] += 1


# ---- a line ----------------------------------------------------------------------------------------------------------

cdef void read_zone(View* v, uint32_t array, int32_t seat, int zone) noexcept nogil:
    cdef uint32_t item = array + 1
    cdef Card* card
    if not is_array(&v.tape, array):
        return
    while item != v.tape.tokens[array].next and v.num_cards < MOST_CARDS:
        card = &v.cards[v.num_cards]
        read_card(&v.tape, item, card)
        card.controller, card.zone = seat, zone
        v.num_cards += 1
        item = v.tape.tokens[item].next


cdef void read_players(View* v, uint32_t players) noexcept nogil:
    cdef uint32_t player = players + 1
    cdef int32_t seat
    cdef Fields walk
    if not is_array(&v.tape, players):
        return
    while player != v.tape.tokens[players].next:
        walk = fields(&v.tape, player)
        seat = whole(&v.tape, field(&walk, b"seat"), NOBODY)
        if 0 <= seat <= 1:
            v.player[seat] = player
        read_zone(v, field(&walk, b"hand"), seat, IN_HAND)
        read_zone(v, field(&walk, b"battlefield"), seat, ON_BATTLEFIELD)
        read_zone(v, field(&walk, b"graveyard"), seat, IN_GRAVEYARD)
        read_zone(v, field(&walk, b"exile"), seat, IN_EXILE)
        player = v.tape.tokens[player].next


cdef void read_combat(View* v) noexcept nogil:
    """Marks attackers and blockers, and adds up what cards are aimed at."""
    cdef uint32_t attack = v.combat + 1, blockers, blocker, defender
    cdef int i, host
    for i in range(v.num_cards):
        host = find_card(v, v.cards[i].attached_to) if v.cards[i].zone == ON_BATTLEFIELD else NOBODY
        if host >= 0:
            aim(&v.cards[i], v.cards[host].controller)
    if not is_array(&v.tape, v.combat):
        return
    while attack != v.tape.tokens[v.combat].next:
        blockers, defender = find(&v.tape, attack, b"blockers"), find(&v.tape, attack, b"defender")
        i = find_card(v, whole(&v.tape, find(&v.tape, attack, b"attacker"), NOBODY))
        if i >= 0 and v.cards[i].zone == ON_BATTLEFIELD:
            v.cards[i].attacking, v.cards[i].blocked = True, length(&v.tape, blockers)
            if defender:
                aim(&v.cards[i], seat_of(v, defender))
        if is_array(&v.tape, blockers):
            blocker = blockers + 1
            while blocker != v.tape.tokens[blockers].next:
                i = find_card(v, whole(&v.tape, blocker, NOBODY))
                if i >= 0 and v.cards[i].zone == ON_BATTLEFIELD:
                    v.cards[i].blocking = True
                blocker = v.tape.tokens[blocker].next
        attack = v.tape.tokens[attack].next


cdef void place_cards(View* v, int32_t seat, int zone, int first, int rows, int lands) noexcept nogil:
    """Gives rows to the cards of a zone; lands: -1 all cards, 0 no lands, 1 only lands, behind the others."""
    cdef int row = first, i, k
    cdef Card* card
    while lands == 1 and row < first + rows and v.rows[row] >= 0:
        row += 1
    for k in range(v.num_cards):
        i = v.num_cards - 1 - k if zone == IN_GRAVEYARD else k  # the newest card of a graveyard is its last
        card = &v.cards[i]
        if card.controller != seat or card.zone != zone or (lands >= 0 and lands != ((card.types & LAND) != 0)):
            continue
        if row < first + rows:
            v.rows[row], card.row = i, row
            row += 1
        elif zone != IN_GRAVEYARD:
            v.unseen += 1


cdef void place_all(View* v) noexcept nogil:
    """Which card stands in which row."""
    cdef int i
    for i in range(AT_ENTITIES):
        v.rows[i] = NOBODY
    place_cards(v, v.seat, IN_HAND, AT_HAND_ROW, AT_HAND_ROWS, -1)
    for i in range(2):
        place_cards(v, v.seat, ON_BATTLEFIELD, AT_MY_BATTLEFIELD_ROW, AT_BATTLEFIELD_ROWS, i)
        place_cards(v, 1 - v.seat, ON_BATTLEFIELD, AT_THEIR_BATTLEFIELD_ROW, AT_BATTLEFIELD_ROWS, i)
    place_cards(v, v.seat, IN_GRAVEYARD, AT_MY_GRAVEYARD_ROW, AT_GRAVEYARD_ROWS, -1)
    place_cards(v, 1 - v.seat, IN_GRAVEYARD, AT_THEIR_GRAVEYARD_ROW, AT_GRAVEYARD_ROWS, -1)
    v.unseen += v.num_items - AT_STACK_ROWS if v.num_items > AT_STACK_ROWS else 0


cdef int type_of(const Tape* tape, uint32_t i) noexcept nogil:
    """The number of a type of decision, NO_TYPE of one that we do not know."""
    cdef int t
    for t in range(NUM_TYPES):
        if equals(tape, i, TYPE_NAMES[t]):
            return t
    return NO_TYPE


cdef bint read_view(View* v) noexcept nogil:
    """Reads v.text. False: it is no decision."""
    cdef Fields walk
    cdef uint32_t item, kind
    cdef int32_t seat
    v.num_cards = v.num_items = v.unseen = 0
    v.player[0] = v.player[1] = 0
    v.seat = NOBODY
    if parse(v.text, v.size, &v.tape) != 0 or not is_object(&v.tape, 0):
        return False
    walk = fields(&v.tape, 0)
    kind, seat = field(&walk, b"decision_type"), whole(&v.tape, field(&walk, b"seat"), NOBODY)
    v.state = field(&walk, b"game_state")
    if not is_string(&v.tape, kind) or not 0 <= seat <= 1 or v.state == 0 or not is_object(&v.tape, v.state):
        return False
    v.type, v.seat = type_of(&v.tape, kind), seat
    walk = fields(&v.tape, v.state)
    read_players(v, field(&walk, b"players"))
    v.stack, v.combat = field(&walk, b"stack"), field(&walk, b"combat")
    if is_array(&v.tape, v.stack):
        item = v.stack + 1
        while item != v.tape.tokens[v.stack].next and v.num_items < MOST_ITEMS:
            v.item[v.num_items] = item
            v.num_items += 1
            item = v.tape.tokens[item].next
    read_combat(v)
    place_all(v)
    return True
