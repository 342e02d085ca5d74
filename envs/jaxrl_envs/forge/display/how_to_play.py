"""The rules of Magic on one page, for people who play against an agent."""

from pathlib import Path

TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
