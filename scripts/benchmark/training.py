"""How fast a configuration learns, and where the time goes.

Three programs of the same shape are raced: the game alone (random actions, observation and mask written down), playing
with the network (the rollout with its advantages), and the whole update. Their differences are the breakdown:

    environment = game alone        inference = playing - game alone        update = whole - playing

`scripts.benchmark.breakdown` does that arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from jaxrl.config import Config
from jaxrl.diagnose import play
from jaxrl.diagnose.jaxprs import count_flops
from jaxrl.diagnose.timing import Contestant
from jaxrl.diagnose.training import Training, evaluation, playing
from jaxrl.games import make_env
from jaxrl.runs.config import device_count
from jaxrl_envs.contract.env import Env

MATRIX = 2048  # side of the square product that the achieved FLOP/s are compared with


def contestants(config: Config) -> tuple[list[Contestant], Callable[[], dict[str, Any]]]:
    """What `breakdown` needs of one configuration to be trained: contestants, and facts once they have run."""
    env, devices = make_env(config), device_count(config, jax.local_device_count())
    training = Training(config, env)
    found = [training.contestant("whole"), playing(training.program)]
    train = config.train
    found.append(
        play.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed", devices=devices, name="game")
    )
    found += [matrix_product(count) for count in sorted({1, devices})]
    facts = _facts(config, env, devices)
    return [each for each in found if each is not None], lambda: facts | training.decisions()


def matrix_product(devices: int) -> Contestant:
    """A large f32 product on each device at once; a unit is one floating-point operation."""
    mesh = Mesh(jax.local_devices()[:devices], ("device",))
    rows = PartitionSpec("device")
    left, right = jax.random.normal(jax.random.key(0), (2, devices * MATRIX, MATRIX), jnp.float32)
    multiply = jax.jit(jax.shard_map(lambda a, b: a @ b, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False))

    def block() -> None:
        jax.block_until_ready(multiply(left, right))

    return Contestant(f"matrix product on {devices}", float(2 * devices * MATRIX**3), block)


def calibration() -> Contestant:
    """What the speed gate divides by: a product and a hash of words that fit the caches; a unit is one of both."""

    def mix(words: jax.Array, _: None) -> tuple[jax.Array, None]:
        words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
        return words ^ (words >> 15), None

    @jax.jit
    def both(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        left = jax.random.normal(jax.random.key(0), (512, 512), jnp.float32)
        words = jnp.arange(2**15, dtype=jnp.uint32) + seed
        return left @ (left + seed.astype(jnp.float32)), jax.lax.scan(mix, words, length=256)[0]

    return Contestant("calibration", 1.0, lambda: jax.block_until_ready(both(jnp.uint32(1))))


def forward_flops(config: Config, env: Env) -> float:
    """Floating-point operations of the network's products for one environment step (all seats asked in it)."""
    count = 8  # decisions at once: products are then told from element-wise work, and divided out again
    evaluate, arguments = evaluation(config, env, count)
    seats = env.num_players if env.simultaneous else 1
    return count_flops(jax.make_jaxpr(evaluate)(*arguments).jaxpr) / count * seats


def learning_flops(config: Config, env: Env) -> float:
    """Floating-point operations of the network's products, forward and backward, for one environment step that is
    learnt from. The gradient of the observation is not needed, so the first layer has one product fewer than others."""
    count = 8
    evaluate, (params, *seen) = evaluation(config, env, count)

    def gradient(params: Any) -> Any:
        outputs, backward = jax.vjp(lambda params: evaluate(params, *seen)[1:], params)
        return backward(outputs)

    seats = env.num_players if env.simultaneous else 1
    return count_flops(jax.make_jaxpr(gradient)(params).jaxpr) / count * seats


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
        "flops_playing": forward * (1 + bool(config.league.snapshots)),  # the snapshots' answer costs as much again
        "flops_learning": learning_flops(config, env) * config.ppo.epochs,  # of a step that is learnt from
    }
