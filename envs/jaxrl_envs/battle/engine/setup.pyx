"""Setting up a battle, and saving it."""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from jaxrl_envs.battle.engine.play.dice cimport die, set_streams
from jaxrl_envs.battle.engine.space.geometry cimport REACH, REACHES, fits, forget_everything, form_up, free_cells, mirrored
from jaxrl_envs.battle.engine.rules cimport Rules
from jaxrl_envs.battle.engine.state cimport (
    BEGIN_HALF, NOTHING_ASKED, NO_DEPLOYMENT, OK, ROLL_OFF, ROWS, STYLES, UNITS, Game, State, UnitSpec,
)
from jaxrl_envs.host.engine cimport below, mix, stream_word

import itertools

from jaxrl_envs.shared.errors import UserError


cdef void begin(Game* g, uint64_t key, int episode) noexcept nogil:
    """Sets up a battle with a battle key; `run` plays it to its first question."""
    cdef State* b = &g.b
    cdef uint64_t seed = b.seed, slot = b.slot
    memset(b, 0, sizeof(State))
    b.seed, b.slot, b.key, b.episode = seed, slot, key, episode
    b.pair = (slot + episode) % g.rules.pairs
    set_streams(b, key)
    draw_styles(b, key)
    b.kind, b.unit, b.subject = NOTHING_ASKED, -1, -1
    b.winner = 3
    g.error = OK
    if g.tape != NULL:
        g.tape.count = 0
    if g.rules.maps > 1:
        b.map = die(g, g.rules.maps) - 1
    b.left = roll_off(g) if g.rules.deploy == ROLL_OFF else g.rules.deploy
    bind(g)
    if not deploy_all(g, NULL):
        g.error = g.error or NO_DEPLOYMENT
        return
    b.first = roll_off(g) if g.rules.first == ROLL_OFF else g.rules.first
    b.cp[0] = b.cp[1] = g.rules.cp_start
    b.round, b.active, b.stage = 1, b.first, BEGIN_HALF
    g.half_turn_done = 0


cdef void draw_styles(State* b, uint64_t key) noexcept nogil:
    """The styles that `mixed` players have in a battle of this key."""
    cdef int side
    for side in range(2):
        b.style[side] = below(stream_word(mix(key ^ <uint64_t>(4 + side)), 0), STYLES)


cdef void bind(Game* g) noexcept nogil:
    """Points to the map and the rosters of the battle, and forgets what was derived from an earlier one."""
    cdef int side
    g.map = &g.rules.map[g.b.map]
    for side in range(2):
        g.roster[side] = &g.rules.roster[2 * g.b.pair + side]
    forget_everything(g)


cdef int roll_off(Game* g) noexcept nogil:
    """The side with the higher D6; equal dice are rolled again."""
    cdef int a, b
    while not g.error:
        a = die(g, 6)
        b = die(g, 6)
        if a != b:
            return 0 if a > b else 1
    return 0


cdef bint deploy_all(Game* g, const int* fixed) noexcept nogil:
    """Places all units, the left side's and the right side's in turn; False if one does not fit: `b.unit` of `b.side`.

    Args:
      g: a battle with empty cells.
      fixed: the results of the two dice of every unit, NULL = they are rolled.
    """
    cdef int k, turn, side, row_die, col_die
    for k in range(UNITS):
        for turn in range(2):
            side = g.b.left if turn == 0 else 1 - g.b.left
            if k >= g.roster[side].count:
                continue
            row_die = fixed[0] if fixed != NULL else die(g, 7)
            col_die = fixed[1] if fixed != NULL else die(g, 5)
            if not deploy(g, side, k, row_die - 4, col_die - 3):
                g.b.side, g.b.unit = side, k
                return False
    return True


cdef bint deploy(Game* g, int side, int unit, int down, int forward) noexcept nogil:
    """Places one unit as near as it fits to where it wants to be; dice move that `down` and `forward`."""
    cdef const UnitSpec* spec = &g.roster[side].unit[unit]
    cdef int flip = mirrored(g, side), zone = g.rules.zone, rows = g.map.rows, last = g.map.cols - 1
    cdef int row = (unit + 1) * (rows - 1) // (g.roster[side].count + 1) + down
    cdef int column = zone // 2 + forward
    cdef uint64_t free[ROWS]
    cdef uint64_t inside = (((<uint64_t>1) << zone) - 1) << (last + 1 - zone if flip else 0)
    cdef int i, r, c, h, d2, best = 1 << 30, anchor = -1
    g.b.units[side][unit].lead = spec.W
    free_cells(g, side, unit, -1, free)
    for r in range(rows):
        free[r] &= inside
    for i in range(REACHES):  # nearly always enough
        r, h = row + REACH[0][i][0], column + REACH[0][i][1]
        if 0 <= r < rows and 0 <= h < zone:
            c = last - h if flip else h
            if fits(free, rows, r, c, spec.models, flip):
                form_up(g, side, unit, spec.models, r * 64 + c, free)
                return True
    for r in range(rows):
        for h in range(zone):
            d2 = (r - row) * (r - row) + (h - column) * (h - column)
            c = last - h if flip else h
            if d2 < best and fits(free, rows, r, c, spec.models, flip):
                best, anchor = d2, r * 64 + c
    if anchor >= 0:
        form_up(g, side, unit, spec.models, anchor, free)
    return anchor >= 0


cdef str no_room(Rules rules, const Game* g):
    """The sentence for a battle in which `deploy_all` has not found room."""
    board, roster = rules.maps[g.b.map], rules.pairs[g.b.pair][g.b.side]
    unit = roster.units[g.b.unit]
    models = "1 model" if unit.models == 1 else f"{unit.models} models"
    return (
        f"map {board.name!r} has no legal deployment for roster {roster.name!r} on the "
        f"{'left' if g.b.side == g.b.left else 'right'}: unit {unit.name!r} ({models}) finds no room in the "
        f"{rules.settings.zone} columns of its zone; deepen the zone, or remove terrain or units"
    )


def check_deployable(Rules rules not None):
    """Checks that on every map all rosters find room, with wanted cells in the middle and at the extremes.

    With unlucky dice a battle on a very full board can still turn out not to fit; the engine then says so.

    Raises:
      UserError: a unit finds no place.
    """
    cdef Game g
    cdef int map, pair, left
    cdef int[2] dice
    g.rules = &rules.spec
    for map, pair, left in itertools.product(range(rules.spec.maps), range(rules.spec.pairs), range(2)):
        if rules.spec.deploy not in (ROLL_OFF, left):
            continue
        for row_die, col_die in ((4, 3), (1, 1), (1, 5), (7, 1), (7, 5)):
            dice[0], dice[1] = row_die, col_die
            memset(&g.b, 0, sizeof(State))
            g.b.map, g.b.pair, g.b.left = map, pair, left
            bind(&g)
            if not deploy_all(&g, dice):
                raise UserError(no_room(rules, &g) + ".")


# ---- saved battles ---------------------------------------------------------------------------------------------------

cdef uint64_t seal_of(const State* b, uint64_t mark) noexcept nogil:
    """A hash of a state whose own seal is 0, and of the mark of the rules it is played by."""
    cdef uint64_t word, found = mark
    cdef size_t i
    for i in range(sizeof(State) // 8):
        memcpy(&word, <const char*>b + 8 * i, 8)
        found = (found ^ word) * <uint64_t>0xBF58476D1CE4E5B9
        found ^= found >> 32
    return found


cdef void save_state(const Game* g, unsigned char* out) noexcept nogil:
    """u8[sizeof(State)]; equal battles give equal bytes."""
    cdef State saved
    memcpy(&saved, &g.b, sizeof(State))
    saved.seal = seal_of(&saved, g.rules.mark)
    memcpy(out, &saved, sizeof(State))


cdef bint load_state(Game* g, const unsigned char* data) noexcept nogil:
    """Continues from saved bytes; False, and nothing has changed, if they are not those of a battle of these rules."""
    cdef State saved
    cdef uint64_t seal
    memcpy(&saved, data, sizeof(State))
    seal = saved.seal
    saved.seal = 0
    if seal_of(&saved, g.rules.mark) != seal:
        return False
    memcpy(&g.b, &saved, sizeof(State))
    g.error = OK
    bind(g)
    return True
