"""Seats in sentences: that of the reader is "you"; without a reader (None) no seat is."""

from __future__ import annotations


def whom(seat: int | None, reader: int | None) -> str:
    """Returns a seat within a sentence."""
    return "you" if seat == reader else f"seat {seat}"


def who(seat: int | None, reader: int | None) -> str:
    """Returns a seat at the beginning of a sentence."""
    return whom(seat, reader).capitalize()


def does(seat: int | None, reader: int | None, verb: str) -> str:
    """Returns a seat at the beginning of a sentence and what it does, a verb without the s of other seats."""
    return f"{who(seat, reader)} {conjugated(seat, reader, verb)}"


def conjugated(seat: int | None, reader: int | None, verb: str) -> str:
    """Returns a verb as it follows a seat."""
    return verb if seat == reader else f"{verb}s"
