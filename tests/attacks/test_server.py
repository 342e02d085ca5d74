"""Attacks on the server over its connections: crowds, halves of requests, guests, other sites, a full disk, signals."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import random
import resource
import signal
import socket as sockets
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from jaxrl.serve import connection as connections
from jaxrl.serve import gate as gates
from jaxrl.serve.gate import Gate
from jaxrl.serve.guard import COOKIE
from tests.support.serving import HIGH_CARD, Client, Person, serve_process, serving
from tests.support.waiting import wait_until

OWNER = {"Cookie": f"{COOKIE}=secret"}


def crowd(port: int, count: int, first: bytes) -> list[sockets.socket]:
    """Connections that never finish their request."""
    found = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            found.append(sockets.create_connection(("127.0.0.1", port), timeout=10))
            found[-1].sendall(first)
    return found


def deaf_socket(port: int) -> sockets.socket:
    """Returns a connection that takes 4 kB of answers until they are read."""
    found = sockets.socket()
    found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    found.connect(("127.0.0.1", port))
    return found


def closed(connection: sockets.socket) -> bool:
    connection.settimeout(0.01)
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def answers(port: int) -> None:
    """The owner gets an answer within five seconds."""
    began = time.monotonic()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/tables", headers=OWNER)
    assert urllib.request.urlopen(asked, timeout=30).status == 200 and time.monotonic() - began < 5.0


# ---- connections ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("first", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_the_owner_is_answered_whatever_waits_for_the_end_of_its_request(tmp_path, monkeypatch, first):
    monkeypatch.setattr(gates, "HEADER", 1.0)
    monkeypatch.setattr(gates, "SPARE", 10)
    with serving(tmp_path, token="secret", names=frozenset(), connections=20) as client:
        with contextlib.ExitStack() as held:
            waiting = [held.enter_context(each) for each in crowd(client.port, 100, first)]
            answers(client.port)
            assert sum(map(closed, waiting)) >= 100 - 30, "the oldest make room"
            time.sleep(2.5)
            assert all(map(closed, waiting)), "a header has a second"
            half = held.enter_context(sockets.create_connection(("127.0.0.1", client.port)))
            half.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert half.recv(4096).startswith(b"HTTP/1.1 401")
            half.sendall(b"GET")  # of the next request, which never comes
            time.sleep(2.5)
            assert closed(half)
        answers(client.port)


@contextlib.contextmanager
def complaints() -> Iterator[list[str]]:
    """The tracebacks that a server logs while the block runs."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(logging.Formatter().format(record)) if record.exc_info else None
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "jaxrl")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)


OTHERS = ["HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get", "", "G\0T"]
METHODS = ["GET"] * 8 + ["POST"] * 3 + OTHERS
TARGETS = """/ * // http://evil.example/ /api/tables/ID/socket /api/drive/x /api/tables /static/x /% /%00
 /static/space.js /runs/of/%ff/events /replays/open?file=%2e%2e /table/ID ? /\u00e9 /table/ID?token=x&token=%ff
 /runs/events""".split()
HEADERS = """Content-Length: 5|Content-Length: -1|Content-Length: 99999999999999999999|Content-Length: x|Accept: \0
Transfer-Encoding: chunked|Transfer-Encoding: gzip|Connection: Upgrade|Upgrade: websocket|Upgrade: h2c|Origin: \udcff
Sec-WebSocket-Key: x|Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==|Sec-WebSocket-Version: 13|Expect: 100-continue|no colon
Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=99|Origin: http://HOST|Range: bytes=0-,0-,-1,5-2,x
Cookie: jaxrl=\u00ff; =; ;;; jaxrlID=x|If-Modified-Since: x|: empty|Host: second.example"""
FIELDS = HEADERS.replace("\n", "|").split("|")
BODIES = ["", "{}", "5\r\nhello\r\n0\r\n\r\n", "zz\r\n", "x" * 1000]


def raw_request(random_: random.Random, host: str, id: str) -> bytes:
    """A request as no browser sends it."""
    version = random_.choice(["1.1"] * 8 + ["1.0", "2.0", "9", ""])
    lines = [f"{random_.choice(METHODS)} {random_.choice(TARGETS)} HTTP/{version}", "Host: HOST"]
    lines += random_.sample([*FIELDS, "X: " + "y" * 60_000], random_.randrange(6))
    text = ("\r\n".join(lines) + "\r\n\r\n" + random_.choice(BODIES)).replace("ID", id).replace("HOST", host)
    data = text.encode("utf-8", "surrogateescape")
    if random_.random() < 0.2:
        at = random_.randrange(len(data))
        data = data[:at] + random_.randbytes(random_.randrange(20)) + data[at:]
    return data * random_.choice([1, 1, 1, 3])


@pytest.mark.parametrize("tries", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_noise_in_the_place_of_requests_is_answered_or_closed(tmp_path, tries):
    random_, statuses = random.Random(tries), collections.Counter()
    with serving(tmp_path) as client, complaints() as raised:
        for _ in range(tries):
            data = raw_request(random_, client.host, "0123456789ab")
            with sockets.create_connection(("127.0.0.1", client.port)) as raw, contextlib.suppress(OSError):
                raw.settimeout(0.05)
                raw.sendall(data)
                answer = raw.recv(1 << 12)
                statuses[answer[9:12].decode("latin-1")] += 1
        assert client.request("/static/style.css")[0] in (200, 401)
    assert not any(status.startswith("5") for status in statuses), statuses
    assert raised == []
    print(f"{tries} requests of noise: {dict(statuses)}")


class Wire:
    """A transport without a network."""

    def __init__(self, address: str):
        self.address, self.aborted = address, False

    def get_extra_info(self, name: str):
        return (self.address, 1)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def test_an_address_has_a_quarter_of_the_connections_and_a_fifth_of_the_places():
    async def enter():
        gate = Gate(300)
        assert gate.most <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 and gate.guests < gate.places
        greedy = [Wire(f"2001:db8::{number:x}") for number in range(gate.most)]  # all of one network
        for each in greedy:
            gate.enter(each)
        assert sum(not each.aborted for each in greedy) == gate.most // 4
        assert not any(each.aborted for each in greedy[-gate.most // 4 :]), "the oldest went"
        others = [Wire(f"192.0.2.{number}") for number in range(200)]
        lines = [gate.enter(each) for each in others]
        for line in lines:
            line.idle = None  # a request is in hand
        more = [Wire(f"198.51.100.{number % 250}") for number in range(2000)]
        for each in more:
            gate.enter(each)
        assert not any(each.aborted for each in others) and len(gate._connections) <= gate.most
        took = [gate.take(lines[0], True, "a") for _ in range(gate.places)]
        assert sum(each is not None for each in took) == gate.each, "of a table, or an address"
        for line in lines[1:]:
            for table in ("b", "c", "d", "e", "f", "g"):
                took.append(gate.take(line, True, table))
        assert sum(each is not None for each in took) == gate.guests
        assert gate.take(lines[0], False, "") is not None, "the owner's reserve"
        for each in took:
            if each is not None:
                gate.give(each)
        assert gate.take(lines[0], True, "a") is not None

    asyncio.run(enter())


def test_a_guest_who_says_no_hello_frees_its_place_and_leaves_the_owner_some(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 5.0)  # longer than the 120 connections take on a busy machine
    with serving(tmp_path, token="secret", names=frozenset(), connections=30) as client:
        wanted = {"game": HIGH_CARD, "seats": ["person", "bot:lowest", "bot:lowest"], "pace": 0}
        tables = [json.loads(client.request("/api/tables", wanted, **OWNER)[1]) for _ in range(6)]
        refused = 0
        with contextlib.ExitStack() as held:
            silent = []
            for table in tables:
                guest = {"Cookie": f"{COOKIE}{table['id']}={table['guest']}"}
                for _ in range(20):
                    try:
                        silent.append(held.enter_context(client.socket(table["id"], additional_headers=guest)))
                    except InvalidStatus:
                        refused += 1
            assert len(silent) <= 25 and refused == 120 - len(silent)
            answers(client.port)
            table = tables[0]
            with client.socket(table["id"], additional_headers=OWNER) as socket:
                socket.send(json.dumps({"key": table["keys"][0]}))
                assert Person(socket).turn()["legal"]
            for each in silent:
                with pytest.raises(ConnectionClosed) as said:
                    each.recv(10)
                assert said.value.rcvd.code == 1008 and "hello" in said.value.rcvd.reason
            guest = {"Cookie": f"{COOKIE}{table['id']}={table['guest']}"}
            with client.socket(table["id"], additional_headers=guest) as socket:
                socket.send("{}")
                assert json.loads(socket.recv(10))["kind"] == "view", "their places are free"
            for word in ("", "null", "[]", "x"):
                with client.socket(table["id"], additional_headers=guest) as socket:
                    socket.send(word)
                    with pytest.raises(ConnectionClosed):
                        socket.recv(10)


@pytest.mark.thorough
def test_slow_bodies_and_slow_readers_are_left(tmp_path, monkeypatch):
    from jaxrl.serve import guard, server

    monkeypatch.setattr(server, "PATIENCE", 0.5)
    monkeypatch.setattr(server, "SLOWEST", 1 << 20)
    monkeypatch.setattr(guard, "STALLED", 0.5)
    monkeypatch.setattr(gates, "HEADER", 1.0)
    with serving(tmp_path) as client, contextlib.ExitStack() as held:
        slow = held.enter_context(sockets.create_connection(("127.0.0.1", client.port)))
        head = f"Host: {client.host}\r\nOrigin: http://{client.host}\r\nContent-Length: 60000\r\n\r\n"
        slow.sendall(f"POST /api/tables HTTP/1.1\r\n{head}{{".encode())
        slow.settimeout(10)
        assert b"too slowly" in slow.recv(4096) + slow.recv(4096)
        deaf = held.enter_context(deaf_socket(client.port))
        asked = f"GET /static/space.js HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode()
        deaf.sendall(asked * 20)
        time.sleep(4)
        deaf.settimeout(10)
        read = 0
        with contextlib.suppress(OSError):  # reset
            while part := deaf.recv(1 << 20):
                read += len(part)
        assert read < 20 * 700_000


@pytest.mark.thorough
def test_refusals_that_are_not_read_hold_no_connection(tmp_path, monkeypatch):
    """A stranger without a token asks forty thousand times and reads nothing."""
    from jaxrl.serve import guard

    monkeypatch.setattr(guard, "STALLED", 0.5)
    monkeypatch.setattr(gates, "HEADER", 1.0)
    with serving(tmp_path, token="secret") as client, contextlib.ExitStack() as held:
        deaf = held.enter_context(deaf_socket(client.port))
        deaf.settimeout(10)
        asked = f"GET / HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode()
        with pytest.raises(ConnectionError):
            deaf.sendall(asked * 40_000)
            for _ in range(40):
                time.sleep(0.2)
                deaf.sendall(asked)


@pytest.mark.thorough
def test_pings_without_a_reader_fill_no_memory(tmp_path):
    """100 MB of pings: uvicorn answers each, however much of the answers waits to be sent."""
    with serving(tmp_path) as client, contextlib.ExitStack() as held:
        table = client.open_table(HIGH_CARD, "bot:lowest", "bot:lowest", "bot:lowest")
        raw = held.enter_context(deaf_socket(client.port))
        head = f"Host: {client.host}\r\nOrigin: http://{client.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        raw.sendall(f"GET /api/tables/{table['id']}/socket HTTP/1.1\r\n{head}".encode())
        hello, ping = b"\x81\x82\0\0\0\0{}", b"\x89\xfd\0\0\0\0" + b"x" * 125
        raw.sendall(hello)
        raw.settimeout(10)
        sent, many = 0, ping * 1000
        with contextlib.suppress(OSError):  # it was closed
            while sent < 100_000_000:
                sent += raw.send(many)
        assert sent < 20_000_000, f"{sent / 1e6:.0f} MB were answered"
        assert client.request("/")[0] == 200


# ---- who may do what ------------------------------------------------------------------------------------------------

POSTS = """/api/tables /api/players /api/drive /runs/verdict /runs/jobs /runs/of/mine/stop /runs/of/mine/evaluate
 /replays/bring?name=a.replay /replays/glances /api/tables/{}/keep""".split()
GETS = """/ /runs /runs/jobs?about=mine /runs/of/mine /runs/of/mine/curves /runs/of/mine/events /runs/events
 /runs/view/mine /runs/compare /replays /replays/list /replays/open?file=0/a.replay /replays/open/x/head
 /replays/open/x/judged /replays/view /api/tables /api/games /api/drive /drive /table/other /api/tables/other/replay
 /.key /table/{}/../../runs/jobs""".split()


def test_guests_and_other_sites_start_nothing_and_see_one_table(tmp_path):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("env: {id: skull_king}")
    tries = 0
    with serving(tmp_path, token="secret", names=frozenset()) as client:
        wanted = {"game": HIGH_CARD, "seats": ["person"] * 3}
        table = json.loads(client.request("/api/tables", wanted, **OWNER)[1])
        guest = {"Cookie": f"{COOKIE}{table['id']}={table['guest']}"}
        others = [{"Origin": origin} for origin in ("http://evil.example", "null", "", f"https://{client.host}.evil")]
        for path in POSTS:
            asked = path.format(table["id"])
            for headers in (guest, {}, *(OWNER | each for each in others)):
                status, _ = client.request(asked, {"opponents": "random", "checkpoint": "newest"}, **headers)
                tries += 1
                expected = 403 if "Origin" in headers else 401
                assert status == expected or headers == OWNER | others[3], (path, status)
        for path in GETS:
            for headers in (guest, {}):
                status, _ = client.request(path.format(table["id"]), **headers)
                tries += 1
                assert status == 401, (path, headers)
        for path in ("/static/../guard.py", "/static/..%2fguard.py", "/static/%2e%2e/server.py", "/static//etc/passwd"):
            assert client.request(path, **OWNER)[0] == 404, path
        frame = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert {client.request(path.format("x"), **OWNER, **frame)[0] for path in GETS} == {403}
        assert json.loads(client.request("/runs/jobs?about=mine", **OWNER)[1]) == [], "no command was started"
        assert len(json.loads(client.request("/api/tables", **OWNER)[1])) == 1, "and no table made"
    print(f"{tries} requests of guests, strangers and other sites")


# ---- signals and disks ----------------------------------------------------------------------------------------------


def client_of(address: str) -> Client:
    return Client(int(address.split(":")[2].partition("/")[0]))


@pytest.mark.thorough
def test_a_table_survives_sigterm_and_a_full_disk(tmp_path):
    """The game goes on while nothing can be written; what was played is there after the end and a new start."""
    with serve_process(tmp_path, "--game", HIGH_CARD, "--allow", "tests") as (process, address):
        client = client_of(address)
        table = client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:lowest")
        kept = tmp_path / ".tables" / f"{table['id']}.table"
        with client.sit(table["id"], table["keys"][0]) as anna:
            first = anna.turn()
            played = lambda: len(json.loads(kept.read_bytes())["record"]["actions"])  # noqa: E731
            assert wait_until(lambda: played() == first["time"])  # shown, then saved
            before = kept.read_bytes()
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
            anna.play(first)
            second = anna.until(lambda m: m.get("time", 0) > first["time"] and bool(m.get("legal")))
            status, text = client.request("/api/tables", {"game": HIGH_CARD, "seats": ["person"] * 3})
            assert status == 507 and json.loads(text)["error"].endswith("."), (status, text)
            assert [each["id"] for each in json.loads(client.request("/api/tables")[1])] == [table["id"]]
            status, text = client.request("/replays/bring?name=a.replay", b"x" * 1000)
            assert status == 507 and json.loads(text)["error"].endswith(".")
            assert kept.read_bytes() == before, "whole, as it was"
            assert not list(kept.parent.glob("*.part"))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed) as said:
                anna.until(lambda m: False, 20)
            assert said.value.rcvd.code == 1012
        process.wait(20)
        assert time.monotonic() - began < 8
    assert played() == second["time"]
    with serve_process(tmp_path, "--game", HIGH_CARD, "--allow", "tests") as (_, address):
        with client_of(address).sit(table["id"], table["keys"][0]) as anna:
            again = anna.turn()
            assert (again["time"], again["legal"], again["text"]) == (second["time"], second["legal"], second["text"])
    log = (tmp_path / "server.log").read_text()
    assert "Traceback" not in log and "cannot be saved" in log


@pytest.mark.slow
def test_kills_at_any_moment_lose_no_table(tmp_path):
    """SIGKILL while tables are made and played: each file is a table, and the server starts again."""
    random_, tries = random.Random(1), 12
    for _ in range(tries):
        with serve_process(tmp_path, "--game", HIGH_CARD, "--allow", "tests") as (process, address):
            client = client_of(address)
            assert not [each for each in json.loads(client.request("/api/tables")[1]) if "bad" in each]
            timer = threading.Timer(random_.uniform(0.2, 3.0), process.kill)
            timer.start()
            with contextlib.suppress(OSError, ConnectionClosed, TimeoutError, AssertionError):
                while True:
                    table = client.open_table(HIGH_CARD, "bot:lowest", "bot:lowest", "bot:lowest")
                    with client.sit(table["id"]) as watcher:
                        watcher.until(lambda m: m.get("over", False), 5)
            timer.join()
    print(f"{tries} kills")
