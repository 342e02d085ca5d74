"""Games of Magic behind the host contract: seeds and actions here, the rules in Forge's daemons.

A game is a function of its decks, seed and actions, so that is all that is saved. Conversations with daemons are
caches: a JVM that dies, hangs or talks nonsense, and a daemon that another game needs more, cost time and nothing else.

Of the parts included below, cards.pxi reads a line (with strings.pxi and words.pxi), questions.pxi breaks a decision
into small questions, encode.pxi and options.pxi write observations, conversation.pxi talks to a daemon, reaching.pxi
gets a game to where its state says it is. Only beginnings and ends of games and faults take the interpreter lock.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free as release, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from envs.forge.wire cimport (
    LINE_BAD_UTF8,
    LINE_OK,
    LINE_TIMEOUT,
    LINE_TOO_LONG,
    Fields,
    Lease,
    Tape,
    as_bool,
    as_int,
    equals,
    field,
    fields,
    find,
    free_tape,
    hash_bytes,
    is_array,
    is_object,
    is_string,
    length,
    parse,
    raw,
    string_hash,
    unescape,
)
from envs.host.engine cimport Engine, below, game_key, mix, stream_word, u64

import collections
import logging
import math
import weakref

import numpy as np

from envs.forge import layout
from envs.forge.people.recording import deck_name, quoted
from envs.forge.wire import LinkError
from envs.host.core import EngineError

LOG = logging.getLogger("jaxrl.forge")

cdef extern from *:
    int lowest_bit "__builtin_ctz"(uint32_t) noexcept nogil

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID
    int clock_gettime(int, timespec*)

cdef const char* TYPE_NAMES[NUM_TYPES]
cdef const char* PHASE_NAMES[NUM_PHASES]
cdef const char* COLOR_NAMES[5]
NAMES = [[name.encode() for name in names] for names in (layout.TYPES, layout.PHASES, layout.COLORS)]  # for C
for number, name in enumerate(NAMES[0]):
    TYPE_NAMES[number] = name
for number, name in enumerate(NAMES[1]):
    PHASE_NAMES[number] = name
for number, name in enumerate(NAMES[2]):
    COLOR_NAMES[number] = name

include "strings.pxi"
include "words.pxi"
include "cards.pxi"
include "questions.pxi"
include "options.pxi"
include "encode.pxi"
include "sentences.pxi"
include "conversation.pxi"

STAT_NAMES = ("won", "turns", "life", "decisions", "engine_errors")
INFO_NAMES = (
    *("turn", "decision_type", "options_cut", "cards_cut", "unknown_types", "refused_answers", "engine_errors"),
    *("end", "episode"),
)
ENDS = ("running", "won", "draw", "timeout", "error", "cut")  # for `Fleet.game_finished`, by State.how
ATTEMPTS = 3  # to get past the same position
MOST_PARKED = 32
REMEMBERED = 256  # positions of games that people look at
cdef u64 MAGIC = <u64>0x314547524F46584A
ANSWERS_LIMIT = 32000  # decisions of a game


cdef class ForgeEngine(Engine):
    """A batch of games.

    Args:
      fleet: lends daemons, see `envs.forge.fleet`; an object with lease, release, failed, game_finished and capacity.
      num_games: N.
      seed, first_slot: a game depends on (seed, slot, episode) alone.
      pairs: the decks of both seats of every kind of game, as the daemons know them.
      options: of NEWGAME, the same for all games.
      mark: of everything that decides a game; saved games of another mark are refused.
      profiles: of Forge's AI, which bots 1, 2, ... are.
      game_limit: CPU seconds that a daemon may spend on a game.
      max_decisions: after so many actions a game is cut off.
      decision_timeout: seconds that a daemon may take for a line.
      shaping: weights of life, board and cards in the potential.
      recorder: an `envs.forge.people.recording.Folder` for all conversations, or None.
      remembered: positions by key and number of actions, for people; see `look`.
    """

    def __cinit__(
        self,
        fleet,
        Py_ssize_t num_games,
        *,
        u64 seed=0,
        Py_ssize_t first_slot=0,
        pairs=(("aggro", "aggro"),),
        options="-i -q -a",
        u64 mark=0,
        profiles=("",),
        double game_limit=120,
        Py_ssize_t max_decisions=2000,
        double decision_timeout=120,
        shaping=(0, 0, 0),
        recorder=None,
        remembered=None,
    ):
        cdef Py_ssize_t i
        if num_games < 1 or not 1 <= max_decisions <= ANSWERS_LIMIT or len(profiles) > PROFILES:
            raise ValueError(f"{num_games} games of {max_decisions} decisions, {len(profiles)} profiles")
        self.num_games, self.num_players, self.num_actions = num_games, 2, AT_NUM_ACTIONS
        self.num_features, self.num_stats, self.num_info = AT_FEATURES, len(STAT_NAMES), len(INFO_NAMES)
        self.num_bots, self.max_decisions, self.mark = 1 + len(profiles), max_decisions, mark
        self.state_bytes = state_size(max_decisions)
        self.fleet, self.pairs, self.options, self._recorder = fleet, tuple(pairs), options, recorder
        self.game_limit, self.replays = game_limit, collections.Counter()
        self._errors, self._causes = [None] * num_games, [None] * num_games
        self._parked, self._leases, self._writers = [], {}, []
        self._remembered = collections.OrderedDict() if remembered is None else remembered
        self._finalizer = weakref.finalize(self, give_back, fleet, self._leases, self._writers)
        self.settings.patience, self.settings.ai_patience = decision_timeout, decision_timeout + 2 * game_limit
        self.settings.recording = recorder is not None
        for i in range(3):
            self.settings.shaping[i] = shaping[i]
        self.settings.num_profiles = len(profiles)
        for i, profile in enumerate(profiles):
            answer = f"ai! {profile}".strip().encode() + b"\n"
            if len(answer) > PROFILE_BYTES:
                raise ValueError(f"the profile {profile!r} has too long a name")
            memcpy(self.settings.profile[i], <const char*>answer, len(answer))
            self.settings.profile_size[i] = len(answer)
        self.games = <Game*>calloc(num_games, sizeof(Game))
        if self.games == NULL:
            raise MemoryError
        for i in range(num_games):
            self.games[i].b.magic, self.games[i].b.mark = MAGIC, mark
            self.games[i].b.seed, self.games[i].b.slot = seed, first_slot + i
            self.games[i].b.episode, self.games[i].b.winner = -1, NOBODY
            clear_tally(&self.games[i].b.tally)
            self.games[i].actions = <int16_t*>calloc(max_decisions + 1, sizeof(int16_t))
            self.games[i].live = new_live(max_decisions)
            if self.games[i].actions == NULL or self.games[i].live == NULL:
                raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.games != NULL:
            for i in range(self.num_games):
                free_live(self.games[i].live)
                release(self.games[i].actions)
            release(self.games)
        for address in self._parked or ():
            free_live(<Live*><size_t>address)

    def close(self):
        """Gives all daemons back; games that are played on ask for others."""
        for game in range(self.num_games):
            drop(self, &self.games[game].live.lease)
        for address in self._parked:
            drop(self, &(<Live*><size_t>address).lease)

    # ---- the contract ------------------------------------------------------------------------------------------------

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        cdef Game* g = &self.games[game]
        cdef State* b = &g.b
        if g.live.lease != NULL:  # a game that is abandoned
            with gil:
                drop(self, &g.live.lease)
        memset(g.actions, 0, b.count * sizeof(int16_t))
        b.episode += 1
        b.key = game_key(b.seed, b.slot, b.episode)
        b.stream = mix(b.key ^ 1)
        b.count = b.drawn = 0
        b.how, b.winner = STILL_RUNNING, NOBODY
        clear_tally(&b.tally)
        reset_live(g.live, b.key)
        return advance(self, game)

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        cdef Game* g = &self.games[game]
        g.actions[g.b.count] = <int16_t>action
        g.b.count += 1
        return advance(self, game)

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        cdef State* b = &self.games[game].b
        cdef Question* q
        cdef int k, code
        if not 0 <= number < self.num_bots:
            return -1 - NO_SUCH_BOT
        if number > 0:
            return AT_NUM_ACTIONS + number - 1
        code = reach(self, game)
        if code != OK:
            return -1 - code
        q = &self.games[game].live.question
        k = below(stream_word(b.stream, b.drawn), q.num_legal)
        b.drawn += 1
        return nth_legal(q, k)

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        return self.games[game].b.tally.asked

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        if self.games[game].b.how != STILL_RUNNING:
            return 0 <= action < AT_NUM_ACTIONS
        if AT_NUM_ACTIONS <= action < AT_NUM_ACTIONS + self.settings.num_profiles:
            return True
        return 0 <= action < AT_NUM_ACTIONS and reach(self, game) == OK and self.games[game].live.question.legal[action]

    cdef void rewards(self, Py_ssize_t game, float* out) noexcept nogil:
        out[0] = self.games[game].b.reward
        out[1] = -out[0]

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        cdef int how = self.games[game].b.how
        return 0 if how == STILL_RUNNING else 1 if how == WON or how == DRAWN else 2

    cdef void observe(self, Py_ssize_t game, int seat, float* out) noexcept nogil:
        cdef Live* l
        if self.games[game].b.episode < 0 or reach(self, game) != OK:
            memset(out, 0, AT_FEATURES * sizeof(float))
            return
        l = self.games[game].live
        encode(l.view[seat], &l.question if l.open and l.question.seat == seat else NULL, out)

    cdef void mask(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        cdef Game* g = &self.games[game]
        if g.b.how != STILL_RUNNING or g.b.episode < 0 or reach(self, game) != OK:
            memset(out, 1, AT_NUM_ACTIONS)
        else:
            memcpy(out, g.live.question.legal, AT_NUM_ACTIONS)

    cdef void stats(self, Py_ssize_t game, float* out) noexcept nogil:
        cdef State* b = &self.games[game].b
        cdef int seat
        for seat in range(2):
            out[0] = b.winner == seat
            out[1] = b.tally.turn
            out[2] = b.tally.life[seat]
            out[3] = b.tally.decisions[seat]
            out[4] = b.how == BROKEN
            out += 5

    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil:
        cdef State* b = &self.games[game].b
        out[0], out[1], out[2], out[3] = b.tally.turn, b.tally.type, b.tally.options_cut, b.tally.cards_cut
        out[4], out[5], out[6] = b.tally.unknown_types, b.tally.refused, b.how == BROKEN
        out[7], out[8] = b.how, <int>b.episode

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        cdef Game* g = &self.games[game]
        memset(out, 0, self.state_bytes)
        memcpy(out, &g.b, sizeof(State))
        memcpy(out + sizeof(State), g.actions, g.b.count * sizeof(int16_t))
        if g.live.count == g.b.count and leads_to(g.live, &g.b, g.actions):
            with gil:
                remember(self, g)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        cdef Game* g = &self.games[game]
        cdef State b
        memcpy(&b, data, sizeof(State))
        if b.magic != MAGIC or b.mark != self.mark or not 0 <= b.count <= self.max_decisions:
            return BAD_STATE
        memcpy(&g.b, &b, sizeof(State))
        memcpy(g.actions, data + sizeof(State), self.max_decisions * sizeof(int16_t))
        g.error = OK
        if not leads_to(g.live, &g.b, g.actions):
            with gil:
                adopt(self, g)
        g.live.checking = g.live.tally.seen < g.b.tally.seen
        return OK

    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil:
        cdef State* b = &self.games[game].b
        b.seed, b.drawn = seed, 0
        b.stream = mix(game_key(seed, b.slot, b.episode) ^ 1)

    cdef int fault(self, Py_ssize_t game) noexcept nogil:
        return self.games[game].error

    def error(self, Py_ssize_t game, int code) -> str:
        """The sentence for an error code."""
        return (self._errors[game] if code == FAILED else None) or MESSAGES[code]

    def cause(self, Py_ssize_t game):
        """The exception behind an error."""
        return self._causes[game]


include "reaching.pxi"
include "single.pxi"
