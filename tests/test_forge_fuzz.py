"""Whatever bytes a daemon sends: the tape agrees with Python's json module, and a link hands out the same lines.

JAXRL_FUZZ_SECONDS=600 pytest tests/test_forge_fuzz.py    # a hunt with other inputs each time; seconds for all tests
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import struct
import threading
import time

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from envs.forge.wire import Link, LinkError, look_up, parse_json
from tests.forge_lines import decisions

LINES = decisions(6, seed=5)
HUNTS = 5  # tests below that share the seconds
DEPTH = 64
PIECES = (  # what mutations put in
    *(
        b'"',
        b"\\",
        b"\\u",
        b"\\ud83d\\ude00",
        b"\\ud800",
        b"\\udc00",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\0",
        b"\x1f",
    ),
    *(b"-", b"0", b"1e9", b".", b"e", b"E+", b"99999999999999999999", b"true", b"null", b"NaN", b" ", b"\t", b"\r"),
    *(b"\xc3\xa9", b"\xc3", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xff", b'""', b"[]", b"{}", b'"a":', b"[" * 70),
)


class Members(list):
    """The members of an object, also those whose key comes again."""


def hunt(check, examples: int, *strategies) -> None:
    """Checks a property: always on the same inputs, and on new ones for as long as JAXRL_FUZZ_SECONDS says."""
    quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    settings(max_examples=examples, derandomize=True, **quiet)(given(*strategies)(check))()
    end = time.monotonic() + float(os.environ.get("JAXRL_FUZZ_SECONDS", "0")) / HUNTS
    while time.monotonic() < end:
        number = random.SystemRandom().getrandbits(64)
        print(f"seed {number}")  # shown with a failure: hypothesis.seed repeats it
        seed(number)(settings(max_examples=2 * examples, **quiet)(given(*strategies)(check)))()


def refuse(*_):
    raise ValueError("not JSON")


def strict(data: bytes):
    """What JSON in UTF-8 means; objects as Members. ValueError: it is none, or nothing that a line may hold."""
    value = json.loads(data.decode(), parse_constant=refuse, object_pairs_hook=Members)
    todo, depth = [value], 0
    while todo:  # one level after the other
        depth += any(isinstance(item, list) for item in todo)
        for item in todo:
            for text in [key for key, _ in item] if isinstance(item, Members) else [item]:
                if isinstance(text, str):
                    text.encode()  # half a surrogate pair is no character
        inner = [[member for _, member in item] if isinstance(item, Members) else item for item in todo]
        todo = [member for item in inner if isinstance(item, list) for member in item]
    if depth > DEPTH:
        raise ValueError("too deep")
    return value


def plain(value):
    """Members as dicts."""
    if isinstance(value, Members):
        return {key: plain(member) for key, member in value}
    return [plain(item) for item in value] if isinstance(value, list) else value


def same(ours, theirs) -> bool:
    """Equal, with all types and bits."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        return struct.pack("d", ours) == struct.pack("d", theirs)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    return ours == theirs


def compare(data: bytes) -> None:
    try:
        want = plain(strict(data))
    except (ValueError, RecursionError):
        try:
            found = parse_json(data)
        except ValueError as error:
            place = re.search(r"byte (\d+)", str(error))
            assert place is None or int(place[1]) <= len(data)
            return
        raise AssertionError(f"{data!r} is {found!r}, but it is no JSON") from None
    assert same(parse_json(data), want), data


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


def values():
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    number = st.integers() | st.integers(-(2**63) - 2, 2**63 + 2) | st.floats(allow_nan=False, allow_infinity=False)
    leaf = st.none() | st.booleans() | number | text
    return st.recursive(leaf, lambda x: st.lists(x, max_size=6) | st.dictionaries(text, x, max_size=6), max_leaves=40)


def test_values_come_back():
    def check(value, ascii_only, indent, separators):
        data = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators).encode()
        assert same(parse_json(data), json.loads(data))

    indents, separators = st.sampled_from([None, 0, 1, "\t"]), st.sampled_from([(",", ":"), (" , ", " :\r\n")])
    hunt(check, 200, values(), st.booleans(), indents, separators)


def test_objects_are_walked():
    names = st.text(st.sampled_from("ab\\é"), max_size=3)

    def check(members, asked, room):
        data = json.dumps(members, ensure_ascii=False).encode()
        for name, entry in zip(asked, look_up(data, [name.encode() for name in asked], room), strict=True):
            if name not in members or "\\" in name:
                assert entry is None
                continue
            value, _, cut, length, truth = entry
            text = value.encode() if isinstance(value, str) else b""
            assert same(value, members[name]) and truth == (value is True)
            assert cut == text[:room].decode(errors="ignore").encode(), "whole characters"
            assert length == (len(value) if isinstance(value, list) else 0)

    hunt(check, 100, st.dictionaries(names, values(), max_size=12), st.lists(names, max_size=20), st.integers(0, 40))


def test_bytes_of_any_kind():
    alphabet = st.sampled_from([bytes([c]) for c in b'{}[]",:\\u0123456789abcdefE+-. \t\r\n\0\x7f\x80\xc3\xa9'])
    words = st.lists(st.sampled_from(PIECES) | alphabet, max_size=40).map(b"".join)

    strings = st.text(max_size=30).map(lambda text: json.dumps(text).encode())
    hunt(compare, 600, words | strings | st.binary(max_size=60))


def test_damaged_decisions():
    def check(number, whole):
        draw = random.Random(number)
        line = draw.choice(LINES)
        at = 0 if whole else draw.randrange(len(line))
        for _ in range(60):
            compare(mutate(line if whole else line[at : at + draw.randrange(200)], draw))

    hunt(check, 40, st.integers(0, 2**64 - 1), st.booleans())


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
    """Any bytes, cut anywhere, with pauses that bring the hub in: lines, faults and the end come in order."""
    piece = st.sampled_from([b"\n", b"\r\n", b"\r", b"", *PIECES]) | st.binary(max_size=20)
    longest = 64

    def check(pieces, repeats, pause):
        data = [piece * (1 + repeats * (i % 4)) for i, piece in enumerate(pieces)]
        ours, theirs = socket.socketpair()
        link, found = Link.over(ours, max_line=longest), []

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
