"""Lines of made-up decisions, and other ends for links."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

import pytest

from jaxrl_envs.forge.wire.link import LinkError
from tests.support.forge.decisions import Maker


def decisions(count: int, seed: int) -> list[bytes]:
    """Decisions as JSON in UTF-8, without the prefix and the end of line."""
    maker = Maker(seed)
    made = (maker.decision(number + 1, kind="choose_action") for number in range(count))
    return [json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode() for each in made]


@contextlib.contextmanager
def server(serve, connections=1):
    """The port of a server that treats each connection by serve(socket), in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=max(connections, 5))
    listener.settimeout(20)

    def treat(connection):
        with connection, contextlib.suppress(OSError):
            serve(connection)

    def accept():
        for _ in range(connections):
            threading.Thread(target=treat, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
        thread.join()


def later(seconds, function, *arguments):
    thread = threading.Timer(seconds, function, arguments)
    thread.start()
    return thread


def failure(link, timeout=5.0):
    with pytest.raises(LinkError) as caught:
        link.receive_line(timeout)
    return caught.value.kind
