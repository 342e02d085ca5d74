"""Beasty Bar for people: text, SVG and playback."""
