"""What a compiled call of a training has found, on the host: its metrics, its counters, and whether it went well."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.config import Config
from jaxrl.runs import metric_log, metrics
from jaxrl.runs.metrics import Metrics
from jaxrl.training.program import NO_ACTION, NOT_FINITE
from jaxrl.training.state import Counter, is_sound

GPU = "time/gpu_utilisation"  # share of the time in which kernels ran, as the driver has last measured it
WATCHED = ("train/loss", "train/grad_norm", "train/critic_loss", "train/belief_loss")


def row_of(found: Metrics, steps: int, seconds: float) -> dict[str, float]:
    """Returns the metrics of `steps` environment steps (all seeds together), which took `seconds` seconds."""
    values = metrics.values(found)
    return metric_log.flatten_seeds(values) | {
        "time/fps": metric_log.rate(steps, seconds),
        "time/games_per_s": metric_log.rate(float(np.sum(values["rollout/games"])), seconds),
    }


def game_fault(found: Metrics) -> str:
    """Says how a compiled game has broken its contract; nothing if it has not."""
    faults = {
        NOT_FINITE: "gave observations or rewards that are not finite: {:.0f} numbers",
        NO_ACTION: "asked seats that had no legal action (an empty legal_action_mask in a running game): {:.0f} times",
    }
    counts = {tag: float(np.sum(found[tag].amount)) for tag in faults if tag in found}
    return next((faults[tag].format(count) for tag, count in counts.items() if count), "")


def diverged(found: Metrics, params: Any) -> str:
    """Returns the sign that the training has diverged; empty if it has not."""
    bad = [tag for tag in WATCHED if tag in found and not np.isfinite(found[tag].amount).all()]
    if bad:
        return f"{bad[0]} is {np.mean(found[bad[0]].amount)}"
    return "" if is_sound(params) else "its parameters are beyond what can be computed with"


def learning_rates(config: Config) -> list[str]:
    """Returns the keys that hold the learning rates of an algorithm, of each of its roles if it has several."""
    name = config.train.algorithm
    section = getattr(config, name, None)
    place = "algorithm" if section is None else name
    roles = [key for key, part in vars(section).items() if hasattr(part, "learning_rate")] if section else []
    return [f"{each}.learning_rate.start" for each in ([f"{place}.{role}" for role in roles] or [place])]


def gpu_utilisation(devices: Sequence[jax.Device], seconds: float) -> Metrics:
    """The mean `GPU` of devices, weighed by `seconds`; {} without GPUs, without nvidia-ml-py, or where NVML fails."""
    try:
        shares = [
            read() for read in _meters(tuple(each.local_hardware_id for each in devices if each.platform == "gpu"))
        ]
    except Exception:  # of NVML, whose classes may be missing; a training does not end for a figure
        return {}
    return {GPU: metrics.measured(np.mean(shares), seconds)} if shares else {}


@functools.cache
def _meters(numbers: tuple[int, ...]) -> list[Callable[[], float]]:
    """Returns readers of each GPU's utilisation, 0 to 1, by its number in CUDA; [] where it cannot be read.

    NVML numbers all GPUs of the machine in the order of the bus; CUDA those of `CUDA_VISIBLE_DEVICES`, which may also
    be names. Machines of unlike GPUs have the same order with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    if not numbers:
        return []
    visible = list(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        names = [visible[number] if visible else str(number) for number in numbers]
        handles = [
            nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else nvml.nvmlDeviceGetHandleByUUID(name)
            for name in names
        ]
    except Exception:  # no package, no driver, or another one than it expects
        return []
    return [functools.partial(lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100, gpu) for gpu in handles]


def due(before: int, after: int, every: int) -> bool:
    """Returns whether a multiple of `every` lies in (before, after]."""
    return after // every > before // every


def first(counter: Counter | jax.Array) -> int:
    """Returns a counter of the first seed; updates and environment steps of all seeds are equal."""
    words = jax.tree.map(lambda word: np.asarray(word).reshape(-1)[0], counter)
    return int(words)
