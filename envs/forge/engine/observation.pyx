"""What a seat sees as numbers, f32[FEATURES].

`envs/forge/layout.py` says what stands where, and tests/referee/forge_view.py writes the same slowly.
"""

from jaxrl.envs.forge cimport layout as at
from jaxrl.envs.forge.engine.question cimport Question
from jaxrl.envs.forge.engine.values cimport NOBODY, NOT_SAID, get, items, ratio, text, whole
from jaxrl.envs.forge.engine.view cimport Card, View, read_card

import re

import numpy as np

from jaxrl.envs.forge import layout
from jaxrl.envs.forge.engine.words import cost_of, zone_of
from jaxrl.envs.forge.vocabulary import name_id, text_id

PHASES = {name: number for number, name in enumerate(layout.PHASES)}
COLORS = {name: number for number, name in enumerate(layout.COLORS)}
POOL = "WUBRGC"
NUMBER = re.compile(r"-?[0-9]{1,9}")  # a text that is one


def observe(View view not None, Question question=None):
    """f32[FEATURES]: what the seat of a view sees, with what it is asked unless that is answered or None."""
    out = np.zeros(at.FEATURES, np.float32)
    cdef float[::1] numbers = out
    write_globals(view, &numbers[0])
    write_entities(view, &numbers[at.ENTITIES_AT])
    if question is not None and not question.answered:
        write_question(question, &numbers[0], &numbers[at.ENTITIES_AT], &numbers[at.OPTIONS_AT])
    return out


# ---- cards -----------------------------------------------------------------------------------------------------------

cdef void write_bits(unsigned int bits, int count, float* out) noexcept:
    cdef int k
    for k in range(count):
        out[k] = bits >> k & 1


cdef void write_card(Card card, int me, float* row) noexcept:
    """The first CARD columns."""
    cdef int owner = card.controller if card.owner == NOT_SAID else card.owner
    write_bits(card.types, at.NUM_CARD_TYPES, row + at.FIRST_CARD_TYPE)
    row[at.MANA_VALUE] = ratio(card.mana_value, 8)
    write_bits(card.colors, at.NUM_COLORS, row + at.FIRST_COLOR)
    row[at.POWER] = ratio(card.power, 8)
    row[at.TOUGHNESS] = ratio(<long long>card.toughness - card.damage, 8)
    row[at.DAMAGE] = ratio(card.damage, 8)
    row[at.LOYALTY] = ratio(card.loyalty, 8)
    row[at.PLUS] = ratio(card.plus, 4)
    row[at.COUNTERS] = ratio(card.counters, 4)
    row[at.TAPPED], row[at.SICK], row[at.TOKEN] = card.tapped, card.sick, card.token
    row[at.MINE], row[at.OWN] = card.controller == me, owner == me
    row[at.ATTACKING], row[at.BLOCKING], row[at.BLOCKED] = card.attacking, card.blocking, ratio(card.blocked, 2)
    row[at.ATTACHMENTS], row[at.ATTACHED] = ratio(card.attachments, 2), card.attached_to >= 0
    write_bits(card.keywords, at.NUM_KEYWORDS, row + at.FIRST_KEYWORD)
    row[at.OTHER_KEYWORDS] = ratio(card.other_keywords, 4)


cdef inline void write_aims(Card card, int me, float* row) noexcept:
    row[at.AIMS_AT_ME], row[at.AIMS_AT_THEM] = ratio(card.aims[me], 2), ratio(card.aims[1 - me], 2)


cdef void write_entity(Card card, int me, float* row) noexcept:
    """The row of a card, without the marks of the question and what it is aimed at."""
    write_card(card, me, row)
    row[at.PRESENT] = row[at.FIRST_ZONE + card.zone] = 1
    row[at.FACE_DOWN], row[at.ENTITY_ID] = card.face_down, card.name


cdef void write_entities(View view, float* out) except *:
    cdef Card card
    cdef int row
    for row, card in enumerate(view.rows):
        if card is not None:
            write_entity(card, view.seat, out + row * at.ENTITY)
            write_aims(card, view.seat, out + row * at.ENTITY)


# ---- globals ---------------------------------------------------------------------------------------------------------

cdef void write_board(View view, int seat, float* out) except *:
    """What the permanents of a seat add up to."""
    cdef long long power = 0, free_power = 0, toughness = 0, flying = 0
    cdef int lands = 0, free_lands = 0, creatures = 0, free_creatures = 0, walkers = 0, others = 0, k
    cdef int[at.NUM_COLORS] colors = [0, 0, 0, 0, 0]
    cdef bint land, creature, walker
    cdef Card card
    for card in view.cards:
        if card.controller != seat or card.zone != at.ZONE_BATTLEFIELD:
            continue
        land, creature = card.types >> at.CARD_TYPE_LAND & 1, card.types >> at.CARD_TYPE_CREATURE & 1
        walker = card.types >> at.CARD_TYPE_PLANESWALKER & 1
        if land:
            lands += 1
            free_lands += not card.tapped
            for k in range(at.NUM_COLORS):
                colors[k] += 0 if card.tapped else <int>(card.types >> (at.NUM_CARD_TYPES + k) & 1)
        if creature:
            creatures += 1
            free_creatures += not card.tapped
            power += card.power
            free_power += 0 if card.tapped else card.power
            toughness += <long long>card.toughness - card.damage
            flying += card.power if card.keywords >> at.KEYWORD_FLYING & 1 else 0
        walkers += walker
        others += not (land or creature or walker)
    out[at.LANDS], out[at.FREE_LANDS] = ratio(lands, 8), ratio(free_lands, 8)
    for k in range(at.NUM_COLORS):
        out[at.FREE_COLORS + k] = ratio(colors[k], 4)
    out[at.CREATURES], out[at.FREE_CREATURES] = ratio(creatures, 8), ratio(free_creatures, 8)
    out[at.TOTAL_POWER], out[at.FREE_POWER] = ratio(power, 16), ratio(free_power, 16)
    out[at.TOTAL_TOUGHNESS], out[at.FLYING_POWER] = ratio(toughness, 16), ratio(flying, 16)
    out[at.PLANESWALKERS], out[at.OTHERS] = ratio(walkers, 2), ratio(others, 4)


cdef void write_player(View view, int seat, float* out) except *:
    player = view.players[seat]
    if player is None:
        return
    out[at.LIFE] = ratio(whole(get(player, "life"), 0), 20)
    out[at.POISON] = ratio(whole(get(player, "poison"), 0), 10)
    out[at.HAND] = ratio(whole(get(player, "hand_size"), 0), 7)
    out[at.LIBRARY] = ratio(whole(get(player, "library_size"), 0), 60)
    out[at.GRAVEYARD] = ratio(len(items(get(player, "graveyard"))), 20)
    out[at.EXILE] = ratio(len(items(get(player, "exile"))), 20)
    write_board(view, seat, out)
    for k, color in enumerate(POOL):
        out[at.MANA + <int>k] = ratio(text(get(player, "mana_pool")).count(color), 4)
    out[at.LANDS_PLAYED] = ratio(whole(get(player, "lands_played"), 0), 2)
    out[at.ENERGY] = ratio(whole(get(player, "energy"), 0), 8)


cdef void write_attack(View view, float* out) except *:
    """The combat in sum."""
    cdef long long power = 0, free = 0
    cdef Card card
    for attack in view.combat:
        card = view.find(whole(get(attack, "attacker"), NOBODY))
        if card is not None:
            power += card.power
            free += 0 if items(get(attack, "blockers")) else card.power
            out[at.I_ATTACK] = card.controller == view.seat
    out[at.ATTACKERS] = ratio(len(view.combat), 8)
    out[at.ATTACK_POWER], out[at.FREE_ATTACK_POWER] = ratio(power, 16), ratio(free, 16)


cdef void write_globals(View view, float* out) except *:
    cdef Card top
    state = view.state
    out[at.TURN] = ratio(whole(get(state, "turn"), 0), 20)
    phase = text(get(state, "phase"))
    if phase in PHASES:
        out[at.FIRST_PHASE + <int>PHASES[phase]] = 1
    out[at.MY_TURN] = whole(get(state, "active"), NOBODY) == view.seat
    out[at.MY_PRIORITY] = whole(get(state, "priority"), NOBODY) == view.seat
    write_player(view, view.seat, out + at.FIRST_PLAYER)
    write_player(view, 1 - view.seat, out + at.FIRST_PLAYER + at.PLAYER)
    out[at.STACK_SIZE] = ratio(len(items(get(state, "stack"))), 4)
    if view.stack:
        top = view.stack[0]
        out[at.TOP_IS_MINE], out[at.TOP_IS_THEIRS] = top.controller == view.seat, top.controller == 1 - view.seat
    write_attack(view, out)


# ---- one option ------------------------------------------------------------------------------------------------------

cdef void write_place(Card card, int me, float* row) noexcept:
    """The columns of a card that an option is about."""
    write_card(card, me, row)
    row[at.FIRST_OPTION_ZONE + card.zone] = 1
    row[at.OPTION_ENTITY] = 1 + card.row if card.row else 0


cdef void write_card_option(View view, option, int id, float* row) except *:
    """A card, wherever it is; its own "card" says what it is if it is nowhere to be seen."""
    cdef Card card = view.find(id)
    own = get(option, "card")
    row[at.IS_CARD], row[at.OPTION_ID] = 1, name_id(text(get(option, "name")))
    if card is None:
        card = read_card(own)
        if type(own) is not dict:
            card.owner = NOBODY
        card.controller = whole(get(option, "controller"), NOBODY if card.owner == NOT_SAID else card.owner)
        card.zone = zone_of(text(get(option, "zone")))
    write_place(card, view.seat, row)


cdef void write_spell(View view, option, int id, float* row) except *:
    cdef Card card = view.find_spell(id)
    cdef int seat = whole(get(option, "controller"), NOBODY)
    row[at.IS_SPELL], row[at.OPTION_ID] = 1, name_id(text(get(option, "name")))
    if card is not None:
        write_place(card, view.seat, row)
        seat = card.controller
    row[at.ME], row[at.THEM] = seat == view.seat, seat == 1 - view.seat


cdef void write_option(View view, option, float* row) except *:
    """An option of a question, into a row of zeros."""
    cdef int id
    kind, name = get(option, "kind"), text(get(option, "name"))
    number = get(option, "id")
    id = whole(get(option, "card_id") if number is None else number, NOBODY)
    row[at.VALID] = 1
    if kind == "card":
        write_card_option(view, option, id, row)
    elif kind == "player":
        row[at.IS_PLAYER], row[at.ME], row[at.THEM] = 1, id == view.seat, id == 1 - view.seat
    elif kind == "spell":
        write_spell(view, option, id, row)
    elif kind == "number":
        row[at.IS_NUMBER], row[at.NUMBER] = 1, ratio(int(name) if NUMBER.fullmatch(name) else 0, 10)
    elif kind == "color":
        row[at.IS_COLOR], row[at.OPTION_ID] = 1, text_id(name)
        if name in COLORS:
            row[at.FIRST_COLOR + <int>COLORS[name]] = 1
    else:
        row[at.IS_TEXT], row[at.OPTION_ID] = 1, text_id(text(get(option, "description")) or name)


cdef void write_action(View view, action, float* row) except *:
    """An action of choose_action, into a row of zeros."""
    cdef Card card = view.find(whole(get(action, "card_id"), NOBODY))
    kind = get(action, "kind")
    row[at.VALID], row[at.COST] = 1, ratio(cost_of(text(get(action, "mana_cost"))), 8)
    if card is not None:
        write_place(card, view.seat, row)
    if kind == "ability":
        row[at.USES_ABILITY], row[at.OPTION_ID] = 1, text_id(text(get(action, "description")))
        return
    if kind == "land" or (get(action, "is_land") is True and kind != "spell"):
        row[at.PLAYS_LAND] = 1
    else:
        row[at.CASTS_SPELL] = 1
    row[at.OPTION_ID] = name_id(text(get(action, "card")))


# ---- all options of a question ---------------------------------------------------------------------------------------

cdef void write_listed(Question q, float* rows) except *:
    """Options that the line lists."""
    cdef int place
    for place, option in enumerate(q.options):
        if q.number == at.TYPE_CHOOSE_ACTION:
            write_action(q.view, option, rows + (1 + place) * at.OPTION)
        else:
            write_option(q.view, option, rows + (place + q.has_stop()) * at.OPTION)
    for place in q.picks:
        rows[(1 + place) * at.OPTION + at.TAKEN] = ratio(q.picks.count(place), 2)


cdef void write_combat(Question q, float* rows) except *:
    """What an attacker may attack, or the attackers that a blocker may block."""
    cdef int row, place
    if q.number == at.TYPE_DECLARE_ATTACKERS:
        for row, option in enumerate(q.defenders(), 1):
            write_option(q.view, option, rows + row * at.OPTION)
        return
    for row, place in enumerate(q.targets, 1):
        attacker = q.attackers[place]
        write_card_option(q.view, attacker, whole(get(attacker, "card_id"), NOBODY), rows + row * at.OPTION)
        rows[row * at.OPTION + at.VALID] = 1
        rows[row * at.OPTION + at.TAKEN] = ratio(q.assigned[place], 2)


cdef void write_options(Question q, float* rows) except *:
    cdef int i
    cdef bint stop = q.optional if q.number == at.TYPE_CHOOSE_ENTITY else q.has_stop()
    if stop and q.number != at.TYPE_CHOOSE_ABILITY and q.number != at.TYPE_ORDER:
        rows[at.VALID] = rows[at.STOP] = 1
    if q.is_yes_no():
        rows += at.OPTION
        rows[at.VALID] = rows[at.IS_YES] = 1
        rows[at.OPTION_ID] = text_id(text(get(q.view.decision, "message")))
    elif q.number == at.TYPE_ANNOUNCE_VALUE:
        for i in range(min(q.span, at.NUM_ACTIONS)):
            rows[i * at.OPTION + at.VALID] = rows[i * at.OPTION + at.IS_NUMBER] = 1
            rows[i * at.OPTION + at.NUMBER] = ratio(<long long>q.first + i, 10)
    elif q.number in (at.TYPE_DECLARE_ATTACKERS, at.TYPE_DECLARE_BLOCKERS):
        write_combat(q, rows)
    else:
        write_listed(q, rows)


# ---- what they leave in the rows of entities -------------------------------------------------------------------------

cdef void mark(View view, item, float* entities, int column, float value) except *:
    """Writes into the row of a {"card_id"}, if it has one."""
    cdef Card card = view.find(whole(get(item, "card_id"), NOBODY))
    if card is not None and card.row:
        entities[card.row * at.ENTITY + column] = value


cdef void mark_options(Question q, const float* rows, float* entities) except *:
    """OFFERED, and PICKED of sets and orders."""
    cdef int i, row
    for i in range(at.NUM_ACTIONS):
        row = <int>rows[i * at.OPTION + at.OPTION_ENTITY] - 1
        if row >= 0 and q.allowed[i]:
            entities[row * at.ENTITY + at.OFFERED] = 1
    if q.options:
        for i in q.picks:
            row = <int>rows[(1 + i) * at.OPTION + at.OPTION_ENTITY] - 1
            if row >= 0:
                entities[row * at.ENTITY + at.PICKED] = 1


cdef void mark_combat(Question q, float* entities) except *:
    """PICKED of attackers and blockers."""
    cdef int place, pick
    for place, pick in enumerate(q.picks):
        if q.number == at.TYPE_DECLARE_ATTACKERS:
            mark(q.view, q.attackers[place], entities, at.PICKED, pick > 0)
        else:
            mark(q.view, q.blockers[place], entities, at.PICKED, pick >= 0)
    if q.number == at.TYPE_DECLARE_BLOCKERS:
        for place, pick in enumerate(q.assigned):
            mark(q.view, q.attackers[place], entities, at.PICKED, ratio(pick, 2))


cdef void show_subject(View view, item, float* entities) except *:
    """The {"card_id", "name"} that the question is about, in its own row and marked in the other one."""
    cdef int id = whole(get(item, "card_id"), NOBODY)
    cdef Card card = view.find(id)
    cdef float* row = entities + at.SUBJECT_ROW * at.ENTITY
    if card is not None:
        mark(view, item, entities, at.SUBJECT, 1)
    else:
        card = view.find_spell(id)
    if card is not None:
        write_entity(card, view.seat, row)
        if card.zone == at.ZONE_BATTLEFIELD:
            write_aims(card, view.seat, row)
    else:
        row[at.PRESENT], row[at.ENTITY_ID] = 1, name_id(text(get(item, "name")))
    row[at.SUBJECT] = 1


cdef void show_text(View view, float* row) except *:
    """A question about no card."""
    told = text(get(view.decision, "message")) or text(get(view.decision, "name"))
    if told:
        row[at.PRESENT] = row[at.SUBJECT] = 1
        row[at.ENTITY_ID] = text_id(told)


cdef void write_question(Question q, float* out, float* entities, float* rows) except *:
    """What is asked, once the rest is written."""
    decision, picked = q.view.decision, len(q.picks)
    out[at.ASKED] = out[at.FIRST_TYPE + q.number] = 1
    if q.is_set() or q.number == at.TYPE_ORDER:
        out[at.CHOSEN], out[at.LEAST], out[at.MOST] = ratio(picked, 8), ratio(q.least, 8), ratio(q.most, 8)
    out[at.CHOICES] = ratio(q.num_legal, 16)
    out[at.CAN_STOP] = q.has_stop() and q.allowed[0]
    if q.number == at.TYPE_SCRY:
        out[at.TO_GRAVEYARD] = get(decision, "bottom") == "graveyard"
    elif q.number == at.TYPE_MULLIGAN:
        out[at.MULLIGANS] = ratio(whole(get(decision, "mulligans"), 0), 4)
    write_options(q, rows)
    mark_options(q, rows, entities)
    if q.attackers:
        asked = q.attackers if q.number == at.TYPE_DECLARE_ATTACKERS else q.blockers
        out[at.PROGRESS] = ratio(picked, len(asked))
        mark_combat(q, entities)
        show_subject(q.view, asked[picked], entities)
    elif type(get(decision, "source")) is dict:
        show_subject(q.view, get(decision, "source"), entities)
    else:
        show_text(q.view, entities + at.SUBJECT_ROW * at.ENTITY)
