"""Distances, lines of sight and paths on the board (Cython)."""
