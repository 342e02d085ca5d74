"""The data of a battle as C structs. Everything is small integers; `State` is plain data, so copying it is saving it.

A board cell is row * 64 + column; a set of cells is one 64-bit word for each row. Sides are 0 and 1, and `1 - side` is
the other one. Names follow the rules: `A` attacks, `D` damage, `M` move, `T` toughness, `Sv`, `Inv`, `W`, `Ld`, `OC`.
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t

cdef enum:
    UNITS = 8  # per side
    MODELS = 20  # per unit
    ROWS = 64
    OBJECTIVES = 8
    ACTIONS = 69
    FEATURES = 1051
    STATS = 9  # of each side
    UNIT_FEATURES = 60
    STYLES = 5

cdef enum:  # flags of a unit
    MOVED = 1
    ADVANCED = 2
    FELL = 4
    CHARGED = 8
    FOUGHT = 16
    SHOCKED = 32
    SMOKED = 64
    GROUNDED = 128

cdef enum:  # kinds of decisions
    NOTHING_ASKED = -1
    MOVE = 0
    FALL_BACK = 1
    SHOOT = 2
    CHARGE = 3
    FIGHT = 4
    SNAP = 5
    PROTECT = 6
    COUNTER = 7
    SHOCK = 8
    REROLL_ADVANCE = 9
    REROLL_CHARGE = 10

cdef enum:  # first ids of actions
    DECLINE = 0
    GO = 1  # + 8 * gait + direction
    SHOOT_AT = 25
    CHARGE_AT = 33
    FIGHT_WITH = 41
    SNAP_BY = 49
    COUNTER_BY = 57
    REROLL = 65
    STEEL = 66
    SMOKE = 67
    TAKE_COVER = 68

cdef enum:  # stratagems, as bits of `State.used`
    USE_REROLL = 0
    USE_STEEL = 1
    USE_SNAP = 2
    USE_SMOKE = 3
    USE_COVER = 4
    USE_COUNTER = 5

cdef enum:  # phases
    COMMAND_PHASE = 0
    MOVEMENT_PHASE = 1
    SHOOTING_PHASE = 2
    CHARGE_PHASE = 3
    FIGHT_PHASE = 4

cdef enum:  # stages: where the rules go on when no question is open
    BEGIN_HALF = 0
    SHOCK_TESTS = 1
    REGENERATION = 2
    SCORING = 3
    MOVES = 4
    SHOTS = 5
    CHARGES = 6
    CHARGE_ROLL = 7
    CHARGES_FIGHT = 8
    OTHERS_FIGHT = 9
    END_HALF = 10
    NEXT_HALF = 11

cdef enum:  # missions, tie-breaks, roll-offs
    HOLD = 0
    ANNIHILATION = 1
    ROLL_OFF = -1

cdef enum:  # error codes
    OK = 0
    NO_DEPLOYMENT = 1
    TAPE_ENDED = 2
    TAPE_MISFIT = 3
    BAD_STATE = 4
    NO_MEMORY = 5


cdef struct Expression:  # of dice: n dice with a number of faces, plus a constant; n = 0 is the constant alone
    int n
    int faces
    int plus


cdef struct Weapon:
    int present
    int reach  # in cells, 0 for melee
    int skill
    int S
    int ap
    Expression A
    Expression D
    int lethal
    int sustained
    int devastating
    int twin
    int rapid
    int assault
    int heavy
    int torrent
    int blast


cdef struct UnitSpec:
    int models
    int M
    int T
    int Sv
    int Inv
    int W
    int Ld
    int OC
    int regen
    int kp
    int infantry
    int smoke
    int fly
    Weapon ranged
    Weapon melee
    float row[UNIT_FEATURES]  # what an observation says about it that never changes; 0 elsewhere


cdef struct RosterSpec:
    int count
    int hp
    UnitSpec unit[UNITS]


cdef struct MapSpec:
    int rows
    int cols
    int walled  # whether there is any wall
    int objectives
    int row2[OBJECTIVES]  # coordinates, doubled
    int col2[OBJECTIVES]
    int radius[OBJECTIVES]
    uint64_t inside[ROWS]
    uint64_t barricade[ROWS]
    uint64_t wall[ROWS]
    uint64_t shelter[ROWS]  # cells with a barricade within 3 (max norm)
    uint64_t on[OBJECTIVES][ROWS]  # cells on each objective


cdef struct RulesSpec:
    int maps
    int pairs
    MapSpec* map
    RosterSpec* roster  # two for each pair: of side 0 and of side 1
    int mission
    int rounds
    int vp_each
    int vp_cap
    int score_from
    int damage_breaks_ties
    int deploy  # ROLL_OFF, 0 or 1
    int first
    int zone
    int cp_start
    double reward_vp
    uint64_t mark  # of everything but reward_vp: a saved battle belongs to it


cdef struct Unit:
    int16_t cell[MODELS]  # anchor first; the last model is the one that takes damage; 0 beyond `models`
    int16_t models
    int16_t lead
    int16_t flags


cdef struct State:
    uint64_t seal  # of saved bytes, see `save_state` of setup; 0 in a battle
    uint64_t seed
    uint64_t slot
    uint64_t key  # battle key K of section 3
    uint64_t dice_key
    uint64_t player_key[2]
    uint32_t dice  # drawn so far
    uint32_t player_draws[2]
    int32_t episode
    int32_t style[2]  # of a `mixed` player
    int32_t map
    int32_t pair
    int32_t left
    int32_t first
    int32_t round
    int32_t active
    int32_t phase
    int32_t used[2]  # stratagems of this phase
    int32_t cp[2]
    int32_t vp[2]
    int32_t end  # reason, 0 = running
    int32_t winner  # 0, 1, 2 = draw, 3 = running
    int32_t decisions
    float reward  # of side 0, by the last step
    # the question that is open
    int32_t side
    int32_t kind
    int32_t unit
    int32_t subject
    int32_t roll
    int32_t needed
    uint64_t legal[2]  # bit i of word w: id 64 w + i
    # where the rules go on
    int32_t stage
    int32_t after  # stage after a snap fire window or a counter-charge
    int32_t index  # of the unit whose turn it is
    int32_t target
    int32_t charger  # of the charge move under way: its side, unit and target
    int32_t charger_unit
    int32_t charger_target
    int32_t picking  # the side that picks in the fight phase
    Unit units[2][UNITS]


cdef struct UnitCache:  # what follows from a unit's cells, wounds and the map
    int stand[OBJECTIVES]  # living models on each objective
    int objective  # isqrt(100 d^2) from the anchor to the nearest objective, 0 without any
    int on_objective  # a model stands on one


cdef struct Cache:  # derived from a State, see `touch` of geometry
    uint64_t occupied[2][ROWS]
    uint64_t near[2][ROWS]  # cells in contact with a model of the side, its own cells too
    int near_known[2]
    int distance2[UNITS][UNITS]  # of unit i of side 0 and unit j of side 1
    uint8_t distance_known[UNITS]  # bit j
    int firing[2][UNITS][UNITS]  # models of [side][unit] that can fire at the other side's unit at weapon range
    uint8_t firing_known[2][UNITS]
    int share[2][2][UNITS][UNITS]  # [ranged, melee][side][unit][enemy unit], permille of section 11.1
    uint8_t share_known[2][UNITS]
    UnitCache unit[2][UNITS]
    uint8_t unit_known[2]


cdef struct Tape:
    const uint8_t* given  # results to use instead of the stream, NULL = the stream
    Py_ssize_t given_count
    uint8_t* faces  # what was drawn
    uint8_t* results
    Py_ssize_t count
    Py_ssize_t room


cdef struct Game:
    State b
    Cache c
    const RulesSpec* rules
    const MapSpec* map  # of this battle
    const RosterSpec* roster[2]
    Tape* tape  # NULL = dice from the stream, nothing kept
    int error
    int watch  # stop after each half-turn, for replays
    int half_turn_done


cdef inline bint alive(const Game* g, int side, int unit) noexcept nogil:
    return g.b.units[side][unit].models > 0


cdef inline int hp_of(const Game* g, int side, int unit) noexcept nogil:
    """Wounds left in a unit."""
    cdef const Unit* u = &g.b.units[side][unit]
    return (u.models - 1) * g.roster[side].unit[unit].W + u.lead if u.models else 0


cdef inline int side_hp(const Game* g, int side) noexcept nogil:
    cdef int i, total = 0
    for i in range(g.roster[side].count):
        total += hp_of(g, side, i)
    return total
