"""Lines over TCP: whole, in order, from any number of threads, and a clear end when the other side misbehaves."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
import time

import pytest

from jaxrl_envs.forge.wire.link import LONGEST, Link, LinkError
from tests.support.forge.lines import failure, later, server


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


def test_more_lines_than_the_buffers_hold(pair):
    """The sender is far ahead: 10 MB in lines of all sizes, without a reader at first."""
    link, other = pair
    lines = [(b"%d " % i) * (i % 997) + b"." for i in range(3000)]
    sender = threading.Thread(target=other.sendall, args=(b"\n".join(lines) + b"\n",))
    sender.start()
    time.sleep(0.05)
    for line in lines:
        assert link.receive_line(5) == line
    sender.join()


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


def test_a_slow_reader(pair):
    link, other = pair
    data, got = b"z" * 3_000_000, bytearray()

    def read():
        while len(got) <= len(data):
            got.extend(other.recv(50_000))
            time.sleep(0.001)

    thread = threading.Thread(target=read)
    thread.start()
    link.send_line(data)
    thread.join()
    assert got == data + b"\n"


def test_the_other_side_is_gone_while_we_send(pair):
    link, other = pair
    other.sendall(b"last words\n")
    other.close()
    with pytest.raises(LinkError, match="closed"):
        for _ in range(100):
            link.send_line("x" * 1000)
    assert link.receive_line(5) == b"last words" and failure(link) == "closed"
