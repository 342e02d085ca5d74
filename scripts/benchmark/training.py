"""How fast a configuration learns, and where the time goes.

Three programs of the same shape are raced: the game alone (random actions, observation and mask written down), playing
with the network (the rollout with its advantages), and the whole update. Their differences are the breakdown:

    environment = game alone        inference = playing - game alone        update = whole - playing

`scripts.benchmark.breakdown` does that arithmetic.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from jaxrl.config import Config
from jaxrl.diagnose import play
from jaxrl.diagnose.estimates.jaxprs import count_flops
from jaxrl.diagnose.timing import Contestant
from jaxrl.diagnose.training import Training, evaluation, playing
from jaxrl.games import make_env
from jaxrl.runs.config import device_count
from jaxrl_envs.contract.env import Env

FORWARD_AND_BACKWARD = 3  # a pass over a minibatch costs three evaluations: one forward, two backward
MATRIX = 2048  # side of the square product that the achieved FLOP/s are compared with


def contestants(config: Config) -> tuple[list[Contestant], dict[str, Any]]:
    """What `breakdown` needs of one configuration to be trained: contestants and facts."""
    env, devices = make_env(config), device_count(config, jax.local_device_count())
    training = Training(config, env)
    found = [training.contestant("whole"), playing(training.program)]
    train = config.train
    found.append(
        play.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed", devices=devices, name="game")
    )
    found += [matrix_product(count) for count in sorted({1, devices})]
    return [each for each in found if each is not None], _facts(config, env, devices)


def matrix_product(devices: int) -> Contestant:
    """A large f32 product on each device at once; a unit is one floating-point operation."""
    mesh = Mesh(jax.local_devices()[:devices], ("device",))
    rows = PartitionSpec("device")
    left, right = jax.random.normal(jax.random.key(0), (2, devices * MATRIX, MATRIX), jnp.float32)
    multiply = jax.jit(jax.shard_map(lambda a, b: a @ b, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False))

    def block() -> None:
        jax.block_until_ready(multiply(left, right))

    return Contestant(f"matrix product on {devices}", float(2 * devices * MATRIX**3), block)


def forward_flops(config: Config, env: Env) -> float:
    """Floating-point operations of the network's products for one environment step (all seats asked in it)."""
    count = 8  # decisions at once: products are then told from element-wise work, and divided out again
    evaluate, arguments = evaluation(config, env, count)
    seats = env.num_players if env.simultaneous else 1
    return count_flops(jax.make_jaxpr(evaluate)(*arguments).jaxpr) / count * seats


def _facts(config: Config, env: Env, devices: int) -> dict[str, Any]:
    forward = forward_flops(config, env)
    shape = "x".join(map(str, config.network.hidden)) if config.network.kind == "mlp" else ""
    return {
        "env": config.env.id,
        "options": dict(config.env.options),
        "devices": devices,
        "network": f"{config.network.kind} {shape} {config.network.activation} {config.network.compute_dtype}",
        "features": env.num_features,
        "num_envs": config.train.num_envs,
        "num_steps": config.train.num_steps,
        "epochs": config.ppo.epochs,
        "minibatches": config.ppo.minibatches,
        "flops_per_decision_forward": forward,
        "flops_per_step": forward * (1 + FORWARD_AND_BACKWARD * config.ppo.epochs),
    }
