"""Orders to the threads, and the buffers that rows are written into."""

import time

import numpy as np

from cpython.exc cimport PyErr_CheckSignals

from jaxrl_envs.host.engine cimport Engine, agrees
from jaxrl_envs.host.shared cimport (
    BUSY, CONTRADICTION, DONE, FAILED, FOR_STARTED, IDLE, NEVER_ASKED, NOT_FINITE, NO_LEGAL_ACTION, NO_SUCH_SEAT,
    UNASKED_LIMIT, Core, address, pthread_mutex_lock, pthread_mutex_unlock,
)
from jaxrl_envs.host.worker cimport bot_of

from jaxrl_envs.host.game import FINITE, NO_ANSWER, Buffers, EngineError, HungEngine, IllegalAction, shapes

SLICE = 0.1  # seconds; a waiting caller looks this often for signals and for progress


cdef class Bound:
    """Buffers that were checked once: where their rows lie."""

    def __init__(self, into, Engine engine, Py_ssize_t rows):
        self.rows, self.form, self.arrays = rows, form_of(engine), {}
        for name, (shape, dtype) in shapes(engine, rows).items():
            array = getattr(into, name)
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ValueError(f"buffers: {name} is {found}, not {np.dtype(dtype)}{list(shape)}")
            if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
                raise ValueError(f"buffers: {name} must be contiguous, aligned and writable")
            self.arrays[name] = array
        self.out.current_player = <int*>address(into.current_player)
        self.out.observation = <float*>address(into.observation)
        self.out.legal_action_mask = <unsigned char*>address(into.legal_action_mask)
        self.out.action = <int*>address(into.action)
        self.out.rewards = <float*>address(into.rewards)
        self.out.opening = <float*>address(into.opening)
        self.out.terminated = <unsigned char*>address(into.terminated)
        self.out.truncated = <unsigned char*>address(into.truncated)
        self.out.final_player = <int*>address(into.final_player)
        self.out.final_observation = <float*>address(into.final_observation)
        self.out.stats = <float*>address(into.stats)
        self.out.info = <int*>address(into.info)
        self.out.length = <int*>address(into.length)
        self.out.controllers = <signed char*>address(into.controllers)


cdef tuple form_of(Engine engine):
    sizes = (engine.num_players, engine.num_actions, engine.num_features, engine.num_stats, engine.num_info)
    return (*sizes, engine.simultaneous)


cdef Bound bind(into, Engine engine, Py_ssize_t rows):
    """`into`, checked at its first use."""
    cdef Bound bound
    if not isinstance(into, Buffers):
        raise ValueError(f"rows are written into jaxrl_envs.host.game.Buffers, not {type(into).__name__}")
    if isinstance(into.bound, Bound):
        bound = into.bound
        if bound.rows == rows and bound.form == form_of(engine):
            return bound
    bound = Bound(into, engine, rows)
    object.__setattr__(into, "bound", bound)
    return bound


cdef inline int first_illegal(Core core, Engine engine, Py_ssize_t game, const int* actions) noexcept nogil:
    """The first index into i32[1] or i32[P] with an impossible answer of its seat; -1 if all are possible.

    What is said for seats that bots hold in a simultaneous game is not looked at.
    """
    cdef int seat
    cdef bint legal
    for seat in range(<int>core.asked):
        if engine.simultaneous and core.controllers[game * engine.num_players + seat] >= 0:
            continue
        if actions[seat] < 0:
            legal = engine.num_bots == 0 or bot_of(actions[seat]) < engine.num_bots
        elif engine.simultaneous:
            legal = engine.seat_legal(game, seat, actions[seat])
        else:
            legal = engine.legal(game, actions[seat])
        if not legal:
            return seat
    return -1


cdef class PoolOrders:
    """What a pool is made of, and the checks and waits that its methods share."""

    def _all(self):
        """i32[N], every game."""
        return np.concatenate(self.blocks)

    cdef _require_open(self):
        """Raises if the pool takes no more orders."""
        if self.closed:
            raise RuntimeError("the pool is closed")
        if self.failure is not None:
            raise EngineError(self.failure.game, "failed before; the pool can only be closed") from self.failure

    cdef _require_group(self, Py_ssize_t group):
        """Raises unless there is such a group."""
        if not 0 <= group < self.core.groups:
            raise ValueError(f"there is no group {group}; there are {self.core.groups}")

    cdef _require_idle(self, const int[::1] games, group):
        """Raises unless the pool can take orders for these games, all distinct, and for this group (or None)."""
        cdef Py_ssize_t i, marked = 0, n = 0 if games is None else games.shape[0]
        self._require_open()
        if group is not None:
            self._require_group(group)
            if group in self.sent:
                raise ValueError(f"group {group} is in play: receive it first")
        for i in range(n):
            if not 0 <= games[i] < self.core.num_games or self.core.status[games[i]] != IDLE:
                break
            if self.sent and games[i] // self.core.group_size in self.sent:  # played, but not received
                break
            self.core.status[games[i]] = BUSY  # for now: a number that comes twice is found
            marked += 1
        for i in range(marked):
            self.core.status[games[i]] = IDLE
        if marked < n:
            raise ValueError(f"game {games[marked]} does not exist, is named twice or is in play: receive it first")

    cdef _aim(self, Py_ssize_t group, Bound bound, Py_ssize_t base):
        """The rows of a group are written there from now on: row 0 is game `base`."""
        self.core.outs[group] = bound.out
        self.core.base[group] = base
        self.core.keep[group] = bound

    cdef _flat(self, actions):
        """i32[n], or i32[n * P] of a simultaneous game: actions as `send` was given them."""
        cdef Engine engine = self.core.engine
        array = np.ascontiguousarray(actions, np.int32)
        if array.shape[1:] == (engine.num_players,) and engine.simultaneous or array.size == 0:
            return array.reshape(-1)
        if engine.simultaneous or array.ndim != 1:
            wanted = f"[n, {engine.num_players}]: one for each seat" if engine.simultaneous else "[n]"
            raise ValueError(f"actions are {list(array.shape)}, not {wanted}")
        return array

    cdef _require_legal(self, const int[::1] actions, const int[::1] games):
        """Raises unless these can be the answers of the seats asked in these games, i32[n] or i32[n * P]."""
        cdef Core core = self.core
        cdef Engine engine = core.engine
        cdef Py_ssize_t asked = core.asked, i
        cdef int game = 0, seat = -1, code = 0, action
        with nogil:
            for i in range(games.shape[0]):
                game = games[i]
                seat = first_illegal(core, engine, game, &actions[i * asked])
                if seat >= 0:
                    code = engine.fault(game)
                    break
        if code != 0:
            raise self._fail(game, code)
        if seat < 0:
            return
        action = actions[i * asked + seat]
        if 0 <= action < engine.num_actions and self._row(game, "legal_action_mask").flat[seat * engine.num_actions + action]:
            raise self._fail(game, CONTRADICTION)
        raise IllegalAction(game, action, seat if engine.simultaneous else None)

    cdef _settle(self, games, into, char command):
        """Starts games, or only writes the rows of loaded ones, and waits for them."""
        cdef const int[::1] numbers = games
        cdef Py_ssize_t group
        cdef Bound bound = bind(into, self.core.engine, self.core.num_games)
        self._require_idle(numbers, None)
        touched = sorted({game // self.core.group_size for game in games.tolist()})
        for group in touched:
            self._require_idle(None, group)
        if numbers.shape[0] == 0:
            return
        for group in touched:
            self._aim(group, bound, 0)
        self.core.push(&numbers[0], numbers.shape[0], command)
        self._wait(FOR_STARTED, 0)

    cdef _wait(self, int what, Py_ssize_t number):
        """Waits in slices, so that signals are seen and progress is."""
        cdef int status
        cdef double seconds = min(SLICE, self.timeout / 4)
        self._require_open()
        turns, since = -1, time.monotonic()
        while True:
            with nogil:
                status = self.core.wait(what, number, seconds)
            if status == DONE:
                return
            if status == FAILED:
                raise self._fail(self.core.failed_game, self.core.failed_code)
            PyErr_CheckSignals()
            now = sum(self.core.workers[i].turns for i in range(self.core.threads))
            if now != turns:
                turns, since = now, time.monotonic()
            elif time.monotonic() - since > self.timeout:
                game = self._running_game()
                self._stop()
                self.failure = HungEngine(game, f"has not answered for {self.timeout:g} s; the engine hangs")
                raise self.failure

    cdef _stop(self):
        """No thread takes another game."""
        pthread_mutex_lock(&self.core.mutex)
        self.core.failed = True
        pthread_mutex_unlock(&self.core.mutex)

    def _running_game(self):
        """A game that a thread is inside of."""
        return max(self.core.workers[i].game for i in range(self.core.threads))

    cdef _fail(self, Py_ssize_t game, int code):
        """The exception for an engine's error; the pool takes no more orders."""
        cause = None
        if code == NEVER_ASKED:
            message = f"{UNASKED_LIMIT} games in a row asked no outside seat: a controller must be -1"
        elif code == NO_SUCH_SEAT:
            message = f"asks seat {self.core.engine.player(game)}, which does not exist"
        elif code == NOT_FINITE:
            message = self._not_finite(game)
        elif code == NO_LEGAL_ACTION:
            message = NO_ANSWER
        elif code == CONTRADICTION:
            message = self._contradiction(game)
        else:
            message, cause = self.core.engine.error(game, code), self.core.engine.cause(game)
        self._stop()
        self.failure = EngineError(game, message)
        self.failure.__cause__ = cause
        return self.failure

    cdef _row(self, Py_ssize_t game, str name):
        """What a game wrote last of an array of `Buffers`."""
        cdef Py_ssize_t group = game // self.core.group_size
        cdef Bound bound = self.core.keep[group]
        return bound.arrays[name][game - self.core.base[group]]

    cdef str _contradiction(self, Py_ssize_t game):
        """The first action about which the mask and `legal` of a game do not agree."""
        cdef Engine engine = self.core.engine
        mask = np.ascontiguousarray(self._row(game, "legal_action_mask")).view(np.uint8).ravel()
        cdef const unsigned char[::1] flat = mask
        cdef Py_ssize_t place
        for place in range(flat.shape[0]):
            if not agrees(engine, game, &flat[0], place):
                allowed, not_allowed = ("mask", "legal()") if flat[place] else ("legal()", "mask")
                seat = f" of seat {place // engine.num_actions}" if engine.simultaneous else ""
                return f"its {allowed} allows action {place % engine.num_actions}{seat}, its {not_allowed} does not"
        return "its mask and its legal() do not agree"

    cdef str _not_finite(self, Py_ssize_t game):
        """A sentence about the first non-finite value in a game's row."""
        for name in FINITE:
            row = self._row(game, name)
            for place in np.argwhere(~np.isfinite(row)).tolist():
                return f"{name}{place} is {row[tuple(place)]}: an engine must give finite numbers"
        return "an engine must give finite numbers"
