"""examples/ppo_in_one_file.py is short, learns to play tic-tac-toe perfectly, and computes the library's losses."""

from __future__ import annotations

import ast
import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import ppo_in_one_file as one
from jaxrl.algorithms import gae
from jaxrl.algorithms.base import AXIS
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import Batch, PPOCoefs, ppo_loss
from jaxrl.algorithms.ppo.update import normalize
from jaxrl.networks import distributions
from jaxrl_envs import conformance
from jaxrl_envs.contract.wrappers import AutoReset
from tests.support.paths import ROOT

ENV = one.TicTacToe()


def test_it_is_one_short_file_without_the_library():
    source = (ROOT / "examples" / "ppo_in_one_file.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 250
    imported = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.split(".")[0] == "jaxrl"]


def test_its_game_satisfies_the_contract():
    report = conformance.check(ENV, games=4)
    assert report.ok, str(report)


def against_every_reply(act, seat: int) -> tuple[int, int]:
    """Games played and lost by `act` (states -> i32[n]) in `seat` against *every* sequence of replies."""
    step = jax.jit(jax.vmap(ENV.step, in_axes=(0, 0, None)))
    key, games, lost = jax.random.key(0), 0, 0
    states = jax.tree.map(lambda x: x[None], ENV.init(key))
    for move in range(9):
        mask = np.asarray(states.legal_action_mask)
        row, action = np.nonzero(mask) if move % 2 != seat else (np.arange(len(mask)), np.asarray(act(states)))
        states = step(jax.tree.map(lambda x, row=row: x[row], states), jnp.asarray(action), key)
        lost += int((states.rewards[:, seat] < 0).sum())
        games += int(states.terminated.sum())
        running = np.flatnonzero(~np.asarray(states.terminated))
        states = jax.tree.map(lambda x, running=running: x[running], states)
    return games, lost


@pytest.mark.slow
@pytest.mark.optimised
def test_it_learns_tic_tac_toe():
    """Most seeds lose to no sequence of replies at all, some to one or two, which random play hardly ever finds."""
    apply, params, losses = one.train(ENV, one.Config(), jax.random.key(0))
    chex.assert_tree_all_finite((params, losses))
    for seat in (0, 1):
        games, lost = against_every_reply(
            lambda states: apply(params, states.observation, states.legal_action_mask)[0].argmax(1), seat
        )
        against_random = np.asarray(one.evaluate(ENV, apply, params, seat, 1000, jax.random.key(seat)))
        assert games > 50 and lost <= 2 and (against_random >= 0).mean() >= 0.995, (seat, games, lost)
        assert (against_random > 0).mean() > (0.85, 0.7)[seat]
    assert against_every_reply(lambda states: states.legal_action_mask.argmax(1), 1)[1] > 50, "losses are seen"


@pytest.fixture(scope="module")
def played():
    """A network, a rollout played with older parameters, and the value after it."""
    config = one.Config(lanes=8, hidden=16)
    network = one.ActorCritic(9, config.hidden)
    apply = jax.vmap(network.apply, in_axes=(None, 0, 0))
    lanes = jax.vmap(ENV.init)(jax.random.split(jax.random.key(0), config.lanes))
    old, new = (network.init(jax.random.key(seed), lanes.observation[0], lanes.legal_action_mask[0]) for seed in (1, 2))
    new = jax.tree.map(lambda x: 20.0 * x, new)  # far enough for ratios to be clipped
    lanes, rollout = one.collect(AutoReset(ENV), apply, old, lanes, jax.random.key(3), config.steps)
    last_value = apply(old, lanes.observation, lanes.legal_action_mask)[1]
    estimates = one.advantages(rollout, lanes.current_player, last_value, 0.9, 0.8)
    return config, network, new, rollout, (lanes.current_player, last_value), estimates


def test_its_advantages_are_the_librarys(played):
    _, _, _, rollout, (last_seat, last_value), (advantage, weight) = played
    acting, asked = rollout.seat[..., None] == jnp.arange(2), last_seat[:, None] == jnp.arange(2)
    nothing = jnp.zeros_like(acting)
    value = acting * rollout.value[..., None]
    steps = gae.Steps(acting, value, rollout.rewards, rollout.over, nothing[..., 0], nothing, 0.0 * value)
    expected, valid = gae.gae(
        gae.Trajectory(steps, asked, asked * last_value[:, None]), jnp.float32(0.9), jnp.float32(0.8)
    )
    np.testing.assert_allclose(advantage, expected.sum(-1), atol=1e-6)
    np.testing.assert_array_equal(weight, valid.any(-1))
    assert 0 < weight.mean() < 1 and rollout.over.any()


@pytest.mark.thorough
def test_its_losses_and_gradients_are_the_librarys(played):
    config, network, params, rollout, _, (advantage, weight) = played
    apply = jax.vmap(network.apply, in_axes=(None, 0, 0))
    normalized = jax.nn.standardize(advantage, axis=(0, 1), where=weight > 0, epsilon=1e-8)
    theirs = jax.vmap(normalize, axis_name=AXIS)(advantage[None], weight[None])
    np.testing.assert_allclose(weight * normalized, weight * theirs[0], atol=1e-6)
    batch = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]), (rollout, normalized, advantage + rollout.value, weight)
    )
    made = batch[0]
    batch_of_theirs = Batch(
        made.observation,
        distributions.pack_mask(made.mask),
        made.action,
        made.log_prob,
        made.value,
        advantage=batch[1],
        target=batch[2],
        weight=batch[3],
    )
    net = types.SimpleNamespace(
        num_actions=9, evaluate=lambda params, memory, seen, mask, key: (memory, *network.apply(params, seen, mask))
    )
    coefs = PPOCoefs(**dict.fromkeys(PPOCoefs._fields, jnp.float32(0.0)))._replace(
        temperature=1.0, clip=config.clip, value_coef=config.value_coef, entropy_coef=config.entropy_coef
    )
    total, count = jax.value_and_grad(ppo_loss, has_aux=True), weight.sum()
    (loss, sums), gradient = total(params, batch_of_theirs, net, PPOConfig(), coefs)
    (ours, losses), own_gradient = jax.value_and_grad(one.loss, has_aux=True)(params, apply, config, *batch)
    expected = (loss / count, sums.policy / count, sums.value / count, sums.entropy / count)
    np.testing.assert_allclose((ours, *losses), expected, rtol=1e-6, atol=1e-6)
    assert min(abs(float(x)) for x in losses) > 1e-3 and float(sums.clip_fraction) > 0
    chex.assert_trees_all_close(own_gradient, jax.tree.map(lambda x: x / count, gradient), rtol=1e-5, atol=1e-5)
