"""The view of a seat at a decision: cards that are seen, the stack, the combat."""

from jaxrl_envs.forge cimport layout as at

cdef enum:
    MOST_CARDS = 640  # of one line; what comes after them is not seen
    MOST_ITEMS = 64  # of the stack


cdef class Card:
    cdef dict fields  # as the line says it
    cdef str name
    cdef object kind  # a `facts.NameKind`, None: it has no name
    cdef int id
    cdef unsigned int types, colors, keywords  # bits, see `words`
    cdef int other_keywords
    cdef int mana_value, power, toughness, damage, loyalty
    cdef int attachments, attached_to, owner, controller
    cdef int aims[2]  # things of each seat that it targets, is attached to or attacks
    cdef int goals[2]  # ids of the first of them
    cdef bint at_spell[2]  # which of those are on the stack
    cdef int blocks  # the id of what it blocks
    cdef int blocked
    cdef long long plus, counters
    cdef int zone, origin  # origin: 1 + the zone that it was cast from, 0: not told
    cdef int part  # of the facts of its name: what it is on the stack
    cdef int row  # of the entities, 0: none
    cdef int count  # such cards in its row, if it is the first of them
    cdef int makes  # bits of mana
    cdef float place  # in a library
    cdef bint tapped, sick, token, face_down, attacking, blocking, known, aimed, ability, trigger


cdef class DecisionView:
    cdef readonly dict decision  # the line
    cdef readonly int seat  # who sees it
    cdef readonly int number  # of its type in layout.TYPES, -1: another one
    cdef readonly int unseen  # cards without a row
    cdef object names  # `facts.Names` of the seat
    cdef dict state
    cdef list players  # [2], None: not told
    cdef list cards  # Card: in zones that are seen
    cdef list others  # Card: known, or offered from where nothing is seen
    cdef dict places  # id: the first card of it
    cdef list stack  # Card, the top first
    cdef list combat
    cdef list rows  # [ENTITIES]: Card, None
    cdef int filled  # rows

    cdef Card find(self, int id)  # None: it is not seen
    cdef Card find_spell(self, int id)  # the first on the stack
    cdef Card goal(self, Card card, int place)  # what it aims at, None: nothing, or nothing that is seen
