"""Links and leases in many threads at once, and when processes fork or end."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.forge.wire.link import Link, LinkError
from tests.support.forge.lines import failure, later, server
from tests.support.waiting import wait_until


@pytest.fixture
def pair():
    """A link and the socket at its other end."""
    ours, theirs = socket.socketpair()
    link = Link(ours)
    yield link, theirs
    link.close()
    theirs.close()


def run_script(source, timeout=60):
    """A program of its own; its last line, after it has ended well."""
    command = [sys.executable, "-c", textwrap.dedent(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


# ---- threads --------------------------------------------------------------------------------------------------------


def test_hundreds_of_links():
    count, rounds = 300, 20

    def serve(connection):
        with connection.makefile("rwb") as stream:
            for line in stream:
                stream.write(line * 2)
                stream.flush()

    def play(link, number, wrong):
        for i in range(rounds):
            link.send_line(f"{number}:{i}")
            if [link.receive_line(30) for _ in (0, 1)] != [b"%d:%d" % (number, i)] * 2:
                wrong.append(number)

    with server(serve, count) as port:
        before, wrong = len(os.listdir("/proc/self/fd")), []
        links = [Link.to("127.0.0.1", port) for _ in range(count)]
        threads = [threading.Thread(target=play, args=(link, i, wrong)) for i, link in enumerate(links)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        del links, threads, thread
        assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


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


def test_signals_in_a_wait():
    """Handlers run while a link waits, an exception of one ends the wait, and system calls go on after them."""
    script = """
        import signal, socket, time
        from jaxrl_envs.forge.wire.link import Link
        ours, theirs = socket.socketpair()
        link, rings = Link(ours), []

        def ring(*_):
            rings.append(1)
            if len(rings) == 5:
                theirs.sendall(b"line\\n")
            if len(rings) == 10:
                raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        assert link.receive_line(30) == b"line"
        try:
            link.receive_line(30)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("interrupted")
    """
    assert run_script(script) == "interrupted"


def test_the_interpreter_ends_while_threads_wait():
    script = """
        import socket, threading, time
        from jaxrl_envs.forge.wire.link import Link
        pairs = [socket.socketpair() for _ in range(20)]
        links = [Link(ours) for ours, _ in pairs]
        for link in links[:10]:
            threading.Thread(target=link.receive_line, args=(100,), daemon=True).start()
        for _, theirs in pairs[::2]:
            theirs.sendall(b"half")
        time.sleep(0.2)
        print(sum(thread.is_alive() for thread in threading.enumerate()) - 1)
    """
    begin = time.monotonic()
    assert run_script(script, timeout=30) == "10"
    assert time.monotonic() - begin < 20


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
