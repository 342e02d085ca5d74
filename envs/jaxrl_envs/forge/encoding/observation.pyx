"""Observations of a seat, f32[FEATURES].

`envs/jaxrl_envs/forge/layout.py` says what stands where, and tests/jaxrl_envs/forge/referee/forge_view.py writes the same slowly.
"""

from jaxrl_envs.forge cimport layout as at
from jaxrl_envs.forge.encoding.mana cimport Purse, affords, purse
from jaxrl_envs.forge.encoding.question cimport Question
from jaxrl_envs.forge.encoding.tables cimport Tables
from jaxrl_envs.forge.encoding.values cimport MISSING, NOT_SAID, get, items, ratio, text, whole
from jaxrl_envs.forge.encoding.view cimport Card, DecisionView

import re

import numpy as np

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.encoding.facts import parts_of
from jaxrl_envs.forge.encoding.card_words import cost_of

PHASES = {name: number for number, name in enumerate(layout.PHASES)}
COLORS = {name: number for number, name in enumerate(layout.COLORS)}
NUMBER = re.compile(r"-?[0-9]{1,9}")  # a text that is one


def observe(DecisionView view not None, Question question=None):
    """f32[FEATURES]: what the seat of a view sees, with what it is asked unless that is answered or None."""
    out = np.zeros(at.FEATURES, np.float32)
    cdef float[::1] numbers = out
    cdef Tables tables = Tables()
    tables.kinds, tables.parts = &numbers[at.KINDS_AT], &numbers[at.PARTS_AT]
    write_globals(view, &numbers[0])
    if question is not None and not question.answered:
        write_question(question, tables, &numbers[0], &numbers[at.ENTITIES_AT], &numbers[at.OPTIONS_AT])
    write_entities(view, tables, &numbers[at.ENTITIES_AT])
    return out


# ---- cards -----------------------------------------------------------------------------------------------------------

cdef void write_card(Card card, int me, float* row) noexcept:
    """Features of a card by itself."""
    cdef int owner = card.controller if card.owner == NOT_SAID else card.owner
    row[at.CARD_TYPE_BITS] = card.types & ((1 << at.NUM_CARD_TYPES) - 1)
    row[at.COLOR_BITS], row[at.KEYWORD_BITS] = card.colors, card.keywords
    row[at.MANA_VALUE] = ratio(card.mana_value, 8)
    row[at.POWER] = ratio(card.power, 8)
    row[at.TOUGHNESS] = ratio(<long long>card.toughness - card.damage, 8)
    row[at.DAMAGE] = ratio(card.damage, 8)
    row[at.LOYALTY] = ratio(card.loyalty, 8)
    row[at.PLUS] = ratio(card.plus, 4)
    row[at.COUNTERS] = ratio(card.counters, 4)
    row[at.OTHER_KEYWORDS] = ratio(card.other_keywords, 4)
    row[at.ATTACHMENTS], row[at.ATTACHED] = ratio(card.attachments, 2), card.attached_to >= 0
    row[at.ATTACKING], row[at.BLOCKING], row[at.BLOCKED] = card.attacking, card.blocking, ratio(card.blocked, 2)
    row[at.TAPPED], row[at.SICK], row[at.TOKEN] = card.tapped, card.sick, card.token
    row[at.MINE], row[at.OWN] = card.controller == me, owner == me
    row[at.FACE_DOWN], row[at.KNOWN], row[at.POSITION] = card.face_down, card.known, card.place
    row[at.ABILITY], row[at.TRIGGER], row[at.FROM] = card.ability, card.trigger, card.origin
    row[at.PRESENT], row[at.ZONE] = 1, 1 + card.zone


cdef inline float row_of(Card card) noexcept:
    return 1 + card.row if card is not None and card.row else 0


cdef void write_ties(DecisionView view, Card card, float* row) except *:
    """Features of a card's ties to others, in sum and one by one."""
    cdef int k
    row[at.AIMS_AT_ME], row[at.AIMS_AT_THEM] = ratio(card.aims[view.seat], 2), ratio(card.aims[1 - view.seat], 2)
    if card.zone == at.ZONE_BATTLEFIELD:
        row[at.ATTACHED_TO], row[at.BLOCKS] = row_of(view.find(card.attached_to)), row_of(view.find(card.blocks))
    for k in range(2):
        if card.goals[k] != MISSING:
            row[at.AIM + k] = row_of(view.goal(card, k))


cdef void write_entity(DecisionView view, Card card, Tables tables, float* row) except *:
    """The row of a card, without the marks of the question."""
    write_card(card, view.seat, row)
    row[at.ENTITY_KIND] = tables.kind(card.kind)
    row[at.ENTITY_PART] = tables.part(card.kind, card.part)
    write_ties(view, card, row)


cdef void write_entities(DecisionView view, Tables tables, float* out) except *:
    cdef Purse now = purse(view, True), later = purse(view, False)
    cdef Card card
    cdef int row
    cdef float* at_row
    for row, card in enumerate(view.rows):
        if card is None:
            continue
        at_row = out + row * at.ENTITY
        write_entity(view, card, tables, at_row)
        at_row[at.COUNT] = ratio(card.count, 4)
        if card.zone == at.ZONE_HAND and card.controller == view.seat and not card.types >> at.CARD_TYPE_LAND & 1:
            at_row[at.CASTABLE], at_row[at.CASTABLE_NEXT] = affords(now, card), affords(later, card)


# ---- globals ---------------------------------------------------------------------------------------------------------

cdef void write_board(DecisionView view, int seat, float* out) except *:
    """Sums over the permanents of a seat."""
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
                colors[k] += 0 if card.tapped else card.makes >> k & 1
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


cdef void write_player(DecisionView view, int seat, float* out) except *:
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
    for k, color in enumerate(layout.POOL):
        out[at.MANA + <int>k] = ratio(text(get(player, "mana_pool")).count(color), 4)
    out[at.LANDS_PLAYED] = ratio(whole(get(player, "lands_played"), 0), 2)
    out[at.ENERGY] = ratio(whole(get(player, "energy"), 0), 8)


cdef void write_attack(DecisionView view, float* out) except *:
    """The combat in sum."""
    cdef long long power = 0, free = 0
    cdef Card card
    for attack in view.combat:
        card = view.find(whole(get(attack, "attacker"), MISSING))
        if card is not None:
            power += card.power
            free += 0 if items(get(attack, "blockers")) else card.power
            out[at.I_ATTACK] = card.controller == view.seat
    out[at.ATTACKERS] = ratio(len(view.combat), 8)
    out[at.ATTACK_POWER], out[at.FREE_ATTACK_POWER] = ratio(power, 16), ratio(free, 16)


cdef void write_globals(DecisionView view, float* out) except *:
    cdef Card top
    state = view.state
    out[at.TURN] = ratio(whole(get(state, "turn"), 0), 20)
    phase = text(get(state, "phase"))
    if phase in PHASES:
        out[at.FIRST_PHASE + <int>PHASES[phase]] = 1
    out[at.MY_TURN] = whole(get(state, "active"), MISSING) == view.seat
    out[at.MY_PRIORITY] = whole(get(state, "priority"), MISSING) == view.seat
    write_player(view, view.seat, out + at.FIRST_PLAYER)
    write_player(view, 1 - view.seat, out + at.FIRST_PLAYER + at.PLAYER)
    out[at.STACK_SIZE] = ratio(len(items(get(state, "stack"))), 4)
    if view.stack:
        top = view.stack[0]
        out[at.TOP_IS_MINE], out[at.TOP_IS_THEIRS] = top.controller == view.seat, top.controller == 1 - view.seat
    write_attack(view, out)


# ---- one option ------------------------------------------------------------------------------------------------------

cdef void write_card_option(DecisionView view, option, int id, Tables tables, float* row) except *:
    """A card, wherever it is."""
    cdef Card card = view.find(id)
    row[at.SORT] = 1 + at.SORT_CARD
    row[at.OPTION_KIND] = tables.kind(view.names.kind(text(get(option, "name"))))
    if card is not None:
        row[at.OPTION_ENTITY] = row_of(card)
        row[at.ME], row[at.THEM] = card.controller == view.seat, card.controller == 1 - view.seat


cdef void write_spell(DecisionView view, option, int id, Tables tables, float* row) except *:
    cdef Card card = view.find_spell(id)
    cdef int seat = whole(get(option, "controller"), MISSING)
    row[at.SORT] = 1 + at.SORT_SPELL
    row[at.OPTION_KIND] = tables.kind(view.names.kind(text(get(option, "name"))))
    if card is not None:
        row[at.OPTION_ENTITY] = row_of(card)
        seat = card.controller
    row[at.ME], row[at.THEM] = seat == view.seat, seat == 1 - view.seat


cdef void write_option(DecisionView view, option, Tables tables, float* row) except *:
    """An option of a question, into a row of zeros."""
    cdef int id
    kind, name, parts = get(option, "kind"), text(get(option, "name")), get(option, "parts")
    number = get(option, "id")
    id = whole(get(option, "card_id") if number is None else number, MISSING)
    if parts is not None:
        own, count = parts_of(parts)
        row[at.OPTION_PART] = tables.add(own, count, 0)
    if kind == "card":
        write_card_option(view, option, id, tables, row)
    elif kind == "player":
        row[at.SORT], row[at.ME], row[at.THEM] = 1 + at.SORT_PLAYER, id == view.seat, id == 1 - view.seat
    elif kind == "spell":
        write_spell(view, option, id, tables, row)
    elif kind == "number":
        row[at.SORT], row[at.NUMBER] = 1 + at.SORT_NUMBER, ratio(int(name) if NUMBER.fullmatch(name) else 0, 10)
    elif kind == "color":
        row[at.SORT], row[at.OPTION_COLOR] = 1 + at.SORT_COLOR, 1 + <int>COLORS.get(name, -1)
        row[at.OPTION_KIND] = tables.kind(view.names.text(name))
    else:
        row[at.SORT] = 1 + at.SORT_TEXT
        row[at.OPTION_KIND] = tables.kind(view.names.text(text(get(option, "description")) or name))


cdef void write_action(DecisionView view, action, Tables tables, float* row) except *:
    """An action of choose_action, into a row of zeros."""
    cdef Card card = view.find(whole(get(action, "card_id"), MISSING))
    kind, name = get(action, "kind"), view.names.kind(text(get(action, "card")))
    row[at.COST] = ratio(cost_of(text(get(action, "mana_cost"))), 8)
    row[at.OPTION_ENTITY] = row_of(card)
    row[at.OPTION_PART] = tables.part(name, whole(get(action, "part"), MISSING))
    if kind == "ability":
        row[at.SORT] = 1 + at.SORT_ABILITY
        row[at.OPTION_KIND] = tables.kind(view.names.text(text(get(action, "description"))))
        return
    land = kind == "land" or (get(action, "is_land") is True and kind != "spell")
    row[at.SORT] = 1 + (at.SORT_LAND if land else at.SORT_CAST)
    row[at.OPTION_KIND] = tables.kind(name)


# ---- all options of a question ---------------------------------------------------------------------------------------

cdef void write_listed(Question q, Tables tables, float* rows) except *:
    """Options that the line lists."""
    cdef int place
    cdef float* row
    for place, option in enumerate(q.options):
        if q.number == at.TYPE_CHOOSE_ACTION:
            row = rows + (1 + place) * at.OPTION
            write_action(q.view, option, tables, row)
        else:
            row = rows + (place + q.has_stop()) * at.OPTION
            write_option(q.view, option, tables, row)
        row[at.OPTION_COUNT] = ratio(q.copies(place), 4)
    for place in q.picks:
        rows[(1 + place) * at.OPTION + at.TAKEN] = ratio(q.picks.count(place), 2)


cdef void write_combat(Question q, Tables tables, float* rows) except *:
    """Options of an attacker (targets) or of a blocker (attackers)."""
    cdef int row, place
    if q.number == at.TYPE_DECLARE_ATTACKERS:
        for row, option in enumerate(q.defenders(), 1):
            write_option(q.view, option, tables, rows + row * at.OPTION)
        return
    for row, place in enumerate(q.targets, 1):
        attacker = q.attackers[place]
        write_card_option(q.view, attacker, whole(get(attacker, "card_id"), MISSING), tables, rows + row * at.OPTION)
        rows[row * at.OPTION + at.TAKEN] = ratio(q.assigned[place], 2)


cdef void write_number(Question q, long long number, float* row) except *:
    """A number, and who gets that much of what is shared out."""
    about = get(q.view.decision, "about")
    cdef int seat = whole(get(about, "player"), MISSING)
    row[at.SORT], row[at.NUMBER] = 1 + at.SORT_NUMBER, ratio(number, 10)
    row[at.OPTION_ENTITY] = row_of(q.view.find(whole(get(about, "card_id"), MISSING)))
    row[at.ME], row[at.THEM] = seat == q.view.seat, seat == 1 - q.view.seat


cdef void write_options(Question q, Tables tables, float* rows) except *:
    cdef int i
    cdef bint stop = q.optional if q.number == at.TYPE_CHOOSE_ENTITY else q.has_stop()
    if stop and q.number != at.TYPE_CHOOSE_ABILITY and q.number != at.TYPE_ORDER:
        rows[at.SORT] = 1 + at.SORT_STOP
    if q.is_yes_no():
        rows += at.OPTION
        rows[at.SORT] = 1 + at.SORT_YES
        rows[at.OPTION_KIND] = tables.kind(q.view.names.text(text(get(q.view.decision, "message"))))
    elif q.number == at.TYPE_ANNOUNCE_VALUE:
        for i in range(min(q.span, at.NUM_ACTIONS)):
            write_number(q, <long long>q.first + i, rows + i * at.OPTION)
    elif q.number in (at.TYPE_DECLARE_ATTACKERS, at.TYPE_DECLARE_BLOCKERS):
        write_combat(q, tables, rows)
    else:
        write_listed(q, tables, rows)


# ---- what they leave in the rows of entities -------------------------------------------------------------------------

cdef inline void add_pick(float* row, float value) noexcept:
    row[at.PICKED] = ratio(row[at.PICKED] + value, 1)


cdef void pick(DecisionView view, item, float* entities, float value) except *:
    """Adds to what is picked of the row of a {"card_id"}, if it has one."""
    cdef Card card = view.find(whole(get(item, "card_id"), MISSING))
    if card is not None and card.row:
        add_pick(entities + card.row * at.ENTITY, value)


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
                add_pick(entities + row * at.ENTITY, 0.5)


cdef void mark_combat(Question q, float* entities) except *:
    """PICKED of attackers and blockers."""
    cdef int place, picked
    for place, picked in enumerate(q.picks):
        if q.number == at.TYPE_DECLARE_ATTACKERS:
            pick(q.view, q.attackers[place], entities, 0.5 * (picked > 0))
        else:
            pick(q.view, q.blockers[place], entities, 0.5 * (picked >= 0))
    if q.number == at.TYPE_DECLARE_BLOCKERS:
        for place, picked in enumerate(q.assigned):
            pick(q.view, q.attackers[place], entities, ratio(picked, 2))


cdef void show_subject(DecisionView view, item, Tables tables, float* entities) except *:
    """The {"card_id", "name"} that the question is about, in its own row and marked in the other one."""
    cdef int id = whole(get(item, "card_id"), MISSING)
    cdef Card card = view.find(id)
    cdef float* row = entities + at.SUBJECT_ROW * at.ENTITY
    if card is not None and card.row:
        entities[card.row * at.ENTITY + at.SUBJECT] = 1
    if card is None:
        card = view.find_spell(id)
    if card is not None:
        write_entity(view, card, tables, row)
    else:
        row[at.PRESENT], row[at.ENTITY_KIND] = 1, tables.kind(view.names.kind(text(get(item, "name"))))
    row[at.SUBJECT] = 1


cdef void show_text(DecisionView view, Tables tables, float* row) except *:
    """A question about no card."""
    told = text(get(view.decision, "message")) or text(get(view.decision, "name"))
    if told:
        row[at.PRESENT] = row[at.SUBJECT] = 1
        row[at.ENTITY_KIND] = tables.kind(view.names.text(told))


cdef void write_question(Question q, Tables tables, float* out, float* entities, float* rows) except *:
    """Writes the question before the cards, so that its subject comes first in the tables."""
    decision, picked = q.view.decision, len(q.picks)
    out[at.ASKED] = 1 + (whole(get(decision, "for"), q.view.seat) == 1 - q.view.seat)
    out[at.FIRST_TYPE + q.number] = 1
    if q.is_set() or q.number == at.TYPE_ORDER:
        out[at.CHOSEN], out[at.LEAST], out[at.MOST] = ratio(picked, 8), ratio(q.least, 8), ratio(q.most, 8)
    out[at.CHOICES] = ratio(q.num_legal, 16)
    out[at.CAN_STOP] = q.has_stop() and q.allowed[0]
    if q.number == at.TYPE_SCRY:
        out[at.TO_GRAVEYARD] = get(decision, "bottom") == "graveyard"
    elif q.number == at.TYPE_MULLIGAN:
        out[at.MULLIGANS] = ratio(whole(get(decision, "mulligans"), 0), 4)
    write_options(q, tables, rows)
    mark_options(q, rows, entities)
    if q.attackers:
        asked = q.attackers if q.number == at.TYPE_DECLARE_ATTACKERS else q.blockers
        out[at.PROGRESS] = ratio(picked, len(asked))
        mark_combat(q, entities)
        show_subject(q.view, asked[picked], tables, entities)
    elif type(get(decision, "source")) is dict:
        show_subject(q.view, get(decision, "source"), tables, entities)
    else:
        show_text(q.view, tables, entities + at.SUBJECT_ROW * at.ENTITY)
