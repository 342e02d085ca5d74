"""Defaults that follow the size of a run: what nobody has written is made from `train.total_steps` and from what is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Set
from typing import Any

from jaxrl.config.ppo_checks import group_size
from jaxrl.config.schema import Config, Schedule

UPDATES = 128  # that a run has at least, if rollouts of the smallest size allow it
SMALLEST, LARGEST = 256, 32768  # environment steps of a rollout
LARGEST_DQN = 512  # what DQN learns in a round does not grow with what is played in it
CALLS, EVENTS = 32, 10  # lines in the logs, and evaluations and checkpoints, that a run has at least
FEW = 20  # updates of a run that is too short for evaluations on the way


def with_sizes(config: Config, tree: dict[str, Any]) -> Config:
    """`config` with every key of `FOLLOWING` that its tree leaves out made from the others; a complete one stays."""
    told = {f"{section}.{key}" for section, keys in tree.items() if isinstance(keys, dict) for key in keys}
    for path, make in FOLLOWING.items():
        if path not in told:
            section, _, key = path.partition(".")
            part = dataclasses.replace(getattr(config, section), **{key: make(config, told)})
            config = dataclasses.replace(config, **{section: part})
    return config


def _batch(config: Config) -> int:
    """Environment steps of a rollout, a power of two."""
    largest = LARGEST_DQN if config.train.algorithm == "dqn" else LARGEST
    return _between(SMALLEST, _power(min(config.train.total_steps, 1 << 62) / UPDATES), largest)


def _num_steps(config: Config, told: Set[str]) -> int:
    """A quarter as many steps as games, unless the games are told; whole chunks."""
    batch = _batch(config)
    steps = batch / config.train.num_envs if "train.num_envs" in told else math.sqrt(batch / 4)
    return -(-_between(8, _power(steps), 64) // _sequence(config)) * _sequence(config)


def _num_envs(config: Config, told: Set[str]) -> int:
    """What makes the rollout, in shares that devices, snapshots and actors divide."""
    sebulba, slots = config.sebulba, max(1, config.league.snapshots)
    share = slots * math.lcm(sebulba.actors * sebulba.groups, max(1, config.run.devices))
    games = _between(8, _batch(config) // config.train.num_steps, 512)
    return max(1, round(games / share)) * share


def _updates_per_call(config: Config, told: Set[str]) -> int:
    """At most eight, in which checkpoints that are kept, or continued from, lie between two calls."""
    calls = min(_power(_updates(config) / CALLS), 8)
    return math.gcd(math.gcd(calls, config.train.keep_every), config.train.from_update)


def _every(config: Config) -> int:
    """A tenth of the run in whole calls."""
    per_call = config.train.updates_per_call
    return max(1, _updates(config) // EVENTS // per_call) * per_call


def _checkpoint_every(config: Config, told: Set[str]) -> int:
    return config.train.keep_every or min(_every(config), 200)


def _evaluate_every(config: Config, told: Set[str]) -> int:
    return _every(config) if _updates(config) >= FEW else 0


def _minibatches(config: Config, told: Set[str]) -> int:
    """Four, and eight of large rollouts, if they divide what is shuffled."""
    group = group_size(config, _sequence(config))
    return math.gcd(group // config.ppo.accumulate, 4 if config.batch_size < LARGEST else 8)


def _learning_rate(config: Config, told: Set[str]) -> Schedule:
    """1e-3 up to a million steps, then less the longer the run (6e-4 for 10 million); falling to a tenth of that."""
    start = 1e-3 * min(1.0, (1e6 / min(config.train.total_steps, 1 << 62)) ** 0.25)
    start, end = (float(f"{max(start, 3e-4) * share:.0e}") for share in (1.0, 0.1))
    return Schedule("linear", start, end)


FOLLOWING: dict[str, Callable[[Config, Set[str]], Any]] = {  # in this order: later ones rest on earlier ones
    "train.num_steps": _num_steps,
    "train.num_envs": _num_envs,
    "train.updates_per_call": _updates_per_call,
    "train.checkpoint_every": _checkpoint_every,
    "train.evaluate_every": _evaluate_every,
    "ppo.minibatches": _minibatches,
    "ppo.learning_rate": _learning_rate,
}


def _sequence(config: Config) -> int:
    """Steps of a chunk, if the network remembers; one of the user's own may."""
    remembers = config.network.kind == "recurrent" or ":" in config.network.kind
    return config.ppo.sequence if remembers else 1


def _updates(config: Config) -> int:
    return -(-config.train.total_steps // config.batch_size)


def _power(number: float) -> int:
    """The largest power of two that is no larger."""
    return 1 << max(0, int(math.log2(max(number, 1.0))))


def _between(low: int, number: int, high: int) -> int:
    return max(low, min(number, high))
