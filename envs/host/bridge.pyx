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

from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.math cimport isfinite
from libc.string cimport memcpy, memset

from envs.host.engine cimport Engine, all_finite, mask_asked, num_asked, observe_asked

from envs.errors import UserError
from envs.host.core import FINITE, Buffers, EngineError, HungEngine, IllegalAction, shapes


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_condattr_init(pthread_condattr_t*)
    int pthread_condattr_setclock(pthread_condattr_t*, int)
    int pthread_condattr_destroy(pthread_condattr_t*)
    int pthread_cond_init(pthread_cond_t*, pthread_condattr_t*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*)
    int pthread_cond_broadcast(pthread_cond_t*)


cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int, timespec*)


include "worker.pxi"

SLICE = 0.1  # seconds; a waiting caller looks this often for signals and for progress
GRACE = 2.0  # seconds that close() waits for engine threads


cdef class Core:
    """What a pool shares with its engine threads. It lives as long as the last of them, the pool may go earlier."""

    def __cinit__(self, Engine engine not None, Py_ssize_t threads, Py_ssize_t groups, bint asynchronous, bint timed):
        cdef pthread_condattr_t monotonic
        cdef Py_ssize_t n = engine.num_games, seats = engine.num_players, i
        self.engine, self.num_games, self.threads, self.groups = engine, n, threads, groups
        self.group_size, self.asynchronous, self.timed, self.keep = n // groups, asynchronous, timed, [None] * groups
        self.follow, self.asked, self.features = True, num_asked(engine), num_asked(engine) * engine.num_features
        self.queue = <int*>allocate(n * sizeof(int))
        self.ready = <int*>allocate(n * sizeof(int))
        self.left = <Py_ssize_t*>allocate(groups * sizeof(Py_ssize_t))
        self.status = <char*>allocate(n)
        self.command = <char*>allocate(n)
        self.actions = <int*>allocate(n * self.asked * sizeof(int))
        self.outs = <Out*>allocate(groups * sizeof(Out))
        self.base = <Py_ssize_t*>allocate(groups * sizeof(Py_ssize_t))
        self.workers = <Worker*>allocate(threads * sizeof(Worker))
        for i in range(threads):
            self.workers[i].game = -1
            self.workers[i].scratch = <float*>allocate(seats * sizeof(float))
            self.workers[i].chosen = <int*>allocate(seats * sizeof(int))
        pthread_mutex_init(&self.mutex, NULL)
        pthread_condattr_init(&monotonic)
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC)
        pthread_cond_init(&self.work_cond, &monotonic)
        pthread_cond_init(&self.done_cond, &monotonic)
        pthread_condattr_destroy(&monotonic)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.workers != NULL:
            for i in range(self.threads):
                PyMem_Free(self.workers[i].scratch)
                PyMem_Free(self.workers[i].chosen)
        for memory in (<size_t>self.queue, <size_t>self.ready, <size_t>self.left, <size_t>self.status,
                       <size_t>self.command, <size_t>self.actions, <size_t>self.outs, <size_t>self.base,
                       <size_t>self.workers):
            PyMem_Free(<void*><size_t>memory)
        pthread_cond_destroy(&self.done_cond)
        pthread_cond_destroy(&self.work_cond)
        pthread_mutex_destroy(&self.mutex)

    def share(self, controllers, next_controllers, length):
        """The arrays that the caller and the threads both see."""
        self.controllers = <signed char*>address(controllers)
        self.next_controllers = <signed char*>address(next_controllers)
        self.length = <int*>address(length)
        self.keep += [controllers, next_controllers, length]

    def run(self, Py_ssize_t number):
        """The body of an engine thread; returns after `shut`."""
        cdef Engine engine = self.engine
        with nogil:
            work(self, engine, &self.workers[number])

    def shut(self):
        """Tells the threads to end: each does so when its game has answered."""
        pthread_mutex_lock(&self.mutex)
        self.stop = True
        pthread_cond_broadcast(&self.work_cond)
        pthread_mutex_unlock(&self.mutex)

    cdef void push(self, const int* games, Py_ssize_t count, char command) noexcept nogil:
        """Queues games."""
        cdef Py_ssize_t i, tail
        pthread_mutex_lock(&self.mutex)
        tail = (self.head + self.queued) % self.num_games
        for i in range(count):
            self.queue[tail] = games[i]
            tail = tail + 1 if tail + 1 < self.num_games else 0
            self.status[games[i]] = BUSY
            self.command[games[i]] = command
            if command != STEP and command != BEGIN:
                self.unsettled += 1
            elif not self.asynchronous:
                self.left[games[i] // self.group_size] += 1
        self.queued += count
        pthread_cond_broadcast(&self.work_cond)
        pthread_mutex_unlock(&self.mutex)

    cdef int wait(self, int what, Py_ssize_t number, double seconds) noexcept nogil:
        """Waits for group `number` (what = FOR_GROUP), for `number` ready games (FOR_READY) or for games that are
        started (FOR_STARTED), `seconds` at most: DONE, WAITING or FAILED."""
        cdef timespec until
        cdef long long end = now_ns() + <long long>(seconds * 1e9)
        cdef int status = WAITING
        until.tv_sec = end // 1000000000
        until.tv_nsec = end % 1000000000
        pthread_mutex_lock(&self.mutex)
        self.wanted = number if what == FOR_READY else 0
        while True:
            if self.failed:
                status = FAILED
            elif what == FOR_GROUP:
                status = DONE if self.left[number] == 0 else WAITING
            elif what == FOR_READY:
                status = DONE if self.num_ready >= number else WAITING
            else:
                status = DONE if self.unsettled == 0 else WAITING
            if status != WAITING or now_ns() >= end:
                break
            pthread_cond_timedwait(&self.done_cond, &self.mutex, &until)
        pthread_mutex_unlock(&self.mutex)
        return status


cdef void* allocate(size_t size) except NULL:
    cdef void* memory = PyMem_Calloc(size + 1, 1)
    if memory == NULL:
        raise MemoryError
    return memory


cdef size_t address(array) except? 0:
    return array.__array_interface__["data"][0]


cdef class Bound:
    """Buffers that were checked once: where their rows lie."""

    cdef Out out
    cdef readonly Py_ssize_t rows
    cdef readonly tuple form  # P, A, F, K, I, whether all seats are asked at once
    cdef readonly dict arrays

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
        raise ValueError(f"rows are written into envs.host.core.Buffers, not {type(into).__name__}")
    if isinstance(into.bound, Bound):
        bound = into.bound
        if bound.rows == rows and bound.form == form_of(engine):
            return bound
    bound = Bound(into, engine, rows)
    object.__setattr__(into, "bound", bound)
    return bound


def seats_of(controllers, shape):
    """Controllers, checked: i8[N, P]."""
    array = np.asarray(controllers)
    if array.shape != tuple(shape):
        raise ValueError(f"controllers are {list(array.shape)}, not {list(shape)}")
    return array.astype(np.int8)


def start_threads(core, count):
    """Engine threads at work. Daemons: one that hangs in an engine does not keep the process from ending."""
    threads = [
        threading.Thread(target=core.run, args=(i,), name=f"engine {i}", daemon=True) for i in range(count)
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


include "orders.pxi"
include "pool.pxi"
