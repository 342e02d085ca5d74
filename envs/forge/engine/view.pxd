"""What a seat is shown by a decision. Cards that are seen, the stack, the combat."""

from jaxrl.envs.forge cimport layout as at

cdef enum:
    MOST_CARDS = 640  # of one line; what comes after them is not seen
    MOST_ITEMS = 64  # of the stack


cdef class Card:
    cdef dict fields  # as the line says it
    cdef int id, name  # name: its number in the vocabulary
    cdef unsigned int types, colors, keywords  # bits, see `words`
    cdef int other_keywords
    cdef int mana_value, power, toughness, damage, loyalty
    cdef int attachments, attached_to, owner, controller
    cdef int aims[2]  # things of each seat that it targets, is attached to or attacks
    cdef int blocked
    cdef long long plus, counters
    cdef int zone
    cdef int row  # of the entities, 0: none
    cdef bint tapped, sick, token, face_down, attacking, blocking


cdef class View:
    cdef readonly dict decision  # the line
    cdef readonly int seat  # who sees it
    cdef readonly int number  # of its type in layout.TYPES, -1: another one
    cdef readonly int unseen  # cards without a row
    cdef dict state
    cdef list players  # [2], None: not told
    cdef list cards  # Card
    cdef dict places  # id: the first card of it
    cdef list stack  # Card, the top first
    cdef list combat
    cdef list rows  # [ENTITIES]: Card, None

    cdef Card find(self, int id)  # None: it is not seen
    cdef Card find_spell(self, int id)  # the first on the stack



cdef Card read_card(value)
