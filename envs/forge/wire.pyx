"""Lines of text over TCP, and JSON in them, without the interpreter lock. What there is to call stands in wire.pxd.

    link = Link("127.0.0.1", 17171)
    link.send_line("PING")
    assert link.receive_line(timeout=5) == b"PONG"
"""

import os
import socket
import time

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, uint64_t
from libc.stdlib cimport calloc, free as release, malloc, realloc
from libc.string cimport memchr, memcpy, memset

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <locale.h>
    #include <poll.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/epoll.h>
    #include <sys/eventfd.h>
    #include <sys/socket.h>
    #include <time.h>
    #include <unistd.h>
    #define JAXRL_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    """
    const bint LITTLE_ENDIAN "JAXRL_LITTLE_ENDIAN"
    int trailing_zeros "__builtin_ctzll"(uint64_t) noexcept nogil
    const int SEQ_CST "__ATOMIC_SEQ_CST"
    int atomic_load "__atomic_load_n"(const int*, int) noexcept nogil
    void atomic_store "__atomic_store_n"(int*, int, int) noexcept nogil
    int atomic_swap "__atomic_exchange_n"(int*, int, int) noexcept nogil
    int atomic_add "__atomic_add_fetch"(int*, int, int) noexcept nogil
    int atomic_sub "__atomic_sub_fetch"(int*, int, int) noexcept nogil
    bint atomic_change "__atomic_compare_exchange_n"(int*, int*, int, bint, int, int) noexcept nogil

    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    ctypedef unsigned long pthread_t
    int pthread_mutex_init(pthread_mutex_t*, void*) noexcept nogil
    int pthread_mutex_destroy(pthread_mutex_t*) noexcept nogil
    int pthread_mutex_lock(pthread_mutex_t*) noexcept nogil
    int pthread_mutex_unlock(pthread_mutex_t*) noexcept nogil
    int pthread_condattr_init(pthread_condattr_t*) noexcept nogil
    int pthread_condattr_setclock(pthread_condattr_t*, int) noexcept nogil
    int pthread_condattr_destroy(pthread_condattr_t*) noexcept nogil
    int pthread_cond_init(pthread_cond_t*, pthread_condattr_t*) noexcept nogil
    int pthread_cond_destroy(pthread_cond_t*) noexcept nogil
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*) noexcept nogil
    int pthread_cond_signal(pthread_cond_t*) noexcept nogil
    int pthread_cond_broadcast(pthread_cond_t*) noexcept nogil
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*) noexcept nogil
    int pthread_detach(pthread_t) noexcept nogil
    ctypedef struct sigset_t:
        pass
    const int SIG_SETMASK
    int sigfillset(sigset_t*) noexcept nogil
    int pthread_sigmask(int, const sigset_t*, sigset_t*) noexcept nogil

    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    const int CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID
    int clock_gettime(int, timespec*) noexcept nogil

    ctypedef union epoll_data_t:
        void* ptr
    struct epoll_event:
        unsigned int events
        epoll_data_t data
    const unsigned int EPOLLIN, EPOLLRDHUP, EPOLLONESHOT
    const int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLL_CLOEXEC, EFD_CLOEXEC, EFD_NONBLOCK
    int epoll_create1(int) noexcept nogil
    int epoll_ctl(int, int, int, epoll_event*) noexcept nogil
    int epoll_wait(int, epoll_event*, int, int) noexcept nogil
    int eventfd(unsigned int, int) noexcept nogil

    struct pollfd:
        int fd
        short events, revents
    const short POLLIN, POLLOUT
    int poll(pollfd*, unsigned long, int) noexcept nogil
    ctypedef long ssize_t
    const int MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_RDWR
    ssize_t recv(int, void*, size_t, int) noexcept nogil
    ssize_t send_bytes "send"(int, const void*, size_t, int) noexcept nogil
    int shutdown(int, int) noexcept nogil
    int close_file "close"(int) noexcept nogil
    ssize_t read_file "read"(int, void*, size_t) noexcept nogil
    ssize_t write_file "write"(int, const void*, size_t) noexcept nogil
    void* memrchr(const void*, int, size_t) noexcept nogil

    ctypedef void* locale_t
    const int LC_ALL_MASK
    locale_t newlocale(int, const char*, locale_t) noexcept nogil
    double strtod_l(const char*, char**, locale_t) noexcept nogil

include "json.pxi"
include "values.pxi"
include "hub.pxi"
include "link.pxi"

cdef locale_t plain = newlocale(LC_ALL_MASK, b"C", NULL)  # numbers have a point, whatever the user's country

SENTENCES = {
    LINE_TIMEOUT: "{peer} sent no line within {timeout} s",
    LINE_CLOSED: "the connection to {peer} is closed",
    LINE_TOO_LONG: "{peer} sent a line that is too long; the connection was closed",
    LINE_BAD_UTF8: "{peer} sent a line that is not UTF-8",
}


cdef object text_of(const Tape* tape, uint32_t i, bytearray room):
    """A string token as str."""
    cdef char* out = room
    return out[:unescape(tape, i, out, tape.tokens[i].size)].decode()


cdef object value_of(const Tape* tape, uint32_t i, bytearray room):
    """A token as a Python object."""
    cdef const Token* token = &tape.tokens[i]
    cdef uint32_t item = i + 1
    if token.kind == JSON_ARRAY:
        items = []
        while item != token.next:
            items.append(value_of(tape, item, room))
            item = tape.tokens[item].next
        return items
    if token.kind == JSON_OBJECT:
        members = {}
        while item != token.next:
            members[text_of(tape, item, room)] = value_of(tape, item + 1, room)
            item = tape.tokens[item + 1].next
        return members
    if token.kind == JSON_STRING:
        return text_of(tape, i, room)
    if token.kind == JSON_INT:
        return int(raw(tape, i)[:token.size]) if token.overflow else as_int(tape, i, 0)
    if token.kind == JSON_DOUBLE:
        return as_double(tape, i, 0.0)
    return None if token.kind == JSON_NULL else token.kind == JSON_TRUE


cdef class Document:
    """A parsed text of its own, for tests: nothing lies behind its last byte, so a sanitizer sees every step too far."""

    cdef Tape tape
    cdef char* text

    def __cinit__(self, bytes data not None):
        cdef Py_ssize_t size = len(data), place
        memset(&self.tape, 0, sizeof(Tape))
        self.text = <char*>malloc(size)
        if self.text == NULL and size > 0:
            raise MemoryError
        memcpy(self.text, <const char*>data, size)
        if not valid_utf8(self.text, size):
            raise ValueError("not UTF-8")
        place = parse(self.text, size, &self.tape)
        if place < 0:
            raise MemoryError
        if place > 0:
            raise ValueError(f"not JSON from byte {place - 1} on")

    def __dealloc__(self):
        free_tape(&self.tape)
        release(self.text)


def parse_json(bytes data):
    """JSON in UTF-8 as a Python object, by way of the tape; for tests, Python's own module is the faster one.

    Raises:
      ValueError: it is none.
    """
    cdef Document document = Document(data)
    if document.tape.tokens[0].kind < JSON_ARRAY:  # token 0 is no value to the functions that read values
        return parse_json(b"[" + data + b"]")[0]
    return value_of(&document.tape, 0, bytearray(len(data)))


def look_up(bytes data, keys, size_t room=4):
    """What the functions of wire.pxd say of an object's keys, asked for in this order by one walk; for tests.

    Returns:
      For each key None, or (value, string_hash, the first `room` bytes of unescape, length, as_bool).
    """
    cdef Document document = Document(data)
    cdef const Tape* tape = &document.tape
    cdef Fields walk = fields(tape, 0)
    cdef bytearray cut = bytearray(room + 1), whole = bytearray(len(data))
    cdef uint32_t i
    cdef size_t n
    found = []
    for key in keys:
        i = field(&walk, key)
        if i != find(tape, 0, key):
            raise AssertionError(f"find and field disagree on {key}")
        n = unescape(tape, i, cut, room)
        found.append(
            (value_of(tape, i, whole), string_hash(tape, i), bytes(cut[:n]), length(tape, i), as_bool(tape, i))
            if i != 0 else None
        )
    return found


def hash_text(bytes data not None):
    """FNV-1a, 32 bits."""
    return hash_bytes(data, len(data))


def measure_parse(lines, double seconds=1.0):
    """Parses lines again and again, with the check of their UTF-8: MB for each second of this thread's processor time."""
    cdef Tape tape
    cdef bytes all_lines = b"\n".join(lines)
    cdef const char* text = all_lines
    cdef const char* start
    cdef const char* end = text + len(all_lines)
    cdef const char* last
    cdef long long begin = read_clock(CLOCK_THREAD_CPUTIME_ID), spent = 0, done = 0
    cdef bint good = True
    memset(&tape, 0, sizeof(Tape))
    with nogil:
        while good and spent < <long long>(seconds * 1e9):
            start = text
            while good and start < end:
                last = <const char*>memchr(start, c'\n', end - start)
                last = end if last == NULL else last
                good = valid_utf8(start, last - start) and parse(start, last - start, &tape) == 0
                done += last - start
                start = last + 1
            spent = max(<long long>1, read_clock(CLOCK_THREAD_CPUTIME_ID) - begin)
    free_tape(&tape)
    if not good:
        raise ValueError("one of the lines is not JSON in UTF-8")
    return done * 1e3 / spent
