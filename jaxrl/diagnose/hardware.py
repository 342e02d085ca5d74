"""Hardware, software versions and memory use, for the head of a report. jax is only used if it is already imported."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from jaxrl import xla

VECTORS = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
    ("sse2", "SSE2"),
)
GPU_FIELDS = ("name", "memory.total", "memory.used", "utilization.gpu", "power.draw", "temperature.gpu")


def cpu_model() -> str:
    """Returns the processor's name as the operating system reports it."""
    return _cpu_facts().get("model name") or platform.processor() or platform.machine() or "unknown"


def cpu_generation() -> str:
    """Family and model of an x86 processor, which names like "AMD EPYC" keep to themselves; "" where unknown."""
    found = [_cpu_facts().get(name) for name in ("cpu family", "model")]
    return f"family {found[0]} model {found[1]}" if all(found) else ""


def vector_width() -> str:
    """The widest vectors of the processor ("AVX-512", "AVX2", "NEON"), which rates of compiled programs depend on;
    "unknown" where the operating system does not tell."""
    facts = _cpu_facts()
    flags = set((facts.get("flags") or facts.get("features") or "").split())
    return next((name for flag, name in VECTORS if flag in flags), "unknown")


def _cpu_facts() -> dict[str, str]:
    """Returns Linux's facts about the first core, by names in lower case; {} elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def package_version(name: str) -> str | None:
    """Returns the installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


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
        "jax": package_version("jax"),
        "jaxlib": package_version("jaxlib"),
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
    """Mean number of runnable processes during the last minute; above the core count, measured rates are too low."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def memory() -> dict[str, float | None]:
    """MiB: the peak and the current resident size of this process, and the device's peak where it is reported."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scale = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere
    return {"peak_rss_mib": peak / scale, "rss_mib": _resident_mib(), "peak_device_mib": _device_peak_mib()}


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


def _resident_mib() -> float | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _device_peak_mib() -> float | None:
    if "jax" not in sys.modules:
        return None
    import jax

    peaks = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in jax.local_devices()]
    known = [peak for peak in peaks if peak is not None]
    return max(known) / 2**20 if known else None
