"""The rules of car soccer on one page, for people who drive."""

from pathlib import Path

TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
