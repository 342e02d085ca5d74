"""What a training would ask of a graphics card that is not here: an estimate by the roofline model, not a measurement.

A call takes as long as its arithmetic at the card's peak or its memory traffic at the card's bandwidth, whichever is
more, and a launch for each kernel (Williams et al. 2009, https://doi.org/10.1145/1498765.1498785, and the launches).
Real programs stay below both roofs: rates are upper bounds, and what is asked of them is where they stop growing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from jaxrl.config import Config
from jaxrl.diagnose.cost_model import Footprint, footprint
from jaxrl.diagnose.gpu_compile import programs
from jaxrl.diagnose.training import comparable
from jaxrl.games import GameForms
from jaxrl.training.config import UPDATES


class Card(NamedTuple):
    """A card as its maker describes it."""

    name: str
    memory: float  # bytes
    bandwidth: float  # bytes/s
    peak32: float  # FLOP/s in float32, without tensor cores
    peak16: float  # FLOP/s in bfloat16 by tensor cores, sums in float32, dense
    source: str


CARDS = {
    "h100": Card("NVIDIA H100 SXM5", 80e9, 3.35e12, 66.9e12, 989.4e12, "NVIDIA H100 Tensor Core GPU data sheet"),
    "rtx16": Card(
        "NVIDIA GeForce RTX 4080", 16e9, 716.8e9, 48.7e12, 97.5e12, "NVIDIA Ada GPU architecture, appendix A"
    ),
}
LAUNCH = 3e-6  # seconds for each kernel, an assumption: a few microseconds
USABLE = 0.75  # of a card's memory, which is what jax takes of it unless told otherwise
SATURATED = 0.8  # of the rate that no batch is beyond
DOUBLINGS = 14  # batches that are looked at: the configured one and so many times twice that


class Work(NamedTuple):
    """One update, by the number of games side by side."""

    games: int
    footprint: Footprint  # with so many games
    steps: int  # environment steps of each game in an update
    most: int  # games that leave the training as many updates as one has at least

    def at(self, games: int) -> Footprint:
        """With any number of games: all grows with it but the number of kernels. What does not grow, as parameters,
        is small beside it and so counted too high for more games, never too low."""
        return self.footprint.scaled(games / self.games)


class OnCard(NamedTuple):
    """An update on a card."""

    games: int
    footprint: Footprint
    seconds: float
    steps_per_second: float  # an upper bound
    share: float  # of the rate that no batch is beyond
    fits: bool  # into the memory that jax takes


def work(config: Config, games: GameForms) -> Work:
    """The footprint of an update; traced, never compiled.

    Games on the host: the network's answers and the learning. What learns by several programs is not counted.
    """
    config = comparable(dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1)))
    train = config.train
    most = train.total_steps // (train.num_steps * UPDATES)
    return Work(train.num_envs, _update(config, games), train.num_steps, most)


def _update(config: Config, games: GameForms) -> Footprint:
    """All programs of one update."""
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


def seconds(card: Card, one: Footprint) -> float:
    """Of a call on a card: at least the roofs, and the launches."""
    return _roofs(card, one) + LAUNCH * one.kernels


def _roofs(card: Card, one: Footprint) -> float:
    return max(one.flops32 / card.peak32 + one.flops16 / card.peak16, one.bytes / card.bandwidth)


def row(card: Card, of: Work, games: int) -> OnCard:
    """An update with so many games."""
    one = of.at(games)
    rate = games * of.steps / seconds(card, one)
    share = _roofs(card, one) / seconds(card, one)
    return OnCard(games, one, seconds(card, one), rate, share, one.peak <= USABLE * card.memory)


def _doubled(card: Card, of: Work) -> Iterator[OnCard]:
    """The configured number of games, and twice that again and again: what it is divided by still divides it."""
    return (row(card, of, of.games * 2**i) for i in range(DOUBLINGS))


def saturating(card: Card, of: Work) -> OnCard | None:
    """The smallest number of games that saturates the card, whether it fits or not; None: no number does."""
    return next((found for found in _doubled(card, of) if found.share >= SATURATED), None)


def choose(card: Card, of: Work) -> OnCard | None:
    """The number of games for a card: the smallest that saturates it, or the largest that fits and leaves updates
    enough to learn in, but not below the configured number. Where not even that fits, half of it again and again; None:
    there is none."""
    fitting = [found for found in _doubled(card, of) if found.fits and found.games <= max(of.games, of.most)]
    if fitting:
        return next((found for found in fitting if found.share >= SATURATED), fitting[-1])
    halves = (of.games >> i for i in range(1, of.games.bit_length()) if of.games % 2**i == 0)
    return next((found for found in (row(card, of, games) for games in halves) if found.fits), None)
