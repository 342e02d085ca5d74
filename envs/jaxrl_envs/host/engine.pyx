"""Engines of host games: the base class, one for games written in plain Python, and one that does nothing."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy, memset

from jaxrl_envs.host.engine cimport Engine, below, game_key, mix, stream_word, u64

import numpy as np

FLOAT, INT, BOOL = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_)


cdef class Engine:
    """The base class; `engine.pxd` says what each method promises. Python code calls only what follows."""

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        return 1

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        return 1

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        return -2

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        return -1

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        return False

    cdef int step_all(self, Py_ssize_t game, const int* actions) noexcept nogil:
        return 1

    cdef int seat_bot(self, Py_ssize_t game, int seat, int number) noexcept nogil:
        return -2

    cdef bint seat_legal(self, Py_ssize_t game, int seat, int action) noexcept nogil:
        return False

    cdef void seat_mask(self, Py_ssize_t game, int seat, unsigned char* out) noexcept nogil:
        memset(out, 1, self.num_actions)

    cdef void rewards(self, Py_ssize_t game, float* out) noexcept nogil:
        memset(out, 0, self.num_players * sizeof(float))

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        return 0

    cdef void observe(self, Py_ssize_t game, int seat, float* out) noexcept nogil:
        memset(out, 0, self.num_features * sizeof(float))

    cdef void mask(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        memset(out, 1, self.num_actions)

    cdef void stats(self, Py_ssize_t game, float* out) noexcept nogil:
        memset(out, 0, self.num_players * self.num_stats * sizeof(float))

    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil:
        memset(out, 0, self.num_info * sizeof(int))

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        memset(out, 0, self.state_bytes)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        return 1

    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil:
        pass

    cdef void permute(self, Py_ssize_t game, int seat, u64 seed) noexcept nogil:
        pass

    cdef int fault(self, Py_ssize_t game) noexcept nogil:
        return 0

    def error(self, Py_ssize_t game, int code) -> str:
        """The sentence for an error code that a method returned for `game`."""
        return f"error {code} of {type(self).__name__}"

    def cause(self, Py_ssize_t game):
        """The exception behind the error of `game`, if there is one."""
        return None


cdef class NoopEngine(Engine):
    """Games in which nothing happens: two seats take turns, or are both asked in every step; every action is legal, a
    game lasts `length` steps.

    What a step through the bridge costs, and nothing else, is what it measures.

    Args:
      num_games: N.
      length: decisions in a game.
      num_features, num_actions: of an observation and of the mask; both are written in full at every step.
      simultaneous: both seats are asked at once.
    """

    cdef readonly int length
    cdef int[:, ::1] _time  # [N, 2]: steps of this game, episodes begun

    def __init__(self, num_games, *, length=100, num_features=16, num_actions=8, simultaneous=False):
        self.num_games, self.num_players, self.num_actions, self.num_features = num_games, 2, num_actions, num_features
        self.num_stats, self.num_info, self.state_bytes, self.num_bots = 0, 1, 8, 1
        self.length, self.simultaneous = length, simultaneous
        self._time = np.zeros((num_games, 2), np.int32)

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        self._time[game, 0] = 0
        self._time[game, 1] += 1
        return 0

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        self._time[game, 0] += 1
        return 0

    cdef int step_all(self, Py_ssize_t game, const int* actions) noexcept nogil:
        return self.step(game, actions[0])

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        return 0 if number == 0 else -2

    cdef int seat_bot(self, Py_ssize_t game, int seat, int number) noexcept nogil:
        return self.bot(game, number)

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        return -1 if self._time[game, 0] >= self.length else self._time[game, 0] & 1

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        return 0 <= action < self.num_actions

    cdef bint seat_legal(self, Py_ssize_t game, int seat, int action) noexcept nogil:
        return self.legal(game, action)

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        return self._time[game, 0] >= self.length

    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil:
        out[0] = self._time[game, 1] - 1

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        memcpy(out, &self._time[game, 0], 8)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        memcpy(&self._time[game, 0], data, 8)
        return 0

    def error(self, Py_ssize_t game, int code) -> str:
        return "there is no such bot"


cdef class PythonEngine(Engine):
    """Games written in plain Python, one object for each; slow (the GIL), but the whole contract.

    An object has the methods of `jaxrl_envs.host.python_game.PythonGame`, or of `SimultaneousPythonGame` there. An exception
    in one of them is kept and reaches the caller of the pool with the number of the game.

    Args:
      games: N objects.
      num_players, num_actions, num_features, num_stats, num_info, state_bytes, num_bots, simultaneous: as of every
        engine.
      delegated: further actions, from num_actions on, that games are asked about; see `HostGame.delegated`.
    """

    cdef readonly list games
    cdef readonly int delegated
    cdef list _errors  # exception or None for each game

    def __init__(
        self,
        games,
        *,
        num_players,
        num_actions,
        num_features,
        state_bytes,
        num_stats=0,
        num_info=0,
        num_bots=0,
        simultaneous=False,
        delegated=0,
    ):
        self.games, self.delegated = list(games), delegated
        self._errors = [None] * len(self.games)
        self.num_games, self.num_players, self.num_actions = len(self.games), num_players, num_actions
        self.num_features, self.num_stats, self.num_info = num_features, num_stats, num_info
        self.state_bytes, self.num_bots, self.simultaneous = state_bytes, num_bots, simultaneous

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        with gil:
            try:
                self.games[game].start()
                return 0
            except BaseException as error:
                return self._keep(game, error)

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        with gil:
            return self._step(game, action)

    cdef int step_all(self, Py_ssize_t game, const int* actions) noexcept nogil:
        with gil:
            return self._step(game, [actions[seat] for seat in range(self.num_players)])

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        with gil:
            return self._choice(game, (), number)

    cdef int seat_bot(self, Py_ssize_t game, int seat, int number) noexcept nogil:
        with gil:
            return self._choice(game, (seat,), number)

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        cdef int seat
        with gil:
            try:
                seat = self.games[game].player()
                if not -1 <= seat < self.num_players:
                    raise ValueError(f"player() returned {seat}, which is no seat")
                return seat
            except BaseException as error:
                self._keep(game, error)
                return 0

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        with gil:
            return 0 <= action < self.num_actions + self.delegated and self._allows(game, (action,))

    cdef bint seat_legal(self, Py_ssize_t game, int seat, int action) noexcept nogil:
        with gil:
            return 0 <= action < self.num_actions and self._allows(game, (seat, action))

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        cdef int how
        with gil:
            try:
                how = self.games[game].ended()
                if not 0 <= how <= 2:
                    raise ValueError(f"ended() returned {how}, not 0, 1 or 2")
                return how
            except BaseException as error:
                self._keep(game, error)
                return 0

    cdef void rewards(self, Py_ssize_t game, float* out) noexcept nogil:
        with gil:
            self._floats(game, "rewards", (), (self.num_players,), out)

    cdef void observe(self, Py_ssize_t game, int seat, float* out) noexcept nogil:
        with gil:
            self._floats(game, "observe", (seat,), (self.num_features,), out)

    cdef void stats(self, Py_ssize_t game, float* out) noexcept nogil:
        if self.num_stats:
            with gil:
                self._floats(game, "stats", (), (self.num_players, self.num_stats), out)

    cdef void mask(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        with gil:
            self._bytes(game, "mask", (), (self.num_actions,), BOOL, out)

    cdef void seat_mask(self, Py_ssize_t game, int seat, unsigned char* out) noexcept nogil:
        with gil:
            self._bytes(game, "mask", (seat,), (self.num_actions,), BOOL, out)

    cdef void info(self, Py_ssize_t game, int* out) noexcept nogil:
        if self.num_info:
            with gil:
                self._bytes(game, "info", (), (self.num_info,), INT, <unsigned char*>out)

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        cdef const unsigned char[::1] data
        memset(out, 0, self.state_bytes)
        with gil:
            try:
                state = self.games[game].save()
                if len(state) > self.state_bytes:
                    raise ValueError(f"save() returned {len(state)} bytes, more than state_bytes={self.state_bytes}")
                if len(state):
                    data = state
                    memcpy(out, &data[0], data.shape[0])
            except BaseException as error:
                self._keep(game, error)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        with gil:
            try:
                self.games[game].load(data[: self.state_bytes])
                self._errors[game] = None
                return 0
            except BaseException as error:
                return self._keep(game, error)

    cdef void reseed(self, Py_ssize_t game, u64 seed) noexcept nogil:
        with gil:
            try:
                self.games[game].reseed(seed)
            except BaseException as error:
                self._keep(game, error)

    cdef int fault(self, Py_ssize_t game) noexcept nogil:
        with gil:
            return self._errors[game] is not None

    def error(self, Py_ssize_t game, int code) -> str:
        error = self._errors[game]
        return f"{type(error).__name__}: {error}"

    def cause(self, Py_ssize_t game):
        return self._errors[game]

    cdef int _keep(self, Py_ssize_t game, error) noexcept:
        """Keeps the first exception of a game and returns the error code for it."""
        if self._errors[game] is None:
            self._errors[game] = error
        return 1

    cdef int _step(self, Py_ssize_t game, action) noexcept:
        try:
            self.games[game].step(action)
            return 0
        except BaseException as error:
            return self._keep(game, error)

    cdef int _choice(self, Py_ssize_t game, tuple seat, int number) noexcept:
        """What a bot answers, or -1 - error code."""
        cdef int action
        try:
            action = self.games[game].bot(*seat, number)
            if action < 0:
                raise ValueError(f"bot {number} chose {action}")
            return action
        except BaseException as error:
            return -1 - self._keep(game, error)

    cdef bint _allows(self, Py_ssize_t game, tuple arguments) noexcept:
        try:
            return bool(self.games[game].legal(*arguments))
        except BaseException as error:
            self._keep(game, error)
            return False

    cdef void _floats(self, Py_ssize_t game, str method, tuple arguments, tuple shape, float* out) noexcept:
        self._bytes(game, method, arguments, shape, FLOAT, <unsigned char*>out)

    cdef void _bytes(
        self, Py_ssize_t game, str method, tuple arguments, tuple shape, dtype, unsigned char* out
    ) noexcept:
        """Writes what a method of a game returns, as an array of this shape and type."""
        cdef Py_buffer view
        try:
            found = np.asarray(getattr(self.games[game], method)(*arguments))
            if found.shape != shape:
                raise ValueError(f"{method}() returned an array of shape {found.shape}, not {shape}")
            if not (np.can_cast(found.dtype, dtype, "same_kind") or dtype is BOOL and found.dtype.kind in "iu"):
                raise ValueError(f"{method}() returned an array of {found.dtype}, not {dtype}")
            array = np.ascontiguousarray(found, dtype)
            PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
            memcpy(out, view.buf, view.len)
            PyBuffer_Release(&view)
        except BaseException as error:
            self._keep(game, error)


def random_key(u64 seed, u64 slot, u64 episode) -> int:
    """The key of a game, 64 bits."""
    return game_key(seed, slot, episode)


def random_word(u64 seed, u64 slot, u64 episode, u64 stream, u64 counter) -> int:
    """Word `counter` of stream mix(key ^ `stream`) of a game's key: the generator of the engines, for Python code."""
    return stream_word(mix(game_key(seed, slot, episode) ^ stream), counter)


def random_below(u64 word, int n) -> int:
    """A draw of n values, 0 .. n - 1, from a word."""
    return below(word, n)
