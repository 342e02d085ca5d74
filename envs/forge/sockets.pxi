# What the replay server takes from the C library: sockets, epoll, the clock. Linux.

cdef extern from "<sys/socket.h>" nogil:
    int AF_INET, SOCK_STREAM, SOL_SOCKET, SO_REUSEADDR, SOCK_NONBLOCK, SOCK_CLOEXEC, MSG_NOSIGNAL, SHUT_RDWR
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    int socket(int, int, int)
    int setsockopt(int, int, int, const void*, socklen_t)
    int bind(int, const sockaddr*, socklen_t)
    int c_listen "listen"(int, int)
    int accept4(int, sockaddr*, socklen_t*, int)
    int getsockname(int, sockaddr*, socklen_t*)
    ssize_t recv(int, void*, size_t, int)
    ssize_t send(int, const void*, size_t, int)
    int shutdown(int, int)

cdef extern from "<netinet/in.h>" nogil:
    int IPPROTO_TCP
    struct in_addr:
        uint32_t s_addr
    struct sockaddr_in:
        unsigned short sin_family
        uint16_t sin_port
        in_addr sin_addr
    uint16_t htons(uint16_t)
    uint16_t ntohs(uint16_t)
    uint32_t htonl(uint32_t)

cdef extern from "<netinet/tcp.h>" nogil:
    int TCP_NODELAY

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int)

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int, timespec*)

cdef extern from "<sys/epoll.h>" nogil:
    int EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CLOEXEC
    union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int)
    int epoll_ctl(int, int, int, epoll_event*)
    int epoll_wait(int, epoll_event*, int, int)
