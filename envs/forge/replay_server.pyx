"""The core of the replay server: an epoll loop without the GIL that answers from recorded conversations.

It knows connections, slices of recordings and answers. Which recording a game gets, every other command and all that
goes wrong on purpose is decided in Python, `envs.forge.replay`: that happens once a game, the loop here once a decision.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

import os

include "sockets.pxi"
include "slices.pxi"


cdef enum:
    EVENTS = 64  # taken from the kernel at a time
    CONNECTIONS = 1024  # at most, at the same time
    INBOX = 8192  # the longest line that a client may send
    TICK_MS = 50  # how often the loop looks whether it should stop
    LOOPBACK = 0x7F000001


cdef struct Connection:
    int fd  # -1: free
    int daemon  # the number of the listener it came through
    int game  # the recording that is played, -1: none
    int next  # the slice that is sent next
    int fault  # the slice at which Python is asked instead, -1: never
    unsigned int held  # seats that the client gave to Forge's AI: bit by seat
    bint silent  # nothing is answered any more
    bint ending  # closed as soon as everything is sent
    bint waits  # for the kernel to take more
    int filled
    long long serial
    char* out  # what the kernel did not take yet
    size_t out_size, out_begin, out_end
    char inbox[INBOX]


cdef class Core:
    """Listeners, connections and the loop. `owner` decides: its methods `command(connection, line)`,
    `finished(connection)`, `fault(connection, slice)`, `mismatch(connection, answer)` and `closed(connection)`."""

    cdef object owner
    cdef list recordings
    cdef View* views  # of the recordings, which the list keeps alive
    cdef Connection* connections
    cdef int[CONNECTIONS] listeners
    cdef readonly int num_listeners
    cdef int epoll
    cdef bint strict
    cdef volatile bint stopping
    cdef readonly long long decisions, bytes_out, accepted

    def __cinit__(self, owner, recordings, bint strict=False):
        cdef int i
        self.epoll = -1
        self.owner, self.recordings, self.strict = owner, list(recordings), strict
        self.connections = <Connection*>calloc(CONNECTIONS, sizeof(Connection))
        self.views = <View*>calloc(len(self.recordings) + 1, sizeof(View))
        if self.connections == NULL or self.views == NULL:
            raise MemoryError
        for i in range(len(self.recordings)):
            self.views[i] = view_of(self.recordings[i])
        for i in range(CONNECTIONS):
            self.connections[i].fd = -1
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self.connections != NULL:
            self.close_all()
        if self.epoll >= 0:
            c_close(self.epoll)
        free(self.connections)
        free(self.views)

    cdef void close_all(self) noexcept:
        cdef int i
        for i in range(CONNECTIONS):
            if self.connections[i].fd >= 0:
                c_close(self.connections[i].fd)
            free(self.connections[i].out)
            self.connections[i].fd, self.connections[i].out, self.connections[i].out_size = -1, NULL, 0
        for i in range(self.num_listeners):
            self.refuse(i)

    # ---- listeners --------------------------------------------------------------------------------------------------

    def listen(self, int port):
        """One more daemon on this port of the loopback (0: a free one); returns the port."""
        if self.num_listeners >= CONNECTIONS:
            raise OSError("too many daemons")
        self.listeners[self.num_listeners] = -1
        self.num_listeners += 1
        try:
            return self.reopen(self.num_listeners - 1, port)
        except OSError:
            self.num_listeners -= 1
            raise

    def reopen(self, int daemon, int port):
        """Listens (again) for a daemon."""
        cdef sockaddr_in place
        cdef socklen_t size = sizeof(place)
        cdef int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
        memset(&place, 0, sizeof(place))
        place.sin_family = AF_INET
        place.sin_port = htons(port)
        place.sin_addr.s_addr = htonl(LOOPBACK)
        if fd >= 0:
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one))
        if (
            fd < 0
            or bind(fd, <sockaddr*>&place, size) != 0
            or c_listen(fd, 128) != 0
            or getsockname(fd, <sockaddr*>&place, &size) != 0
        ):
            code = errno
            if fd >= 0:
                c_close(fd)
            raise OSError(code, os.strerror(code))
        self.listeners[daemon] = fd
        watch(self.epoll, fd, EPOLL_CTL_ADD, EPOLLIN, CONNECTIONS + daemon)
        return ntohs(place.sin_port)

    def refuse(self, int daemon):
        """Stops listening for a daemon, as if its process were gone."""
        if self.listeners[daemon] >= 0:
            c_close(self.listeners[daemon])
            self.listeners[daemon] = -1

    # ---- what Python may do with a connection -----------------------------------------------------------------------

    def daemon_of(self, int number):
        """The daemon a connection belongs to, -1 if it is closed."""
        return self.connections[number].daemon if self.connections[number].fd >= 0 else -1

    def playing(self, int number):
        """(recording, slice that comes next) of a connection; (-1, ...) if there is no game."""
        return self.connections[number].game, self.connections[number].next

    def say(self, int number, bytes text):
        """Sends text on a connection."""
        self.put(&self.connections[number], number, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def begin(self, int number, int game, bytes head, int fault=-1):
        """Starts a recording on a connection; `head` goes out first; slice `fault` is left to `owner.fault`."""
        cdef Connection* c = &self.connections[number]
        if not 0 <= game < len(self.recordings):
            raise IndexError(game)
        c.game, c.next, c.fault, c.held = game, 0, fault, 0
        self.say(number, head)
        self.advance(c, number)

    def resume(self, int number, int game, int fault=-1):
        """Goes on with the slice that comes next, of this recording (or of its last slice if it is shorter)."""
        cdef Connection* c = &self.connections[number]
        cdef Slices slices = self.recordings[game]
        c.game, c.fault = game, fault
        if c.next >= slices.count:
            c.next = slices.count - 1
        self.advance(c, number)

    def skip(self, int number, int fault=-1):
        """As if the slice that comes next had been sent."""
        self.connections[number].next += 1
        self.connections[number].fault = fault

    def abort(self, int number):
        """The connection stays, its game does not."""
        self.connections[number].game = -1

    def silence(self, int number):
        """The connection stays open, but nothing is heard from it any more."""
        self.connections[number].silent = True

    def drop(self, int number):
        """Closes a connection as soon as what was said has been sent."""
        self.connections[number].ending = True
        if self.connections[number].out_begin == self.connections[number].out_end:
            shutdown(self.connections[number].fd, SHUT_RDWR)  # the loop finds it closed

    def drop_all(self, int daemon):
        """Closes all connections of a daemon."""
        cdef int i
        for i in range(CONNECTIONS):
            if self.daemon_of(i) == daemon:
                self.drop(i)

    def silence_all(self, int daemon):
        """Nothing is heard any more on any connection of a daemon."""
        cdef int i
        for i in range(CONNECTIONS):
            if self.daemon_of(i) == daemon:
                self.silence(i)

    def serial(self, int number):
        """Tells the connections apart that had the same number; -1 if it is closed."""
        return self.connections[number].serial if self.connections[number].fd >= 0 else -1

    def stop(self):
        """Ends `run`, from any thread."""
        self.stopping = True

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def run(self):
        """Serves until `stop`, then closes everything; every few milliseconds `owner.tick()` is called."""
        try:
            while not self.stopping:
                with nogil:
                    self.rounds()
                self.owner.tick()
        finally:
            self.close_all()

    cdef int rounds(self) except -1 nogil:
        """Serves until it is time for a tick."""
        cdef epoll_event events[EVENTS]
        cdef int count, i, number
        cdef long long end = milliseconds() + TICK_MS
        while not self.stopping and milliseconds() < end:
            count = epoll_wait(self.epoll, events, EVENTS, TICK_MS)
            for i in range(count):
                number = <int>events[i].data.u64
                if number >= CONNECTIONS:
                    self.welcome(number - CONNECTIONS)
                elif self.connections[number].fd >= 0:
                    self.serve(number, events[i].events)
        return 0

    cdef int welcome(self, int daemon) except -1 nogil:
        """Accepts whoever knocks."""
        cdef Connection* c
        cdef int fd, i, one = 1
        while self.listeners[daemon] >= 0:
            fd = accept4(self.listeners[daemon], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
            if fd < 0:
                return 0
            i = 0
            while i < CONNECTIONS and self.connections[i].fd >= 0:
                i += 1
            if i == CONNECTIONS:
                c_close(fd)
                return 0
            c = &self.connections[i]
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
            c.fd, c.daemon, c.game, c.next, c.fault, c.held = fd, daemon, -1, 0, -1, 0
            c.silent, c.ending, c.waits = False, False, False
            c.filled, c.out_begin, c.out_end = 0, 0, 0
            self.accepted += 1
            c.serial = self.accepted
            watch(self.epoll, fd, EPOLL_CTL_ADD, EPOLLIN, i)
        return 0

    cdef int serve(self, int number, uint32_t events) except -1 nogil:
        """What a connection has to say, or room for what it was not told yet."""
        cdef Connection* c = &self.connections[number]
        cdef ssize_t got
        if events & EPOLLOUT:
            self.flush(c, number)
        if not events & (EPOLLIN | EPOLLHUP | EPOLLERR):
            return 0
        got = recv(c.fd, c.inbox + c.filled, INBOX - c.filled, 0)
        if got <= 0:
            if got < 0 and (errno == EAGAIN or errno == EINTR):
                return 0
            return self.gone(c, number)
        if c.silent or c.ending:
            return 0
        c.filled += <int>got
        self.lines(c, number)
        if c.filled == INBOX:  # no client says so much in one line
            return self.gone(c, number)
        return 0

    cdef int lines(self, Connection* c, int number) except -1 nogil:
        """Every whole line that has arrived."""
        cdef char* begin = c.inbox
        cdef char* end = c.inbox + c.filled
        cdef char* stop
        cdef Py_ssize_t length
        while not c.silent and not c.ending:
            stop = <char*>memchr(begin, 10, end - begin)
            if stop == NULL:
                break
            length = stop - begin
            if length and begin[length - 1] == 13:
                length -= 1
            if c.game < 0 or (length and 65 <= begin[0] <= 90):  # answers begin with no capital letter
                with gil:
                    self.owner.command(number, begin[:length])
            else:
                self.answer(c, number, begin, length)
            begin = stop + 1
        c.filled = <int>(end - begin)
        if begin != c.inbox and c.filled:
            memmove(c.inbox, begin, c.filled)
        return 0

    cdef int answer(self, Connection* c, int number, const char* text, Py_ssize_t length) except -1 nogil:
        """The client's answer to the slice that was sent last."""
        cdef View* view = &self.views[c.game]
        cdef int last = c.next - 1
        cdef Py_ssize_t begin = view.answer_cuts[last]
        if self.strict and (
            length != view.answer_cuts[last + 1] - begin or memcmp(text, view.answers + begin, length) != 0
        ):
            with gil:
                self.owner.mismatch(number, last, text[:length])
            return 0
        if length >= 3 and text[0] == 97 and text[1] == 105 and text[2] == 33:  # ai!
            c.held |= 1 << view.seats[last]
        return self.advance(c, number)

    cdef int advance(self, Connection* c, int number) except -1 nogil:
        """Sends the slice that comes next."""
        cdef View* view = &self.views[c.game]
        cdef Py_ssize_t begin
        while c.next < view.count - 1 and c.held >> view.seats[c.next] & 1 and c.next != c.fault:
            c.next += 1
        if c.next == c.fault:
            c.fault = -1
            with gil:
                self.owner.fault(number, c.next)
            return 0
        begin = view.cuts[c.next]
        self.put(c, number, view.data + begin, view.cuts[c.next + 1] - begin)
        c.next += 1
        if c.next == view.count:
            c.game = -1
            with gil:
                self.owner.finished(number)
        else:
            self.decisions += 1
        return 0

    cdef void put(self, Connection* c, int number, const char* text, size_t length) noexcept nogil:
        """Sends now what the kernel takes, and the rest when it takes more."""
        cdef ssize_t taken = 0
        cdef size_t size
        cdef char* larger
        self.bytes_out += length
        if c.out_begin == c.out_end:
            taken = send(c.fd, text, length, MSG_NOSIGNAL)
            if taken == <ssize_t>length:
                return
            taken = 0 if taken < 0 else taken  # a broken connection is found by the next recv
            c.out_begin, c.out_end = 0, 0
        size = c.out_end + length - taken
        if size > c.out_size:
            larger = <char*>realloc(c.out, 2 * size)
            if larger == NULL:
                shutdown(c.fd, SHUT_RDWR)
                return
            c.out, c.out_size = larger, 2 * size
        memcpy(c.out + c.out_end, text + taken, length - taken)
        c.out_end = size
        if not c.waits:
            c.waits = True
            watch(self.epoll, c.fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT, number)

    cdef void flush(self, Connection* c, int number) noexcept nogil:
        """The kernel takes more."""
        cdef ssize_t taken = send(c.fd, c.out + c.out_begin, c.out_end - c.out_begin, MSG_NOSIGNAL)
        c.out_begin += taken if taken > 0 else 0
        if c.out_begin == c.out_end:
            c.waits = False
            watch(self.epoll, c.fd, EPOLL_CTL_MOD, EPOLLIN, number)
            if c.ending:
                shutdown(c.fd, SHUT_RDWR)

    cdef int gone(self, Connection* c, int number) except -1 nogil:
        """A connection is closed, by either side."""
        c_close(c.fd)
        c.fd, c.game = -1, -1
        with gil:
            self.owner.closed(number, c.daemon)
        return 0


cdef void watch(int epoll, int fd, int how, uint32_t events, int number) noexcept nogil:
    cdef epoll_event event
    event.events = events
    event.data.u64 = number
    epoll_ctl(epoll, how, fd, &event)


cdef long long milliseconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * 1000 + now.tv_nsec // 1000000
