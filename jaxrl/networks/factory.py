"""Creates networks, as pure functions, from the configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.networks import distributions, normaliser, recurrent
from jaxrl.networks.base import Memory, Network, NetworkModule, Params
from jaxrl.networks.candidates import CandidateScorer
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.mlp import MLP, Heads, Products, products_of
from jaxrl.networks.normaliser import Statistics
from jaxrl.networks.recurrent import Recurrent, Torso
from jaxrl.networks.transformer import Transformer
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import kernels, user_code
from jaxrl_envs.shared.errors import UserError

NOISE = "noise"  # name of the random stream of noisy layers; without it they use their means


class HeadKind(NamedTuple):
    """The output heads of a network."""

    make: Callable[..., nn.Module]  # creates the module
    finish: Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    """(logits f32[A], value f32[], mask bool[A]) of the module -> masked logits, value"""
    noisy: bool = False


def _masked(logits: jax.Array, value: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    return distributions.mask_logits(logits, mask), value


POLICY = HeadKind(Heads, _masked)


class Renamed(NamedTuple):
    """An encoded observation of `Env.canonical`."""

    encoded: Any
    names: Any  # how to name the actions as the game does


class _Module(NamedTuple):
    """A flax module with its encoder and recurrent state, before conversion to a `Network`."""

    module: nn.Module
    encode: Callable[[Any], Any]
    dropout: float = 0.0
    memory: Callable[[tuple[int, ...]], Memory] | None = None


def make_network(config: NetworkConfig, env: Env, heads: HeadKind = POLICY) -> Network:
    """Creates the network of a `NetworkConfig` for the observations and actions of `env`. Raises UserError: `normalize`
    with a network that does not read plain features, or a user's network with wrong outputs."""
    built = _build(config.kind, config, env, heads.make)
    module = built.module

    @functools.partial(jax.jit, inline=True)  # traced once, however often it is vmapped
    def encode(observation: Any) -> Any:
        if not config.canonical:
            return built.encode(observation)
        found = env.canonical(observation)
        assert found is not None, "checked with the configuration"
        return Renamed(built.encode(found[0]), found[1])

    memory = built.memory or (lambda batch: ())

    @jax.jit  # one program instead of one for every operation of every layer
    @jax.custom_batching.sequential_vmap  # LAPACK's batched QR deadlocks on two cores
    def init(key: jax.Array) -> Params:
        example = jax.eval_shape(encode, env.observation_spec)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
        zeros = zeros.encoded if isinstance(zeros, Renamed) else zeros
        return module.init(key, *((memory(()), zeros) if built.memory else (zeros,)))["params"]

    def apply(
        params: Params, memory: Memory, encoded: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        read = encoded.encoded if isinstance(encoded, Renamed) else encoded
        arguments = (memory, read) if built.memory else (read,)
        settings: dict[str, Any] = {}
        if heads.noisy and key is not None:
            settings = {"rngs": {NOISE: key}}
        elif built.dropout and key is not None:
            settings = {"deterministic": False, "rngs": {"dropout": key}}
        ready = prepare(params)
        in_products = isinstance(ready, Products)
        found: Any = ready(read) if in_products else module.apply({"params": params}, *arguments, **settings)
        memory, (logits, value) = found if built.memory else (memory, found)
        logits = env.from_canonical(logits, encoded.names) if isinstance(encoded, Renamed) else logits
        return memory, *heads.finish(logits, value, mask)

    def prepare(params: Params) -> Params:
        plain = config.kind == "mlp" and config.hidden and config.activation == "relu" and not config.layer_norm
        as_products = kernels.on_gpu() and plain and heads is POLICY and not isinstance(params, Products)
        return products_of(params, config.compute_dtype) if as_products else params

    network = Network(env.num_actions, encode, init, apply, memory, built.dropout, heads.noisy, prepare=prepare)
    return _normalising(network, env) if config.normalize else network


def _build(kind: str, config: NetworkConfig, env: Env, heads: Callable[..., nn.Module]) -> _Module:
    """Returns the flax module of a kind, with its encoder and recurrent state."""
    actions, dtype = env.num_actions, config.compute_dtype
    if kind == "mlp":
        widths, norm = tuple(config.hidden), config.layer_norm
        mlp = MLP(actions, widths, config.activation, layer_norm=norm, compute_dtype=dtype, make_heads=heads)
        return _Module(mlp, env.features)
    if kind == "transformer":
        transformer = Transformer(actions, **vars(config.transformer), compute_dtype=dtype, make_heads=heads)
        return _Module(transformer, env.tokens, config.transformer.dropout)
    if kind == "candidates":
        sizes = vars(config.candidates)
        scorer = CandidateScorer(actions, env.vocabulary, **sizes, compute_dtype=dtype, make_heads=heads)
        return _Module(scorer, env.candidates)
    if kind == "recurrent":
        part_of = config.recurrent
        scores = part_of.torso == "candidates"  # keeps its heads: it scores options given the recurrent state
        torso = _build(part_of.torso, config, env, heads if scores else Torso)
        cells = (part_of.cell, part_of.width, part_of.layers)
        module = Recurrent(actions, torso.module, *cells, None if scores else heads)
        return _Module(module, torso.encode, torso.dropout, functools.partial(recurrent.empty_memory, *cells))
    return _own(user_code.find_class(kind, NetworkModule, "network.kind")(actions, config, heads), kind, env)


def _own(module: NetworkModule, kind: str, env: Env) -> _Module:
    """Returns a user's own network, traced once. Raises UserError if its outputs have wrong shapes."""
    encode = module.encode(env)
    memory, encoded = jax.eval_shape(lambda seen: (module.memory(()), encode(seen)), env.observation_spec)
    found, _ = jax.eval_shape(module.init_with_output, jax.eval_shape(lambda: jax.random.key(0)), memory, encoded)
    wanted = jax.eval_shape(lambda memory: (memory, (jnp.zeros(env.num_actions), jnp.zeros(()))), memory)
    if found != wanted:
        shapes = [jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree) for tree in (found, wanted)]
        raise UserError(f"network.kind {kind!r} gives {shapes[0]} where (memory, (logits, value)) is {shapes[1]}.")
    return _Module(module, encode, memory=module.memory)


# ---- with a normaliser --------------------------------------------------------------------------------------------

INNER, STATISTICS = "network", "normaliser"


def is_statistics(path: Sequence[Any]) -> bool:
    """Returns whether the parameter leaf at this path is a normaliser statistic, of any magnitude, and not a weight."""
    return any(getattr(step, "key", None) == STATISTICS for step in path)


def _normalising(network: Network, env: Env) -> Network:
    """Wraps a network with a running normaliser of its features, whose statistics become part of the parameters."""
    spec = jax.eval_shape(network.encode, env.observation_spec)
    if not isinstance(spec, jax.ShapeDtypeStruct):
        raise UserError(
            "network.normalize is for networks that read plain features (mlp), not canonical ones: set it to false."
        )
    features = spec.shape[0]

    def init(key: jax.Array) -> Params:
        return {INNER: network.init(key), STATISTICS: normaliser.fresh(features)._asdict()}

    def statistics(params: Params) -> Statistics:
        return Statistics(**params[STATISTICS])

    def apply(
        params: Params, memory: Memory, encoded: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        return network.apply(params[INNER], memory, normaliser.normalised(statistics(params), encoded), mask, key)

    def absorb(params: Params, observations: Any, weight: jax.Array, total: Callable[[Any], Any]) -> Params:
        found = normaliser.absorbed(statistics(params), network.encode, observations, weight, total)
        return params | {STATISTICS: found._asdict()}

    def prepare(params: Params) -> Params:
        return params | {INNER: network.prepare(params[INNER])}

    return network._replace(init=init, apply=apply, normaliser=absorb, prepare=prepare)
