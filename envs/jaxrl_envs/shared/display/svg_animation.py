"""Animation inside an SVG document without scripts: values over time as SMIL, all in one loop of the same length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

Keys = list[tuple[float, str]]  # (second, value), in order of time


class Timeline(NamedTuple):
    """Start times of a film's frames, in seconds, and its length."""

    starts: tuple[float, ...]
    total: float

    @classmethod
    def of(cls, durations: Sequence[float]) -> Timeline:
        """Returns the timeline of frames with the given durations in seconds."""
        starts, now = [], 0.0
        for duration in durations:
            starts.append(now)
            now += duration
        return cls(tuple(starts), now)

    def length(self, frame: int) -> float:
        """Returns the duration of a frame in seconds."""
        following = self.starts[frame + 1] if frame + 1 < len(self.starts) else self.total
        return following - self.starts[frame]

    def gradual(self, keys: Keys, attribute: str) -> str:
        """Returns an attribute that goes evenly from value to value; "translate" and "rotate" are transformations."""
        kind = f'animate attributeName="{attribute}"'
        if attribute in ("translate", "rotate"):
            kind = f'animateTransform attributeName="transform" type="{attribute}"'
        return self._element(kind, [*keys, (self.total, keys[-1][1])])

    def steps(self, keys: Keys, attribute: str) -> str:
        """Returns an attribute that keeps each value until the next one's time."""
        return self._element(f'animate attributeName="{attribute}" calcMode="discrete"', keys)

    def variants(self, values: Sequence[Hashable], draw: Callable[[int], str]) -> str:
        """Draws a part of the picture once for every different value, and shows it while that is the value.

        Args:
          values: one for each frame; None shows nothing.
          draw: (frame) -> the part as it is in that frame.
        """
        parts = []
        for value in dict.fromkeys(values):
            if value is None:
                continue
            shown = [now == value for now in values]
            part = draw(values.index(value))
            if all(shown):
                parts.append(part)
                continue
            keys = [
                (self.starts[frame], str(int(now)))
                for frame, now in enumerate(shown)
                if not frame or now != shown[frame - 1]
            ]
            parts.append(f'<g opacity="{int(shown[0])}">{part}{self.steps(keys, "opacity")}</g>')
        return "".join(parts)

    def _element(self, kind: str, keys: Keys) -> str:
        times = ";".join(_share(second / self.total) for second, _ in keys)
        values = ";".join(value for _, value in keys)
        return f'<{kind} dur="{self.total:g}s" repeatCount="indefinite" keyTimes="{times}" values="{values}"/>'


def always(part: str) -> Callable[[int], str]:
    """For `Timeline.variants`: a part that is there or not, but always the same."""
    return lambda _: part


def _share(value: float) -> str:
    """Returns a key time, 0..1, as short as it can be."""
    return f"{value:.5f}".rstrip("0").rstrip(".").removeprefix("0") or "0"
