"""Ablations of a reward: trainings without each of its parts."""
