"""Recorded games in the browser."""
