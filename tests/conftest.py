"""Settings of the whole test suite; they must be in place before jax is imported."""

from __future__ import annotations

from jaxrl import xla

# Tests of several devices need them to exist; a test that trains names the number it wants (run.devices).
xla.set_flags(devices=8, deterministic=False)
