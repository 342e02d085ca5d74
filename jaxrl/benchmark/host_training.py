"""How fast a configuration learns from games on the host, and what its threads do meanwhile.

Playing and learning overlap, so the parts of the time do not add up as in `jaxrl.benchmark.training`; instead every
thread counts its own (`jaxrl.training.sebulba.counters`), and the engine's threads tell how much of the time they work.
"""

from __future__ import annotations

import dataclasses
import statistics
import threading
from collections import Counter
from typing import Any

import jax
import numpy as np

from envs.core import Env
from jaxrl.benchmark.timing import Contestant
from jaxrl.benchmark.training import comparable
from jaxrl.config import Config
from jaxrl.training.program import make_program
from jaxrl.training.sebulba.counters import PREFIX

TIME = "time/"


class Training:
    """A training that runs as long as somebody calls `block`.

    Attributes:
      facts: JSON-ready; medians over the calls since the first, which compiles.
    """

    def __init__(self, config: Config, env: Env, *, profile: bool):
        """Starts nothing yet.

        Args:
          config: what is trained.
          env: its game.
          profile: count where the time goes, which costs a little of it.
        """
        config = comparable(config)
        self.config = dataclasses.replace(config, sebulba=dataclasses.replace(config.sebulba, profile=profile))
        self.program = make_program(self.config, env)
        self._state: Any = None
        self._found: list[dict[str, float]] = []
        self.facts: dict[str, Any] = {
            "env": config.env.id,
            "algorithm": config.train.algorithm,
            "num_envs": config.train.num_envs,
            "num_steps": config.train.num_steps,
            "actors": config.sebulba.actors,
            "groups": config.sebulba.groups,
            "lag": config.sebulba.lag,
            "threads": {},
            "buffer_mib": 0.0,
            "figures": {},
            "counters": {},
        }

    def block(self) -> None:
        """The updates of one call."""
        if self._state is None:
            self._state = self.program.init(0)
        self._state, metrics = self.program.run(self._state)
        metrics = jax.device_get(metrics)
        self._found.append({tag: float(value) for tag, value in metrics.items() if tag.startswith(TIME)})
        self._tell()

    def contestant(self, name: str) -> Contestant:
        """A unit is one environment step."""
        units = self.config.batch_size * self.config.train.updates_per_call
        return Contestant(name, float(units), self.block, {"batch": self.facts["num_envs"]})

    def close(self) -> None:
        """Ends all threads."""
        self.program.close()

    def _tell(self) -> None:
        """Renews the facts."""
        steady = self._found[1:] or self._found
        tags = sorted({tag for each in steady for tag in each})
        figures = {tag: statistics.median(each[tag] for each in steady if tag in each) for tag in tags}
        names = Counter(thread.name.rstrip("-_ 0123456789") for thread in threading.enumerate())
        self.facts |= {
            "threads": dict(names),
            "buffer_mib": buffer_bytes(self.program) / 2**20,
            "figures": {tag.removeprefix(TIME): v for tag, v in figures.items() if not tag.startswith(PREFIX)},
            "counters": {tag.removeprefix(PREFIX): v for tag, v in figures.items() if tag.startswith(PREFIX)},
        }


def contestants(config: Config, env: Env) -> tuple[list[Training], list[Contestant]]:
    """The training as it is, and with its counters on; the facts of the second one tell where the time goes."""
    both = [Training(config, env, profile=profile) for profile in (False, True)]
    names = ("training", "training, counters on")
    return both, [each.contestant(name) for each, name in zip(both, names, strict=True)]


def buffer_bytes(program: Any) -> int:
    """Bytes of the NumPy arrays that a program holds for playing and replaying: whatever its attributes lead to."""
    seen: set[int] = set()
    total = 0
    waiting = [value for value in vars(program).values() if not isinstance(value, (Env, Config))]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            owner = value
            while isinstance(owner.base, np.ndarray):  # views share the memory of one owner
                owner = owner.base
            total += owner.nbytes if id(owner) not in seen or owner is value else 0
            seen.add(id(owner))
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif type(value).__module__.startswith("jaxrl.") or dataclasses.is_dataclass(value):
            waiting += list(getattr(value, "__dict__", {}).values())
    return total
