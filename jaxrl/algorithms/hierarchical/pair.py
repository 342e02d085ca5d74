"""Combines two networks into one that evaluates each decision with the network of its role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxrl.networks.base import Memory, Network, Params
from jaxrl_envs.contract.env import Env, select

MANAGER, WORKER = ROLES = ("manager", "worker")


def pair(networks: Mapping[str, Network], env: Env) -> Network:
    """Creates one `Network` from those of the two `ROLES`; parameters and recurrent states are dictionaries by role.

    Both networks evaluate every decision, and the observation selects the result. Normalisers are updated by the roles.
    `networks`: networks of the same kind, by role; `env`: defines the roles (`Env.manages`)."""
    worker = networks[WORKER]
    remembers = worker.remembers

    def init(key: jax.Array) -> Params:
        return {name: networks[name].init(jax.random.fold_in(key, number)) for number, name in enumerate(ROLES)}

    def memory(batch: tuple[int, ...]) -> Memory:
        return {name: networks[name].memory(batch) for name in ROLES} if remembers else ()

    def apply(
        params: Params, memory: Memory, encoded: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        seen, manages = encoded
        held = memory if remembers else dict.fromkeys(ROLES, ())
        found = {name: networks[name].apply(params[name], held[name], seen, mask, key) for name in ROLES}
        logits, value = select(manages, found[MANAGER][1:], found[WORKER][1:])
        return ({name: found[name][0] for name in ROLES} if remembers else ()), logits, value

    def encode(observation: Any) -> Any:
        return worker.encode(observation), env.manages(observation)

    return Network(env.num_actions, encode, init, apply, memory, dropout=worker.dropout)


def managed(env: Env, observation: Any, axes: int) -> jax.Array:
    """Returns bool[...]: which decisions are the manager's, of packed observations with `axes` leading axes."""
    asks: Callable[[Any], Any] = env.manages
    for _ in range(axes):
        asks = jax.vmap(asks)
    found: jax.Array = asks(observation)
    return found
