"""A recorded game, opened to be looked at from moment to moment. No jax.

A game offers what it has in a module `playback` beside its rules, all of it optional:

    SUFFIXES                            how names of its recordings end, and what they are in words, if nothing else is
                                        called so
    fits(name, first) -> bool           whether a file of that name is a recording of its own; `first`: the JSON object
                                        of its first line, {} if it is not one
    games(path) -> list[str]            what the recorded games of such a file are called
    play(path, number) -> Playback      one of them
    mark(env, before, after) -> str     what a step is worth a sign on the timeline for, a word or two; "" for nothing
    curves(env, states) -> {name: [T + 1][P]}   figures of the seats over a game
    space(env, sketches) -> dict        moving bodies, see `Playback.space`; `sketches` are what `Env.sketch` tells
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VIEWS = ("pictures", "text", "space", "film")  # a film is one picture that moves
LIMIT = 1 << 27  # bytes of a file, unpacked, that are read to be looked at


class PlaybackMoment(NamedTuple):
    """Something that happened."""

    at: int  # the first frame that shows it
    words: str
    seat: int = -1  # who did it, -1: no particular seat
    mark: str = ""  # for the timeline


class PlaybackDecisions(NamedTuple):
    """Decisions of a game's players, T of them: all that a policy needs to judge it.

    Attributes:
      game, options: the game, as in the registry.
      seats: seats asked, i32[T] (i32[T, P] in a simultaneous game, and so on below).
      observations: observations of the seat asked, [T] pytrees of arrays.
      legal: its legal actions, [T] of bool[A].
      actions: its actions, i32[T].
    """

    game: str
    options: Mapping[str, Any]
    seats: Sequence[Any]
    observations: Sequence[Any]
    legal: Sequence[Any]
    actions: Sequence[Any]


@dataclass(frozen=True)
class Playback:
    """A game as frames 0 .. `frames` - 1, T = frames - 1.

    Attributes:
      title, seats: title for people; names of the players, [P].
      view: kind of display, one of VIEWS.
      frames: number of frames.
      picture: (frame) -> an SVG document, or text.
      moments: moments in order of time.
      curves: figures by name, [frames][P]; "value" is what the seats expected.
      seconds: time from one frame to the next; 0 where frames are turns.
      space: moving parts of the view "space": {"arena": {"outline": [[x, y]], "height", "goals"}, "spots":
        [{"place", "radius", "there"}], "bodies": [{"name", "shape", "team", "size", "places", "turns", "gone"}]}, with
        lengths in one unit of the game, z up, and turns as quaternions x, y, z, w; "times": seconds of its key frames.
      note: remark for people about it, a sentence.
      decided: decisions for policies that judge it; t leads from frame t to t + 1; None: this is not known.
    """

    title: str
    seats: list[str]
    view: str
    frames: int
    picture: Callable[[int], str] = lambda frame: ""
    moments: list[PlaybackMoment] = field(default_factory=list)
    curves: Mapping[str, list[list[float]]] = field(default_factory=dict)
    seconds: float = 0.0
    space: dict[str, Any] | None = None
    note: str = ""
    decided: PlaybackDecisions | None = None

    def record(self) -> dict[str, Any]:
        """Returns all but the pictures, for JSON; "decided": whether that is known."""
        told = {name: value for name, value in vars(self).items() if name not in ("picture", "moments")}
        moments = [moment._asdict() for moment in self.moments]
        return told | {"moments": moments, "decided": self.decided is not None}


def of_states(
    env: Any,
    states: Sequence[Any],
    actions: Sequence[Any],
    title: str,
    seats: Sequence[str],
    offers: Mapping[str, Any],
    *,
    game: str = "",
    options: Mapping[str, Any] | None = None,
) -> Playback:
    """Returns a game from its states.

    Args:
      env: a `jaxrl_envs.contract.env.Env`.
      states: one game from its first state on.
      actions: actions between them.
      title, seats: names as in `Playback`.
      offers: the game's `mark`, `curves` and `space`, where it has them.
      game, options: the game as in the registry; by default `Env.id` and none.
    """
    in_space = "space" in offers
    moments = []
    for at, (before, action, after) in enumerate(zip(states[:-1], actions, states[1:], strict=True), 1):
        mark = offers["mark"](env, before, after) if "mark" in offers else ""
        words = mark if in_space else env.event(before, action, after)
        if words:
            moments.append(PlaybackMoment(at, words, -1 if env.simultaneous else int(before.current_player), mark))
    return Playback(
        title=title,
        seats=list(seats),
        view="space" if in_space else "pictures",
        frames=len(states),
        picture=lambda frame: "" if in_space else env.render_svg(states[frame]),
        moments=moments,
        curves=offers["curves"](env, states) if "curves" in offers else {},
        seconds=getattr(env, "seconds", 0.0),
        space=offers["space"](env, [env.sketch(state) for state in states]) if in_space else None,
        decided=PlaybackDecisions(
            game or env.id,
            options or {},
            [state.current_player for state in states[:-1]],
            [state.observation for state in states[:-1]],
            [state.legal_action_mask for state in states[:-1]],
            actions,
        ),
    )
