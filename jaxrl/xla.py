"""XLA flags that must be in the environment before jax starts. The user's own flags always win."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

_ACCELERATOR_PACKAGES = ("jax_cuda12_plugin", "jax_cuda13_plugin", "libtpu", "jax_rocm7_plugin", "jax_rocm60_plugin")


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_cpu() -> bool:
    """Whether jax will run on the CPU, as far as that can be told without starting it."""
    chosen = os.environ.get("JAX_PLATFORMS", "").lower()
    if chosen:
        return chosen.split(",")[0] == "cpu"
    plugins = any(importlib.util.find_spec(name) is not None for name in _ACCELERATOR_PACKAGES)
    hardware = any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/accel0", "/dev/kfd"))
    return not (plugins and hardware)


def set_flags(devices: int, deterministic: bool, fusion: bool = False) -> None:
    """Adds to ``XLA_FLAGS``; has no effect once jax has started its backend.

    Args:
      devices: virtual CPU devices to make, so that several cores share the work of one program; nothing on a GPU.
      deterministic: on an accelerator, only algorithms that give the same bits every time (slower).
      fusion: on a CPU, fuse operations with several outputs each. A game step is hundreds of small operations with many
        results; fused like this Skull King compiles three times and runs up to fifty times faster. XLA aborts the
        process while compiling some other games, so a game has to ask for it (`Env.multi_output_fusion`).
    """
    if on_cpu():
        if fusion:
            _add("xla_backend_extra_options", "xla_cpu_use_multi_output_fusion")
        _add("xla_force_host_platform_device_count", str(max(devices, 1)))
    elif deterministic:
        _add("xla_gpu_deterministic_ops", "true")


def plain_options() -> dict[str, str]:
    """Options of one program that is compiled without what `set_flags` adds, for `jax.jit(compiler_options=...)`.

    XLA's CPU backend aborts the process while compiling some searches with multi-output fusion.
    """
    return {"xla_backend_extra_options": ""} if on_cpu() else {}


def _add(name: str, value: str) -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if f"--{name}" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()
