"""Whatever bytes a daemon sends: a link hands out its lines, and each is a message or a clear fault.

JAXRL_FUZZ_SECONDS=600 pytest tests/jaxrl_envs/forge/test_fuzz.py    # a hunt with other inputs each time; seconds for
all tests
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from jaxrl_envs.forge.encoding.observation import observe
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.engine.faults import GARBAGE, REFUSED, GameFault, lost
from jaxrl_envs.forge.engine.live_game import LiveGame, Terms
from jaxrl_envs.forge.wire.link import Link, LinkError, parsed
from tests.support.forge.lines import decisions

LINES = decisions(6, seed=5)
HUNTS = 3  # tests below that share the seconds
TERMS = Terms((("a", "a"),), "", 0, (), 1.0, 100, 1.0, (0.1, 0.1, 0.1))
PIECES = (  # what mutations put in
    *(b'"', b"\\", b"\\u", b"\\ud83d\\ude00", b"\\ud800", b"\\udc00"),
    *(b"{", b"}", b"[", b"]", b":", b",", b"\0", b"\x1f"),
    *(b"-", b"0", b"1e9", b".", b"e", b"E+", b"99999999999999999999", b"true", b"null", b"NaN", b" ", b"\t", b"\r"),
    *(b"\xc3\xa9", b"\xc3", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xff", b'""', b"[]", b"{}", b'"a":', b"[" * 70),
)


def hunt(check, examples: int, *strategies) -> None:
    """Checks a property: always on the same inputs, and on new ones for as long as JAXRL_FUZZ_SECONDS says."""
    quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    settings(max_examples=examples, derandomize=True, **quiet)(given(*strategies)(check))()
    end = time.monotonic() + float(os.environ.get("JAXRL_FUZZ_SECONDS", "0")) / HUNTS
    while time.monotonic() < end:
        number = random.SystemRandom().getrandbits(64)
        print(f"seed {number}")  # shown with a failure: hypothesis.seed repeats it
        seed(number)(settings(max_examples=2 * examples, **quiet)(given(*strategies)(check)))()


def play(data: bytes, draw: random.Random) -> bool:
    """Whether a line is a decision, which then has finite observations and an answer."""
    try:
        question = ForgeDecision(data)
    except ValueError:
        return False
    assert np.isfinite(observe(question.view)).all()
    for _ in range(200):
        if question.answered:
            break
        assert np.isfinite(question.observe()).all() and question.mask().sum() == len(question.legal)
        question.step(draw.choice(question.legal))
    written = r"ai|[yn]?|-?\d+(:-?\d+)?(,-?\d+(:-?\d+)?)*"
    assert not question.answered or re.fullmatch(written, question.answer), question.answer
    return True


def mutate(data: bytes, draw: random.Random) -> bytes:
    """A few changes, mostly small ones."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice((0, 1, 1, 2, 5, 40, len(data))))
        kind = draw.randrange(6)
        if kind == 0:
            data = data[:at] + data[to:]
        elif kind == 1:
            data = data[:at] + draw.choice(PIECES) + data[at:]
        elif kind == 2:
            data = data[:at] + draw.choice(PIECES) + data[to:]
        elif kind == 3:
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        elif kind == 4:
            data = data[:to] + data[at:to][:2000] + data[to:]
        else:
            data = data[:at]
    return data


def words():
    alphabet = st.sampled_from([bytes([c]) for c in b'{}[]",:\\u0123456789abcdefE+-. \t\r\n\0\x7f\x80\xc3\xa9'])
    strings = st.text(max_size=30).map(lambda text: json.dumps(text).encode())
    pieces = st.lists(st.sampled_from(PIECES) | alphabet, max_size=40).map(b"".join)
    return pieces | strings | st.binary(max_size=60)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"[]", b"1", b"{", b"{}x", b'{"a":1,}', b"{'a':1}"),
        *(b'{"a":NaN}', b'{"a":-Infinity}', b"\xef\xbb\xbf{}"),
        *(b'{"a":"\\ud800"}', b'{"\\udc00":1}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xff"}', b'{"a":"\n"}', b'{"a":01}'),
        *(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' * 100_000, b'{"a":' + b"9" * 10_000 + b"}"),
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_no_line_may_hold(data):
    with pytest.raises(ValueError):
        parsed(data)
    live = LiveGame(TERMS)
    with pytest.raises(GameFault) as caught:
        live.hear(b"DECISION:" + data)
    assert caught.value.kind == GARBAGE and live.decision is None


def test_damaged_decisions():
    """A line that was changed anywhere is refused, or is a decision like any other."""
    found = []

    def check(number):
        draw = random.Random(number)
        found.extend(play(mutate(draw.choice(LINES), draw), draw) for _ in range(30))

    hunt(check, 80, st.integers(0, 2**64 - 1))
    assert 0.02 < sum(found) / len(found) < 0.98


def test_lines_of_any_kind_in_a_conversation():
    """A daemon may say what it likes: the game goes on, is over, or there is a fault with a sentence."""
    heads = [b"", b"DECISION:", b"GAME_RESULT: ", b"ERROR: ", b"ERROR"]
    heads += [b"GAME_TIMEOUT", b"GAME_ERROR", b"INFO:", b"SEED:"]
    results = st.sampled_from([b"Agent(1)-a won in 3ms", b"Ai(2)-b", b"Agent(3)-c", b"Agent(", b"Draw in 3ms", b"Ai(1"])
    line = st.tuples(st.sampled_from(heads), words() | results | st.sampled_from(LINES)).map(b"".join)

    def check(lines):
        live = LiveGame(TERMS)
        for each in lines:
            try:
                live.hear(each)
            except GameFault as fault:
                kinds = {GARBAGE} if live.progress.seen or not each.startswith(b"ERROR") else {REFUSED}
                assert fault.kind in kinds and "\n" not in str(lost(fault, 1, live.progress.turn))
                break
            assert live.over or live.decision is None or live.progress.seen > 0
        assert live.progress.asked in (-1, 0, 1) and live.winner in (-1, 0, 1)

    hunt(check, 300, st.lists(line, max_size=8))


def model(data: bytes, longest: int) -> list[bytes | str]:
    """The lines of a stream that then ends, or what is said instead of them."""
    found: list[bytes | str] = []
    *lines, rest = data.split(b"\n")
    for line in lines:
        line = line.removesuffix(b"\r")
        if len(line) > longest:
            return [*found, "too long", "closed"]
        with contextlib.suppress(UnicodeDecodeError):
            line.decode()
            found.append(line)
            continue
        found.append("bad utf-8")
    return [*found, "too long", "closed"] if len(rest) > longest + 1 else [*found, "closed"]


def test_streams_in_pieces():
    """Any bytes, cut anywhere, with pauses: lines, faults and the end come in order."""
    piece = st.sampled_from([b"\n", b"\r\n", b"\r", b"", *PIECES]) | st.binary(max_size=20)
    longest = 64

    def check(pieces, repeats, pause):
        data = [piece * (1 + repeats * (i % 4)) for i, piece in enumerate(pieces)]
        ours, theirs = socket.socketpair()
        link, found = Link(ours, longest=longest), []

        def send():
            with theirs, contextlib.suppress(BrokenPipeError):
                for i, part in enumerate(data):
                    theirs.sendall(part)
                    if pause and i in (1, 7):
                        time.sleep(0.007)

        sender = threading.Thread(target=send)
        sender.start()
        while not found or found[-1] != "closed":
            try:
                found.append(link.receive_line(20))
            except LinkError as error:
                found.append(error.kind)
        sender.join()
        assert found == model(b"".join(data), longest)

    hunt(check, 60, st.lists(piece, max_size=30), st.integers(0, 3), st.booleans())
