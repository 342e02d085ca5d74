"""Checks that a device computes what the CPU computes: games bit by bit, network outputs and an update within bounds.

Games draw by integer arithmetic (`jaxrl_envs.shared.prng`), so a seed plays the same games everywhere; games may
only diverge where a rule computes in floating point. Networks are sums in another order, and a GPU may multiply
matrices in TF32, with 10 bits of mantissa: the bounds allow for such products.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl.config import Config
from jaxrl.diagnose.play import play_steps
from jaxrl.diagnose.training import comparable, evaluation, played
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.make import make_program
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.contract.wrappers import auto_reset
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.fused.kernel import vmap_on

GAMES, STEPS = 256, 64  # that are compared
LANES = 64  # of the update that is compared: the CPU makes one too
SAME_GAMES = 0.99  # share of equal games, where rules compute in floating point; else all must be equal
CLOSE = 1e-3  # relative and absolute tolerance for the floats of a game
ANSWERS = 2e-2  # largest difference of a logit or a value
UPDATE = 0.2  # norm of the difference of two updates, relative to the norm of the update


class Compared(NamedTuple):
    """One comparison."""

    what: str
    found: str
    bound: str
    fine: bool


def agreements(config: Config, env: Env, reference: jax.Device, device: jax.Device) -> Iterator[Compared]:
    """Compares what `device` and `reference` compute, for one configuration and its game.

    A host engine is the same program either way, so for host games only the network's outputs are compared.
    """
    config = smaller(comparable(config))
    if not env.host:
        yield same_games(env, reference, device)
    yield same_answers(config, env, reference, device)
    if not env.host:
        yield same_update(config, env, reference, device)


def smaller(config: Config) -> Config:
    """Returns the training on one device, with lanes halved while they exceed `LANES` and the result is valid."""
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1))
    while config.train.num_envs > LANES and not config.train.num_envs % 2:
        train = dataclasses.replace(config.train, num_envs=config.train.num_envs // 2)
        fewer = dataclasses.replace(config, train=train)
        try:
            fewer.check()
        except UserError:
            break
        config = fewer
    return config


def same_games(env: Env, reference: jax.Device, device: jax.Device) -> Compared:
    """Compares random legal play from one seed: states, rewards, observations and masks of `STEPS` steps, which on a
    GPU are steps of one kernel."""
    auto, act = auto_reset(env), env.bots["random"]

    def of(over_lanes: Callable[[Callable], Callable], seed: jax.Array) -> PyTree:
        key = prng.fast_key(seed)
        states = jax.vmap(auto.init)(jax.random.split(key, GAMES))
        states, total, seen = play_steps(auto, act, states, key, STEPS, "observed", over_lanes)
        return states, total, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), seen)

    both = [(each, jax.jit(functools.partial(of, vmap_on(each)))) for each in (reference, device)]
    leaves = [_leaves(_on(each, play, np.uint32(1))) for each, play in both]
    equal = np.ones(GAMES, bool)
    for one, two in zip(*leaves, strict=True):
        if np.issubdtype(one.dtype, np.inexact):
            near = np.isclose(one, two, rtol=CLOSE, atol=CLOSE, equal_nan=True)
        else:
            near = one == two
        equal &= near.reshape(GAMES, -1).all(axis=1)
    rules = jax.eval_shape(env.init, jax.eval_shape(lambda: prng.fast_key(0))).replace(rewards=None, observation=None)
    bound = SAME_GAMES if any(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in jax.tree.leaves(rules)) else 1.0
    share = float(equal.mean())
    return Compared(f"{GAMES} games of {STEPS} steps", f"{share:.1%} equal", f">= {bound:.0%}", share >= bound)


def same_answers(config: Config, env: Env, reference: jax.Device, device: jax.Device) -> Compared:
    """Compares logits and values of a new network on random observations between 0 and 3."""
    function, arguments = evaluation(config, env, GAMES)
    rng = np.random.default_rng(0)

    def drawn(leaf: np.ndarray) -> np.ndarray:
        if np.issubdtype(leaf.dtype, np.inexact):
            return rng.uniform(0, 3, leaf.shape).astype(leaf.dtype)
        return rng.integers(0, 4, leaf.shape).astype(leaf.dtype)

    params, memory, observation, mask = jax.device_get(arguments)
    arguments = (params, memory, jax.tree.map(drawn, observation), mask)
    one, two = (
        [np.asarray(x, np.float64) for x in _on(d, jax.jit(function), *arguments)[1:]] for d in (reference, device)
    )
    gap = max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True))
    return Compared(f"{GAMES} answers", f"differ by {gap:.1e} at most", f"<= {ANSWERS:g}", gap <= ANSWERS)


def same_update(config: Config, env: Env, reference: jax.Device, device: jax.Device) -> Compared:
    """Compares one update of the same learner on the same rollout, which `reference` has played."""
    first, second = (make_program(config, env, devices=[each]) for each in (reference, device))
    assert isinstance(first, Anakin) and isinstance(second, Anakin)
    state = first.init(0)
    rollout = _within(first, lambda state, seed: played(first, state, seed)[1])(state, np.uint32(1))
    changes = []
    for program in (first, second):
        learn = _within(
            program, lambda *given, p=program: p.algorithm.learn(*given[:2], prng.fast_key(given[2]), given[3])
        )
        everywhere = NamedSharding(program.mesh, Spec())
        learner, steps = jax.device_put((state.learner, rollout), everywhere)
        after, _ = learn(learner, steps, np.uint32(2), np.int32(0))
        pairs = zip(_leaves(learner.params), _leaves(after.params), strict=True)
        changes.append(np.concatenate([(b.astype(np.float64) - a).ravel() for a, b in pairs]))
    length = float(np.linalg.norm(changes[0]))
    gap = float(np.linalg.norm(changes[1] - changes[0])) / length if length else float(np.abs(changes[1]).max())
    found = f"differ by {gap:.1e} of their length" if length else "no update was due"
    return Compared("one update", found, f"<= {UPDATE:g}", gap <= UPDATE)


def _within(program: Anakin, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function in the one-device mesh of a program and jits it."""
    inside = jax.shard_map(function, mesh=program.mesh, in_specs=Spec(), out_specs=Spec(), check_vma=False)
    return jax.jit(inside)


def _on(device: jax.Device, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a jitted function on a device."""
    return function(*jax.device_put(arguments, device))


def _leaves(tree: PyTree) -> list[np.ndarray]:
    """Returns leaves of a tree as NumPy arrays; keys as their raw data."""
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]
