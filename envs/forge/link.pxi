# Part of wire.pyx: connections, and who is using one.

KINDS = {LINE_TIMEOUT: "timeout", LINE_CLOSED: "closed", LINE_TOO_LONG: "too long", LINE_BAD_UTF8: "bad utf-8"}
LONGEST = MAX_LINE
SLICE = 0.1  # seconds; a waiting Python thread looks this often for signals

cdef enum:
    PATIENCE = 10000  # milliseconds; a reader that takes nothing for so long is given up


class LinkError(Exception):
    """A line that did not come or go; `kind` is one of KINDS."""

    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


cdef class Hub:
    """The thread in `epoll_wait` that reads for the links whose receivers sleep. It takes no interpreter lock, owns no
    Python object and ends with the process. A child process after a fork has none: there, links of its parent are
    closed (the parent's connections live on) and its first own link starts a hub."""

    @staticmethod
    def shared():
        """The hub of this process."""
        if reader == NULL:
            open_reader()
            if forks == 0:
                os.register_at_fork(after_in_child=forget_parent)
        return Hub()

    @property
    def links(self):
        """How many links it reads for."""
        return 0 if reader == NULL else atomic_load(&reader.links, SEQ_CST)


def forget_parent():
    """In a child process: the hub and the links are its parent's."""
    global reader, forks
    if reader != NULL:
        close_file(reader.events)
        close_file(reader.wake)
    reader = NULL
    forks += 1


cdef class Link:
    """A connection that carries lines.

    Args:
      host, port: where to.
      connect_timeout: seconds.
      max_line: bytes; a longer line closes the link.
    """

    def __init__(self, str host, int port, double connect_timeout=5.0, *, size_t max_line=MAX_LINE):
        connection = socket.create_connection((host, port), connect_timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.take(connection, f"{host}:{port}", max_line)

    @staticmethod
    def over(connection, *, size_t max_line=MAX_LINE):
        """A link over a connected socket, which it takes over."""
        cdef Link link = Link.__new__(Link)
        link.take(connection, "a socket", max_line)
        return link

    cdef take(self, connection, str peer, size_t max_line):
        if self.wire != NULL:
            raise RuntimeError("this link has a connection")
        Hub.shared()
        connection.setblocking(False)
        self.peer = peer
        self.wire = open_wire(connection.detach(), max_line)

    def __dealloc__(self):
        if self.wire != NULL:
            give_up(self.wire)

    cdef int send(self, const char* data, size_t n) noexcept nogil:
        cdef Wire* wire = self.wire
        cdef pollfd room
        cdef ssize_t sent
        while n > 0:
            if not usable(wire):
                return LINE_CLOSED
            sent = send_bytes(wire.fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL)
            if sent >= 0:
                data += sent
                n -= sent
                wire.bytes_out += sent
            elif errno == EAGAIN:
                room.fd, room.events = wire.fd, POLLOUT
                if poll(&room, 1, PATIENCE) == 0:
                    close_wire(wire)  # in the middle of a line
            elif errno != EINTR:
                return LINE_CLOSED  # what the other side said last can still be received
        return LINE_OK

    cdef int receive(self, double seconds, const char** line, size_t* n) noexcept nogil:
        cdef Wire* wire = self.wire
        cdef const char* start
        cdef size_t size
        cdef int status = LINE_OK
        if not usable(wire):
            return LINE_CLOSED
        if wire.taken == wire.front.lines:
            status = wait_for_line(wire, seconds)
        if status == LINE_OK:
            start = wire.front.data + wire.taken
            size = <const char*>memchr(start, c'\n', wire.front.lines - wire.taken) - start
            wire.taken += size + 1
            if size > 0 and start[size - 1] == c'\r':
                size -= 1
            line[0], n[0] = start, size
            if size > wire.max_line:
                status = LINE_TOO_LONG
            elif not valid_utf8(start, size):
                return LINE_BAD_UTF8
        if status == LINE_TOO_LONG:
            close_wire(wire)
        return status

    def send_line(self, line):
        """Sends a line, str or bytes, without its end."""
        cdef bytes data = (line.encode() if isinstance(line, str) else bytes(line)) + b"\n"
        cdef const char* text = data
        cdef size_t n = len(data)
        cdef int status
        with nogil:
            status = self.send(text, n)
        if status != LINE_OK:
            raise LinkError(KINDS[status], f"the connection to {self.peer} is closed")

    def receive_line(self, double timeout=10.0):
        """The next line without its end, bytes in UTF-8.

        Raises:
          LinkError: there is none within `timeout` seconds, the connection is closed, or the line is not fit to read.
        """
        cdef const char* line = NULL
        cdef size_t n = 0
        cdef int status = LINE_TIMEOUT
        cdef double left
        end = time.monotonic() + timeout
        if self.receiving:
            raise RuntimeError(f"another thread is receiving from {self.peer}")
        self.receiving = True
        try:
            while status == LINE_TIMEOUT:
                left = end - time.monotonic()
                with nogil:
                    status = self.receive(min(left, 0.1), &line, &n)
                PyErr_CheckSignals()
                if left <= 0.1:
                    break
            if status == LINE_OK:
                return line[:n]
        finally:
            self.receiving = False
        raise LinkError(KINDS[status], SENTENCES[status].format(peer=self.peer, timeout=timeout))

    def close(self):
        """Ends the connection; threads that wait for a line get LINE_CLOSED."""
        if self.wire != NULL:
            with nogil:
                close_wire(self.wire)

    @property
    def closed(self):
        """Whether either side has ended the connection; whole lines that came before can still be received."""
        return not usable(self.wire) or ended(self.wire)

    @property
    def bytes_in(self):
        return 0 if self.wire == NULL else self.wire.bytes_in

    @property
    def bytes_out(self):
        return 0 if self.wire == NULL else self.wire.bytes_out

    def fileno(self):
        """The socket, -1 if it is not usable; leave reading and writing to the link."""
        return self.wire.fd if usable(self.wire) else -1


cdef inline bint usable(Wire* wire) noexcept nogil:
    """Whether our side has not closed it."""
    return wire != NULL and wire.process == forks and not atomic_load(&wire.closed, SEQ_CST)


cdef bint ended(Wire* wire) noexcept nogil:
    """Whether the other side has closed it."""
    cdef bint end
    cdef long long before = -1
    pthread_mutex_lock(&wire.mutex)
    while before != wire.bytes_in:  # the end shows when all that came before it was read
        before = wire.bytes_in
        pump(wire)
    end = wire.ending != 0
    if wire.waiting and (end or wire.back.lines != 0):
        pthread_cond_signal(&wire.cond)  # the hub may find nothing left to read
    pthread_mutex_unlock(&wire.mutex)
    return end


@cython.final
cdef class Lease:
    """A link while it belongs to one game, which enters it to play and leaves it in between.

    Args:
      link: to a daemon.
      daemon: whatever the fleet knows it by.
    """

    def __init__(self, Link link not None, daemon=None):
        self.link, self.daemon, self.state = link, daemon, RUNNING
        self.last_used = self.since = now_ns() * 1e-9

    cpdef bint enter(self) noexcept nogil:
        """IDLE -> RUNNING. False: it is gone."""
        if not change(&self.state, IDLE, RUNNING):
            return False
        self.since = now_ns() * 1e-9
        return True

    cpdef void leave(self) noexcept nogil:
        """RUNNING -> IDLE: from now on it may be evicted."""
        self.last_used = now_ns() * 1e-9
        if atomic_load(&self.state, SEQ_CST) == RUNNING:  # before somebody else may enter it
            self.used += self.last_used - self.since
        change(&self.state, RUNNING, IDLE)

    cpdef bint finish(self) noexcept nogil:
        """RUNNING -> GONE, by its user; the link stays as it is."""
        if atomic_load(&self.state, SEQ_CST) == RUNNING:
            self.used += now_ns() * 1e-9 - self.since
        return change(&self.state, RUNNING, GONE)

    def evict(self):
        """IDLE -> GONE, and closes the link. False: somebody is using it, or it is gone."""
        if not change(&self.state, IDLE, GONE):
            return False
        self.link.close()
        return True

    @property
    def busy_seconds(self):
        """How long it was in use in all."""
        running = atomic_load(&self.state, SEQ_CST) == RUNNING
        return self.used + (now_ns() * 1e-9 - self.since if running else 0.0)

    @property
    def status(self):
        """What it is doing: "idle", "running" or "gone"."""
        return ("idle", "running", "gone")[atomic_load(&self.state, SEQ_CST)]


cdef bint change(int* state, int before, int after) noexcept nogil:
    """Whether the state was as said, and is now another."""
    cdef int expected = before
    return atomic_change(state, &expected, after, False, SEQ_CST, SEQ_CST)
