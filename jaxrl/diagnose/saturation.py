"""How fast a configuration plays and learns by the number of games at once, up to what the device can use."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax

from jaxrl.config import Config
from jaxrl.diagnose import hardware, play
from jaxrl.diagnose.timing import race
from jaxrl.diagnose.training import Training
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

FIRST, MOST, FACTOR = 256, 2**18, 4  # games at once
GAIN = 1.05  # what the next number must bring


class Rate(NamedTuple):
    """What so many games at once bring."""

    num_envs: int
    playing: float  # environment steps/s, the game alone with random players
    training: float  # environment steps/s of whole updates
    peak_mib: float | None  # of the device, so far


def rates(config: Config, env: Env, seconds: float, most: int = MOST) -> Iterator[Rate]:
    """Rates of a compiled game on one device; ends where more games bring nothing, or do not fit its memory.

    Args:
      config: what is trained; its number of games is not used.
      env: its game.
      seconds: how long each number is measured at least.
      most: games at once.

    Raises:
      UserError: none of these numbers fits the configuration.
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
        except UserError as error:  # a number that does not divide as it must
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
    with contextlib.closing(Training(config, env)) as training:
        whole, alone = race([training.contestant("training"), game], rounds=3, seconds=seconds / 3)
    return Rate(train.num_envs, alone.rate, whole.rate, hardware.memory()["peak_device_mib"])
