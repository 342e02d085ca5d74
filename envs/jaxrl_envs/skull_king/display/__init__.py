"""Skull King for people: text, SVG and playback."""
