"""Proximal policy optimisation as small pure functions."""
