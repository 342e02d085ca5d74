"""The training program of a configuration: the loop that fits the game, with the algorithm that was chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrl.algorithms.base import AXIS
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.league.pool import make_seats
from jaxrl.runs import distributed
from jaxrl.runs.config import device_count
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.program import Program
from jaxrl.training.sebulba.loop import Sebulba
from jaxrl_envs.contract.env import Env
from jaxrl_envs.contract.wrappers import auto_reset
from jaxrl_envs.shared.fused.kernel import vmap_on


def make_program(config: Config, env: Env, devices: Sequence[jax.Device] = ()) -> Program:
    """Returns the training program of a configuration for `env`: Anakin, or Sebulba for a game on the host. Raises
    UserError: something in the configuration does not fit the game, the algorithm or this machine. `devices`: devices
    to run on, if not those of the configuration."""
    algorithm = make_algorithm(config, env)
    setup = RolloutSetup(env, auto_reset(env, settles=algorithm.hindsight), algorithm, make_seats(config, env))
    together = distributed.count()
    count = device_count(config, len(distributed.devices()), together) if setup.algorithm.many_devices else 1
    if together > 1:  # what is shuffled depends on the number of devices, which the configuration may leave open
        dataclasses.replace(config, run=dataclasses.replace(config.run, devices=count)).check()
    mesh = Mesh(np.array(devices or distributed.devices(count)), (AXIS,))
    if config.run.one_kernel and config.run.seeds == 1:
        setup = dataclasses.replace(setup, over_lanes=vmap_on(mesh.devices.flat[0]))
    return Sebulba(config, setup, mesh) if env.host else Anakin(config, setup, mesh)
