"""Whether the mana that a seat can make pays for a card."""

from jaxrl_envs.forge.encoding.view cimport Card, DecisionView


cdef struct Purse:
    int total
    int[6] of  # by letter of POOL


cdef Purse purse(DecisionView view, bint now) except *
cdef bint affords(Purse purse, Card card) except *
