"""Estimates of a training on a GPU that is not here, by the roofline model; nothing is measured.

A call takes as long as its arithmetic at the GPU's peak or its memory traffic at the GPU's bandwidth, whichever is
more, and a launch for each kernel (Williams et al. 2009, https://doi.org/10.1145/1498765.1498785, and the launches).
Real programs stay below both roofs: rates are upper bounds, useful for the batch size at which they stop growing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from jaxrl.config import Config
from jaxrl.diagnose.estimates.cost_model import Footprint, footprint
from jaxrl.diagnose.gpu_compile import programs
from jaxrl.diagnose.training import comparable
from jaxrl.games import GameForms
from jaxrl.training.config import UPDATES


class GPUSpec(NamedTuple):
    """A GPU as its maker's data sheet describes it."""

    name: str
    memory: float  # bytes
    bandwidth: float  # bytes/s
    peak32: float  # FLOP/s in float32, without tensor cores
    peak16: float  # FLOP/s in bfloat16 by tensor cores, sums in float32, dense
    source: str


GPUS = {
    "h100": GPUSpec("NVIDIA H100 SXM5", 80e9, 3.35e12, 66.9e12, 989.4e12, "NVIDIA H100 Tensor Core GPU data sheet"),
    "rtx16": GPUSpec(
        "NVIDIA GeForce RTX 4080", 16e9, 716.8e9, 48.7e12, 97.5e12, "NVIDIA Ada GPU architecture, appendix A"
    ),
}
LAUNCH = 3e-6  # seconds for each kernel, an assumption: a few microseconds
USABLE = 0.75  # of a GPU's memory: the share that jax takes by default
SATURATED = 0.8  # of the rate without launch costs, which no batch exceeds
DOUBLINGS = 14  # number of batches tried, each twice the one before, from the configured one on


class Work(NamedTuple):
    """The cost of one update, by the number of parallel games."""

    games: int
    footprint: Footprint  # with `games` games
    steps: int  # environment steps of each game in an update
    most: int  # games with which the training keeps the least number of updates

    def at(self, games: int) -> Footprint:
        """The footprint with any number of games: everything but the number of kernels is scaled.

        Parameters do not grow with games, so for more games the result is slightly too high, never too low."""
        return self.footprint.scaled(games / self.games)


class UpdateEstimate(NamedTuple):
    """An estimate of one update on a GPU."""

    games: int
    footprint: Footprint
    seconds: float
    steps_per_second: float  # an upper bound
    share: float  # of the rate without launch costs, which no batch exceeds
    fits: bool  # whether it fits in the memory that jax takes


def work(config: Config, games: GameForms) -> Work:
    """The work of one update; programs are traced, never compiled.

    For host games inference and learning are counted. Algorithms that learn by several programs are not counted.
    """
    config = comparable(dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1)))
    train = config.train
    most = train.total_steps // (train.num_steps * UPDATES)
    return Work(train.num_envs, _update(config, games), train.num_steps, most)


def _update(config: Config, games: GameForms) -> Footprint:
    """The footprint of all programs of one update."""
    train, sebulba, total = config.train, config.sebulba, Footprint()
    often = {
        "training": 1.0 / train.updates_per_call,
        "answers": float(train.num_steps * sebulba.actors * sebulba.groups),
        "learning": 1.0,
    }
    for program in itertools.takewhile(lambda program: program.name in often, programs(config, games)):
        traced = program.function.trace(*program.arguments)
        total = total.combine(footprint(traced.jaxpr.jaxpr), often[program.name])
    return total


def seconds(gpu: GPUSpec, one: Footprint) -> float:
    """Least seconds of a call on a GPU: its roof and its launches."""
    return _roofs(gpu, one) + LAUNCH * one.kernels


def _roofs(gpu: GPUSpec, one: Footprint) -> float:
    return max(one.flops32 / gpu.peak32 + one.flops16 / gpu.peak16, one.bytes / gpu.bandwidth)


def row(gpu: GPUSpec, of: Work, games: int) -> UpdateEstimate:
    """The estimate of an update with `games` games."""
    one = of.at(games)
    rate = games * of.steps / seconds(gpu, one)
    share = _roofs(gpu, one) / seconds(gpu, one)
    return UpdateEstimate(games, one, seconds(gpu, one), rate, share, one.peak <= USABLE * gpu.memory)


def _doubled(gpu: GPUSpec, of: Work) -> Iterator[UpdateEstimate]:
    """Estimates for the configured number of games and its doublings, which stay as divisible as it is."""
    return (row(gpu, of, of.games * 2**i) for i in range(DOUBLINGS))


def saturating(gpu: GPUSpec, of: Work) -> UpdateEstimate | None:
    """The smallest number of games that saturates the GPU, whether it fits or not; None if no number does."""
    return next((found for found in _doubled(gpu, of) if found.share >= SATURATED), None)


def choose(gpu: GPUSpec, of: Work) -> UpdateEstimate | None:
    """The best number of games for a GPU: the smallest that saturates it, else the largest that fits and leaves enough
    updates, but not below the configured number. Where the configured number does not fit, the largest of its halvings
    that does; None if no number fits."""
    fitting = [found for found in _doubled(gpu, of) if found.fits and found.games <= max(of.games, of.most)]
    if fitting:
        return next((found for found in fitting if found.share >= SATURATED), fitting[-1])
    halves = (of.games >> i for i in range(1, of.games.bit_length()) if of.games % 2**i == 0)
    return next((found for found in (row(gpu, of, games) for games in halves) if found.fits), None)
