"""Rates of playing and learning by the number of parallel games, up to the device's saturation."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax

from jaxrl.config import Config
from jaxrl.diagnose import hardware, play
from jaxrl.diagnose.timing import race
from jaxrl.diagnose.training import MeasuredTraining
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

FIRST, MOST, FACTOR = 256, 2**18, 4  # parallel games
GAIN = 1.05  # least gain of the next number of games


class Rate(NamedTuple):
    """Rates with `num_envs` parallel games."""

    num_envs: int
    playing: float  # environment steps/s, the game alone with random players
    training: float  # environment steps/s of whole updates
    peak_mib: float | None  # peak of the device so far


def rates(config: Config, env: Env, seconds: float, most: int = MOST) -> Iterator[Rate]:
    """Yields rates of a compiled game on one device until more games gain nothing or do not fit its memory.

    Args:
      config: configuration that is trained; its number of games is not used.
      env: its game.
      seconds: least duration of each measurement.
      most: largest number of parallel games.

    Raises:
      UserError: the configuration accepts none of these numbers.
    """
    size, best, why = FIRST, 0.0, None
    while size <= most:
        each = dataclasses.replace(
            config,
            train=dataclasses.replace(config.train, num_envs=size),
            run=dataclasses.replace(config.run, devices=1),
        )
        size *= FACTOR
        try:
            each.check()
            found = _measured(each, env, seconds)
        except UserError as error:  # for example, not divisible into minibatches
            why = error
            continue
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error):
                return
            raise
        yield found
        if found.training < GAIN * best:
            return
        best = found.training
    if why is not None and not best:
        raise why


def _measured(config: Config, env: Env, seconds: float) -> Rate:
    train = config.train
    game = play.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed")
    with contextlib.closing(MeasuredTraining(config, env)) as training:
        whole, alone = race([training.contestant("training"), game], rounds=3, seconds=seconds / 3)
    return Rate(train.num_envs, alone.rate, whole.rate, hardware.memory()["peak_device_mib"])
