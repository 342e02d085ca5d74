"""`HostPool`: N games of a host engine behind `send` and `recv`, stepped by threads that never take the GIL.

    pool = HostPool(game.engine(1024, seed=0), groups=2)
    pool.start(buffers)
    for group in (0, 1): pool.send(actions[group], halves[group], group)     # one half is stepped ...
    while True:
        for group in (0, 1):
            pool.recv(group)                                                 # ... while a policy answers the other
            pool.send(policy(halves[group]), halves[group], group)

Results depend on the seed and the actions only: not on threads, groups, or which game is ready first.
"""

import os
import threading
import time
import warnings
import weakref

import numpy as np

from jaxrl_envs.host.orders cimport Bound, PoolOrders, bind
from jaxrl_envs.host.shared cimport (
    BEGIN, BUSY, FOR_GROUP, FOR_READY, IDLE, RESTART, SHOW, START, STEP, Core, pthread_mutex_lock, pthread_mutex_unlock,
)

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.host.worker import run

GRACE = 2.0  # seconds that close() waits for engine threads


cdef class HostPool(PoolOrders):
    """N games of an engine, stepped by threads.

    A seat whose controller is -1 (outside) is asked through `send` and `recv`; controller b >= 0 is scripted player b
    of the engine, which plays that seat without a round trip. A finished game is followed by the next one at once.

    Synchronous mode: the games lie in `groups` blocks of N / groups. ``send(actions, into, group)`` steps a block and
    writes its rows into `into`; ``recv(group)`` waits for all of it. Asynchronous mode: ``send(actions, games)`` steps
    any games, ``recv(count)`` returns the numbers of the first `count` that are ready, whose rows then stand in the
    buffers given to `start` or `load`.

    An action is a legal number; -1: the engine draws a legal one; -2 - b: scripted player b chooses.

    A simultaneous game asks all its P seats in every step and takes one action of each; those of seats that scripted
    players hold are not looked at.

    After an error (an engine that fails or hangs) the pool takes no more actions; `close` always works. It waits for
    its threads for at most two seconds: a thread inside an engine that does not return cannot be ended, so `close`
    then says so in a RuntimeWarning and leaves it behind; it ends with its game, at the latest with the process.

    Args:
      engine: the games; at least `groups` of them.
      threads: engine threads; 0: one for each core that this process may use.
      groups: blocks of the synchronous mode.
      mode: "sync" or "async".
      controllers: i8[N, P], who holds the seats at first; all outside if None.
      timeout: seconds without progress in any game after which a waiting caller gets `HungEngine`.
      timed: measure the parts of the work, see `counters`; it costs a few clock readings for each step.
      follow: a game that ends is followed by its next episode at once. False (asynchronous mode): it stays as it ended,
        its row shows the end, and `begin` is what makes it play again.

    Attributes:
      controllers: i8[N, P], of the running games; live, do not write it while games are played.
      next_controllers: i8[N, P], taken by a game when it starts again; the caller refreshes it between steps.
      length: i32[N], decisions of the running games so far; live.
    """

    cdef object finalizer
    cdef object __weakref__

    def __init__(self, engine, *, threads=0, groups=1, mode="sync", controllers=None, timeout=60.0, timed=False,
                 follow=True):
        cdef Py_ssize_t n = engine.num_games, seats = engine.num_players
        if mode not in ("sync", "async"):
            raise UserError(f"mode must be 'sync' or 'async', not {mode!r}")
        if threads < 0 or timeout <= 0:
            raise UserError(f"threads must be at least 0 and timeout above 0, not {threads} and {timeout}")
        if groups < 1 or n < 1 or n % groups or (mode == "async" and groups != 1):
            raise UserError(f"{n} games do not divide into {groups} groups (the asynchronous mode has one)")
        if not follow and mode != "async":
            raise UserError("games without a successor (follow=False) need the asynchronous mode")
        threads = min(threads or len(os.sched_getaffinity(0)), n)
        self.controllers = np.full((n, seats), -1, np.int8)
        if controllers is not None:
            self.controllers[:] = seats_of(controllers, (n, seats))
        self.next_controllers, self.length = self.controllers.copy(), np.zeros(n, np.int32)
        self.mode, self.groups, self.timeout, self.sent = mode, groups, timeout, set()
        self.blocks = list(np.arange(n, dtype=np.int32).reshape(groups, -1))
        self.core = Core(engine, threads, groups, mode == "async", timed)
        self.core.follow = follow
        self.core.share(self.controllers, self.next_controllers, self.length)
        self.threads = start_threads(self.core, threads)
        self.finalizer = weakref.finalize(self, _release, self.core, self.threads)

    # ---- games ------------------------------------------------------------------------------------------------------

    def start(self, into):
        """Starts the next episode of every game, with `controllers`, and writes all N rows of `into`."""
        self._settle(self._all(), into, START)

    def restart(self, games, into):
        """Abandons some games: their next episodes start, with `next_controllers`; writes their rows of `into`.

        Args:
          games: i32[n], distinct; none of them may be in play (synchronous mode: nor any other of their groups).
          into: of all N games (asynchronous mode: those given to `start`).
        """
        self._settle(np.unique(np.asarray(games, np.int32)), into, RESTART)

    def begin(self, games, into, states=None):
        """Asynchronous mode: lets games begin their next episodes, with `next_controllers`, and returns at once.

        They are received as if they had been sent, with their first question or, if no outside seat is asked, their end.

        Args:
          games: i32[n], distinct, none of them in play.
          into: of all N games, the same in every call.
          states: u8[n, S], saved states that the games take over first: the episode after each of those begins.
        """
        cdef const int[::1] numbers = np.ascontiguousarray(games, np.int32)
        cdef const unsigned char[:, ::1] data
        cdef Py_ssize_t i, n = numbers.shape[0]
        cdef Bound bound = bind(into, self.core.engine, self.core.num_games)
        cdef int code = 0
        if not self.core.asynchronous:
            raise ValueError("only games of the asynchronous mode begin by themselves: use start or restart")
        self._require_idle(numbers, None)
        if states is not None:
            states = np.ascontiguousarray(states, np.uint8)
            if states.shape != (n, self.core.engine.state_bytes):
                raise ValueError(f"states are u8{list(states.shape)}, not u8[{n}, {self.core.engine.state_bytes}]")
            data = states
            for i in range(n):
                with nogil:
                    code = self.core.engine.load(numbers[i], &data[i, 0])
                if code != 0:
                    raise self._fail(numbers[i], code)
        if self.core.keep[0] is not bound:
            self._require_idle(self._all(), None)  # else threads would write into the old buffers
            self._aim(0, bound, 0)
        if n:
            self.core.push(&numbers[0], n, BEGIN)

    def load(self, states, controllers, into, length=None):
        """Continues from saved games.

        Args:
          states: u8[N, S] of `save`.
          controllers: i8[N, P], who holds the seats.
          into: of all N games; their rows are written, without rewards.
          length: i32[N], decisions of the games so far (`HostPool.length` when they were saved); 0 if None.
        """
        cdef Py_ssize_t game, n = self.core.num_games
        cdef const unsigned char[:, ::1] data
        cdef int code = 0
        self._require_idle(self._all(), None)
        states = np.ascontiguousarray(states, np.uint8)
        if states.shape != (n, self.core.engine.state_bytes):
            raise ValueError(f"states are u8{list(states.shape)}, not u8[{n}, {self.core.engine.state_bytes}]")
        self.controllers[:] = seats_of(controllers, self.controllers.shape)
        self.length[:] = 0 if length is None else length
        data = states
        for game in range(n):
            with nogil:
                code = self.core.engine.load(game, &data[game, 0])
            if code != 0:
                raise self._fail(game, code)
        self._settle(self._all(), into, SHOW)

    def save(self, out=None, group=None):
        """The states of all games, or of one group, none of which may be in play.

        Args:
          out: u8[n, S] to write into; made if None.
          group: a number; None: all N games.

        Returns:
          `out`. Save `controllers` and `length` with it.
        """
        cdef unsigned char[:, ::1] data
        cdef Py_ssize_t i, first, size
        cdef int code = 0
        if group is not None:
            self._require_group(group)
        games = self._all() if group is None else self.blocks[group]
        self._require_idle(games, None)
        first, size = games[0], len(games)
        out = np.empty((size, self.core.engine.state_bytes), np.uint8) if out is None else out
        if out.shape != (size, self.core.engine.state_bytes):
            raise ValueError(f"out is {list(out.shape)}, not u8[{size}, {self.core.engine.state_bytes}]")
        data = out
        for i in range(size):
            with nogil:
                self.core.engine.save(first + i, &data[i, 0])
                code = self.core.engine.fault(first + i)
            if code != 0:
                raise self._fail(first + i, code)
        return out

    # ---- steps ------------------------------------------------------------------------------------------------------

    def send(self, actions, into=None, group=0, *, games=None):
        """Steps games, and returns at once.

        Args:
          actions: i32[n], or i32[n, P] of a simultaneous game; they may be overwritten when this returns.
          into: synchronous mode: `Buffers` of the group's rows, written until `recv`. Asynchronous mode: the games.
          group: synchronous mode: which one.
          games: asynchronous mode: i32[n], distinct, none of them in play.

        Raises:
          IllegalAction: one of the actions is; nothing was stepped.
          EngineError: an engine failed before.
        """
        cdef const int[::1] chosen = self._flat(actions)
        cdef const int[::1] numbers
        cdef Py_ssize_t asked = self.core.asked, n = chosen.shape[0] // asked, i, seat
        cdef Bound bound = None
        if self.core.asynchronous:
            numbers = np.ascontiguousarray(into if games is None else games, np.int32)
            self._require_idle(numbers, None)
        else:
            self._require_idle(None, group)
            numbers = self.blocks[group]
            bound = bind(into, self.core.engine, self.core.group_size)
        if numbers.shape[0] != n:
            raise ValueError(f"{n} actions for {numbers.shape[0]} games")
        if n == 0:
            return
        if not self.core.follow:
            for i in range(n):
                if self.core.engine.ended(numbers[i]) != 0:
                    raise ValueError(f"game {numbers[i]} is over: begin it again")
        self._require_legal(chosen, numbers)
        if bound is not None:
            self._aim(group, bound, group * self.core.group_size)
            self.sent.add(group)
        for i in range(n):
            for seat in range(asked):
                self.core.actions[numbers[i] * asked + seat] = chosen[i * asked + seat]
        with nogil:
            self.core.push(&numbers[0], n, STEP)

    def recv(self, group=0, *, count=None):
        """Waits for games that were sent.

        Args:
          group: synchronous mode: whose rows are then complete. Asynchronous mode: the same as `count`.
          count: asynchronous mode: how many games to wait for.

        Returns:
          Synchronous mode: None. Asynchronous mode: i32[count], the games in the order in which they became ready.

        Raises:
          EngineError: an engine failed. HungEngine: no game made progress within the timeout.
        """
        cdef int[::1] numbers
        cdef Py_ssize_t n, i, busy = 0
        if not self.core.asynchronous:
            self._require_group(group)
            self._wait(FOR_GROUP, group)
            self.sent.discard(group)
            return None
        n = group if count is None else count
        for i in range(self.core.num_games):
            busy += self.core.status[i] == BUSY
        if not 0 < n <= busy:
            raise ValueError(f"{n} games asked for, {busy} were sent")
        self._wait(FOR_READY, n)
        out = np.empty(n, np.int32)
        numbers = out
        pthread_mutex_lock(&self.core.mutex)
        for i in range(n):
            numbers[i] = self.core.ready[self.core.ready_head]
            self.core.ready_head = (self.core.ready_head + 1) % self.core.num_games
            self.core.status[numbers[i]] = IDLE
        self.core.num_ready -= n
        pthread_mutex_unlock(&self.core.mutex)
        return out

    # ---- figures ----------------------------------------------------------------------------------------------------

    @property
    def engine(self):
        """The engine; leave it alone while games are in play."""
        return self.core.engine

    @property
    def num_ready(self):
        """Asynchronous mode: games that can be received without waiting."""
        pthread_mutex_lock(&self.core.mutex)
        count = self.core.num_ready
        pthread_mutex_unlock(&self.core.mutex)
        return count

    @property
    def unasked(self):
        """Games that ended before an outside seat was asked anything."""
        return sum(self.core.workers[i].unasked for i in range(self.core.threads))

    @property
    def busy_ns(self):
        """i64[threads]: time that each thread has spent playing games, not waiting."""
        return np.array([self.core.workers[i].busy_ns for i in range(self.core.threads)], np.int64)

    @property
    def counters(self):
        """{part: (ns, count)} over all threads, zeros unless `timed`.

        "step": outside actions and starts of games; "bots": choices of scripted players and the steps they lead to;
        "observe": observation, mask and info numbers.
        """
        cdef Py_ssize_t i
        sums = np.zeros((3, 2), np.int64)
        for i in range(self.core.threads):
            worker = self.core.workers[i]
            sums += [
                [worker.step_ns, worker.steps], [worker.bots_ns, worker.bots], [worker.observe_ns, worker.observed]
            ]
        return {name: (int(row[0]), int(row[1])) for name, row in zip(("step", "bots", "observe"), sums)}

    # ---- end --------------------------------------------------------------------------------------------------------

    def close(self):
        """Ends the threads; see the class for engines that hang. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        self.core.shut()
        end = time.monotonic() + GRACE
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
        stuck = [thread.name for thread in self.threads if thread.is_alive()]
        if stuck:
            warnings.warn(
                f"game {self._running_game()} does not return: {', '.join(stuck)} cannot be ended before the process",
                RuntimeWarning,
                stacklevel=2,
            )
        self.finalizer.detach()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def seats_of(controllers, shape):
    """Controllers, checked: i8[N, P]."""
    array = np.asarray(controllers)
    if array.shape != tuple(shape):
        raise ValueError(f"controllers are {list(array.shape)}, not {list(shape)}")
    return array.astype(np.int8)


def start_threads(core, count):
    """Engine threads at work. Daemons: one that hangs in an engine does not keep the process from ending."""
    threads = [
        threading.Thread(target=run, args=(core, i), name=f"engine {i}", daemon=True) for i in range(count)
    ]
    for thread in threads:
        thread.start()
    return threads


def _release(core, threads):
    """A pool that was not closed: ends its threads, at the latest when the interpreter does."""
    core.shut()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(0.5)
