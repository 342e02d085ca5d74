"""Benchmarks: environment steps and training steps per second apart, with the hardware named; peers side by side."""
