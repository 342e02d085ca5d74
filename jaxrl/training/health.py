"""What a compiled call of a training has found, on the host: its metrics, its counters, and whether it went well."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxrl.config import Config
from jaxrl.runs import metric_log, metrics
from jaxrl.runs.metrics import Metrics
from jaxrl.training.program import NOT_FINITE
from jaxrl.training.state import Counter, is_sound

WATCHED = ("train/loss", "train/grad_norm", "train/critic_loss", "train/belief_loss")


def row_of(found: Metrics, steps: int, seconds: float) -> dict[str, float]:
    """Metrics of `steps` environment steps (all seeds together), which took `seconds` seconds."""
    values = metrics.values(found)
    return metric_log.flatten_seeds(values) | {
        "time/fps": metric_log.rate(steps, seconds),
        "time/games_per_s": metric_log.rate(float(np.sum(values["rollout/games"])), seconds),
    }


def not_finite(found: Metrics) -> float:
    """Number of non-finite values in observations and rewards."""
    return float(np.sum(found[NOT_FINITE].amount)) if NOT_FINITE in found else 0.0


def diverged(found: Metrics, params: Any) -> str:
    """What shows that the training has diverged; nothing if it has not."""
    bad = [tag for tag in WATCHED if tag in found and not np.isfinite(found[tag].amount).all()]
    if bad:
        return f"{bad[0]} is {np.mean(found[bad[0]].amount)}"
    return "" if is_sound(params) else "its parameters are beyond what can be computed with"


def learning_rates(config: Config) -> list[str]:
    """The keys that hold the learning rates of an algorithm, of each of its roles if it has several."""
    name = config.train.algorithm
    section = getattr(config, name, None)
    place = "algorithm" if section is None else name
    roles = [key for key, part in vars(section).items() if hasattr(part, "learning_rate")] if section else []
    return [f"{each}.learning_rate.start" for each in ([f"{place}.{role}" for role in roles] or [place])]


def due(before: int, after: int, every: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return after // every > before // every


def first(counter: Counter | jax.Array) -> int:
    """A counter of the first seed; updates and environment steps of all seeds are equal."""
    words = jax.tree.map(lambda word: np.asarray(word).reshape(-1)[0], counter)
    return int(words)
