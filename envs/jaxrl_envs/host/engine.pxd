"""What the engine of a host game implements: plain C methods for one game at a time, called without the GIL.

    from jaxrl_envs.host.engine cimport Engine

    cdef class MyEngine(Engine):
        cdef int step(self, Py_ssize_t game, int action) noexcept nogil: ...

Two threads never work on the same game at the same time, but on different games of one engine they do: whatever the
games share must not be written after the engine was made.

A game asks one seat at a time, unless it is `simultaneous`: then it asks all seats at once and has the four methods that
name a seat (`step_all`, `seat_bot`, `seat_legal`, `seat_mask`) in the place of `step`, `bot`, `legal`, `mask`; its
`player` is never called.

Randomness. Every game has its own counter-based streams: their key comes from (seed, slot, episode) only, slot =
first_slot + number of the game. So results depend neither on threads, nor on the batch, nor on the order of arrival.
`mix`, `game_key`, `stream_word` and `below` are the generator that all our engines use.
"""

from libc.math cimport isfinite
from libc.string cimport memchr

ctypedef unsigned long long u64


cdef class Engine:
    cdef readonly Py_ssize_t num_games, num_players, num_actions, num_features
    cdef readonly Py_ssize_t num_stats, num_info  # K figures of a finished game for each seat, I numbers of any game
    cdef readonly Py_ssize_t state_bytes
    cdef readonly Py_ssize_t num_bots  # scripted players; 0: not known, `bot` itself refuses wrong numbers
    cdef readonly bint simultaneous

    # Next episode of this slot: the first call makes episode 0. Runs to the first question. 0, or an error code > 0.
    cdef int start(self, Py_ssize_t game) noexcept nogil
    # Applies a legal action of the seat asked and runs to the next question or to the end. 0, or an error code > 0.
    cdef int step(self, Py_ssize_t game, int action) noexcept nogil
    # The action that scripted player `number` takes for the seat asked (>= 0), or -1 - error code. 0 is "random".
    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil
    # The seat asked. When the game is over: -1, or after a cut the seat that would have been asked.
    cdef int player(self, Py_ssize_t game) noexcept nogil
    # Whether a number, any number, is a legal action now; of the A actions what the mask says.
    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil
    # `step`, `bot`, `legal` and `mask` of a simultaneous game: a legal action of every seat, i32[P]; and of one seat.
    cdef int step_all(self, Py_ssize_t game, const int* actions) noexcept nogil
    cdef int seat_bot(self, Py_ssize_t game, int seat, int number) noexcept nogil
    cdef bint seat_legal(self, Py_ssize_t game, int seat, int action) noexcept nogil
    cdef void seat_mask(self, Py_ssize_t game, int seat, unsigned char* out) noexcept nogil
    # f32[P], what each seat earned by the last `start` or `step`.
    cdef void rewards(self, Py_ssize_t game, float* out) noexcept nogil
    # 0 running, 1 terminated, 2 truncated.
    cdef int ended(self, Py_ssize_t game) noexcept nogil
    # f32[F], what `seat` may see; writes every element. Also called for a finished game.
    cdef void observe(self, Py_ssize_t game, int seat, float* out) noexcept nogil
    # u8[A] of 0 and 1, at least one of them 1; all 1 when the game is over.
    cdef void mask(self, Py_ssize_t game, unsigned char* out) noexcept nogil
    # f32[P, K], seat by seat; meaningful when the game is over.
    cdef void stats(self, Py_ssize_t game, float* out) noexcept nogil
    # i32[I], of a running or a finished game.
    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil
    # u8[state_bytes]: all of the game, with streams and episode counter; also of a game that was never started.
    # Equal states give equal bytes (unused ones 0).
    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil
    # Continues from saved bytes, whichever slot wrote them. 0, or an error code > 0.
    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil
    # All that is drawn later, by the next `start` too, comes from new streams of this seed. The present position and
    # the episode counter stay, and so does what was drawn for the whole episode (a style of play, the order of a deck).
    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil
    # Redraws what `seat` cannot see of a position, for a search that plays it on: the private state of bots. The
    # default does nothing; asked of games of perfect information alone.
    cdef void permute(self, Py_ssize_t game, int seat, u64 seed) noexcept nogil
    # The error code > 0 of a call above that returns nothing, 0 if there was none; asked once after each game's turn.
    cdef int fault(self, Py_ssize_t game) noexcept nogil


cdef inline Py_ssize_t num_asked(Engine engine) noexcept nogil:
    """How many seats are asked at a time."""
    return engine.num_players if engine.simultaneous else 1


cdef inline void observe_asked(
    Engine engine, Py_ssize_t game, int seat, int* players, float* observation
) noexcept nogil:
    """Who is asked and what they see: `seat`, or in a simultaneous game all seats, i32[P] and f32[P, F]."""
    if not engine.simultaneous:
        players[0] = seat
        engine.observe(game, seat, observation)
        return
    for seat in range(<int>engine.num_players):
        players[seat] = seat
        engine.observe(game, seat, observation + seat * engine.num_features)


cdef inline void mask_asked(Engine engine, Py_ssize_t game, unsigned char* mask) noexcept nogil:
    """What is legal for the seat asked, u8[A], or in a simultaneous game for all seats, u8[P, A]."""
    cdef int seat
    if not engine.simultaneous:
        engine.mask(game, mask)
        return
    for seat in range(<int>engine.num_players):
        engine.seat_mask(game, seat, mask + seat * engine.num_actions)


cdef inline bint offers(Engine engine, const unsigned char* mask) noexcept nogil:
    """Whether a mask, u8[A], or in a simultaneous game each of u8[P, A], has a legal action."""
    cdef Py_ssize_t seat
    for seat in range(num_asked(engine)):
        if memchr(mask + seat * engine.num_actions, 1, engine.num_actions) == NULL:
            return False
    return True


cdef inline bint agrees(Engine engine, Py_ssize_t game, const unsigned char* mask, Py_ssize_t place) noexcept nogil:
    """Whether `legal` says of an action what the mask does, u8[A], or in a simultaneous game u8[P, A]; `place` in it."""
    cdef int action = <int>(place % engine.num_actions)
    if engine.simultaneous:
        return engine.seat_legal(game, <int>(place // engine.num_actions), action) == (mask[place] != 0)
    return engine.legal(game, action) == (mask[place] != 0)


cdef inline u64 mix(u64 z) noexcept nogil:
    """A bijection whose output bits each depend on every input bit."""
    z ^= z >> 30
    z *= <u64>0xBF58476D1CE4E5B9
    z ^= z >> 27
    z *= <u64>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline u64 game_key(u64 seed, u64 slot, u64 episode) noexcept nogil:
    """The key of one game; its streams are mix(key ^ 1), mix(key ^ 2), ..."""
    cdef u64 golden = <u64>0x9E3779B97F4A7C15
    return mix(mix(seed + golden) + golden * ((slot << 32) + episode + 1))


cdef inline u64 stream_word(u64 stream, u64 counter) noexcept nogil:
    """Word number `counter` (from 0) of a stream."""
    return mix(stream + (counter + 1) * <u64>0x9E3779B97F4A7C15)


cdef inline bint all_finite(const float* values, Py_ssize_t count) noexcept nogil:
    """Whether none of the numbers is infinite or not a number: what is learnt from must be."""
    cdef float sums[16]  # side by side, for vector instructions; what is not finite stays so in a sum
    cdef float total = 0.0
    cdef Py_ssize_t i, k
    for k in range(16):
        sums[k] = 0.0
    for i in range(0, count - 15, 16):
        for k in range(16):
            sums[k] += values[i + k]
    for k in range(8):
        sums[k] += sums[k + 8]
    for k in range(8):
        total += sums[k]
    for i in range(count - count % 16, count):
        total += values[i]
    if isfinite(total):
        return True
    for i in range(count):  # else great numbers added up to more than a float holds
        if not isfinite(values[i]):
            return False
    return True


cdef inline int below(u64 word, int n) noexcept nogil:
    """A draw of n values, 0 .. n - 1."""
    return <int>(((word >> 32) * <u64>n) >> 32)
