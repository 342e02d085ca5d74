"""The rules of Skull King on one page, for people at the table."""

from pathlib import Path

COLOURS = {r"Parrot \d+": "green", r"Chest \d+": "yellow", r"Map \d+": "magenta", r"Roger \d+": "blue"}
TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
