"""Whether a training fits into the memory, told before it starts and not by an allocator in the middle of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.config.schema import Config
from jaxrl.envs.core import PyTree
from jaxrl.envs.errors import UserError
from jaxrl.training.program import Program

_CGROUP = Path("/sys/fs/cgroup")  # of a container or a batch job: what it may take of the machine


def check_state(config: Config, program: Program) -> None:
    """Compares the training state and the rollouts of the host with the memory that is free; computes nothing.

    Raises:
      UserError: they do not fit.
    """
    state = program.abstract_state
    parts = {
        "games": size_of(state.lanes),
        "rollouts": program.host_rollout_bytes,
        "learner": size_of(state.learner),
        "opponents": size_of(state.pool),
    }
    _check(config, parts)


def check_program(config: Config, program: Program, state: PyTree) -> None:
    """Compares what the compiled program needs besides its state with the memory that is free.

    Raises:
      UserError: it does not fit.
    """
    _check(config, {"rollouts and updates": program.working_bytes(state)})


def size_of(forms: PyTree) -> int:
    """Bytes of arrays or their forms: on one device; on a CPU on all of them, which share its memory."""
    return sum(_size(leaf) for leaf in jax.tree.leaves(forms))


def _size(leaf: Any) -> int:
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        return int(np.prod(leaf.shape, dtype=object)) * leaf.dtype.itemsize
    here = int(np.prod(sharding.shard_shape(leaf.shape), dtype=object)) * leaf.dtype.itemsize
    return here * shared(len(sharding.device_set))


def shared(devices: int) -> int:
    """How many of so many devices have one memory: all virtual ones of a CPU."""
    return devices if jax.default_backend() == "cpu" else 1


def free_bytes() -> int | None:
    """Memory that is free on the first device, or on this machine if that is a CPU; None if nobody tells."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        limit, used, stat = ((_CGROUP / f"memory.{name}").read_text().split() for name in ("max", "current", "stat"))
        cached = sum(int(stat[stat.index(name) + 1]) for name in ("inactive_file", "active_file"))
    except (OSError, ValueError):
        return free
    return free if limit == ["max"] else min(free, int(limit[0]) - int(used[0]) + cached)


def _check(config: Config, parts: dict[str, int]) -> None:
    needed, free = sum(parts.values()), free_bytes()
    if free is None or needed <= free:
        return
    listed = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size > needed / 100)
    train, seeds = config.train, config.run.seeds
    keys = {"train.num_envs": train.num_envs, "train.num_steps": train.num_steps}
    keys |= {"dqn.capacity": config.dqn.capacity} if train.algorithm == "dqn" else {}
    keys |= {"run.seeds": seeds} if seeds > 1 else {}
    raise UserError(
        f"this training needs about {_gib(needed)} of memory ({listed}), but {_gib(free)} are free: lower "
        f"{', '.join(f'{key} ({value})' for key, value in keys.items())} or the size of the network."
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
