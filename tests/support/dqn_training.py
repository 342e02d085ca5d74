"""Small DQN trainings for tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.league.config import LeagueConfig
from jaxrl.training.program import Program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule
from tests.support.training import program, run, small_config

# of a configuration file
SMALL_DQN = {
    "updates": 2,
    "batch": 16,
    "capacity": 512,
    "learning_starts": 64,
    "target_every": 20,
    "learning_rate": {"start": 1e-3},
}


SHARED = ("seats", "hidden", "calls", "seeds", "num_envs")  # arguments of `small_config`


def dqn_config(
    *,
    updates: int = 4,
    num_steps: int = 8,
    league: LeagueConfig | None = None,
    sebulba: SebulbaConfig | None = None,
    **settings: Any,
) -> Config:
    """`small_config` for DQN; keyword arguments that it does not know are keys of `dqn`."""
    shared = {name: settings.pop(name) for name in SHARED if name in settings}
    config = small_config(updates=updates, num_steps=num_steps, **shared)
    defaults: dict[str, Any] = {
        "updates": 4,
        "batch": 32,
        "capacity": 2048,
        "learning_starts": 200,
        "target_every": 50,
        "learning_rate": Schedule("constant", 1e-3),
    }
    return dataclasses.replace(
        config,
        league=league or LeagueConfig(),
        dqn=DQNConfig(**(defaults | settings)),
        sebulba=sebulba or SebulbaConfig(threads=1),
        train=dataclasses.replace(config.train, algorithm="dqn"),
    )


def train(env: Env, config: Config, calls: int, seed: int = 0) -> tuple[Program, Any, dict[str, Any]]:
    """Runs `calls` calls and ends the threads; returns the program, the state and the last metrics."""
    dqn = program(env, config)
    state, found = run(dqn, dqn.init(seed), calls)
    dqn.close()
    return dqn, state, {name: float(np.mean(value)) for name, value in found.items()}


def action_values(config: Config, env: Env, state: Any, observations: Any, masks: np.ndarray) -> np.ndarray:
    """Returns f32[N, A], the action values of N observations by a state's learner."""
    network = make_algorithm(config, env).network
    evaluate = jax.jit(jax.vmap(network.evaluate, in_axes=(None, None, 0, 0)))
    return np.asarray(evaluate(state.learner.params, (), jnp.asarray(observations), jnp.asarray(masks))[1])
