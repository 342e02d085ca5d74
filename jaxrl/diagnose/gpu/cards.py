"""Descriptions of GPUs that programs are compiled for."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest


class Card(NamedTuple):
    """A GPU and XLA's description of it, a GpuTargetConfigProto as text."""

    name: str
    target: str


TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: {threads}
  shared_memory_per_block: 49152 shared_memory_per_core: {shared} shared_memory_per_block_optin: {block}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 core_count: {cores} fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth} l2_cache_size: {l2} clock_rate_ghz: {clock} device_memory_size: {memory}
  cuda_compute_capability {{ {capability} }} driver_version: "12.8.0" runtime_version: "12.8.0"
}}
platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 7 }} runtime_version {{ major: 12 minor: 8 patch: 0 }}
device_description_str: "{name}"
"""
_HOPPER = {
    **{"threads": 2048, "cores": 132, "fpus": 128, "shared": 233472, "block": 232448},
    **{"l2": 52428800, "clock": 1.98, "capability": "major: 9"},
}
_ADA = {"threads": 1536, "shared": 102400, "block": 101376, "fpus": 128, "capability": "major: 8 minor: 9"}
_FACTS = {  # as their drivers report them
    "h100": {**_HOPPER, "name": "NVIDIA H100 80GB HBM3", "memory": 84942979072, "bandwidth": 3352320000000},
    "h200": {**_HOPPER, "name": "NVIDIA H200 141GB HBM3e", "memory": 151397597184, "bandwidth": 4800000000000},
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


def find_card(name: str) -> Card:
    """Returns the card of that name, or of a file with XLA's description (`GpuTargetConfigProto` as text). Raises
    UserError if there is neither, or the file is another one."""
    if name in _FACTS:
        return Card(str(_FACTS[name]["name"]), TARGET.format(**_FACTS[name]))
    try:
        target = files.contents(name).decode(errors="replace")
    except OSError as error:
        raise UserError(f"there is no GPU or file {name!r}: {nearest(name, _FACTS)}") from error
    if "core_count" not in target:
        raise UserError(f"{name!r} is no GpuTargetConfigProto of XLA as text: it has no core_count.")
    found = re.search(r'device_description_str: "([^"]*)"', target)
    return Card(found.group(1) if found else "a GPU", target)
