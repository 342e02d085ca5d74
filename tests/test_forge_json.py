"""The JSON tape: what it takes and refuses, where it says the fault lies, and the functions that read values."""

from __future__ import annotations

import json
import math

import pytest

from envs.forge.wire import hash_text, look_up, measure_parse, parse_json
from tests.forge_lines import decisions

GOOD = (
    *("{}", "[]", '""', "0", "-0", "-0.0", "null", "true", "false", " [ ] ", "\t{ }\r\n", "[[], {}, [[]]]"),
    *(
        '{"a":{"b":[1,{"c":[]}]},"d":"e"}',
        '{"":""}',
        "[1,-2,3.5,-4e2,5E+1,6e-1,0.25]",
        '"\\u00e9\\n\\"\\\\\\/\\b\\f\\r\\t"',
    ),
    *('"\\ud83d\\ude00"', '"\\uD83D\\uDE00x"', '"😀æ\u2028\x7f"', '"\\u0000"', '{"a":1,"a":2}', '{"\\u0061":1}'),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "1e400", "-1e-400"),
    *(str(10**40), "0." + "3" * 300, "1" * 400 + ".5", "1.7976931348623157e308", "4.9e-324", "2.2250738585072011e-308"),
    *("[" * 64 + "]" * 64, '{"k":' * 63 + "{}" + "}" * 63, '"' + "x" * 100_000 + '"', "[" + "1," * 50_000 + "2]"),
)
BAD = {  # and at which byte
    **{"": 0, " ": 1, "[": 1, "]": 0, "{": 1, "}": 0, "[1": 2, "[1,": 3, "[1,]": 3, "[,1]": 1, "[1 2]": 3, "[1]]": 3},
    **{'{"a"}': 4, '{"a":}': 5, '{"a":1,}': 7, "{1:2}": 1, '{"a" 1}': 5, '{"a":1 "b":2}': 7, "{a:1}": 1, '{"a":1]': 6},
    **{"[1}": 2, "[{]": 2, "01": 0, "-": 0, "-a": 0, "+1": 0, ".5": 0, "1.": 0, "1.e3": 0, "1e": 0, "1e+": 0, "0x1": 1},
    **{"1_0": 1, "NaN": 0, "Infinity": 0, "-Infinity": 0, "nul": 0, "nulll": 4, "True": 0, "tru e": 0, "'a'": 0},
    **{'"': 1, '"abc': 4, '"\n"': 1, '"\t"': 1, '"abcdefghi\x1f"': 10, '"\0"': 1, '"\\x"': 1, '"\\': 1, '"\\"': 3},
    **{'"\\u12"': 1, '"\\u12g4"': 1, '"\\ud800"': 1, '"\\udc00"': 1, '"\\ud800\\u0041"': 1, '"ab\\ud800x"': 3},
    **{'"\\ud83d\\ude0"': 1, "1 2": 2, "{} x": 3, "\ufeff1": 0, "\x0b1": 0, "[1]\0": 3, "\u00a01": 0, "[" * 65: 64},
    **{"[" * 65 + "]" * 65: 64, '["a" "b"]': 5, '["a":1]': 4, "/**/1": 0, "[1//\n]": 2, '{"a":1,,"b":2}': 7},
}


@pytest.mark.parametrize("text", GOOD, ids=lambda text: text[:20])
def test_what_is_json(text):
    found, want = parse_json(text.encode()), json.loads(text)
    assert found == want and repr(found) == repr(want), "integers, fractions and -0.0 are different things"


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:20]))
def test_what_is_not(text):
    with pytest.raises(ValueError, match=f"not JSON from byte {BAD[text]} on"):
        parse_json(text.encode())


@pytest.mark.parametrize("text", GOOD[:20])
def test_every_part_of_a_text_ends_well(text):
    data = text.encode()
    for end in range(len(data)):
        try:
            want = json.loads(data[:end].decode())
        except ValueError:
            with pytest.raises(ValueError):
                parse_json(data[:end])
        else:
            assert parse_json(data[:end]) == want


def test_utf8_is_required():
    for data in (b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'\xef\xbb"', b'"' + b"a" * 20 + b"\xe2\x82"):
        with pytest.raises(ValueError, match="not UTF-8"):
            parse_json(data)


def test_a_string_ends_anywhere_in_a_word():
    """Strings are searched eight bytes at a time; every place of a quote, an escape and a control character."""
    for before in range(20):
        for after in range(20):
            for middle in ('\\"', "\\\\", "\\u00e9", "é", "!", "#", "[", "]", " ", "\x7f", "\x80"):
                text = f'["{"x" * before}{middle}{"y" * after}"]'
                assert parse_json(text.encode()) == json.loads(text)
            for middle in ("\x1f", "\0", '"', "\\"):
                text = f'["{"x" * before}{middle}{"y" * after}"]'
                with pytest.raises(ValueError):
                    parse_json(text.encode())


def test_decisions():
    for line in decisions(20):
        assert parse_json(line) == json.loads(line)


# ---- reading values -------------------------------------------------------------------------------------------------


def test_fields_in_any_order():
    members = {f"key{i}": i for i in range(12)} | {"key": -1, "": -2}
    data = json.dumps(members).encode()
    names = list(members)
    orders = (names, names[::-1], names[3:] + names[:3], names * 2, ["key5", "no", "key5", "key55", "key6", "", "key"])
    for order in orders:
        found = look_up(data, [name.encode() for name in order])
        assert [entry and entry[0] for entry in found] == [members.get(name) for name in order]


@pytest.mark.parametrize("text", ("{}", "[]", '["a","b"]', '"a"', "1"))
def test_fields_of_nothing(text):
    assert look_up(text.encode(), [b"a", b"b", b"a"]) == [None, None, None]


def test_a_key_with_escapes_is_not_found_by_its_bytes():
    assert look_up(b'{"\\u0061":1}', [b"a", b"\\u0061"]) == [None, None]


def test_members_with_members_are_stepped_over():
    data = b'{"a":{"b":[1,{"c":2}]},"b":[{"a":3},4],"c":"d"}'
    found = look_up(data, [b"b", b"c", b"a", b"c"])
    assert [entry[0] for entry in found] == [[{"a": 3}, 4], "d", {"b": [1, {"c": 2}]}, "d"]
    assert [entry[3] for entry in found] == [2, 0, 0, 0], "only arrays have a length"


def test_hash_and_unescape():
    """FNV-1a of the characters in UTF-8, however they are written; a cut falls between characters."""
    assert hash_text(b"") == 0x811C9DC5 and hash_text(b"a") == 0xE40C292C and hash_text(b"foobar") == 0xBF9CF968
    text = 'Æther "é"\n😀/\\\b\f\r\t\0\u2028'
    for ascii_only in (True, False):
        data = json.dumps({"s": text, "t": True, "n": None}, ensure_ascii=ascii_only).encode()
        for room in range(len(text.encode()) + 3):
            (value, number, cut, _, _), (_, none, empty, _, truth), (_, _, _, _, untrue) = look_up(
                data, [b"s", b"t", b"n"], room
            )
            assert value == text and number == hash_text(text.encode()) and none == hash_text(b"")
            assert (empty, truth, untrue) == (b"", True, False)
            assert cut == text.encode()[:room].decode(errors="ignore").encode(), "whole characters"


def test_only_json_is_measured():
    assert math.isfinite(measure_parse([b"[]"], 0.001))
    for lines in ([b"[]", b"["], [b'"\xff"']):
        with pytest.raises(ValueError):
            measure_parse(lines, 0.001)
