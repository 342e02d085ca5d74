"""Lines over TCP, and their leases: whole, in order, from any number of threads, with a clear end."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import socket
import struct
import threading
import time

import pytest

from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.forge.wire.link import LONGEST, Link, LinkError
from tests.support.forge.lines import failure, later, server
from tests.support.waiting import wait_until


@pytest.fixture
def pair():
    """A link and the socket at its other end."""
    ours, theirs = socket.socketpair()
    link = Link(ours, longest=100_000)
    yield link, theirs
    link.close()
    theirs.close()


# ---- lines ----------------------------------------------------------------------------------------------------------


def test_lines_come_whole_and_in_order(pair):
    link, other = pair
    other.sendall(b"one\ntwo\r\n\n\r\nnul \0 byte\nc\r\rd\r\n\xc3\xa6\xe2\x80\x9c\xf0\x9f\x98\x80\n")
    want = [b"one", b"two", b"", b"", b"nul \0 byte", b"c\r\rd", "æ“😀".encode()]
    assert [link.receive_line(5) for _ in want] == want
    assert failure(link, 0) == "timeout"


def test_a_line_in_pieces(pair):
    link, other = pair
    for piece in (b"ha", b"lf", b"\r", b"\nsecond"):
        assert failure(link, 0.01) == "timeout"
        other.sendall(piece)
    assert link.receive_line(5) == b"half"
    threads = [later(0.05 * i, other.sendall, piece) for i, piece in enumerate((b" li", b"ne", b"\n"))]
    assert link.receive_line(5) == b"second line", "it goes on reading until the line is whole"
    for thread in threads:
        thread.join()


def test_over_tcp():
    def serve(connection):
        with connection.makefile("rwb") as stream:
            for line in stream:
                stream.write(b"<" + line.strip() + b">\r\n")
                stream.flush()

    with server(serve) as port:
        link = Link.to("127.0.0.1", port)
        assert link.peer == f"127.0.0.1:{port}"
        assert link._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for line in ("NEWGAME a b", "æ", ""):
            link.send_line(line)
            assert link.receive_line() == b"<" + line.encode() + b">"
        link.send_line(b"bytes")
        assert link.receive_line() == b"<bytes>"
        link.close()
        link.close()
        assert failure(link) == "closed"
        with pytest.raises(LinkError, match="closed"):
            link.send_line("PING")


def test_a_connection_without_an_answer():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(OSError):
        Link.to("127.0.0.1", port, 1.0)


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", (0.02, 0.3))
def test_silence_is_a_timeout(pair, wait):
    link, other = pair
    begin = time.monotonic()
    assert failure(link, wait) == "timeout"
    assert wait <= time.monotonic() - begin < wait + 2
    other.sendall(b"late\n")
    assert link.receive_line(5) == b"late", "the link is as good as before"


@pytest.mark.parametrize("wait", (0.0, -1.0, -math.inf))
def test_no_time_is_a_look(pair, wait):
    link, other = pair
    assert failure(link, wait) == "timeout"
    other.sendall(b"x\n")
    assert link.receive_line(wait) == b"x"


@pytest.mark.parametrize("end", ("close", "reset", "shutdown"))
@pytest.mark.parametrize("when", (0.0, 0.1))
def test_half_a_line_at_the_end_is_none(end, when):
    connected = threading.Event()

    def serve(connection):
        connection.sendall(b'whole\n{"half": ')
        connected.wait(60.0)  # a reset may overtake the connection too
        time.sleep(when)
        if end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end == "shutdown":
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

    with server(serve) as port:
        link = Link.to("127.0.0.1", port)
        connected.set()
        with contextlib.suppress(LinkError if end == "reset" else ()):  # it may overtake what was sent before
            assert link.receive_line() == b"whole"
        assert failure(link) == "closed"
        link.close()


def test_a_line_of_ten_megabytes():
    def serve(connection):
        connection.sendall(b"before\n" + b"x" * 10_000_000 + b"\nafter\n")
        connection.recv(1)

    with server(serve) as port:
        link = Link.to("127.0.0.1", port)
        assert link.receive_line() == b"before"
        assert failure(link) == "too long" and LONGEST == 4 << 20
        assert failure(link) == "closed"


@pytest.mark.parametrize("when", (0.002, 0.1))
@pytest.mark.parametrize("whose", ("ours", "theirs"))
def test_closed_in_the_middle_of_a_wait(pair, when, whose):
    link, other = pair
    thread = later(when, link.close if whose == "ours" else other.close)
    begin = time.monotonic()
    assert failure(link, 30) == "closed"
    assert time.monotonic() - begin < 10
    thread.join()


def test_lines_are_not_handed_out_after_our_close(pair):
    link, other = pair
    other.sendall(b"1\n2\n")
    assert link.receive_line(5) == b"1"
    link.close()
    assert failure(link) == "closed"


def test_the_other_side_is_gone_while_we_send(pair):
    link, other = pair
    other.sendall(b"last words\n")
    other.close()
    with pytest.raises(LinkError, match="closed"):
        for _ in range(100):
            link.send_line("x" * 1000)
    assert link.receive_line(5) == b"last words" and failure(link) == "closed"


# ---- many threads ---------------------------------------------------------------------------------------------------


def test_links_come_and_go_while_threads_wait_for_them():
    """Every waiting thread comes back, and no file is left open."""

    def live(number, ends):
        for i in range(40):
            ours, theirs = socket.socketpair()
            link = Link(ours)
            theirs.sendall(b"line\n" if i % 2 else b"li")
            closer = later((number + i) % 7 * 0.002, link.close if i % 3 else theirs.close)
            with contextlib.suppress(LinkError):
                link.receive_line(20)
                link.receive_line(20)
            link.close()
            ends.append(failure(link))
            closer.join()
            theirs.close()

    files, ends = len(os.listdir("/proc/self/fd")), []
    threads = [threading.Thread(target=live, args=(i, ends)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 8 * 40
    gc.collect()  # a caught exception and its frame refer to each other
    assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= files)


# ---- leases ---------------------------------------------------------------------------------------------------------


def test_the_life_of_a_lease(pair):
    link, _ = pair
    lease = Lease(link, "daemon 3")
    assert (lease.link, lease.daemon, lease.status) == (link, "daemon 3", "running")
    assert not lease.enter() and not lease.evict(), "it is in use"
    before = time.monotonic()
    lease.leave()
    assert lease.status == "idle" and before <= lease.last_used <= time.monotonic()
    assert lease.enter() and lease.status == "running"
    lease.leave()
    assert lease.evict() and lease.status == "gone" and failure(link) == "closed"
    assert not lease.enter() and not lease.evict()
    lease.leave()
    assert lease.status == "gone"


def test_a_finished_lease_leaves_its_link(pair):
    lease = Lease(pair[0])
    assert lease.finish() and lease.status == "gone" and not lease.finish()
    assert not lease.enter() and not lease.evict() and failure(pair[0], 0) == "timeout"


def test_a_lease_is_either_used_or_evicted():
    for _ in range(200):
        lease, won = Lease(Link(socket.socketpair()[0])), []
        lease.leave()
        start = threading.Barrier(4)

        def grab(action, name, start=start, won=won):
            start.wait()
            if action():
                won.append(name)

        actions = ((lease.enter, "enter"), (lease.evict, "evict"), (lease.enter, "enter"), (lease.evict, "evict"))
        threads = [threading.Thread(target=grab, args=pair) for pair in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1 and (failure(lease.link, 0) == "closed") == (won[0] == "evict")
