"""Whether a training fits into the memory, told before it starts and not by an allocator in the middle of it."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import jax

from jaxrl.algorithms.registry import find_algorithm
from jaxrl.config import Config
from jaxrl.runs import distributed
from jaxrl.training.program import Program
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.shared import resources
from jaxrl_envs.shared.errors import UserError


def check_state(program: Program) -> None:
    """Compares the training state and the rollouts of the host with the memory that is free; computes nothing. Raises
    UserError: they do not fit, in one of the processes."""
    state = program.abstract_state
    for host in (True, False):
        parts = {
            "games": size_of(state.lanes, host=host),
            "rollouts": program.host_rollout_bytes * host,
            "learner": size_of(state.learner, host=host),
            "opponents": size_of(state.pool, host=host),
        }
        _check(program.config, parts, free_bytes(host=host))


def check_program(program: Program, state: PyTree) -> None:
    """Compares what the compiled program needs besides its state with the memory that is free. Raises UserError: it
    does not fit, in one of the processes."""
    parts = {"rollouts and updates": program.working_bytes(state)}
    _check(program.config, parts, free_bytes(host=jax.default_backend() == "cpu"))


def size_of(forms: PyTree, *, host: bool) -> int:
    """Returns bytes of those arrays or forms of arrays that live in the host's memory, or in that of one device."""
    leaves = [leaf for leaf in jax.tree.leaves(forms) if _on_host(leaf) == host]
    return sum(_size(leaf) for leaf in leaves)


def _on_host(leaf: Any) -> bool:
    return getattr(leaf, "sharding", None) is None or jax.default_backend() == "cpu"


def _size(leaf: Any) -> int:
    sharding, item = getattr(leaf, "sharding", None), leaf.dtype.itemsize
    if sharding is None:
        return math.prod(leaf.shape) * item
    copies = len(sharding.addressable_devices) if _on_host(leaf) else 1  # all virtual devices of a CPU have one memory
    return math.prod(sharding.shard_shape(leaf.shape)) * item * copies


def free_bytes(*, host: bool) -> int | None:
    """Returns memory that is free on this machine, or on its first device; None if it is unknown."""
    if not host:
        stats = jax.local_devices()[0].memory_stats() or {}
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None
    return resources.free_bytes()


def _check(config: Config, parts: dict[str, int], free: int | None) -> None:
    needed = sum(parts.values())
    short = free is not None and needed > free
    if not distributed.maximum(short):
        return
    listed = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size > needed / 100)
    train, seeds = config.train, config.run.seeds
    keys = {"train.num_envs": train.num_envs, "train.num_steps": train.num_steps}
    keys |= {key: attrgetter(key)(config) for key in find_algorithm(train.algorithm).grows_with}
    keys |= {"run.seeds": seeds} if seeds > 1 else {}
    has = f"but {_gib(free)} are free" if short and free is not None else "which another of its processes does not have"
    raise UserError(
        f"this training needs about {_gib(needed)} of memory ({listed}), {has}: lower "
        f"{', '.join(f'{key} ({value})' for key, value in keys.items())} or the size of the network."
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
