"""A two-player tabletop battle between small forces of squads."""

BOTS = ("random", "balanced", "aggressor", "gunline", "objective", "turtle", "mixed")
