"""A manager and a worker: chains of rewards, hindsight without bias, and everything that a run does with them."""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.hierarchical.algorithm import Hierarchical, _part, _view
from jaxrl.algorithms.hierarchical.config import HierarchicalConfig, RoleConfig
from jaxrl.algorithms.hierarchical.hindsight import relabel, surrogate
from jaxrl.algorithms.hierarchical.pair import MANAGER, WORKER, managed
from jaxrl.algorithms.hierarchical.phases import normalised_within
from jaxrl.algorithms.hierarchical.role import RoleLearner
from jaxrl.algorithms.ppo.loss import PPOCoefs
from jaxrl.algorithms.ppo.update import minibatches_of
from jaxrl.algorithms.trajectory import values_of
from jaxrl.config import Config, EnvConfig
from jaxrl.games import GameForms, compare
from jaxrl.league.config import LeagueConfig
from jaxrl.networks.config import NetworkConfig
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.exploit.best_response import response_config
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.aim_game import LANDS, Aim
from tests.support.games import HighCard, TicTacToe
from tests.support.host_games import HostTicTacToe
from tests.support.training import assert_identical, in_mesh, program, run, small_config

pytestmark = pytest.mark.thorough

RATE = Schedule("constant", 3e-3)
SMALL = HierarchicalConfig(
    manager=RoleConfig(epochs=3, learning_rate=RATE),
    worker=RoleConfig(epochs=2, learning_rate=RATE),
    hindsight=Schedule("constant", 0.5),
    balance=True,
)


def config_of(section: HierarchicalConfig = SMALL, **keys: Any) -> Config:
    config = small_config(**keys)
    train = dataclasses.replace(config.train, algorithm="hierarchical")
    return dataclasses.replace(config, train=train, hierarchical=section)


class Games(NamedTuple):
    """Rollouts of the first parameters, with noise on them."""

    algorithm: Any
    params: Any
    play: Any  # (key, lanes) -> lanes afterwards, rollout
    lanes: Any  # the first ones


@cache
def games(rounds: int, noise: float, num_envs: int, num_steps: int) -> Games:
    section = dataclasses.replace(SMALL, manager=RoleConfig(), worker=RoleConfig())
    config = config_of(section, num_envs=num_envs, num_steps=num_steps, gamma=0.9, gae_lambda=0.7)
    anakin = program(Aim(rounds=rounds), config)
    state = anakin.init(0)
    flat, unravel = jax.flatten_util.ravel_pytree(state.learner.params)
    learner = state.learner.replace(params=unravel(flat + noise * jax.random.normal(jax.random.key(8), flat.shape)))
    policy, ids = anakin.algorithm.policy(learner, jnp.int32(0)), jnp.arange(num_envs, dtype=jnp.uint32)

    @jax.jit
    def play_on(key: Any, lanes: Any) -> Any:
        return collect(anakin.setup, policy, None, lanes, key, ids, num_steps)[:2]

    return Games(anakin.algorithm, learner.params, play_on, state.lanes)


@cache
def estimate(name: str) -> Any:
    """A compiled function: (view of a rollout, its rewards) -> what a role estimates; and the values after the last
    step, f32[B, 1]."""
    role = games(2, 0.0, 16, 22).algorithm._roles[name]
    coefs = PPOCoefs(**role.ppo.hyper().at(jnp.int32(0)))

    @jax.jit
    def found(view: Any, rewards: Any) -> Any:
        view = view._replace(steps=view.steps._replace(rewards=rewards))
        last = values_of(role.network, view).last
        return role._estimate(view.policy.params, view, coefs), last

    return found


# ---- chains ---------------------------------------------------------------------------------------------------------


def chain(rows: list[dict[str, Any]], gamma: float, decay: float) -> None:
    """Plain GAE over the decisions of one chain; the last row may be one that only has a value."""
    following = 0.0
    for row, after in zip(rows[-2::-1], rows[:0:-1], strict=True):
        row["advantage"] = row["earned"] + gamma * after["value"] - row["value"] + gamma * decay * following
        following = row["advantage"]


def expected(rollout: Any, last: Any, lane: int, seat: int, manager: bool, *decays: float) -> dict[int, float]:
    """The advantages of one seat of one lane by step, one decision after the other; `last`: see `estimate`."""
    steps, found = jax.tree.map(lambda leaf: np.asarray(leaf)[:, lane], rollout.steps), {}
    rows: list[dict[str, Any]] = []

    def close(*after: dict[str, Any]) -> None:
        chain([*rows, *after], *decays)
        found.update({row["at"]: row["advantage"] for row in rows if "advantage" in row})
        rows.clear()

    def decision(at: int, value: float) -> dict[str, Any]:
        return {"at": at, "value": value, "earned": 0.0}

    for t in range(len(steps.action)):
        goal = steps.observation[t, 0, 0] < 0
        if steps.seat[t, 0] == seat:
            if not manager and goal:
                close(decision(t, 0.0))
            if goal == manager:
                rows.append(decision(t, steps.value[t, 0]))
        if rows:
            rows[-1]["earned"] += steps.rewards[t, seat]
        if steps.terminated[t]:
            close(decision(t, 0.0))
    asked = int(rollout.last.seat[lane, 0]) == seat
    goal_next = bool(rollout.last.observation[lane, 0, 0] < 0)
    if rows and asked and (goal_next == manager or not manager):
        close(decision(-1, float(last[lane, 0]) if goal_next == manager else 0.0))
    elif rows:  # what follows the last decision is not known; its value is, and serves those before it
        close()
    return found


@pytest.mark.parametrize("num_steps", [18, 22])  # up to a goal, and amid throws: a round has six steps
def test_both_chains_of_rewards_are_those_of_one_decision_after_the_other(num_steps: int) -> None:
    played = games(2, 0.6, 16, num_steps)
    rollout = played.play(jax.random.key(1), played.lanes)[1]
    for name in (MANAGER, WORKER):
        view = _view(rollout, played.algorithm._roles[name], name)
        found, last = estimate(name)(view, view.steps.rewards)
        weight = np.asarray(view.steps.weight * found.valid)[..., 0]
        assert np.abs(last).min() > 0.0
        seen = 0
        for lane, seat in itertools.product(range(16), range(2)):
            theirs = expected(rollout, last, lane, seat, name == MANAGER, 0.9, 0.7)
            mine = np.flatnonzero((weight[:, lane] > 0) & (np.asarray(rollout.steps.seat)[:, lane, 0] == seat))
            assert set(theirs) == set(mine)
            np.testing.assert_allclose(
                [found.advantage[at, lane, 0] for at in mine], [theirs[at] for at in mine], atol=1e-5
            )
            seen += len(mine)
        assert seen >= {MANAGER: 80, WORKER: 170}[name]
        assert np.isfinite(found.value_error + found.value).all()


def test_what_the_manager_is_told_does_not_depend_on_what_the_worker_is_told_on_the_way() -> None:
    """The same games with all of a round's score at its end: its rewards, summed from goal to goal, are the same."""
    played = games(2, 0.0, 16, 22)
    rollout = played.play(jax.random.key(2), played.lanes)[1]
    view = _view(rollout, played.algorithm._roles[MANAGER], MANAGER)
    late, rewards = np.zeros(view.steps.rewards.shape, np.float32), np.asarray(view.steps.rewards)
    for t, lane in np.argwhere(view.steps.came_true.goal[..., 0] >= 0):
        late[t, lane] = rewards[t - 5 : t + 1, lane].sum(axis=0)
    both = [estimate(MANAGER)(view, each)[0] for each in (view.steps.rewards, jnp.asarray(late))]
    valid = np.asarray(both[0].valid * view.steps.weight, bool)
    assert valid.sum() > 80 and not np.allclose(late, rewards)
    np.testing.assert_allclose(both[0].advantage[valid], both[1].advantage[valid], atol=1e-5)


# ---- hindsight ------------------------------------------------------------------------------------------------------


def exact(network: Any, params: Any) -> jax.Array:
    """sum_g E[score of reaching g; played for g], by enumeration of throws and luck."""
    total = jnp.float32(0.0)
    mask = jnp.array([True, True, False])

    def chance(goal: int, throws: int, landed: int, action: int) -> jax.Array:
        seen = jnp.array([goal, throws, landed, 0], jnp.int8)
        return jax.nn.softmax(network.evaluate(params, (), seen, mask)[1])[action]

    for goal, *actions in itertools.product(range(3), range(2), range(2)):
        for luck in itertools.product(range(2), range(2)):
            odds, landed = jnp.float32(1.0), 0
            for throw, (action, lucky) in enumerate(zip(actions, luck, strict=True)):
                odds = odds * chance(goal, throw, landed, action) * (LANDS if lucky else 1 - LANDS)
                landed += action * lucky
            total += odds * (1 + goal / 2) * (landed == goal)
    return total


def test_hindsight_is_unbiased_and_would_not_be_without_its_weights() -> None:
    """The mean over 100 rollouts of 512 sequences lies within 4.5 standard errors of the gradient by enumeration, along
    each of six directions; that with W = 1 lies more than 15 away along one of them."""
    played = games(1, 0.6, 128, 12)
    role = played.algorithm._roles[WORKER]
    env, network, params = role.env, role.network, played.params[WORKER]
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    directions = jax.random.normal(jax.random.key(9), (6, flat.size)) / np.sqrt(flat.size)

    @jax.jit
    def estimates(rollout: Any) -> jax.Array:
        view = _view(rollout, role, WORKER)
        found = relabel(network, env, params, view, managed(env, view.steps.observation, 3), 1.0, jnp.float32(1e6))
        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), found)
        plain = rows._replace(gain=jnp.where(rows.valid, rows.gain / jnp.maximum(rows.weight, 1e-30), 0.0))
        sequences = 2 * rollout.steps.over.sum()  # all of them are whole

        def along(rows: Any) -> jax.Array:
            slope = jax.grad(lambda flat: surrogate(unravel(flat), rows, network, 1.0, 1e6))(flat)
            return directions @ slope / sequences

        return jnp.stack([along(rows), along(plain)])

    found = np.stack([estimates(played.play(jax.random.key(n), played.lanes)[1]) for n in range(100)])  # [100, 2, 6]
    truth = directions @ jax.jit(jax.grad(lambda flat: exact(network, unravel(flat))))(flat)
    away = (found.mean(axis=0) - np.asarray(truth)) / (found.std(axis=0) / np.sqrt(len(found)))
    assert np.abs(away[0]).max() < 4.5, away
    assert np.abs(away[1]).max() > 15, away


def test_sequences_that_are_not_whole_teach_nothing() -> None:
    """A round has six steps, two of them goals, and the second rollout begins with the last two of one."""
    played = games(2, 0.0, 16, 22)
    role = played.algorithm._roles[WORKER]
    lanes, one = played.play(jax.random.key(0), played.lanes)
    two = played.play(jax.random.key(1), lanes)[1]

    @jax.jit
    def found(rollout: Any) -> Any:
        view = _view(rollout, role, WORKER)
        manages = managed(role.env, view.steps.observation, 3)
        return relabel(role.network, role.env, played.params[WORKER], view, manages, 1.0, jnp.float32(1.01))

    for rollout, whole in ((one, np.r_[2:6, 8:12, 14:18]), (two, np.r_[4:8, 10:14, 16:20])):
        again = jax.tree.map(np.asarray, found(rollout))
        np.testing.assert_array_equal(np.flatnonzero(again.valid[:, 0, 0]), whole)
        assert again.weight.max() <= 1.01 + 1e-5 and np.all(again.weight[~again.valid] == 0.0)


def test_a_round_that_ends_with_the_rollout_is_learnt_from_in_hindsight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last throw has weight 0, because what follows is not known yet; that its goal came true is."""
    played, asked = games(2, 0.6, 16, 18), []
    rollout = jax.tree.map(jnp.asarray, jax.device_get(played.play(jax.random.key(1), played.lanes)[1]))
    role = played.algorithm._roles[WORKER]

    def seen(keys: Any, shape: Any, settings: Any, weight: Any, sequence: int) -> Any:
        jax.debug.callback(lambda weight: asked.append(np.array(weight)), weight)
        return minibatches_of(keys, shape, settings, weight, sequence)

    monkeypatch.setattr("jaxrl.algorithms.hierarchical.role.minibatches_of", seen)

    def learn() -> Any:
        learner = played.algorithm.init(jax.random.key(0))
        told = learner.hyper["hindsight"].at(jnp.int32(0))["hindsight"]
        mine = RoleLearner(**vars(_part(learner, WORKER)), hindsight=told)
        return role.ppo.learn(mine, _view(rollout, role, WORKER), jax.random.key(2), jnp.int32(0))[1]["train/approx_kl"]

    jax.block_until_ready(in_mesh(learn)())
    (weight,) = asked
    np.testing.assert_array_equal(
        weight[:, 0].ravel() > 0, managed(role.env, rollout.steps.observation, 3)[:, 0, 0] == 0
    )
    assert weight[-1].all()


# ---- passes, phases -------------------------------------------------------------------------------------------------


def test_advantages_within_phases() -> None:
    advantage = jnp.array([1.0, 3.0, 10.0, 50.0, 7.0])
    group, weight = jnp.array([0, 0, 1, 1, 1]), jnp.array([1.0, 1.0, 1.0, 1.0, 0.0])
    found, scale = in_mesh(lambda: normalised_within(advantage, weight, group, 2))()
    np.testing.assert_allclose(found[:4], [-1, 1, -1, 1], rtol=1e-5)
    np.testing.assert_allclose(scale[:4], [1, 1, 0.05, 0.05], rtol=1e-5)
    one, scale = in_mesh(lambda: normalised_within(advantage, weight, jnp.array([0, 0, 1, 2, 2]), 3))()
    np.testing.assert_allclose(one, [-1, 1, 0, 0, 0], rtol=1e-5)  # one decision says nothing of what is better
    assert not np.any(scale[2:])


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_learns_and_resumes_exactly() -> None:
    """With known values: who throws twice hits 2 with 9/16, who never throws hits 0 always: the best goal is 0 (worth 1
    a round), and a worker told 2 should throw. The first policies earn about nothing."""
    config = config_of(num_envs=64, num_steps=24, updates=4, calls=12, minibatches=4, hidden=(16,))
    anakin = program(Aim(), config)
    state = anakin.init(5)
    earned = []
    for _ in range(6):
        state, metrics = run(anakin, state)
        earned.append(float(metrics["rollout/ep_rew_mean"]))
    arrays, leaves = checkpoint.pack(state)
    again = checkpoint.unpack(arrays, leaves, anakin.abstract_state)
    first, metrics = run(anakin, state, 6)
    second, _ = run(anakin, jax.tree.map(jnp.asarray, again), 6)
    assert_identical(first, second)
    assert metrics["rollout/ep_rew_mean"] > 1.4 > 0.8 > earned[0]
    assert {"manager/approx_kl", "worker/approx_kl", "worker/hindsight/weight", "manager/round/2/return"} <= set(
        metrics
    )
    assert metrics["manager/epochs_done"] <= 3.0 and metrics["worker/epochs_done"] <= 2.0
    assert np.isnan(metrics["manager/phase/throw/return"]) and metrics["manager/phase/goal/share"] == 1.0


@pytest.mark.slow  # pytest -m slow tests/algorithms/test_hierarchical.py: two programs more
def test_seeds_side_by_side_are_those_one_by_one() -> None:
    keys = {"num_envs": 16, "num_steps": 12, "updates": 1}
    both, one = (program(Aim(), config_of(seeds=seeds, **keys)) for seeds in (2, 1))
    states = [run(both, both.init(3))[0], run(one, one.init(4))[0]]
    params = [jax.device_get(state.learner.params) for state in states]
    jax.tree.map(lambda two, single: np.testing.assert_allclose(two[1], single, atol=1e-6), *params)


def test_a_memory_of_each_role_and_an_average_and_a_magnet() -> None:
    """Traced, not run: chunks of a recurrent network."""
    section = dataclasses.replace(SMALL, hindsight=Schedule())
    config = config_of(section, num_envs=16, num_steps=12, updates=1, sequence=6, ema=0.9, magnet="policy")
    anakin = program(Aim(), dataclasses.replace(config, network=NetworkConfig(kind="recurrent", hidden=(8,))))
    after, found = jax.eval_shape(anakin.compiled, anakin.abstract_state)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, anakin.abstract_state)
    assert set(after.learner.target_params) == {"average", "magnet"} and set(after.lanes.memory) == {MANAGER, WORKER}
    assert set(after.learner.target_params["average"]) == {MANAGER, WORKER} and "worker/magnet_kl" in found


def test_snapshots_best_responses_and_a_critic_are_of_both() -> None:
    """Traced, not run."""
    league = LeagueConfig(opponents=("self", "snapshots"), snapshots=2, snapshot_every=1)
    section = dataclasses.replace(SMALL, hindsight=Schedule())
    config = dataclasses.replace(config_of(section, critic=(8,)), league=league)
    response = response_config(config, Telling())
    for each in (config, response):
        anakin = program(Telling(), each)
        after, _ = jax.eval_shape(anakin.compiled, anakin.abstract_state)
        assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, anakin.abstract_state)
        assert set(after.pool.snapshots) == set(after.learner.critic) == {MANAGER, WORKER}
    for role in (response.hierarchical.manager, response.hierarchical.worker):
        assert role.learning_rate.start == config.exploit.learning_rate and role.learning_rate.end == 0.0
    assert not response.hierarchical.hindsight.on


def test_a_player_is_of_both_and_asks_the_one_it_should() -> None:
    anakin = program(Aim(), config_of(num_envs=16, num_steps=12, updates=1))
    params = anakin.init(0).learner.params
    shifted = params | {MANAGER: jax.tree.map(jnp.zeros_like, params[MANAGER])}
    env, algorithm = anakin.setup.env, anakin.algorithm
    assert isinstance(algorithm, Hierarchical)
    state = env.init(jax.random.key(0))
    player = algorithm.player("p", params, greedy=False)
    assert player.odds is not None
    np.testing.assert_allclose(player.odds(shifted, (), state), 1 / 3, rtol=1e-5)
    for action in (2, 1):
        assert not np.allclose(player.odds(params, (), state), 1 / 3, atol=1e-4)
        state = env.step(state, jnp.int32(action), jax.random.key(1))
    np.testing.assert_allclose(player.odds(params, (), state), player.odds(shifted, (), state), rtol=1e-6)


# ---- what it does not go with ---------------------------------------------------------------------------------------


class Telling(Aim):
    """Tells a critic how often the others' throws have landed."""

    def privileged(self, state: Any, seat: Any) -> Any:
        return jnp.roll(state.landed, -seat)


class Silent(Aim):
    """Does not tell what came true, nor phases."""

    phases = {}

    def came_true(self, before: Any, action: Any, after: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("env", "section", "words"),
    [
        (TicTacToe(), SMALL, r"needs a game that says which decisions set goals \(Env\.manages\)"),
        (HostTicTacToe(), SMALL, "is for compiled games"),
        (Silent(), dataclasses.replace(SMALL, balance=False), r"says which goals came true \(Env\.came_true\)"),
        (Silent(), SMALL, r"hierarchical\.balance needs the phases"),
    ],
    ids=["no goals", "host", "no hindsight", "no phases"],
)
def test_a_game_that_does_not_tell_is_one_sentence(env: Env, section: HierarchicalConfig, words: str) -> None:
    config = dataclasses.replace(config_of(section), env=EnvConfig(id=env.id))
    with pytest.raises(UserError, match=words):
        compare(config, GameForms(env, env))


def test_hindsight_refuses_a_memory() -> None:
    config = dataclasses.replace(config_of(sequence=4), network=NetworkConfig(kind="recurrent"))
    with pytest.raises(UserError, match=r"hierarchical\.hindsight needs a network without a memory"):
        compare(config, GameForms(Aim(), Aim()))


def test_what_hindsight_needs_is_asked_of_trainings_alone() -> None:
    """Another reward in evaluations learns nothing in hindsight."""
    Hierarchical(config_of(dataclasses.replace(SMALL, balance=False), num_steps=16), Silent())


def test_games_without_goals_say_nothing() -> None:
    env = HighCard()
    assert env.manages(None) is None and env.came_true(None, jnp.int32(0), None) is None and not env.phases
