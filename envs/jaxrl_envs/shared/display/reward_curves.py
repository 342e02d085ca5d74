"""What the seats of one game have earned so far, as a picture: a panel for each component of the rewards, all seats in
it, and one for the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared.display import svg

WIDE, HIGH, COLUMNS = 300.0, 120.0, 3  # of a panel, and how many stand side by side
EDGE, HEAD = 14.0, 26.0  # around a panel's curves
PAGE, GROUND, WORDS, ZERO = "#14181f", "#1d232d", "#f2ead7", "#4a5361"
COLOURS = ("#4aa3ff", "#ff9a3d", "#7bd88f", "#e06c9f", "#ffd23f", "#b39ddb", "#4dd0c4", "#d9d2c0")
POINTS = 300  # of a curve, at most


def picture(env: Env, states: Sequence[State], names: Sequence[str]) -> str:
    """Returns an SVG document.

    Args:
      env: the game; `Env.reward_parts` tells the components.
      states: one game from its first state on.
      names: names of the seats' players, [P].
    """
    shown = panels(env, states)
    rows = -(-len(shown) // COLUMNS)
    width, height = COLUMNS * WIDE + 2 * EDGE, rows * HIGH + HEAD + 2 * EDGE
    parts = [svg.rect(0, 0, width, height, 0, PAGE)]
    for seat, name in enumerate(names):
        x = EDGE + (seat + 0.5) * (width - 2 * EDGE) / len(names)
        parts.append(svg.text(x, EDGE + 10, f"seat {seat}: {name}", 13, COLOURS[seat % len(COLOURS)]))
    for number, (name, earned) in enumerate(shown.items()):
        x, y = EDGE + number % COLUMNS * WIDE, EDGE + HEAD + number // COLUMNS * HIGH
        parts += _panel(x, y, name, earned)
    return svg.document(width, height, parts)


def panels(env: Env, states: Sequence[State]) -> dict[str, np.ndarray]:
    """f32[T + 1, P] by name: the return first, then the components that have brought anything, the largest first."""
    rewards = [np.zeros(env.num_players), *(np.asarray(state.rewards) for state in states[1:])]
    parts = [{name: np.asarray(value) for name, value in env.reward_parts(state).items()} for state in states]
    found = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    moved = {name: float(np.abs(values).max()) for name, values in found.items()}
    order = sorted((name for name in found if moved[name] > 0), key=lambda name: -moved[name])
    return {"return": np.cumsum(rewards, axis=0)} | {name: found[name] for name in order}


def _panel(x: float, y: float, name: str, earned: np.ndarray) -> list[str]:
    left, top, wide, high = x + 4, y + 4, WIDE - 8, HIGH - 8
    low, up = min(0.0, float(earned.min())), max(0.0, float(earned.max()))
    scale = (high - HEAD - 8) / ((up - low) or 1.0)
    steps = np.unique(np.linspace(0, len(earned) - 1, POINTS).astype(int))
    ends = " / ".join(f"{float(value):.3g}" for value in earned[-1])
    along = left + 6 + (wide - 12) * steps / max(len(earned) - 1, 1)

    def height(value: float) -> float:
        return top + HEAD + (up - value) * scale

    lines = [
        svg.rect(left, top, wide, high, 4, GROUND),
        svg.path(f"M{svg.number(left)} {svg.number(height(0.0))}h{svg.number(wide)}", ZERO, 1),
        svg.text(left + 6, top + 17, name.replace("_", " "), 13, WORDS, 'text-anchor="start"'),
        svg.text(left + wide - 6, top + 17, ends, 11, WORDS, 'text-anchor="end"'),
    ]
    for seat in range(earned.shape[1]):
        points = zip(along, earned[steps, seat], strict=True)
        line = "L".join(f"{svg.number(at)} {svg.number(height(float(value)))}" for at, value in points)
        lines.append(svg.path(f"M{line}", COLOURS[seat % len(COLOURS)], 1.5))
    return lines
