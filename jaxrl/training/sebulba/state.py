"""The training state of Sebulba: that of every training, with games that live in engines and rollouts in flight."""

from __future__ import annotations

from typing import Any

import jax
from flax import struct

from jaxrl.algorithms.ppo.state import TrainState
from jaxrl.league.pool import PoolState


@struct.dataclass
class HostLanes:
    """The games in progress as they stand before the next rollout to be learnt from; leading axis B. Arrays of the
    host, but for the returns."""

    blobs: Any  # u8[B, S], the engine's own states, random streams included
    controllers: Any  # i8[B, P], who holds each seat of the running game, as in `jaxrl.league.seats`
    episode: Any  # u32[B], games ended in this lane
    length: Any  # i32[B], decisions so far in this game, by all seats
    episode_return: Any  # f32[B, P], so far in this game


@struct.dataclass
class Acting:
    """What a rollout is played with: the parameters, and the pool with its odds, after `version` updates."""

    params: Any
    pool: PoolState | None
    version: jax.Array  # i32[]


@struct.dataclass
class SebulbaState(TrainState):
    """A `TrainState` whose lanes are `HostLanes`, and what the rollouts in flight are played with.

    Rollout r is learnt from in update r and played with the parameters of update r - lag (of the first one, if there
    were none). A resumed training plays the rollouts that were in flight once more, with the parameters that they were
    played with, and so arrives at the same state.
    """

    lanes: HostLanes  # type: ignore[assignment]
    acting: tuple[Acting, ...] = ()  # of the next `sebulba.lag` rollouts
