"""Measuring: contestants that take turns, what they ran on, and what of a game or a training is timed.

`jaxrl diagnose` and the benchmarks of a checkout (`scripts/benchmark`) share it.
"""
