"""The battle's random numbers in plain Python (section 3 of the rules)."""

from __future__ import annotations

import re

PHI = 0x9E3779B97F4A7C15
WORD = 2**64


def mix(z: int) -> int:
    """The mixing function of all streams."""
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 % WORD
    z ^= z >> 27
    z = z * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


def battle_key(seed: int, slot: int, episode: int) -> int:
    """The key K of a battle."""
    return mix((mix((seed + PHI) % WORD) + PHI * (slot * 2**32 + episode + 1)) % WORD)


class Stream:
    """A stream of words."""

    def __init__(self, key: int):
        self.key, self.count = key, 0

    def draw(self, n: int) -> int:
        """A number 0..n-1 from the next word."""
        self.count += 1
        word = mix((self.key + self.count * PHI) % WORD)
        return (word >> 32) * n >> 32


class Dice:
    """The dice of one battle: from its key, or from a tape of results; all are recorded."""

    def __init__(self, key: int, tape: list[int] | None = None):
        self.stream = Stream(mix(key ^ 1))
        self.tape = tape
        self.faces: list[int] = []
        self.results: list[int] = []

    def roll(self, faces: int) -> int:
        """One die."""
        if self.tape is None:
            result = self.stream.draw(faces) + 1
        else:
            assert len(self.results) < len(self.tape), "the tape ends early"
            result = self.tape[len(self.results)]
            assert 1 <= result <= faces, "the tape has a result that the die has not"
        self.faces.append(faces)
        self.results.append(result)
        return result

    def expression(self, expression: int | str) -> int:
        """A number, or nDx+k."""
        n, faces, plus = parse(expression)
        return sum(self.roll(faces) for _ in range(n)) + plus


def parse(expression: int | str) -> tuple[int, int, int]:
    """(number of dice, faces, constant) of an expression such as 3, "D6" or "2D3+1"."""
    if isinstance(expression, int):
        return 0, 0, expression
    n, faces, plus = re.fullmatch(r"(\d*)D(\d)(?:\+(\d))?", expression).groups()
    return int(n or 1), int(faces), int(plus or 0)


def twice_mean(expression: int | str) -> int:
    """Twice the mean of an expression."""
    n, faces, plus = parse(expression)
    return n * (faces + 1) + 2 * plus
