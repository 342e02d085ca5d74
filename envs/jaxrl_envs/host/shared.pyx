"""The state that a pool shares with its engine threads."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free

from jaxrl_envs.host.engine cimport Engine, num_asked

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_condattr_init(pthread_condattr_t*)
    int pthread_condattr_setclock(pthread_condattr_t*, int)
    int pthread_condattr_destroy(pthread_condattr_t*)
    int pthread_cond_init(pthread_cond_t*, pthread_condattr_t*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*)


cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int, timespec*)


cdef long long now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * 1000000000 + now.tv_nsec


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
