"""A manager and a worker: chains of rewards, hindsight without bias, and everything that a run does with them."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.hierarchical.algorithm import Hierarchical, _view
from jaxrl.algorithms.hierarchical.hindsight import relabel, surrogate
from jaxrl.algorithms.hierarchical.pair import MANAGER, WORKER, managed
from jaxrl.algorithms.hierarchical.phases import normalised_within
from jaxrl.algorithms.hierarchical.role import own_first
from jaxrl.algorithms.ppo.update import Shuffle
from jaxrl.config.checks import check_game
from jaxrl.config.hierarchical_schema import HierarchicalConfig, HindsightConfig, RoleConfig
from jaxrl.config.schema import Config, EnvConfig, NetworkConfig, PPOConfig, Schedule
from jaxrl.envs.core import Env
from jaxrl.envs.errors import UserError
from jaxrl.runs import checkpoint
from jaxrl.training.playing import play
from tests.aim_game import LANDS, Aim, score
from tests.games import HighCard, TicTacToe
from tests.host_games import HostTicTacToe
from tests.training import assert_identical, in_mesh, program, run, small_config

RATE = Schedule("constant", 3e-3)
SMALL = HierarchicalConfig(
    manager=RoleConfig(epochs=3, learning_rate=RATE),
    worker=RoleConfig(epochs=2, learning_rate=RATE),
    hindsight=HindsightConfig(Schedule("constant", 0.5)),
    balance=True,
)


def config_of(section: HierarchicalConfig = SMALL, **keys: Any) -> Config:
    config = small_config(**keys)
    train = dataclasses.replace(config.train, algorithm="hierarchical")
    return dataclasses.replace(config, train=train, hierarchical=section)


def rollout_of(env: Env, config: Config, *, noise: float = 0.0) -> tuple[Any, Any, Any]:
    """The algorithm, the first learner with so much noise on its parameters, and what plays a rollout of it."""
    anakin = program(env, config)
    state = anakin.init(0)
    algorithm, lanes = anakin.algorithm, config.train.num_envs
    flat, unravel = jax.flatten_util.ravel_pytree(state.learner.params)
    learner = state.learner.replace(params=unravel(flat + noise * jax.random.normal(jax.random.key(8), flat.shape)))
    policy = algorithm.policy(learner, jnp.int32(0))

    @jax.jit
    def once(lanes_now: Any, key: Any) -> Any:
        ids = jnp.arange(lanes, dtype=jnp.uint32)
        return play(anakin.actor, policy, None, lanes_now, key, ids, config.train.num_steps)[:2]

    return algorithm, learner, lambda key, lanes_now=state.lanes: once(lanes_now, key)


# ---- chains ---------------------------------------------------------------------------------------------------------


def chain(rows: list[dict[str, Any]], gamma: float, decay: float) -> None:
    """Plain GAE over the decisions of one chain; the last row may be one that only has a value."""
    following = 0.0
    for row, after in zip(rows[-2::-1], rows[:0:-1], strict=True):
        row["advantage"] = row["earned"] + gamma * after["value"] - row["value"] + gamma * decay * following
        following = row["advantage"]


def expected(rollout: Any, lane: int, seat: int, manager: bool, gamma: float, decay: float) -> dict[int, float]:
    """The advantages of one seat of one lane by step, one decision after the other."""
    steps, found = jax.tree.map(lambda leaf: np.asarray(leaf)[:, lane], rollout.steps), {}
    rows: list[dict[str, Any]] = []

    def close(*after: dict[str, Any]) -> None:
        chain([*rows, *after], gamma, decay)
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
        close(decision(-1, 0.0 if goal_next != manager else float("nan")))
    elif rows:  # what follows the last decision is not known; its value is, and serves those before it
        close()
    return found


def test_both_chains_of_rewards_are_those_of_one_decision_after_the_other() -> None:
    section = dataclasses.replace(
        SMALL,
        manager=RoleConfig(gamma=0.9, gae_lambda=0.7),
        worker=RoleConfig(gamma=0.8, gae_lambda=0.6),
    )
    config = config_of(section, num_envs=16, num_steps=22)
    algorithm, learner, once = rollout_of(Aim(), config)
    _, rollout = once(jax.random.key(1))
    for name, gamma, decay in ((MANAGER, 0.9, 0.7), (WORKER, 0.8, 0.6)):
        role = algorithm._roles[name]
        view = _view(rollout, role, name)
        coefs = role.hyper().at(role.config.ppo, jnp.int32(0))
        estimate = jax.jit(lambda view, role=role, coefs=coefs: role._estimate(view.policy.params, view, coefs))(view)
        weight = np.asarray(view.steps.weight * estimate.known)[..., 0]
        seen = 0
        for lane, seat in itertools.product(range(16), range(2)):
            theirs = expected(rollout, lane, seat, name == MANAGER, gamma, decay)
            mine = np.flatnonzero((weight[:, lane] > 0) & (np.asarray(rollout.steps.seat)[:, lane, 0] == seat))
            sure = [at for at in mine if not np.isnan(theirs.get(at, np.nan))]
            assert set(theirs) == set(mine)
            np.testing.assert_allclose(
                [estimate.advantage[at, lane, 0] for at in sure], [theirs[at] for at in sure], atol=1e-5
            )
            seen += len(sure)
        assert seen > {MANAGER: 60, WORKER: 150}[name]
        target = np.asarray(estimate.correction + estimate.value)[..., 0]
        assert np.isfinite(target).all()


def test_what_the_manager_is_told_does_not_depend_on_what_the_worker_is_told_on_the_way() -> None:
    """The same games with all of a round's score at its end: its rewards, summed from goal to goal, are the same."""
    config = config_of(num_envs=8, num_steps=24)
    algorithm, _, once = rollout_of(Aim(), config)
    rollout = once(jax.random.key(2))[1]
    view = _view(rollout, algorithm._roles[MANAGER], MANAGER)
    steps = view.steps
    ends = np.asarray(steps.came_true.goal[..., 0] >= 0)  # [T, B]
    late = np.zeros_like(steps.rewards)
    for t, lane in zip(*np.nonzero(ends), strict=True):
        late[t, lane] = np.asarray(steps.rewards)[t - 5 : t + 1, lane].sum(axis=0)
    role = algorithm._roles[MANAGER]
    coefs = role.hyper().at(role.config.ppo, jnp.int32(0))
    both = [
        role._estimate(view.policy.params, view._replace(steps=steps._replace(rewards=rewards)), coefs)
        for rewards in (steps.rewards, jnp.asarray(late))
    ]
    known = np.asarray(both[0].known * steps.weight, bool)
    assert known.sum() > 40
    np.testing.assert_allclose(both[0].advantage[known], both[1].advantage[known], atol=1e-5)


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
            total += odds * float(score(jnp.int32(goal), jnp.int32(landed))) * (landed == goal)
    return total


def test_hindsight_is_unbiased_and_would_not_be_without_its_weights() -> None:
    """The mean over 100 rollouts of 512 sequences lies within 4.5 standard errors of the gradient by enumeration, along
    each of six directions; that with W = 1 lies more than 15 away along one of them."""
    config = config_of(num_envs=128, num_steps=12)
    algorithm, learner, once = rollout_of(Aim(rounds=1), config, noise=0.6)
    role = algorithm._roles[WORKER]
    env, network, params = role.env, role.network, learner.params[WORKER]
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    directions = jax.random.normal(jax.random.key(9), (6, flat.size)) / np.sqrt(flat.size)

    @jax.jit
    def estimates(rollout: Any) -> jax.Array:
        view = _view(rollout, role, WORKER)
        found = relabel(network, env, params, view, managed(env, view.steps.observation, 3), 1.0, jnp.float32(1e6))
        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), found)
        plain = rows._replace(gain=jnp.where(rows.known, rows.gain / jnp.maximum(rows.weight, 1e-30), 0.0))
        sequences = 2 * rollout.steps.over.sum()  # all of them are whole

        def along(rows: Any) -> jax.Array:
            slope = jax.grad(lambda flat: surrogate(unravel(flat), rows, network, 1.0, 1e6))(flat)
            return directions @ slope / sequences

        return jnp.stack([along(rows), along(plain)])

    found = np.stack([estimates(once(jax.random.key(seed))[1]) for seed in range(100)])  # [100, 2, 6]
    truth = directions @ jax.grad(lambda flat: exact(network, unravel(flat)))(flat)
    away = (found.mean(axis=0) - np.asarray(truth)) / (found.std(axis=0) / np.sqrt(len(found)))
    assert np.abs(away[0]).max() < 4.5, away
    assert np.abs(away[1]).max() > 15, away


def test_sequences_that_are_not_whole_teach_nothing() -> None:
    config = config_of(num_envs=4, num_steps=11)  # a round has six steps, a game twelve
    algorithm, learner, once = rollout_of(Aim(), config)
    lanes, rollout = once(jax.random.key(0))
    role = algorithm._roles[WORKER]
    for played, whole in ((rollout, np.r_[2:6]), (once(jax.random.key(1), lanes)[1], np.r_[3:7])):
        view = _view(played, role, WORKER)
        manages = managed(role.env, view.steps.observation, 3)
        found = relabel(role.network, role.env, learner.params[WORKER], view, manages, 1.0, jnp.float32(2.0))
        known = np.asarray(found.known)[:, 0, 0]
        np.testing.assert_array_equal(np.flatnonzero(known), whole)
        weight = np.asarray(found.weight)[..., 0]
        assert weight.max() <= 2.0 + 1e-5 and np.all(weight[~np.asarray(found.known)[..., 0]] == 0.0)


# ---- passes, phases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_epoch_holds_every_own_decision_once_in_equally_full_minibatches(accumulate: int) -> None:
    shape = Shuffle(epochs=3, portions=8 * accumulate, groups=2, chunks=16, lanes=16)
    coefs = PPOConfig(epochs=3, minibatches=8, accumulate=accumulate)
    weight = (jax.random.uniform(jax.random.key(0), (16, 16)) < 0.2).astype(jnp.float32)
    keys = jax.random.split(jax.random.key(1), 2)

    def order() -> Any:
        found = own_first(keys, shape, coefs, weight, 1)
        return found.count, jax.vmap(found.at)(jnp.arange(24))

    count, (epochs, index) = in_mesh(order)()
    own = np.flatnonzero(np.asarray(weight).ravel())
    each = int(count) // 3
    assert each == int(np.ceil(max(np.asarray(weight)[:, :8].sum(), np.asarray(weight)[:, 8:].sum()) / 16))
    rows = np.asarray(index)[: int(count)].reshape(3, each, -1)
    for epoch in range(3):
        taken = [row[np.isin(row, own)] for row in rows[epoch]]
        np.testing.assert_array_equal(np.sort(np.concatenate(taken)), own)
        assert max(map(len, taken)) - min(map(len, taken)) <= 2  # one of each group
    assert not np.array_equal(rows[0], rows[1]) and list(epochs[: int(count)]) == [0] * each + [1] * each + [2] * each


def test_advantages_within_phases() -> None:
    advantage = jnp.array([1.0, 3.0, 10.0, 50.0, 7.0])
    group, weight = jnp.array([0, 0, 1, 1, 1]), jnp.array([1.0, 1.0, 1.0, 1.0, 0.0])
    found, scale = in_mesh(lambda: normalised_within(advantage, weight, group, 2))()
    np.testing.assert_allclose(found[:4], [-1, 1, -1, 1], rtol=1e-5)
    np.testing.assert_allclose(scale[:4], [1, 1, 0.05, 0.05], rtol=1e-5)


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


def test_seeds_side_by_side_are_those_one_by_one() -> None:
    keys = {"num_envs": 16, "num_steps": 12, "updates": 1}
    both, one = (program(Aim(), config_of(seeds=seeds, **keys)) for seeds in (2, 1))
    states = [run(both, both.init(3))[0], run(one, one.init(4))[0]]
    params = [jax.device_get(state.learner.params) for state in states]
    jax.tree.map(lambda two, single: np.testing.assert_allclose(two[1], single, atol=1e-6), *params)


def test_a_memory_of_each_role_and_an_average_and_a_magnet() -> None:
    """Traced and run once: chunks of a recurrent network, statistics of features apart."""
    section = dataclasses.replace(SMALL, hindsight=HindsightConfig())
    config = config_of(section, num_envs=16, num_steps=12, updates=1, sequence=6, ema=0.9, magnet="policy")
    network = NetworkConfig(kind="recurrent", hidden=(8,), normalize=False)
    config = dataclasses.replace(config, network=network)
    anakin = program(Aim(), config)
    state, metrics = run(anakin, anakin.init(0))
    assert set(state.learner.copies) == {"average", "magnet"}
    assert set(state.learner.copies["average"]) == {MANAGER, WORKER}
    assert np.isfinite(metrics["train/loss"]) and metrics["train/magnet_kl"] >= 0.0


def test_a_player_is_of_both_and_asks_the_one_it_should() -> None:
    anakin = program(Aim(), config_of(num_envs=16, num_steps=12, updates=1))
    params = anakin.init(0).learner.params
    shifted = params | {MANAGER: jax.tree.map(jnp.zeros_like, params[MANAGER])}
    env, algorithm = anakin.actor.env, anakin.algorithm
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
        check_game(config, env, env)


def test_hindsight_refuses_a_memory() -> None:
    config = dataclasses.replace(config_of(sequence=4), network=NetworkConfig(kind="recurrent"))
    with pytest.raises(UserError, match=r"hierarchical\.hindsight needs a network without a memory"):
        Hierarchical(config, Aim())


def test_games_without_goals_say_nothing() -> None:
    env = HighCard()
    assert env.manages(None) is None and env.came_true(None, jnp.int32(0), None) is None and not env.phases
