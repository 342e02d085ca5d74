"""Recorded games: replay files, the highlights of an evaluation, and films of games."""
