"""The twelve animals: small vector drawings of our own, within 44 units of the origin."""

from __future__ import annotations

from pathlib import Path

from jaxrl_envs.shared.display import svg

EMBLEMS = tuple(svg.shapes(Path(__file__).with_suffix(".svg")).values())
"""SVG elements by strength - 1."""
