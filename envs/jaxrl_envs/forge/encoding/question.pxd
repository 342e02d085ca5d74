"""A decision as a row of small questions with one legal action each."""

from jaxrl_envs.forge cimport layout as at
from jaxrl_envs.forge.encoding.view cimport DecisionView

cdef enum:
    MOST_OPTIONS = at.NUM_ACTIONS - 1  # action 0 is not one of them
    PICKS = 128  # of one decision; also attackers and blockers


cdef class Question:
    cdef readonly DecisionView view
    cdef readonly int number  # of the type, as DecisionView.number
    cdef readonly bint answered, ask_ai  # ask_ai: the answer is "ai"
    cdef readonly int cut  # options that are not offered
    cdef bint repeat, optional
    cdef readonly list options  # what is offered; of equal ones the first
    cdef readonly list numbers  # for each of them what the daemon calls it, and what it calls its equals
    cdef list left  # for each and one more: how many can be picked from there on
    cdef int least, most  # picks
    cdef readonly int first  # the smallest number
    cdef int span  # how many numbers
    cdef list attackers, blockers
    cdef list indices  # of attackers: what the daemon calls them
    cdef list assigned  # of attackers: blockers so far
    cdef readonly list targets  # places of the attackers that the blocker in question may block
    cdef readonly list picks  # options; of attackers: 0 or 1 + defender; of blockers: -1 or the attacker
    cdef int choice  # of a question with one action: the action
    cdef int num_legal
    cdef unsigned char allowed[at.NUM_ACTIONS]

    cdef list defenders(self)  # what the attacker in question may attack, as many as there are actions for
    cdef bint is_set(self)
    cdef bint is_list(self)
    cdef bint is_yes_no(self)
    cdef bint has_stop(self)
    cdef int copies(self, int option)  # that can be picked

