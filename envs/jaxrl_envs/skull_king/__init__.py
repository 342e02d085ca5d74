"""Skull King: rules, observation, bots and pictures."""

BOTS = ("random", "easy", "medium", "hard")
