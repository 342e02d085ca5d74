"""How fast a configuration learns, and where the time goes.

Three programs of the same shape are raced: the game alone (random actions, observation and mask written down), playing
with the network (the rollout with its advantages), and the whole update. Their differences are the breakdown:

    environment = game alone        inference = playing - game alone        update = whole - playing

`jaxrl.benchmark.breakdown` does that arithmetic.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from envs import prng
from envs.core import Env
from jaxrl.benchmark import environment
from jaxrl.benchmark.timing import Contestant
from jaxrl.config import Config
from jaxrl.runs.games import make_env
from jaxrl.training.anakin import AXIS, Anakin, make_anakin

FORWARD_AND_BACKWARD = 3  # a pass over a minibatch costs three evaluations: one forward, two backward
MATRIX = 2048  # side of the square product that the achieved FLOP/s are compared with


def contestants(config: Config) -> tuple[list[Contestant], dict[str, Any]]:
    """What `breakdown` needs of one configuration: the contestants and the facts."""
    config = comparable(config)
    env = make_env(config)
    anakin = make_anakin(config, env)
    devices = anakin.mesh.size
    game = environment.contestant(
        env, batch=config.train.num_envs, steps=config.train.num_steps, view="observed", devices=devices, name="game"
    )
    products = [matrix_product(count) for count in sorted({1, devices})]
    return [whole(anakin), playing(anakin), game, *products], _facts(config, env, anakin)


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


def _facts(config: Config, env: Env, anakin: Anakin) -> dict[str, Any]:
    forward = forward_flops(anakin)
    shape = "x".join(map(str, config.network.hidden)) if config.network.kind == "mlp" else ""
    return {
        "env": config.env.id,
        "options": dict(config.env.options),
        "devices": anakin.mesh.size,
        "network": f"{config.network.kind} {shape} {config.network.activation} {config.network.compute_dtype}",
        "features": env.num_features,
        "num_envs": config.train.num_envs,
        "num_steps": config.train.num_steps,
        "epochs": config.ppo.epochs,
        "minibatches": config.ppo.minibatches,
        "flops_per_decision_forward": forward,
        "flops_per_step": forward * (1 + FORWARD_AND_BACKWARD * config.ppo.epochs),
    }
