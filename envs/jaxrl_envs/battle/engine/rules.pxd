"""Rosters, maps and settings (section 1 of the rules) as C structs."""

from jaxrl_envs.battle.engine.state cimport RulesSpec


cdef class Rules:
    cdef RulesSpec spec
    cdef readonly object maps, pairs, settings
