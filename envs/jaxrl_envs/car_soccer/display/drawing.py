"""Car soccer as SVG: the field from above, and from the side below it; still, or as an animation of an episode.

The first team attacks to the right. A unit of the drawing is 10 uu.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.display.render import describe, headline
from jaxrl_envs.car_soccer.physics.field.pads import POSITIONS
from jaxrl_envs.contract.env import State
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.svg import circle, document, number, rect, text
from jaxrl_envs.shared.display.svg_animation import Keys, Timeline, always

UNIT = 0.1  # of the drawing in a uu
NET = 880.0  # uu, depth of the goals
WIDTH, HEIGHT = 2 * (field.BACK + NET) * UNIT, 2 * field.SIDE * UNIT
HEAD, GAP, SIDE_HEIGHT, FOOT = 70.0, 30.0, field.CEILING * UNIT, 60.0
LEFT, TOP = 30.0, HEAD
FLOOR = TOP + HEIGHT + GAP + SIDE_HEIGHT  # where the view from the side stands
PAGE, BALL, WORDS = "#14181f", "#f2ead7", "#f2ead7"
COLOURS = ("#4aa3ff", "#ff9a3d")
BACKGROUND = svg.shapes(Path(__file__).with_name("background.svg"))["all"]  # the field from above and from the side
NUMBERS = "#10131a"
FRAMES = 1200  # at most in a film; a longer episode is thinned out
CLOSING = 1.5  # seconds that a film stands still at its end
CAR_LENGTH, CAR_WIDTH = 26.0, 18.0  # larger than they are (12 x 9), to be seen


class Frame(NamedTuple):
    """The drawn values of a moment. P cars."""

    ball: np.ndarray  # f32[3]
    cars: np.ndarray  # f32[P, 3]
    forward: np.ndarray  # f32[P, 3]
    boost: np.ndarray  # f32[P]
    boosting: np.ndarray  # bool[P]
    demoed: np.ndarray  # bool[P]
    pads: np.ndarray  # bool[34], there to be taken
    title: str
    words: str


def picture(env: Any, state: State) -> str:
    """Returns one moment."""
    return _page(env, Timeline.of([1.0]), [_frame(env, state)])


def film(env: Any, states: Sequence[State], *, pace: float = 1.0) -> str:
    """Returns an episode in its own time, or `pace` times as fast, in a loop."""
    states = [jax.tree.map(np.asarray, state) for state in states]
    step = -(-len(states) // FRAMES)
    shown = [*range(0, len(states) - 1, step), len(states) - 1]
    frames, last = [], 0
    for index in shown:
        said = [describe(env, states[at], states[at + 1]) for at in range(last, index)]
        frames.append(_frame(env, states[index], ", ".join(filter(None, said))))
        last = index
    length = env.seconds * step / pace
    return _page(env, Timeline.of([*[length] * (len(frames) - 1), CLOSING]), frames)


def _frame(env: Any, state: State, words: str = "") -> Frame:
    arena = state.game.arena
    cars = arena.cars

    def vector(vec: Any) -> np.ndarray:
        return np.stack([np.asarray(vec.x), np.asarray(vec.y), np.asarray(vec.z)], axis=-1)

    return Frame(
        ball=vector(arena.ball.position),
        cars=vector(cars.position),
        forward=vector(cars.axes.forward),
        boost=np.asarray(cars.boost),
        boosting=np.asarray(cars.is_boosting),
        demoed=np.asarray(cars.is_demoed),
        pads=np.asarray(arena.pads.cooldown) == 0,
        title=headline(env, state.game),
        words=words,
    )


# ---- the page -------------------------------------------------------------------------------------------------------


def _page(env: Any, timeline: Timeline, frames: Sequence[Frame]) -> str:
    """Everything, from the back to the front; what a frame says stays for a second."""
    held = _held([frame.words for frame in frames], round(1.0 / max(timeline.length(0), 1e-3)))
    titles = [frame.title for frame in frames]
    middle = LEFT + WIDTH / 2
    parts = [
        rect(0, 0, WIDTH + 2 * LEFT, FLOOR + FOOT, 0, PAGE),
        BACKGROUND,
        *_pads(timeline, frames),
        *_ball(timeline, frames),
        *(part for seat, team in enumerate(env.teams.of) for part in _car(timeline, frames, seat, int(team))),
        timeline.variants(titles, lambda at: text(middle, 45, titles[at], 30, WORDS)),
        timeline.variants([words or None for words in held], lambda at: text(middle, FLOOR + 40, held[at], 22, WORDS)),
    ]
    return document(WIDTH + 2 * LEFT, FLOOR + FOOT, parts)


def _held(words: Sequence[str], frames: int) -> list[str]:
    """Words, each kept for `frames` frames unless others follow."""
    held, since = [], 0
    for at, said in enumerate(words):
        since = at if said else since
        held.append(words[since] if at - since < max(frames, 1) else "")
    return held


def _pads(timeline: Timeline, frames: Sequence[Frame]) -> list[str]:
    parts = []
    for index, (x, y, z) in enumerate(POSITIONS):
        disc = circle(_x(y), _y(x), 11 if z > 70 else 5, "#ffd23f", 'opacity="0.8"')
        parts.append(timeline.variants([bool(frame.pads[index]) or None for frame in frames], always(disc)))
    return parts


def _ball(timeline: Timeline, frames: Sequence[Frame]) -> list[str]:
    ball = circle(0, 0, field.BALL_RADIUS * UNIT, BALL)
    shadow = circle(0, 0, field.BALL_RADIUS * UNIT * 0.8, "#000", 'opacity="0.35"')
    above = [_from_above(frame.ball) for frame in frames]
    lifted = [(x, y - 0.04 * frame.ball[2]) for (x, y), frame in zip(above, frames, strict=True)]
    side = [_from_side(frame.ball) for frame in frames]
    return [_moving(timeline, shadow, above), _moving(timeline, ball, lifted), _moving(timeline, ball, side)]


def _car(timeline: Timeline, frames: Sequence[Frame], seat: int, team: int) -> list[str]:
    """Returns a car from above and from the side, with its flame, its number and its boost."""
    half, wide = CAR_LENGTH / 2, CAR_WIDTH / 2
    outline = f"M{-half} {-wide}H{half - 5}L{half} {-wide / 2}V{wide / 2}L{half - 5} {wide}H{-half}Z"
    body = f'<path d="{outline}" fill="{COLOURS[team]}"/>'
    flame = f'<path d="M{-half} -5L{-half - 14} 0L{-half} 5Z" fill="#ffef9f"/>'
    flames = timeline.variants([bool(frame.boosting[seat]) or None for frame in frames], always(flame))
    label = text(0, 4.5, str(seat), 13, NUMBERS)
    here = [bool(not frame.demoed[seat]) or None for frame in frames]
    above = [_from_above(frame.cars[seat]) for frame in frames]
    side = [_from_side(frame.cars[seat]) for frame in frames]
    yaw = [np.degrees(np.arctan2(frame.forward[seat, 0], frame.forward[seat, 1])) for frame in frames]
    pitch = [-np.degrees(np.arctan2(frame.forward[seat, 2], frame.forward[seat, 1])) for frame in frames]
    bar = [0.26 * float(frame.boost[seat]) for frame in frames]
    tank = rect(-13, 13, 26, 4, 1, "#000", 'opacity="0.5"') + _stretched(timeline, bar)
    top = _moving(timeline, _turning(timeline, flames + body, yaw) + label + tank, above)
    low = _moving(timeline, _turning(timeline, flames + body, pitch), side)
    return [timeline.variants(here, always(part)) for part in (top, low)]


# ---- what moves -----------------------------------------------------------------------------------------------------


def _moving(timeline: Timeline, part: str, places: Sequence[tuple[float, float]]) -> str:
    values = [f"{number(x)} {number(y)}" for x, y in places]
    return _animated(timeline, values, part, "translate")


def _turning(timeline: Timeline, part: str, degrees: Sequence[float]) -> str:
    return _animated(timeline, [number(value) for value in np.degrees(np.unwrap(np.radians(degrees)))], part, "rotate")


def _animated(timeline: Timeline, values: Sequence[str], part: str, kind: str) -> str:
    still = f'<g transform="{kind}({values[0]})">{part}'
    return still + (timeline.gradual(_keys(timeline, values), kind) if len(set(values)) > 1 else "") + "</g>"


def _stretched(timeline: Timeline, widths: Sequence[float]) -> str:
    values = [number(width) for width in widths]
    moves = timeline.gradual(_keys(timeline, values), "width") if len(set(values)) > 1 else ""
    return f'<rect x="-13" y="13" width="{values[0]}" height="4" fill="#ffd23f">{moves}</rect>'


def _keys(timeline: Timeline, values: Sequence[str]) -> Keys:
    """Without those that only repeat what stands before and after them."""
    last = len(values) - 1
    return [
        (timeline.starts[at], value)
        for at, value in enumerate(values)
        if at in (0, last) or not values[at - 1] == value == values[at + 1]
    ]


# ---- places ---------------------------------------------------------------------------------------------------------


def _x(y: float) -> float:
    """Returns the x coordinate of a place along the field."""
    return LEFT + WIDTH / 2 + float(y) * UNIT


def _y(x: float) -> float:
    """Returns the y coordinate of a place across the field, from above; the right of the first team is below."""
    return TOP + HEIGHT / 2 + float(x) * UNIT


def _from_above(position: np.ndarray) -> tuple[float, float]:
    return _x(position[1]), _y(position[0])


def _from_side(position: np.ndarray) -> tuple[float, float]:
    return _x(position[1]), FLOOR - float(position[2]) * UNIT
