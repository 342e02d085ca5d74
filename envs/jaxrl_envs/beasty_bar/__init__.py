"""Beasty Bar for two players: rules, observation, ten scripted opponents, display."""
