"""Orders to the threads, as the methods of a pool give them, and the buffers that rows are written into."""

from jaxrl_envs.host.engine cimport Engine
from jaxrl_envs.host.shared cimport Core, Out


cdef class Bound:
    cdef Out out
    cdef readonly Py_ssize_t rows
    cdef readonly tuple form  # P, A, F, K, I, whether all seats are asked at once
    cdef readonly dict arrays


cdef class PoolOrders:
    cdef Core core
    cdef readonly object controllers, next_controllers, length
    cdef readonly double timeout
    cdef readonly str mode
    cdef readonly Py_ssize_t groups
    cdef readonly list threads
    cdef list blocks  # i32[N / groups] for each group, its games
    cdef set sent  # synchronous mode: groups that were sent and not yet received
    cdef bint closed
    cdef object failure

    cdef _require_open(self)
    cdef _require_group(self, Py_ssize_t group)
    cdef _require_idle(self, const int[::1] games, group)
    cdef _aim(self, Py_ssize_t group, Bound bound, Py_ssize_t base)
    cdef _flat(self, actions)
    cdef _require_legal(self, const int[::1] actions, const int[::1] games)
    cdef _settle(self, games, into, char command)
    cdef _wait(self, int what, Py_ssize_t number)
    cdef _stop(self)
    cdef _fail(self, Py_ssize_t game, int code)
    cdef _row(self, Py_ssize_t game, str name)
    cdef str _contradiction(self, Py_ssize_t game)
    cdef str _not_finite(self, Py_ssize_t game)


cdef Bound bind(into, Engine engine, Py_ssize_t rows)
