"""Batches of battles behind the host contract (`jaxrl_envs.host.engine`), stepped without the interpreter lock."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memset

from jaxrl_envs.battle.engine.play.course cimport run, take
from jaxrl_envs.battle.engine.play.decisions cimport is_legal, trailing_zeros
from jaxrl_envs.battle.engine.play.dice cimport set_streams
from jaxrl_envs.battle.engine.observation cimport observe
from jaxrl_envs.battle.engine.players cimport scripted
from jaxrl_envs.battle.engine.rules cimport Rules
from jaxrl_envs.battle.engine.phases.scoring cimport pay_out
from jaxrl_envs.battle.engine.setup cimport begin, bind, draw_styles, load_state, no_room, save_state
from jaxrl_envs.battle.engine.state cimport (
    ACTIONS, BAD_STATE, FEATURES, NOTHING_ASKED, NO_DEPLOYMENT, NO_MEMORY, OK, STATS, TAPE_ENDED, TAPE_MISFIT, Game,
    State, side_hp,
)
from jaxrl_envs.host.engine cimport Engine, game_key, u64

from jaxrl_envs.battle.engine.players import BOT_NAMES

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
    TAPE_ENDED: "the tape has ended, but the battle goes on",
    TAPE_MISFIT: "the tape holds a result that the die in turn does not have",
    BAD_STATE: "the saved battle is damaged, or belongs to other maps, rosters or settings",
    NO_MEMORY: "there is no memory for the dice of the battle",
}


cdef class BattleEngine(Engine):
    """A batch of battles behind the host contract.

    Args:
      rules: maps, rosters and settings.
      num_games: battles played side by side.
      seed: of everything random.
      first_slot: the slot of battle 0; a battle depends on (seed, slot, episode) alone.
    """

    cdef Game* games
    cdef readonly Rules rules

    def __cinit__(self, Rules rules not None, Py_ssize_t num_games, *, u64 seed=0, Py_ssize_t first_slot=0):
        cdef Py_ssize_t i
        if num_games < 1:
            raise ValueError(f"num_games must be at least 1, got {num_games}")
        self.rules = rules
        self.num_games, self.num_players = num_games, 2
        self.num_actions, self.num_features = ACTIONS, FEATURES
        self.num_stats, self.num_info, self.num_bots = STATS, len(INFO_NAMES), len(BOT_NAMES)
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
        if not g.error:
            run(g)
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
        save_state(&self.games[game], out)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        return OK if load_state(&self.games[game], data) else BAD_STATE

    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil:
        cdef State* b = &self.games[game].b
        b.seed = seed
        set_streams(b, game_key(seed, 0, b.dice))

    cdef void permute(self, Py_ssize_t game, int seat, u64 seed) noexcept nogil:
        # Nothing on the board is hidden, but a `mixed` player does not tell the other one its style.
        cdef State* b = &self.games[game].b
        cdef int own = b.style[seat]
        draw_styles(b, game_key(seed, 0, 0))
        b.style[seat] = own

    def error(self, Py_ssize_t game, int code) -> str:
        """The sentence for an error code."""
        return no_room(self.rules, &self.games[game]) if code == NO_DEPLOYMENT else MESSAGES[code]


cdef void statistics(Game* g, float* out) noexcept nogil:
    """STAT_NAMES of side 0, then of side 1."""
    cdef State* b = &g.b
    cdef int side, other
    cdef double share[2]
    for side in range(2):
        share[side] = <double>side_hp(g, side) / g.roster[side].hp
    for side in range(2):
        other = 1 - side
        out[side * STATS + 0] = b.vp[side]
        out[side * STATS + 1] = b.vp[side] - b.vp[other]
        out[side * STATS + 2] = <float>(share[side] - share[other])
        out[side * STATS + 3] = b.round
        out[side * STATS + 4] = b.decisions
        out[side * STATS + 5] = b.end == 1 + side
        out[side * STATS + 6] = b.end == 1 + other
        out[side * STATS + 7] = b.end == 3
        out[side * STATS + 8] = b.first == side
