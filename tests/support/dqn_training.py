"""Small DQN trainings for tests."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.networks.config import NetworkConfig
from jaxrl.runs.config import RunConfig
from jaxrl.training.config import TrainConfig
from jaxrl.training.make import make_program
from jaxrl.training.program import Program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule
from tests.support.training import run

# of a configuration file
SMALL_DQN = {
    "updates": 2,
    "batch": 16,
    "capacity": 512,
    "learning_starts": 64,
    "target_every": 20,
    "learning_rate": {"start": 1e-3},
}


def dqn_config(
    *,
    seats: tuple[SeatMix, ...] = (SeatMix(),),
    league: LeagueConfig | None = None,
    hidden: tuple[int, ...] = (32,),
    updates: int = 4,
    calls: int = 2,
    seeds: int = 1,
    sebulba: SebulbaConfig | None = None,
    num_envs: int = 16,
    num_steps: int = 8,
    **dqn: Any,
) -> Config:
    """A configuration that compiles in seconds; keyword arguments beyond the named ones are keys of `dqn`."""
    defaults: dict[str, Any] = {
        "updates": 4,
        "batch": 32,
        "capacity": 2048,
        "learning_starts": 200,
        "target_every": 50,
        "learning_rate": Schedule("constant", 1e-3),
    }
    settings = DQNConfig(**(defaults | dqn))
    steps = num_envs * num_steps * updates * calls
    return Config(
        run=RunConfig(seeds=seeds),
        seats=seats,
        league=league or LeagueConfig(),
        network=NetworkConfig(hidden=hidden),
        dqn=settings,
        sebulba=sebulba or SebulbaConfig(threads=1),
        train=TrainConfig(
            algorithm="dqn", num_envs=num_envs, num_steps=num_steps, total_steps=steps, updates_per_call=updates
        ),
    )


_programs: dict[Any, Program] = {}


def program(env: Env, config: Config) -> Program:
    """`make_program`, once for equal games and configurations: tests that share one compile it once."""
    identity = (type(env), config)
    if identity not in _programs:
        _programs[identity] = make_program(config, env)
    return _programs[identity]


def train(env: Env, config: Config, calls: int, seed: int = 0) -> tuple[Program, Any, dict[str, Any]]:
    """Runs `calls` calls and ends the threads; returns the program, the state and the last metrics."""
    dqn = program(env, config)
    state, found = run(dqn, dqn.init(seed), calls)
    dqn.close()
    return dqn, state, {name: float(np.mean(value)) for name, value in found.items()}


def action_values(config: Config, env: Env, state: Any, observations: Any, masks: np.ndarray) -> np.ndarray:
    """f32[N, A], action values of N observations by a state's learner."""
    network = make_algorithm(config, env).network
    evaluate = jax.jit(jax.vmap(network.evaluate, in_axes=(None, None, 0, 0)))
    return np.asarray(evaluate(state.learner.params, (), jnp.asarray(observations), jnp.asarray(masks))[1])
