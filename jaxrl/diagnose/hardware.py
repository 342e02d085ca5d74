"""Hardware, software versions and memory use, for the head of a report. jax is only used if it is already imported."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
import sys
from typing import Any

from jaxrl import xla
from jaxrl_envs.shared.resources import cpu_facts
from jaxrl_envs.shared.resources import vector_width as vector_width

GPU_FIELDS = (
    *("name", "driver_version", "memory.total", "memory.used", "utilization.gpu", "power.draw"),
    *("temperature.gpu", "clocks.sm", "clocks.mem"),
)


def cpu_model() -> str:
    """Returns the processor's name as the operating system reports it."""
    return cpu_facts().get("model name") or platform.processor() or platform.machine() or "unknown"


def cpu_generation() -> str:
    """Returns family and model of an x86 processor, which names like "AMD EPYC" leave out; "" where unknown."""
    found = [cpu_facts().get(name) for name in ("cpu family", "model")]
    return f"family {found[0]} model {found[1]}" if all(found) else ""


def describe() -> dict[str, Any]:
    """Returns the machine and the software, for the head of a report; device facts only if jax is already imported."""
    facts: dict[str, Any] = {
        "cpu": cpu_model(),
        "vectors": vector_width(),
        "cores": xla.cores(),
        "load_average": load_average(),
        "memory_gib": _total_memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": importlib.metadata.version("jax"),
        "jaxlib": importlib.metadata.version("jaxlib"),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
    if "jax" in sys.modules:
        import jax

        devices = jax.local_devices()
        facts |= {
            "backend": jax.default_backend(),
            "devices": len(devices),
            "device_kind": devices[0].device_kind if devices else "none",
        }
    return facts


def load_average() -> float | None:
    """Returns the mean number of runnable processes in the last minute; above the core count, rates are too low."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def memory() -> dict[str, float | None]:
    """Returns the peak resident size of this process in MiB, and the device's peak where it is reported."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scale = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere
    return {"peak_rss_mib": peak / scale, "peak_device_mib": _device_peak_mib()}


def gpus() -> list[dict[str, str]]:
    """Returns nvidia-smi's report about each GPU; empty without a GPU."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.strip()]
    return [dict(zip(GPU_FIELDS, row, strict=False)) for row in rows]


def _total_memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _device_peak_mib() -> float | None:
    if "jax" not in sys.modules:
        return None
    import jax

    peaks = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in jax.local_devices()]
    known = [peak for peak in peaks if peak is not None]
    return max(known) / 2**20 if known else None
