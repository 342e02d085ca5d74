# Part of wire.pyx: the thread that reads for waiting links, and the buffers it reads into.
#
# A receiver waits in `poll` for its own link first, and only when nothing has come for BRIEF leaves the waiting to the
# hub: a line that the hub reads wakes two threads. Against an echo server on two cores, with lines of 7 KB, that is 21
# microseconds of processor time a line instead of 11.
#
# A link has two buffers. `back` is filled under its mutex; when the receiver has handed out all lines of `front`, which
# is its own, the two change places and what follows the last whole line moves over. So a line that was handed out never
# moves, and bytes are copied once, by the kernel.

cdef enum:
    FIRST_BUFFER = 32768  # bytes
    LEAST_READ = 8192
    EVENTS = 64
    BRIEF = 5  # milliseconds


cdef struct Buffer:
    char* data
    size_t room
    size_t end  # of what was read
    size_t lines  # behind the last '\n'


cdef struct Wire:
    int fd
    int holders  # atomic: the Link and the hub
    int closed  # atomic: by our side
    int ending  # 0, or what receive says when the lines are read; under the mutex
    bint waiting  # under the mutex
    unsigned int process  # `forks` when it was made
    pthread_mutex_t mutex
    pthread_cond_t cond
    Buffer front  # the receiver's
    size_t taken  # of front: where the next line starts
    Buffer back  # under the mutex
    size_t max_line
    long long bytes_in, bytes_out
    Wire* retired


cdef struct Reader:  # the hub; never freed, for its thread never ends
    int events, wake
    pthread_mutex_t mutex
    Wire* retired  # given up by their links
    int links  # atomic

cdef Reader* reader = NULL
cdef unsigned int forks = 0  # a child process has neither the hub's thread nor a right to its parent's connections


cdef long long read_clock(int clock) noexcept nogil:
    """Nanoseconds."""
    cdef timespec now
    clock_gettime(clock, &now)
    return <long long>now.tv_sec * 1000000000 + now.tv_nsec


cdef long long now_ns() noexcept nogil:
    return read_clock(CLOCK_MONOTONIC)


cdef bint make_room(Buffer* buffer, size_t more) noexcept nogil:
    """Room for more bytes; false: there is no memory."""
    cdef size_t room = max(<size_t>FIRST_BUFFER, buffer.room)
    cdef char* data
    if buffer.room - buffer.end >= more:
        return True
    while room - buffer.end < more:
        room *= 2
    data = <char*>realloc(buffer.data, room)
    if data == NULL:
        return False
    buffer.data, buffer.room = data, room
    return True


cdef void pump(Wire* wire) noexcept nogil:
    """Reads what there is; called with the mutex. The end of the connection may show at the next call only."""
    cdef Buffer* back = &wire.back
    cdef const char* last
    cdef ssize_t got
    cdef size_t asked
    while wire.ending == 0:
        if back.end - back.lines > wire.max_line + 1:
            wire.ending = LINE_TOO_LONG
            shutdown(wire.fd, SHUT_RDWR)
            return
        if back.lines > wire.max_line:
            return  # the receiver has enough to do
        if not make_room(back, LEAST_READ):
            wire.ending = LINE_CLOSED
            return
        asked = back.room - back.end
        got = recv(wire.fd, back.data + back.end, asked, MSG_DONTWAIT)
        if got > 0:
            last = <const char*>memrchr(back.data + back.end, c'\n', got)
            back.end += got
            wire.bytes_in += got
            if last != NULL:
                back.lines = last - back.data + 1
            if <size_t>got < asked:
                return
        elif got < 0 and errno == EINTR:
            continue
        elif got < 0 and errno == EAGAIN:
            return
        else:
            wire.ending = LINE_CLOSED


cdef void let_go(Wire* wire) noexcept nogil:
    """One holder less; the last one frees it."""
    if atomic_sub(&wire.holders, 1, SEQ_CST) != 0:
        return
    close_file(wire.fd)
    release(wire.front.data)
    release(wire.back.data)
    pthread_cond_destroy(&wire.cond)
    pthread_mutex_destroy(&wire.mutex)
    release(wire)


cdef void retire_links() noexcept nogil:
    """Forgets the links that were given up. Between two waits: no event that was fetched refers to them any more."""
    cdef Wire* wire
    cdef Wire* following
    cdef uint64_t count
    read_file(reader.wake, &count, sizeof(count))
    pthread_mutex_lock(&reader.mutex)
    wire, reader.retired = reader.retired, NULL
    pthread_mutex_unlock(&reader.mutex)
    while wire != NULL:
        following = wire.retired
        epoll_ctl(reader.events, EPOLL_CTL_DEL, wire.fd, NULL)
        atomic_sub(&reader.links, 1, SEQ_CST)
        let_go(wire)
        wire = following


cdef void watch(Wire* wire) noexcept nogil:
    """The hub reads once, when there is something. Called with the mutex."""
    cdef epoll_event event
    event.events, event.data.ptr = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, wire
    epoll_ctl(reader.events, EPOLL_CTL_MOD, wire.fd, &event)


cdef void* read_for_ever(void* _) noexcept nogil:
    """The body of the hub's thread."""
    cdef epoll_event events[EVENTS]
    cdef Wire* wire
    cdef bint retire, ring
    cdef int count, i
    while True:
        count = epoll_wait(reader.events, events, EVENTS, -1)
        if count < 0 and errno != EINTR:
            return NULL
        retire = False
        for i in range(count):
            wire = <Wire*>events[i].data.ptr
            if wire == NULL:
                retire = True
                continue
            pthread_mutex_lock(&wire.mutex)
            pump(wire)
            ring = wire.back.lines != 0 or wire.ending != 0
            if wire.waiting and not ring:
                watch(wire)
            pthread_mutex_unlock(&wire.mutex)
            if ring:
                pthread_cond_signal(&wire.cond)
        if retire:
            retire_links()


cdef Reader* open_reader() except NULL:
    """A hub with its thread."""
    cdef Reader* made = <Reader*>calloc(1, sizeof(Reader))
    cdef epoll_event event
    cdef pthread_t thread
    cdef sigset_t every, before
    global reader
    if made == NULL:
        raise MemoryError
    made.events, made.wake = epoll_create1(EPOLL_CLOEXEC), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    event.events, event.data.ptr = EPOLLIN, NULL
    pthread_mutex_init(&made.mutex, NULL)
    reader = made
    sigfillset(&every)  # signals are for Python's threads
    pthread_sigmask(SIG_SETMASK, &every, &before)
    failed = (
        made.events < 0 or made.wake < 0 or epoll_ctl(made.events, EPOLL_CTL_ADD, made.wake, &event) != 0
        or pthread_create(&thread, NULL, read_for_ever, NULL) != 0
    )
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    if failed:
        reader = NULL
        raise OSError(errno, "no thread for the connections to Forge")
    pthread_detach(thread)
    return made


cdef Wire* open_wire(int fd, size_t max_line) except NULL:
    """A connected socket that the hub reads from; it belongs to the wire."""
    cdef Wire* wire = <Wire*>calloc(1, sizeof(Wire))
    cdef pthread_condattr_t monotonic
    cdef epoll_event event
    if wire == NULL:
        raise MemoryError
    wire.fd, wire.holders, wire.max_line, wire.process = fd, 2, max_line, forks
    pthread_mutex_init(&wire.mutex, NULL)
    pthread_condattr_init(&monotonic)
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC)
    pthread_cond_init(&wire.cond, &monotonic)
    pthread_condattr_destroy(&monotonic)
    event.events, event.data.ptr = EPOLLONESHOT, wire  # watched when somebody waits
    if epoll_ctl(reader.events, EPOLL_CTL_ADD, fd, &event) != 0:
        wire.holders = 1
        let_go(wire)
        raise OSError(errno, "the connection cannot be watched")
    atomic_add(&reader.links, 1, SEQ_CST)
    return wire


cdef void close_wire(Wire* wire) noexcept nogil:
    """Ends the connection and every wait for it. The number of the socket stays taken: a thread may be using it."""
    if atomic_swap(&wire.closed, 1, SEQ_CST) != 0 or wire.process != forks:
        return
    shutdown(wire.fd, SHUT_RDWR)
    pthread_mutex_lock(&wire.mutex)
    pthread_cond_broadcast(&wire.cond)
    pthread_mutex_unlock(&wire.mutex)


cdef void give_up(Wire* wire) noexcept nogil:
    """Called when nobody can use the wire any more."""
    cdef uint64_t one = 1
    close_wire(wire)
    if wire.process != forks:  # copied from the parent in the middle of anything: only the file is ours to give back
        close_file(wire.fd)
        return
    pthread_mutex_lock(&reader.mutex)
    wire.retired, reader.retired = reader.retired, wire
    pthread_mutex_unlock(&reader.mutex)
    let_go(wire)
    write_file(reader.wake, &one, sizeof(one))


cdef void poll_briefly(Wire* wire, long long left) noexcept nogil:
    """Waits for something to read, BRIEF or `left` nanoseconds at most, and reads it. Called with the mutex, which it
    does not hold while it waits."""
    cdef pollfd arrival
    arrival.fd, arrival.events = wire.fd, POLLIN
    pthread_mutex_unlock(&wire.mutex)
    poll(&arrival, 1, 0 if left <= 0 else <int>min(<long long>BRIEF, left // 1000000 + 1))
    pthread_mutex_lock(&wire.mutex)
    pump(wire)


cdef int wait_for_line(Wire* wire, double seconds) noexcept nogil:
    """LINE_OK: there are whole lines in `front`, which had none. Else why not."""
    cdef long long end = now_ns() + <long long>(1e18 if not seconds < 1e9 else seconds * 1e9 if seconds > 0 else 0)
    cdef timespec until
    cdef int status = LINE_TIMEOUT
    cdef bint polled = False
    until.tv_sec, until.tv_nsec = end // 1000000000, end % 1000000000
    pthread_mutex_lock(&wire.mutex)
    while True:
        if atomic_load(&wire.closed, SEQ_CST):
            status = LINE_CLOSED
        elif wire.back.lines != 0:
            status = LINE_OK if change_places(wire) else LINE_CLOSED
        elif wire.ending != 0:
            status = wire.ending
        elif not polled:
            poll_briefly(wire, end - now_ns())
            polled = True
            continue
        elif now_ns() < end:
            watch(wire)
            wire.waiting = True
            pthread_cond_timedwait(&wire.cond, &wire.mutex, &until)
            wire.waiting = False
            continue
        break
    pthread_mutex_unlock(&wire.mutex)
    return status


cdef bint change_places(Wire* wire) noexcept nogil:
    """The lines that were read become the receiver's; false: there is no memory."""
    cdef size_t rest = wire.back.end - wire.back.lines
    wire.front.end = 0
    if not make_room(&wire.front, rest):
        return False
    if rest > 0:
        memcpy(wire.front.data, wire.back.data + wire.back.lines, rest)
    wire.front, wire.back = wire.back, wire.front
    wire.back.end, wire.back.lines, wire.taken = rest, 0, 0
    return True
