"""Small training configurations for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

from jaxrl.algorithms.base import AXIS
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.q_heads import heads_of
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.config import Config
from jaxrl.league.config import SeatMix
from jaxrl.networks.base import Network
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import POLICY, make_network
from jaxrl.runs import metrics
from jaxrl.runs.config import RunConfig
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.config import TrainConfig
from jaxrl.training.make import make_program
from jaxrl.training.program import Program
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule
from tests.support.paths import PYTHONPATH


def small_config(
    *,
    seats: tuple[SeatMix, ...] = (SeatMix(),),
    hidden: tuple[int, ...] = (32,),
    updates: int = 2,
    calls: int = 2,
    seeds: int = 1,
    devices: int = 1,
    num_envs: int = 16,
    num_steps: int = 12,
    stagger: int = 0,
    **ppo: Any,
) -> Config:
    """Returns a configuration that compiles in seconds; keyword arguments beyond the named ones are keys of `ppo`."""
    defaults = {
        "epochs": 2,
        "minibatches": 2,
        "learning_rate": Schedule("constant", 1e-3),
        "entropy_coef": Schedule("constant", 0.01),
    }
    settings = PPOConfig(**(defaults | ppo))
    return Config(
        run=RunConfig(seeds=seeds, devices=devices),
        seats=seats,
        network=NetworkConfig(hidden=hidden),
        ppo=settings,
        train=TrainConfig(
            num_envs=num_envs,
            num_steps=num_steps,
            stagger=stagger,
            total_steps=num_envs * num_steps * updates * calls,
            updates_per_call=updates,
        ),
    )


def compiled_network(config: NetworkConfig, env: Env, dqn: DQNConfig | None = None) -> Network:
    """`make_network` with compiled functions, for tests that call them by themselves."""
    network = make_network(config, env, heads_of(dqn) if dqn else POLICY)
    return network._replace(encode=jax.jit(network.encode), apply=jax.jit(network.apply))


_programs: dict[Any, Anakin] = {}


def program(env: Env, config: Config) -> Anakin:
    """`make_program`, once for equal games and configurations: tests that share one compile it once."""
    own = {name: value for name, value in vars(env).items() if isinstance(value, Hashable)}
    own.pop("observation_spec", None)  # which is there from its first use on
    identity = (type(env), frozenset(own.items()), config)
    if identity not in _programs:
        _programs[identity] = make_program(config, env)
    return _programs[identity]


def run(program: Program, state: Any, calls: int = 1) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the state after some calls, and the metrics of the last one."""
    found: metrics.Metrics = {}
    for _ in range(calls):
        state, found, _ = program.advance(state)
    return state, metrics.values(jax.device_get(found))


def train(env: Env, config: Config, calls: int, seed: int = 0) -> tuple[Anakin, Any, dict[str, np.ndarray]]:
    """Runs `calls` compiled calls; returns the program, the state and the last metrics."""
    anakin = program(env, config)
    return anakin, *run(anakin, anakin.init(seed), calls)


def with_hyper(state: Any, *, total_updates: float | None = None, **changed: Any) -> Any:
    """Returns the state with other traced hyper-parameters: numbers, and schedules as `make_schedule` gives them."""
    hyper = state.learner.hyper
    assert changed.keys() <= hyper.numbers.keys() | hyper.schedules.keys()
    hyper = hyper.replace(
        numbers={name: jnp.float32(changed.get(name, value)) for name, value in hyper.numbers.items()},
        schedules={name: changed.get(name, value) for name, value in hyper.schedules.items()},
        total_updates=hyper.total_updates if total_updates is None else jnp.float32(total_updates),
    )
    return state.replace(learner=state.learner.replace(hyper=hyper))


def values_of(program: Program, params: Any, observations: Any) -> np.ndarray:
    """Returns f32[N], the network's values of N observations."""
    network = program.algorithm.network
    count = jax.tree.leaves(observations)[0].shape[0]
    evaluate = jax.jit(jax.vmap(network.evaluate, in_axes=(None, None, 0, 0)))
    return np.asarray(evaluate(params, (), observations, jnp.ones((count, network.num_actions), bool))[2])


def in_mesh(function: Any) -> Any:
    """Returns the function compiled inside a mesh of one device."""
    mesh = Mesh(np.array(jax.local_devices()[:1]), (AXIS,))
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=Spec(), out_specs=Spec(), check_vma=False))


def on_host(tree: Any) -> Any:
    """Returns the leaves as NumPy arrays, typed keys as their words."""

    def leaf_on_host(leaf: jax.Array) -> np.ndarray:
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(leaf_on_host, tree)


def assert_identical(left: Any, right: Any) -> None:
    """Asserts that all leaves are equal bit by bit."""
    jax.tree.map(np.testing.assert_array_equal, on_host(left), on_host(right))


def assert_close(left: Any, right: Any, tolerance: float) -> None:
    """Asserts that all leaves are equal up to an absolute `tolerance`."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), on_host(left), on_host(right))


def on_devices(source: str, devices: int) -> Any:
    """Runs a program in its own process with `devices` virtual CPU devices; returns the JSON of its last line."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}",  # the last one wins
        "PYTHONPATH": PYTHONPATH,
    }
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
