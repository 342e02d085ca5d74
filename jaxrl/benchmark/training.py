"""How fast a configuration learns, and where the time goes.

Three programs of the same shape are raced: the game alone (random actions, observation and mask written down), playing
with the network (the rollout with its advantages), and the whole update. Their differences are the breakdown:

    environment = game alone        inference = playing - game alone        update = whole - playing
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from envs import prng, registry
from envs.core import Env
from jaxrl.anakin import AXIS, Anakin, make_anakin
from jaxrl.benchmark import environment
from jaxrl.benchmark.timing import Contestant, Result, race, safe_ratio
from jaxrl.config import Config

FORWARD_AND_BACKWARD = 3  # a pass over a minibatch costs three evaluations: one forward, two backward
MATRIX = 2048  # side of the square product that the achieved FLOP/s are compared with


def measure(config: Config, *, rounds: int = 5, seconds: float = 1.0) -> dict[str, Any]:
    """Training speed of `config` on all devices that it uses.

    Returns:
      A JSON-ready report: steps per second, the breakdown in seconds per update and as shares, FLOP/s achieved and
      compared with a large f32 matrix product of the same run.
    """
    config = comparable(config)
    env = registry.make(config.env.id, **config.env.options)
    anakin = make_anakin(config, env)
    devices = anakin.mesh.size
    contestants = [
        whole(anakin),
        playing(anakin),
        environment.contestant(
            env, batch=config.ppo.num_envs, steps=config.ppo.num_steps, view="observed", devices=devices, name="game"
        ),
        matrix_product(devices),
    ]
    if devices > 1:
        contestants.append(matrix_product(1))
    results = {result.name: result for result in race(contestants, rounds=rounds, seconds=seconds)}
    return _report(config, env, anakin, results)


def comparable(config: Config) -> Config:
    """`config` for timing: no early stop, because skipped passes would look like speed; one seed."""
    ppo = dataclasses.replace(config.ppo, target_kl=0.0)
    return dataclasses.replace(config, ppo=ppo, run=dataclasses.replace(config.run, seeds=1))


def whole(anakin: Anakin, name: str = "whole") -> Contestant:
    """Whole updates; a unit is one environment step."""
    config = anakin.config
    holder = [anakin.init(0)]

    def block() -> None:
        holder[0], metrics = anakin.run(holder[0])
        jax.block_until_ready((holder[0].params, metrics))

    units = config.batch_size * config.train.updates_per_call
    return Contestant(name, float(units), block, {"devices": anakin.mesh.size})


def playing(anakin: Anakin) -> Contestant:
    """One rollout with its advantages, written down; a unit is one environment step."""
    state = anakin.init(0)
    specs = jax.tree.map(lambda sharding: sharding.spec, anakin.shardings)

    def collect(state: Any, seed: jax.Array) -> tuple[Any, Any]:
        batch, lanes, _ = anakin.collect(state, prng.fast_key(seed))
        return batch, lanes

    sharded = jax.shard_map(
        collect,
        mesh=anakin.mesh,
        in_specs=(specs, PartitionSpec()),
        out_specs=(PartitionSpec(None, AXIS), PartitionSpec(AXIS)),
        check_vma=False,
    )
    program = jax.jit(sharded)
    counter = iter(range(1, 2**31))

    def block() -> None:
        jax.block_until_ready(program(state, next(counter)))

    return Contestant("playing", float(anakin.config.batch_size), block)


def matrix_product(devices: int) -> Contestant:
    """A large f32 product on each device at once; a unit is one floating-point operation."""
    mesh = Mesh(jax.local_devices()[:devices], (AXIS,))
    lanes = PartitionSpec(AXIS)
    left, right = jax.random.normal(jax.random.key(0), (2, devices * MATRIX, MATRIX), jnp.float32)
    multiply = jax.jit(jax.shard_map(lambda a, b: a @ b, mesh=mesh, in_specs=lanes, out_specs=lanes, check_vma=False))

    def block() -> None:
        jax.block_until_ready(multiply(left, right))

    return Contestant(f"matrix product on {devices}", float(2 * devices * MATRIX**3), block)


# ---- FLOPs --------------------------------------------------------------------------------------------------------


def forward_flops(anakin: Anakin) -> float:
    """Floating-point operations of the network's products for one environment step (all seats asked in it)."""
    env, network = anakin.actor.env, anakin.actor.network
    count = 8  # decisions at once: products are then told from element-wise work, and divided out again
    params = jax.eval_shape(network.init, jax.eval_shape(lambda: jax.random.key(0)))
    batched = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), env.observation_spec)
    mask = jax.ShapeDtypeStruct((count, env.num_actions), bool)
    jaxpr = jax.make_jaxpr(jax.vmap(network.evaluate, in_axes=(None, 0, 0)))(params, batched, mask)
    seats = env.num_players if env.simultaneous else 1
    return count_flops(jaxpr.jaxpr) / count * seats


def count_flops(jaxpr: Any) -> int:
    """2 M N K of every matrix product in a jaxpr and the jaxprs inside it; loops count as often as they run."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted)
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                total += times * count_flops(inner) if hasattr(inner, "eqns") else 0
    return total


# ---- the report ---------------------------------------------------------------------------------------------------


def _report(config: Config, env: Env, anakin: Anakin, results: dict[str, Result]) -> dict[str, Any]:
    step_time = {name: safe_ratio(1.0, results[name].rate) for name in ("whole", "playing", "game")}
    parts = {
        "environment": step_time["game"],
        "inference": max(0.0, step_time["playing"] - step_time["game"]),
        "update": max(0.0, step_time["whole"] - step_time["playing"]),
    }
    forward = forward_flops(anakin)
    per_step = forward * (1 + FORWARD_AND_BACKWARD * config.ppo.epochs)
    achieved = per_step * results["whole"].rate
    products = {name: result.rate for name, result in results.items() if name.startswith("matrix")}
    reference = max(products.values())
    return {
        "env": config.env.id,
        "options": dict(config.env.options),
        "devices": anakin.mesh.size,
        "network": f"{config.network.kind} {'x'.join(map(str, config.network.hidden))} {config.network.activation}",
        "features": env.num_features,
        "num_envs": config.ppo.num_envs,
        "num_steps": config.ppo.num_steps,
        "epochs": config.ppo.epochs,
        "minibatches": config.ppo.minibatches,
        "steps_per_second": results["whole"].rate,
        "steps_per_cpu_second": results["whole"].cpu_rate,
        "steps_per_second_range": [results["whole"].low, results["whole"].high],
        "seconds_per_update": {part: time * config.batch_size for part, time in parts.items()},
        "share": {part: safe_ratio(time, step_time["whole"]) for part, time in parts.items()},
        "flops_per_decision_forward": forward,
        "flops_per_step": per_step,
        "achieved_gflops": achieved / 1e9,
        "matrix_product_gflops": {name: rate / 1e9 for name, rate in products.items()},
        "flops_share": safe_ratio(achieved, reference),
        "first_call_seconds": results["whole"].first_seconds,
    }
