"""Lines of text over TCP.

link = Link.to("127.0.0.1", 17171)
link.send_line("PING")
assert link.receive_line(timeout=5) == b"PONG"
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, NoReturn

import orjson

LONGEST = 4 << 20  # bytes of a line without its end
CHUNK = 1 << 16  # bytes read at a time
SEND_SECONDS = 10.0  # a reader that takes nothing for this long is given up
LONGEST_WAIT = 1e6  # seconds; longer than any wait, and still a valid socket timeout

SENTENCES = {
    "timeout": "{peer} sent no line within {timeout:g} s",
    "closed": "the connection to {peer} is closed",
    "too long": "{peer} sent a line that is too long; the connection was closed",
    "endless": "{peer} sent more lines than a game has",
    "bad utf-8": "{peer} sent a line that is not UTF-8",
}


class LinkError(Exception):
    """A line that did not come or go; `kind` is a key of SENTENCES."""

    def __init__(self, kind: str, peer: str, timeout: float = 0.0):
        super().__init__(SENTENCES[kind].format(peer=peer, timeout=timeout))
        self.kind = kind


def parsed(line: bytes) -> dict[str, Any]:
    """Returns the JSON object of a line.

    Raises:
      ValueError: the line is something else, or no strict JSON in UTF-8: a stranger may send anything.
    """
    value = orjson.loads(line)
    if not isinstance(value, dict):
        raise ValueError("this line is no object")
    return value


class Link:
    """A connection that carries lines.

    One thread sends and one receives at a time; any thread may close it, which ends a wait for a line. In a child
    process after a fork it is closed: the connection is its parent's.
    """

    def __init__(self, connection: socket.socket, peer: str = "a socket", longest: int = LONGEST):
        """Takes over a connected socket; a line of more than `longest` bytes closes it."""
        self._socket, self.peer, self._longest, self._process = connection, peer, longest, os.getpid()
        self._shut = False
        self._read = bytearray()  # and not yet handed out

    @classmethod
    def to(cls, host: str, port: int, timeout: float = 5.0) -> Link:
        """Connects within `timeout` seconds. Raises OSError: no server listens there."""
        connection = socket.create_connection((host, port), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connection, f"{host}:{port}")

    def __del__(self) -> None:
        self._socket.close()  # not before: another thread may be using its number

    def send_line(self, line: str | bytes) -> None:
        """Sends a line, which has no end yet; waits for a slow reader.

        Raises:
          LinkError: the connection is closed.
        """
        data = (line.encode() if isinstance(line, str) else line) + b"\n"
        self._check_open()
        try:
            self._socket.settimeout(SEND_SECONDS)
            self._socket.sendall(data)
        except TimeoutError:
            self._fail("closed")  # in the middle of a line
        except OSError as error:  # what the other side said last can still be received
            raise LinkError("closed", self.peer) from error

    def receive_line(self, timeout: float = 10.0) -> bytes:
        """Returns the next line in valid UTF-8, without its end (LF or CR LF).

        Args:
          timeout: seconds to wait for it; not above 0: it is there, or not.

        Raises:
          LinkError: no line arrived in time, the connection is closed, or the line cannot be read. After a line that
            is not UTF-8 the next one can be received, after one that is too long the link is closed.
        """
        deadline, searched = time.monotonic() + timeout, 0
        self._check_open()
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if searched > self._longest + 1:
                self._fail("too long")
            self._read += self._arrived(deadline - time.monotonic(), timeout)
            self._check_open()
        line = bytes(self._read[:end]).removesuffix(b"\r")
        del self._read[: end + 1]
        if len(line) > self._longest:
            self._fail("too long")
        try:
            line.isascii() or line.decode()
        except UnicodeDecodeError as error:
            raise LinkError("bad utf-8", self.peer) from error
        return line

    def _arrived(self, left: float, timeout: float) -> bytes:
        """Reads what has arrived, after at most `left` seconds of `timeout`."""
        try:
            self._socket.settimeout(max(0.0, min(left, LONGEST_WAIT)))
            data = self._socket.recv(CHUNK)
        except (BlockingIOError, TimeoutError):
            raise LinkError("timeout", self.peer, timeout) from None
        except OSError as error:
            raise LinkError("closed", self.peer) from error
        if not data:
            raise LinkError("closed", self.peer)
        return data

    def _fail(self, kind: str) -> NoReturn:
        self.close()
        raise LinkError(kind, self.peer)

    def close(self) -> None:
        """Ends the connection; a thread that waits for a line gets a LinkError."""
        if not self._shut and self._process == os.getpid():
            self._shut = True
            with contextlib.suppress(OSError):  # the other side was faster
                self._socket.shutdown(socket.SHUT_RDWR)

    def _check_open(self) -> None:
        """Raises LinkError if our side has closed it."""
        if self._shut or self._process != os.getpid():
            raise LinkError("closed", self.peer)
