"""One battle to look at: for replays, rendering and tests."""

from jaxrl_envs.battle.engine.rules cimport Rules
from jaxrl_envs.battle.engine.state cimport Game, Tape


cdef class Battle:
    cdef Game game
    cdef Tape tape
    cdef readonly Rules rules
    cdef readonly list half_turns  # the state after each half-turn, and at the end
    cdef bint arranged  # by hand (part `arrange`): not played on
    cdef bytes _given
