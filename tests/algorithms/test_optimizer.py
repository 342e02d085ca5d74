"""The optimizers: each learns, leaves a normaliser alone, and continues bit by bit from a checkpoint."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.optimizer import OPTIMIZERS
from jaxrl.runs.checkpoints import checkpoint
from jaxrl_envs.shared.errors import UserError

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(64, 5)).astype(np.float32)
TARGETS = np.sin(INPUTS @ RNG.normal(size=(5, 1)).astype(np.float32))
PARAMS = {
    "network": {
        "hidden": {"kernel": np.float32(0.3 * RNG.normal(size=(5, 16))), "bias": np.zeros(16, np.float32)},
        "heads": {"kernel": np.float32(0.3 * RNG.normal(size=(16, 1)))},
    },
    "normaliser": {"mean": np.full((5, 5), 7.0, np.float32)},
}


def loss(params: Any) -> jax.Array:
    """The mean squared error of a small regression; the statistics of a normaliser have no part in it."""
    layers = params["network"]
    hidden = jnp.tanh(INPUTS @ layers["hidden"]["kernel"] + layers["hidden"]["bias"])
    return jnp.mean(jnp.square(hidden @ layers["heads"]["kernel"] - TARGETS))


@pytest.fixture(params=OPTIMIZERS)
def step(request) -> Any:
    """(params, optimizer state, learning rate) -> both after a step, for one of the optimizers; and its first state."""

    @jax.jit
    def once(params: Any, opt_state: Any, rate: jax.Array) -> Any:
        rule = optimizer.make_optimizer(request.param, rate, jnp.float32(1.0), 1e-5)
        return optimizer.apply(rule, params, opt_state, jax.grad(loss)(params))

    return once, optimizer.init(PARAMS, request.param)


def test_each_lowers_the_loss_and_keeps_statistics(step: Any) -> None:
    once, opt_state = step
    params = PARAMS
    for _ in range(200):
        params, opt_state = once(params, opt_state, jnp.float32(1e-2))
    assert loss(params) < 0.25 * loss(PARAMS)
    chex.assert_trees_all_equal(params["normaliser"], PARAMS["normaliser"])


def test_each_continues_from_a_checkpoint_bit_by_bit(step: Any) -> None:
    once, opt_state = step
    params, opt_state = once(PARAMS, opt_state, jnp.float32(1e-2))
    state = {"params": params, "opt_state": opt_state}
    restored = checkpoint.unpack(*checkpoint.pack(state), jax.eval_shape(lambda: state))
    chex.assert_trees_all_equal(restored, jax.tree.map(np.asarray, state))
    chex.assert_trees_all_equal(once(**restored, rate=jnp.float32(1e-2)), once(**state, rate=jnp.float32(1e-2)))


def test_the_step_size_is_traced_and_may_differ_between_seeds(step: Any) -> None:
    once, opt_state = step
    still, moved = jax.vmap(once, in_axes=(None, None, 0))(PARAMS, opt_state, jnp.array([0.0, 1e-2]))[0], None
    moved = jax.tree.map(lambda leaf: leaf[1], still)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[0], still), PARAMS)
    assert loss(moved) < loss(PARAMS)


def test_an_unknown_optimizer_is_an_error_that_names_the_others() -> None:
    with pytest.raises(UserError, match=r"ppo\.optimizer.*adam.*muon"):
        configs.from_dict({"ppo": {"optimizer": "lion"}})
