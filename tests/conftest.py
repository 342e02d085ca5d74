"""Settings of the whole test suite; they must be in place before jax is imported."""

from __future__ import annotations

import os

from jaxrl import xla

# Some tests compare bit by bit, which holds on a CPU; whoever sets JAX_PLATFORMS tests that platform instead.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# One device, also where a test calls the command line, which would otherwise ask for one per core. Tests of several
# devices start a process of their own.
xla.set_flags(devices=1, deterministic=False, fusion=True)
