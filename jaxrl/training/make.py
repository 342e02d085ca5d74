"""The training program of a configuration: the loop that fits the game, with the algorithm that was chosen."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrl.algorithms.base import AXIS
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config.checks import check_numbers, device_count
from jaxrl.config.schema import Config
from jaxrl.envs.core import Env
from jaxrl.envs.wrappers import auto_reset
from jaxrl.league.pool import make_seats
from jaxrl.training.anakin import Anakin
from jaxrl.training.playing import Actor
from jaxrl.training.program import Program
from jaxrl.training.sebulba.program import Sebulba


def make_program(config: Config, env: Env, frozen: Config | None = None) -> Program:
    """The training program of a configuration for `env`: Anakin, or Sebulba for a game on the host.

    Args:
      config: of the training.
      env: the game.
      frozen: of the snapshots in its pool, if they have another network, without a memory.

    Raises:
      UserError: something in the configuration does not fit the game, the algorithm or this machine.
    """
    check_numbers(config)
    other = make_algorithm(frozen, env) if frozen is not None else None
    algorithm = make_algorithm(config, env)
    actor = Actor(env, auto_reset(env, settles=algorithm.hindsight), algorithm, make_seats(config, env), other)
    devices = jax.local_devices()
    count = device_count(config, len(devices)) if actor.algorithm.many_devices else 1
    mesh = Mesh(np.array(devices[:count]), (AXIS,))
    return Sebulba(config, actor, mesh) if env.host else Anakin(config, actor, mesh)
