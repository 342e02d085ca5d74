"""Measurements of games and trainings on this machine, comparisons of runs, and what compilers make of our programs.

`jaxrl diagnose` and the benchmarks of a checkout (`scripts/benchmark`) share this package.
"""
