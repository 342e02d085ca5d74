"""The rules of Beasty Bar on one page, for people at the table."""

from pathlib import Path

TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
