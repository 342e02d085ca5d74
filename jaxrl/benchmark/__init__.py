"""Benchmarks: environment steps and training steps per second apart, with the hardware named; peers side by side."""

from __future__ import annotations

from jaxrl.benchmark.command import add_arguments, main

__all__ = ["add_arguments", "main"]
