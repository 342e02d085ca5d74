"""The course of a battle."""

from jaxrl_envs.battle.engine.phases.charge cimport charge_roll, next_charge, on_charge, on_counter, on_reroll_charge
from jaxrl_envs.battle.engine.phases.command cimport begin_half, next_shock_test, on_shock, regenerate_all
from jaxrl_envs.battle.engine.play.decisions cimport ask, legal_count, lowest_legal
from jaxrl_envs.battle.engine.phases.fight cimport next_charger_fights, next_fight, on_fight
from jaxrl_envs.battle.engine.phases.movement cimport next_move, on_fall_back, on_move, on_reroll_advance
from jaxrl_envs.battle.engine.phases.scoring cimport end_at_limit, pay_out, score
from jaxrl_envs.battle.engine.phases.shooting cimport next_shot, on_protect, on_shoot
from jaxrl_envs.battle.engine.state cimport (
    BEGIN_HALF, CHARGE, CHARGES, CHARGES_FIGHT, CHARGE_ROLL, COUNTER, END_HALF, FALL_BACK, FIGHT, MOVE, MOVEMENT_PHASE,
    MOVES, NEXT_HALF, NOTHING_ASKED, OTHERS_FIGHT, PROTECT, REGENERATION, REROLL_ADVANCE, REROLL_CHARGE, SCORING,
    SHOCK_TESTS, SHOOT, SHOTS, SNAP, Game, State,
)
from jaxrl_envs.battle.engine.play.stratagems cimport enter_phase, on_snap


cdef void run(Game* g) noexcept nogil:
    """Plays on until a side has a choice, the battle is over, or (if watched) a half-turn has ended."""
    cdef State* b = &g.b
    while not b.end and not g.error:
        if b.kind == NOTHING_ASKED:
            run_stage(g)
            if g.watch and g.half_turn_done:
                return
        elif legal_count(b) > 1:
            return
        else:
            answer(g, lowest_legal(b))
    ask(g, 0, NOTHING_ASKED, -1, -1, 0, 0)


cdef void run_stage(Game* g) noexcept nogil:
    cdef int stage = g.b.stage
    if stage == BEGIN_HALF:
        begin_half(g)
    elif stage == SHOCK_TESTS:
        next_shock_test(g)
    elif stage == REGENERATION:
        regenerate_all(g)
    elif stage == SCORING:
        score(g, False)
        enter_phase(g, MOVEMENT_PHASE, MOVES)
    elif stage == MOVES:
        next_move(g)
    elif stage == SHOTS:
        next_shot(g)
    elif stage == CHARGES:
        next_charge(g)
    elif stage == CHARGE_ROLL:
        charge_roll(g)
    elif stage == CHARGES_FIGHT:
        next_charger_fights(g)
    elif stage == OTHERS_FIGHT:
        next_fight(g)
    elif stage == END_HALF:
        score(g, True)
        g.half_turn_done = 1
        g.b.stage = NEXT_HALF
    else:
        next_half(g)


cdef void answer(Game* g, int action) noexcept nogil:
    """Carries out a legal answer to the open question."""
    cdef int kind = g.b.kind
    g.b.kind = NOTHING_ASKED
    if kind == MOVE:
        on_move(g, action)
    elif kind == FALL_BACK:
        on_fall_back(g, action)
    elif kind == REROLL_ADVANCE:
        on_reroll_advance(g, action)
    elif kind == SNAP:
        on_snap(g, action)
    elif kind == SHOOT:
        on_shoot(g, action)
    elif kind == PROTECT:
        on_protect(g, action)
    elif kind == CHARGE:
        on_charge(g, action)
    elif kind == REROLL_CHARGE:
        on_reroll_charge(g, action)
    elif kind == COUNTER:
        on_counter(g, action)
    elif kind == FIGHT:
        on_fight(g, action)
    else:
        on_shock(g, action)


cdef void take(Game* g, int action) noexcept nogil:
    """Answers the open question and plays on; the reward of side 0 is what this brought."""
    cdef State* b = &g.b
    cdef int before = b.vp[0] - b.vp[1]
    b.decisions += 1
    answer(g, action)
    run(g)
    pay_out(g, before)


cdef void next_half(Game* g) noexcept nogil:
    cdef State* b = &g.b
    b.stage = BEGIN_HALF
    if b.active == b.first:
        b.active = 1 - b.first
    elif b.round == g.rules.rounds:
        end_at_limit(g)
    else:
        b.active = b.first
        b.round += 1
