"""The battle engine: thousands of battles as plain data, stepped without the interpreter lock.

`Rules` holds maps, rosters and settings as C structs; `BattleEngine` plays batches of battles behind the host contract
(`envs.host.engine`), `Battle` is one battle to look at, to replay from a tape, and to test. The rules are in the parts
included below, each one section of the specification; nothing here allocates while a batch is played.
"""

from libc.math cimport sqrt
from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport abort, calloc, free as release, realloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from envs.errors import UserError
from envs.host.engine cimport Engine, below, game_key, mix, stream_word, u64

cdef extern from *:
    int popcount "__builtin_popcountll"(uint64_t) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(uint64_t) noexcept nogil

include "geometry.pxi"
include "sight.pxi"
include "dice.pxi"
include "attack.pxi"
include "questions.pxi"
include "phases.pxi"
include "moves.pxi"
include "clashes.pxi"
include "setup.pxi"
include "observe.pxi"
include "script.pxi"
include "tables.pxi"

BOT_NAMES = ("random", "balanced", "aggressor", "gunline", "objective", "turtle", "mixed")
INFO_NAMES = (
    *("side", "kind", "round", "vp0", "vp1", "cp0", "cp1", "hp0", "hp1"),
    *("end", "winner", "decisions", "dice", "episode"),
)
STAT_NAMES = (
    *("vp", "vp_difference", "hp_difference", "rounds", "decisions"),
    *("wiped_out", "wiped_enemy", "round_limit", "starter"),
)
NUM_ACTIONS = ACTIONS
NUM_FEATURES = FEATURES
MESSAGES = {
    NO_DEPLOYMENT: "the battle cannot be set up: on this map a unit finds no place in its deployment zone; "
    "deepen the zone, or remove terrain or units",
    TAPE_ENDED: "the tape has ended, but the battle goes on",
    TAPE_MISFIT: "the tape holds a result that the die in turn does not have",
    BAD_STATE: "the saved battle does not belong to these maps and rosters",
}


cdef int scripted(Game* g, int number) noexcept nogil:
    """The action of scripted player `number` (see BOT_NAMES) for the open question."""
    cdef int side = g.b.side, drawn
    if number == 0:
        drawn = below(stream_word(g.b.player_key[side], g.b.player_draws[side]), legal_count(&g.b))
        g.b.player_draws[side] += 1
        return nth_legal(&g.b, drawn)
    return script(g, g.b.style[side] if number == 1 + STYLES else number - 1)


cdef void take(Game* g, int action) noexcept nogil:
    """Answers the open question and plays on; the reward of side 0 is what this brought."""
    cdef State* b = &g.b
    cdef int before = b.vp[0] - b.vp[1]
    b.decisions += 1
    answer(g, action)
    run(g)
    pay_out(g, before)


cdef void pay_out(Game* g, int before) noexcept nogil:
    cdef State* b = &g.b
    cdef int result = 1 if b.winner == 0 else -1 if b.winner == 1 else 0
    b.reward = <float>(g.rules.reward_vp * (b.vp[0] - b.vp[1] - before) + result)


cdef class BattleEngine(Engine):
    """A batch of battles behind the host contract.

    Args:
      rules: maps, rosters and settings.
      num_games: battles played side by side.
      seed: of everything random.
      first_slot: the slot of battle 0; a battle depends on (seed, slot, episode) alone.
    """

    def __cinit__(self, Rules rules not None, Py_ssize_t num_games, *, u64 seed=0, Py_ssize_t first_slot=0):
        cdef Py_ssize_t i
        if num_games < 1:
            raise ValueError(f"num_games must be at least 1, got {num_games}")
        self.rules = rules
        self.num_games, self.num_players = num_games, 2
        self.num_actions, self.num_features = ACTIONS, FEATURES
        self.num_stats, self.num_info, self.num_bots = len(STAT_NAMES), len(INFO_NAMES), len(BOT_NAMES)
        self.state_bytes = sizeof(State)
        self.games = <Game*>calloc(num_games, sizeof(Game))
        if self.games == NULL:
            raise MemoryError(f"no memory for {num_games} battles of {sizeof(Game)} bytes each")
        for i in range(num_games):
            self.games[i].rules = &rules.spec
            self.games[i].b.seed, self.games[i].b.slot = seed, first_slot + i
            self.games[i].b.episode, self.games[i].b.kind, self.games[i].b.winner = -1, NOTHING_ASKED, 3
            bind(&self.games[i])

    def __dealloc__(self):
        release(self.games)

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        cdef Game* g = &self.games[game]
        cdef int episode = g.b.episode + 1
        begin(g, game_key(g.b.seed, g.b.slot, episode), episode)
        run(g)
        if not g.error:
            pay_out(g, 0)
        return g.error

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        take(&self.games[game], action)
        return self.games[game].error

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        return scripted(&self.games[game], number)

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        return -1 if self.games[game].b.kind == NOTHING_ASKED else self.games[game].b.side

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        return is_legal(&self.games[game].b, action)

    cdef void rewards(self, Py_ssize_t game, float* out) noexcept nogil:
        out[0] = self.games[game].b.reward
        out[1] = -out[0]

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        return self.games[game].b.end != 0

    cdef void observe(self, Py_ssize_t game, int seat, float* out) noexcept nogil:
        observe(&self.games[game], seat, out)

    cdef void mask(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        cdef State* b = &self.games[game].b
        cdef uint64_t bits
        if b.end:
            memset(out, 1, ACTIONS)
            return
        memset(out, 0, ACTIONS)
        bits = b.legal[0]
        while bits:
            out[trailing_zeros(bits)] = 1
            bits &= bits - 1
        bits = b.legal[1]
        while bits:
            out[64 + trailing_zeros(bits)] = 1
            bits &= bits - 1

    cdef void stats(self, Py_ssize_t game, float* out) noexcept nogil:
        statistics(&self.games[game], out)

    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil:
        cdef Game* g = &self.games[game]
        cdef State* b = &g.b
        out[0], out[1], out[2] = b.side, b.kind, b.round
        out[3], out[4], out[5], out[6] = b.vp[0], b.vp[1], b.cp[0], b.cp[1]
        out[7], out[8] = side_hp(g, 0), side_hp(g, 1)
        out[9], out[10], out[11], out[12], out[13] = b.end, b.winner, b.decisions, b.dice, b.episode

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        memcpy(out, &self.games[game].b, sizeof(State))

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        cdef Game* g = &self.games[game]
        memcpy(&g.b, data, sizeof(State))
        g.error = OK if trustworthy(g) else BAD_STATE
        if not g.error:
            bind(g)
        return g.error

    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil:
        cdef State* b = &self.games[game].b
        b.seed = seed
        set_streams(b, game_key(seed, 0, b.dice))

    def error(self, Py_ssize_t game, int code) -> str:
        """The sentence for an error code."""
        return MESSAGES.get(code, f"error {code}")


cdef void statistics(Game* g, float* out) noexcept nogil:
    """STAT_NAMES of side 0, then of side 1."""
    cdef State* b = &g.b
    cdef int side, k = 9, other
    cdef int share[2]
    for side in range(2):
        share[side] = side_hp(g, side)
    for side in range(2):
        other = 1 - side
        out[side * k + 0] = b.vp[side]
        out[side * k + 1] = b.vp[side] - b.vp[other]
        out[side * k + 2] = <float>share[side] / g.roster[side].hp - <float>share[other] / g.roster[other].hp
        out[side * k + 3] = b.round
        out[side * k + 4] = b.decisions
        out[side * k + 5] = b.end == 1 + side
        out[side * k + 6] = b.end == 1 + other
        out[side * k + 7] = b.end == 3
        out[side * k + 8] = b.first == side


cdef bint trustworthy(const Game* g) noexcept nogil:
    """Whether saved bytes can be a battle of these rules: every index in its range, so that no memory is misread."""
    cdef const State* b = &g.b
    cdef int side, i, k
    cdef const MapSpec* board
    if b.episode < 0:
        return b.episode == -1 and b.map == 0 and b.pair == 0
    if not (0 <= b.map < g.rules.maps and 0 <= b.pair < g.rules.pairs and 0 <= b.stage <= NEXT_HALF):
        return False
    if (b.active | b.first | b.left | b.side | b.charger | b.picking) & ~1 or not -1 <= b.kind <= REROLL_CHARGE:
        return False
    if not (0 <= b.index <= UNITS and 0 <= b.target < 8 and -1 <= b.unit < UNITS and -1 <= b.subject < UNITS):
        return False
    if not (0 <= b.charger_unit < UNITS and 0 <= b.charger_target < UNITS and 0 <= b.style[0] < STYLES):
        return False
    board = &g.rules.map[b.map]
    for side in range(2):
        if not 0 <= b.style[side] < STYLES:
            return False
        for i in range(UNITS):
            if not 0 <= b.units[side][i].models <= MODELS:
                return False
            for k in range(b.units[side][i].models):
                if not (0 <= row_of(b.units[side][i].cell[k]) < board.rows and col_of(b.units[side][i].cell[k]) < board.cols):
                    return False
    return True


include "single.pxi"
include "arrange.pxi"
