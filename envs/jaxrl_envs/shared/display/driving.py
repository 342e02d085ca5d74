"""Driving by hand: a person controls a seat many times a second, agents decide at the pace of the game. No jax.

A game offers it in a module `driving` beside its rules:

    MATCHES: {words: options}   the matches that can be driven, by what they are called, with the game's options
    drive(env) -> Driven        of the game with those options, which asks all seats at once
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

Inputs = Mapping[str, Mapping[str, float]]
"""What a key (`KeyboardEvent.code`) or a part of a gamepad in the browsers' standard layout (axis0, button7) adds to
which controls; what a gamepad tells is multiplied by it."""


class Handles(NamedTuple):
    """Controls of a person: C numbers, the axes in -1..1 first, then the buttons, 0 or 1."""

    axes: tuple[str, ...]
    buttons: tuple[str, ...]
    keys: Inputs
    gamepad: Inputs
    words: str  # for people: what the keys do


class Driven(Protocol):
    """One kind of match. Its methods of arrays are pure and may be compiled.

    Attributes:
      rate: frames a second.
      every: frames between two decisions of agents.
      handles: controls of a person.
    """

    rate: int
    every: int
    handles: Handles

    def frame(self, state: Any, controls: Any) -> tuple[Any, Any]:
        """(state, f32[P, C]) -> the state a frame later, and what of it is drawn, f32[N]: seconds of play, how often
        play has restarted, whether the match is over; for every body of the scene x, y, z, its turn as a quaternion
        x, y, z, w, whether it is gone; a tank for every seat, of 100; for every spot of the scene whether it is there.
        """

    def asked(self, state: Any) -> Any:
        """Returns the state as agents must see it when they decide; `frame` leaves out what only they need."""

    def controls(self, actions: Any) -> Any:
        """i32[P] -> f32[P, C]: what agents do until they decide again."""

    def scene(self) -> dict[str, Any]:
        """As in `jaxrl_envs.shared.display.playback.Playback.space`, without moments; the bodies after the first are
        the seats'."""

    def watched(self) -> list[list[float]]:
        """Returns rows of `frame` from a recorded match, for people whose own is being compiled."""

    def headline(self, state: Any) -> str:
        """Returns the score and clock, for people."""
