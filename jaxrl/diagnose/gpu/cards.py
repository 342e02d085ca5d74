"""GPUs that programs are compiled for, and what a program would take on one: a model of one page, not a measurement.

A kernel takes its launch, its traffic at the memory's bandwidth or its matrix products at the peak of the data sheet,
whichever is longest, because launches overlap with what runs; each time that the host reads a value to decide about
a loop or a branch costs a wait. Real programs stay below the peaks, so rates are upper bounds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxrl.diagnose.gpu.hlo import Kernel, Loop
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest

LAUNCH = 2.5e-6  # seconds of a kernel launched alone
IN_GRAPH = 1e-6  # seconds of a kernel within a CUDA graph
WAIT = 15e-6  # seconds for which the GPU waits when the host reads a value: 10 to 20


class Card(NamedTuple):
    """A GPU: XLA's description of it, and the figures of the model.

    Attributes:
      name: as its driver reports it.
      target: a GpuTargetConfigProto of XLA as text.
      memory: bytes.
      bandwidth: bytes/s.
      float32: FLOP/s of float32 products, in TF32 where the card has it.
      bfloat16: FLOP/s of bfloat16 products, sums in float32, dense.
    """

    name: str
    target: str
    memory: float
    bandwidth: float
    float32: float
    bfloat16: float

    def seconds(self, loop: Loop, launch: float = LAUNCH, scale: float = 1) -> float:
        """Least seconds of one round of a loop, with all loops within, on `scale` times the data."""
        kernels = ((times, each) for part, times in loop.walk() for each in part.kernels)
        whole = sum(times * self.kernel_seconds(each, launch, scale) for times, each in kernels)
        return whole + WAIT * loop.count()["waits"]

    def kernel_seconds(self, kernel: Kernel, launch: float = LAUNCH, scale: float = 1) -> float:
        """Least seconds of a kernel on `scale` times the data."""
        peak = self.bfloat16 if kernel.half else self.float32
        return max(launch, scale * kernel.bytes / self.bandwidth, scale * kernel.flops / peak)


def assumptions(card: Card) -> str:
    """The sentence about the figures of the model."""
    return (
        f"Estimated, not measured: {1e6 * LAUNCH:g} us for a kernel launched alone, {1e6 * IN_GRAPH:g} us in a CUDA "
        f"graph, {1e6 * WAIT:g} us for a wait, {card.bandwidth / 1e9:,.0f} GB/s, products at {card.float32 / 1e12:g} "
        f"TFLOP/s in TF32 and {card.bfloat16 / 1e12:g} in bfloat16; a loop that ends by data runs to its "
        "bound, without one once."
    )


TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: {threads}
  shared_memory_per_block: 49152 shared_memory_per_core: {shared} shared_memory_per_block_optin: {block}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 core_count: {cores} fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth} l2_cache_size: {l2} clock_rate_ghz: {clock} device_memory_size: {memory}
  cuda_compute_capability {{ {capability} }}
}}
platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 7 }} runtime_version {{ major: 12 minor: 8 patch: 0 }}
device_description_str: "{name}"
"""
_ADA = {"threads": 1536, "shared": 102400, "block": 101376, "fpus": 128, "capability": "major: 8 minor: 9"}
_FACTS = {  # as their drivers report them
    "h100": {
        **{"name": "NVIDIA H100 80GB HBM3", "capability": "major: 9", "threads": 2048, "cores": 132, "fpus": 128},
        **{"shared": 233472, "block": 232448, "l2": 52428800, "clock": 1.98},
        **{"memory": 84942979072, "bandwidth": 3352320000000},
    },
    "a100": {
        **{"name": "NVIDIA A100-SXM4-80GB", "capability": "major: 8", "threads": 2048, "cores": 108, "fpus": 64},
        **{"shared": 167936, "block": 166912, "l2": 41943040, "clock": 1.41},
        **{"memory": 85100068864, "bandwidth": 2039040000000},
    },
    "rtx4080s": {
        **_ADA,
        **{"name": "NVIDIA GeForce RTX 4080 SUPER", "cores": 80, "l2": 67108864, "clock": 2.55},
        **{"memory": 16700000000, "bandwidth": 736300000000},
    },
    "rtx4090": {
        **_ADA,
        **{"name": "NVIDIA GeForce RTX 4090", "cores": 128, "l2": 75497472, "clock": 2.52},
        **{"memory": 25300000000, "bandwidth": 1008100000000},
    },
}
_PEAKS = {  # FLOP/s of the data sheets: (TF32, bfloat16), dense
    "h100": (494.7e12, 989.4e12),
    "a100": (156e12, 312e12),
    "rtx4080s": (52.2e12, 104.4e12),
    "rtx4090": (82.6e12, 165.2e12),
}


def find_card(name: str) -> Card:
    """The card of that name, or of a file with XLA's description (`GpuTargetConfigProto` as text).

    Raises:
      UserError: there is neither, or the file lacks a figure.
    """
    if name in _FACTS:
        return _card(TARGET.format(**_FACTS[name]), _PEAKS[name])
    try:
        return _card(files.contents(name).decode(), None)
    except OSError as error:
        raise UserError(f"there is no GPU or file {name!r}: {nearest(name, _FACTS)}") from error
    except (KeyError, UnicodeError) as error:
        raise UserError(f"{name!r} is no GpuTargetConfigProto of XLA as text: it has no {error}.") from error


def _card(target: str, peaks: tuple[float, float] | None) -> Card:
    """A card with the products of its data sheet, or with those of its float32 units."""
    found = dict(re.findall(r'\b(\w+): "?([^\s"][^\n"]*?)"?(?=[\s}])', target))
    name = re.search(r'device_description_str: "([^"]*)"', target)
    float32 = 2e9 * float(found["core_count"]) * float(found["fpus_per_core"]) * float(found["clock_rate_ghz"])
    memory, bandwidth = float(found["device_memory_size"]), float(found["memory_bandwidth"])
    return Card(name.group(1) if name else "a GPU", target, memory, bandwidth, *(peaks or (float32, float32)))
