"""Beasty Bar for two players: rules, observation, ten scripted opponents, display."""

BOTS = ("random", "heuristic", "aggressive", "defensive", "queue", "skunk", "noisy", "online", "outcome", "distilled")
