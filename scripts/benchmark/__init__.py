"""Benchmarks, a script each: environment steps and training steps per second apart, with the hardware named.

A script that measures a peer runs both in turn in one process, and prints ratios of that run.
"""
