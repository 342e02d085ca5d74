"""The state that a pool shares with its engine threads, and the calls of the system that guard it."""

from jaxrl_envs.host.engine cimport Engine

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_broadcast(pthread_cond_t*)

cdef enum:
    # What a game is queued for: an action, its next episode (RESTART, BEGIN: with the controllers that wait for it;
    # BEGIN: no thread waits, it is ready as after an action), or only to write its row.
    STEP, START, RESTART, BEGIN, SHOW
    IDLE = 0
    BUSY = 1  # queued, being played, or ready and not yet fetched
    UNASKED_LIMIT = 1000  # games in a row without a question to an outside seat that count as an error
    NEVER_ASKED = -1  # error codes of the bridge itself; those of engines are positive
    NO_SUCH_SEAT = -2
    NOT_FINITE = -3
    NO_LEGAL_ACTION = -4
    CONTRADICTION = -5  # mask and legal() do not agree
    DONE = 0
    WAITING = 1
    FAILED = 2
    FOR_GROUP = 0  # what a caller waits for
    FOR_READY = 1
    FOR_STARTED = 2


cdef struct Out:  # the first row of every array of Buffers
    int* current_player
    float* observation
    unsigned char* legal_action_mask
    int* action
    float* rewards
    float* opening
    unsigned char* terminated
    unsigned char* truncated
    int* final_player
    float* final_observation
    float* stats
    int* info
    int* length
    signed char* controllers


cdef struct Worker:
    Py_ssize_t game  # being played, -1 if none
    long long turns  # games played on so far: the sign of progress
    long long unasked
    long long busy_ns
    long long step_ns
    long long steps
    long long bots_ns
    long long bots
    long long observe_ns
    long long observed
    float* scratch  # f32[P]
    int* chosen  # i32[P], actions of bots
    char padding[64]  # workers write side by side: each its own cache line


cdef class Core:
    cdef readonly Engine engine
    cdef readonly Py_ssize_t num_games, groups, group_size, threads
    cdef readonly Py_ssize_t asked, features  # S, the seats asked at a time, and S * F
    cdef readonly bint timed, asynchronous
    cdef public bint follow  # whether a game that ends is followed by the next one; set before the first game
    # Guarded by the mutex. The entries of a game in the arrays below belong to its holder: the caller or a thread.
    cdef pthread_mutex_t mutex
    cdef pthread_cond_t work_cond, done_cond
    cdef bint stop, failed
    cdef Py_ssize_t failed_game
    cdef int failed_code
    cdef int* queue  # ring of games to play: `queued` of them from `head`
    cdef Py_ssize_t head, queued
    cdef int* ready  # ring of games to fetch (asynchronous mode): `num_ready` of them, in the order of arrival
    cdef Py_ssize_t ready_head, num_ready, wanted
    cdef Py_ssize_t* left  # [groups], games of the group that are stepped (synchronous mode)
    cdef Py_ssize_t unsettled  # games that are started or shown
    # One entry for each game or group.
    cdef char* status  # [N], IDLE or BUSY
    cdef char* command  # [N]
    cdef int* actions  # [N], or [N, P] if the game is simultaneous
    cdef int* length  # [N], decisions of the running game
    cdef signed char* controllers  # [N, P]
    cdef signed char* next_controllers  # [N, P]
    cdef Out* outs  # [groups]
    cdef Py_ssize_t* base  # [groups], the game of row 0 of outs
    cdef Worker* workers  # [threads]
    cdef readonly list keep  # owners of the memory that the pointers above lead to

    cdef void push(self, const int* games, Py_ssize_t count, char command) noexcept nogil
    cdef int wait(self, int what, Py_ssize_t number, double seconds) noexcept nogil


cdef long long now_ns() noexcept nogil
cdef size_t address(array) except? 0
