"""The running normaliser of features: what it learns, that nothing else changes it, and that it goes where the
parameters go."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import yaml

from jaxrl import cli
from jaxrl.config import Config
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.networks import normaliser
from jaxrl.networks.base import Network
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import make_network
from jaxrl.policies.export import load_policy
from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.make import make_program
from jaxrl.training.program import Program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl.training.state import update_keys
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.networks.test_networks import Cards
from tests.support.candidate_games import Market
from tests.support.dqn_training import dqn_config
from tests.support.games import HighCard
from tests.support.host_games import HostTicTacToe
from tests.support.training import assert_identical, run, small_config

pytestmark = pytest.mark.thorough

BOTS = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("random",)))


class Physical(HighCard):
    """High card whose features have sizes and places of their own, and one that never changes."""

    id = "physical"

    def features(self, observation: Any) -> jax.Array:
        plain = super().features(observation)
        size = jnp.logspace(-2.0, 3.0, plain.shape[0], dtype=jnp.float32)
        return jnp.append((plain + jnp.linspace(-3.0, 3.0, plain.shape[0])) * size, 7.3)


def normalising(config: Config, **network: Any) -> Config:
    """The configuration with a normaliser."""
    return dataclasses.replace(config, network=dataclasses.replace(config.network, normalize=True, **network))


def small(**settings: Any) -> Config:
    """A small training with a normaliser, bots at some of the seats."""
    return normalising(small_config(**({"seats": BOTS, "updates": 1, "calls": 8, "num_steps": 9} | settings)))


def decisions(program: Program, state: Any) -> np.ndarray:
    """f32[N, F]: the features of the learner's decisions in the next rollout of a compiled game, or in the last one of
    a game on the host that is played without a lag."""
    if isinstance(program, Anakin):
        ids = jnp.arange(program.config.train.num_envs, dtype=jnp.uint32)

        @jax.jit
        def rollout_of(state: Any) -> Any:
            policy = program.algorithm.policy(state.learner, state.update)
            key, _ = update_keys(state.key, state.update)
            steps = program.config.train.num_steps
            return collect(program.setup, policy, state.pool, state.lanes, key, ids, steps)[1].steps

        steps = rollout_of(state)
    else:
        steps = program.storages[0].rollout(None, may_truncate=False).steps  # type: ignore[attr-defined]
    features = jax.jit(jax.vmap(jax.vmap(jax.vmap(program.setup.env.features))))(steps.observation)
    return np.asarray(features)[np.asarray(steps.weight) > 0.0]


def trainings() -> dict[str, tuple[Config, Env]]:
    """Both algorithms in both loops."""
    host = SebulbaConfig(threads=1, lag=0)
    on_host = dataclasses.replace(small(seats=BOTS), sebulba=host)
    # Every action is a random one, so that it does not depend on how two programs round.
    epsilon = Schedule("constant", 1.0)
    dqn = {"updates": 1, "calls": 8, "seats": BOTS, "learning_starts": 64, "epsilon": epsilon}
    return {
        "ppo": (small(), Physical()),
        "ppo-host": (on_host, HostTicTacToe()),
        "dqn": (normalising(dqn_config(**dqn)), Physical()),
        "dqn-host": (normalising(dqn_config(sebulba=host, **dqn)), HostTicTacToe()),
    }


@pytest.mark.parametrize("name", trainings())
def test_statistics_are_those_of_the_learners_decisions(name: str) -> None:
    config, env = trainings()[name]
    program = make_program(config, env)
    state, seen = program.init(0), []
    assert state.learner.params["normaliser"]["decisions"] == 0
    for _ in range(4):
        if isinstance(program, Anakin):
            seen.append(decisions(program, state))
        state, found = run(program, state)
        if not isinstance(program, Anakin):
            seen.append(decisions(program, state))
    program.close()
    everything = np.concatenate(seen).astype(np.float64)
    known = jax.device_get(state.learner.params["normaliser"])
    share = len(everything) / (4 * config.batch_size)  # bots of a host game play inside the engine
    assert known["decisions"] == len(everything) and (share == 1.0 if env.host else 0.5 < share < 0.95)
    mean, variance = everything.mean(axis=0), everything.var(axis=0)
    np.testing.assert_allclose(known["variance"], variance, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(known["mean"], mean, rtol=1e-4, atol=1e-5 * np.sqrt(variance).max())
    assert np.all(np.abs(known["mean"] - mean) <= 1e-4 * np.sqrt(variance) + 1e-6 * np.abs(mean))
    assert np.isfinite(found["train/loss"])


def test_a_feature_that_hardly_varies_far_from_zero() -> None:
    """About 0 its variance drowns in rounding: it came out as -40, and the network as no number."""
    features = 1e4 + np.random.default_rng(0).normal(size=(8, 512, 1)).astype(np.float32)
    found = normaliser.fresh(1)
    for part in (features[:4], features[4:]):
        found = normaliser.absorbed(
            found, lambda x: x, jnp.asarray(part), jnp.ones(part.shape[:2]), lambda total: total
        )
    np.testing.assert_allclose(found.variance, features.var(dtype=np.float64), rtol=1e-3)
    np.testing.assert_allclose(found.mean, features.mean(dtype=np.float64), rtol=1e-6)
    without = normaliser.absorbed(found, lambda x: x, jnp.asarray(part), jnp.zeros(part.shape[:2]), lambda total: total)
    assert_identical(without, found)  # nothing was the learner's


def test_a_feature_that_begins_to_vary_is_known_at_once() -> None:
    """The place of a car that comes in a later stage: measured against its years of nothing it would be 10 for long."""
    add = functools.partial(normaliser.absorbed, encode=lambda x: x, total=lambda total: total)
    found = normaliser.fresh(2)
    rng, weight = np.random.default_rng(0), jnp.ones((64, 512))
    for _ in range(8):
        before = np.stack([rng.normal(size=weight.shape), np.full(weight.shape, 0.3)], axis=-1).astype(np.float32)
        found = add(found, observations=jnp.asarray(before), weight=weight)
    np.testing.assert_allclose(normaliser.normalised(found, jnp.array([0.5, 0.8])), 0.5, atol=0.02)  # its own scale
    now = before.copy()
    now[..., 1] = rng.normal(2.0, 3.0, size=weight.shape)
    found = add(found, observations=jnp.asarray(now), weight=weight)
    np.testing.assert_allclose((found.mean, found.variance), [(0.0, 2.0), (1.0, 9.0)], atol=0.15)


def example(network: Network, env: Env) -> tuple[Any, jax.Array, jax.Array]:
    """Parameters that have seen something, and a question."""
    params = network.init(jax.random.key(0))
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(1), 32))
    params = network.normaliser(params, states.observation, jnp.ones(32), lambda total: total)
    return params, *jax.tree.map(lambda leaf: leaf[3], (states.observation, states.legal_action_mask))


def test_the_network_sees_normalised_features_and_no_gradient_reaches_them() -> None:
    env, config = Physical(), NetworkConfig(hidden=(16,))
    plain, network = make_network(config, env), make_network(dataclasses.replace(config, normalize=True), env)
    params, observation, mask = example(network, env)
    _, logits, value = network.evaluate(params, (), observation, mask)
    known, features = params["normaliser"], env.features(observation)
    seen = np.clip((features - known["mean"]) / np.sqrt(known["variance"] + 1e-8), -10.0, 10.0)
    _, expected, expected_value = plain.apply(params["network"], (), jnp.asarray(seen), mask)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(value, expected_value, atol=1e-5)

    def objective(params: Any) -> jax.Array:
        _, logits, value = network.evaluate(params, (), observation, mask)
        return jnp.sum(jnp.where(mask, logits, 0.0) ** 2) + value**2

    gradient = jax.grad(objective)(params)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient["normaliser"]))
    assert all(np.any(leaf) for leaf in jax.tree.leaves(gradient["network"]["heads"]["value"]))


def test_the_optimizer_leaves_it_alone() -> None:
    """It is what the rollout made of it, whatever the learning rate."""
    program = make_program(small(), Physical())
    opt_state = run(program, program.init(0), 2)[0].learner.opt_state
    mu, nu = optax.tree.get(opt_state, "mu"), optax.tree.get(opt_state, "nu")
    assert not any(np.any(leaf) for leaf in jax.tree.leaves((mu["normaliser"], nu["normaliser"])))
    assert all(np.any(leaf) for leaf in jax.tree.leaves(mu["network"]["heads"]))


@pytest.mark.parametrize("name", ["ppo", "ppo-host"])
def test_snapshots_keep_their_own(name: str) -> None:
    """A snapshot sees the world as it did when it was taken."""
    config, env = trainings()[name]
    league = LeagueConfig(opponents=("self", "snapshots"), snapshots=2, snapshot_every=1)
    program = make_program(dataclasses.replace(config, seats=(SeatMix(),), league=league), env)
    state, _ = run(program, program.init(0), 4)
    program.close()
    kept = jax.device_get(state.pool.snapshots["normaliser"])
    newest = int(np.argmax(state.pool.born))
    assert state.pool.born.tolist() == [3, 4] and kept["decisions"][newest] > kept["decisions"][1 - newest]
    now = jax.tree.map(lambda leaf: leaf[newest], kept)
    assert_identical(now, jax.device_get(state.learner.params["normaliser"]))


def test_a_run_is_exported_with_it(tmp_path: Path) -> None:
    tree = {
        "run": {"directory": str(tmp_path), "cache_dir": "", "devices": 1},
        "env": {"id": "tests.networks.test_normaliser:Physical"},
        "network": {"hidden": [8], "normalize": True},
        "ppo": {"epochs": 1, "minibatches": 2},
        "train": {"num_envs": 8, "num_steps": 10, "total_steps": 4 * 80, "updates_per_call": 2},
        "evaluate": {"deals": 2, "training_deals": 2, "opponents": ["random"]},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tree))
    assert cli.main(["train", "--config", str(tmp_path / "tiny.yaml"), "--name", "whole"]) == 0
    whole = runs.RunDirectory(tmp_path / "whole").checkpoints().newest()
    known = checkpoint.params_of(whole.arrays)["normaliser"]
    assert known["decisions"] == 4 * 80 and np.abs(known["mean"]).max() > 100.0

    assert cli.main(["export", str(tmp_path / "whole"), str(tmp_path / "agent.jaxrl")]) == 0
    policy, env = load_policy(tmp_path / "agent.jaxrl"), Physical()
    state = env.init(jax.random.key(1))
    network = make_network(NetworkConfig(hidden=(8,), normalize=True), env)
    params, evaluate = checkpoint.params_of(whole.arrays), jax.jit(network.evaluate)
    _, logits, _ = evaluate(params, (), state.observation, state.legal_action_mask)
    probabilities = policy.probabilities(state.observation, state.legal_action_mask)
    np.testing.assert_allclose(probabilities, jax.nn.softmax(logits), atol=1e-5)
    forgotten = params | {"normaliser": normaliser.fresh(known["mean"].size)._asdict()}
    _, other, _ = evaluate(forgotten, (), state.observation, state.legal_action_mask)
    assert np.abs(jax.nn.softmax(other) - probabilities).max() > 1e-3


@pytest.mark.parametrize(("kind", "env"), [("transformer", Cards()), ("candidates", Market())])
def test_networks_without_plain_features_refuse_it(kind: str, env: Env) -> None:
    with pytest.raises(UserError, match=r"^network.normalize is for networks that read plain features \(mlp\)"):
        make_program(normalising(small_config(), kind=kind), env)
