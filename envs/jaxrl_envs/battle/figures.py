"""Titles and units of a battle's figures, for comparisons of runs."""

from __future__ import annotations

FIGURES = {  # name -> (title, unit: percent for shares of battles)
    "vp_difference": ("VP difference", "number"),
    "wiped_enemy": ("end: wiped enemy", "percent"),
    "wiped_out": ("end: wiped out", "percent"),
    "round_limit": ("end: round limit", "percent"),
}
