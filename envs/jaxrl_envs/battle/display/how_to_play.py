"""The rules of the tabletop battle on one page, for people who command a side."""

from pathlib import Path

COLOURS = {"[●❶-❽]": "blue", "[○①-⑧]": "red", "░": "yellow", "[▒█]": "bright_black"}
TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
