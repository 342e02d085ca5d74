"""Car soccer as a game of the house: the contract, matches with kickoffs, films, a short training."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.config import load
from jaxrl.training.make import make_program
from jaxrl_envs import conformance
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.display import drawing
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.physics.vector import vec
from jaxrl_envs.shared.display import reward_curves
from tests.support.training import run, small_config

pytestmark = pytest.mark.thorough

# One program for the tests of this file: whole matches of a second, so that kickoffs happen in them too.
OPTIONS = {
    "setters": {"kickoff": 1, "shoot": 1},
    "terminations": ("match",),
    "truncations": {"timeout": 2.0, "no_touch": 1.0},
    "match_seconds": 1.0,
    "reward_mode": "listed",
    "rewards": {"goal": 1, "concede": -1, "touch": 0.1},
}


@cache
def env():
    return CarSoccer(**OPTIONS)


@cache
def program():
    return jax.jit(jax.vmap(env().step)), jax.jit(jax.vmap(env().init))


def choices(first, second):
    """i32[4, 2], the same in all four games."""
    return jnp.asarray(np.tile(np.array([first, second], np.int32), (4, 1)))


@pytest.mark.slow
def test_the_contract_is_kept():
    """Minutes: most of its checks compile the physics again. How long that takes is told, not judged."""
    report = conformance.check(env(), games=8, only=[name for name in conformance.CHECKS if name != "program_size"])
    assert report.ok, str(report)


def test_a_goal_is_followed_by_a_kickoff_and_overtime_decides():
    step, init = program()
    state = init(jax.random.split(jax.random.key(0), 4))
    idle = choices(actions.IDLE, actions.IDLE)
    keys = jax.random.split(jax.random.key(1), 4)

    def with_ball(state, y):
        ball = state.game.arena.ball
        place = jnp.tile(jnp.array([0.0, y, 300.0]), (4, 1))
        ball = ball.replace(position=vec(place), velocity=vec(jnp.zeros((4, 3))))
        return state.replace(game=state.game.replace(arena=state.game.arena.replace(ball=ball)))

    scored = step(with_ball(state, 5400.0), idle, keys)
    np.testing.assert_allclose(scored.rewards, np.tile([1.0, -1.0], (4, 1)), atol=0.2)
    assert not scored.terminated.any() and (np.asarray(scored.game.board.goals) == [1, 0]).all()
    assert (np.asarray(scored.game.arena.ball.position.y) == 0).all()
    position = np.asarray(scored.game.arena.cars.position.array)
    np.testing.assert_allclose(position[:, 0, :2], -position[:, 1, :2], atol=1e-3)
    assert len({tuple(car) for car in position[:, 0].round().tolist()}) > 1  # not always the same place
    assert (np.asarray(scored.game.arena.tick) == 8).all()
    even = step(with_ball(scored, -5400.0), idle, keys)
    assert (np.asarray(even.game.board.goals) == [1, 1]).all()
    late = with_ball(even.replace(game=even.game.replace(board=even.game.board.replace(left=jnp.zeros(4)))), 2000.0)
    low = late.game.arena.ball.replace(position=vec(jnp.tile(jnp.array([0.0, 2000.0, 95.0]), (4, 1))))
    late = late.replace(game=late.game.replace(arena=late.game.arena.replace(ball=low)))
    overtime = step(late, idle, keys)
    assert overtime.game.board.overtime.all() and not overtime.terminated.any()
    assert (np.asarray(overtime.game.arena.ball.position.y) == 0).all()  # it begins with a kickoff
    assert (np.asarray(overtime.game.board.kickoffs) == 3).all()
    still = step(overtime, idle, keys)
    assert (np.asarray(still.game.board.kickoffs) == 3).all() and still.game.board.overtime.all()
    over = step(with_ball(overtime, 5400.0), idle, keys)
    assert over.terminated.all() and (np.asarray(over.game.arena.ball.position.y) > 5000).all()
    stats = jax.vmap(env().episode_stats)(over)
    assert np.asarray(stats["goals"]).tolist() == [[2, 1]] * 4
    np.testing.assert_allclose(stats["reward_goal"] + stats["reward_concede"], [[1, -1]] * 4, atol=1e-5)


def test_a_choice_reaches_the_car_a_tick_late():
    step, init = program()
    state = init(jax.random.split(jax.random.key(0), 4))
    boost = int(np.flatnonzero((actions.TABLE == [1, 0, 0, 0, 0, 0, 1, 0]).all(axis=1))[0])
    keys = jax.random.split(jax.random.key(1), 4)
    later = step(state, choices(boost, actions.IDLE), keys)
    used = np.asarray(state.game.arena.cars.boost - later.game.arena.cars.boost)
    np.testing.assert_allclose(used, np.tile([7 / 120 * 100 / 3, 0.0], (4, 1)), atol=1e-3)
    last = step(later, choices(actions.IDLE, actions.IDLE), keys)
    used = np.asarray(later.game.arena.cars.boost - last.game.arena.cars.boost)
    np.testing.assert_allclose(used[:, 1], 0.0, atol=1e-3)
    assert (used[:, 0] >= 1 / 120 * 100 / 3 - 1e-3).all()  # the first tick still boosts, and boost has a shortest time


def test_a_film_shows_an_episode_in_its_time():
    step, init = program()
    game, states = env(), []
    state = init(jax.random.split(jax.random.key(3), 4))
    bots = [jax.jit(jax.vmap(game.bots[name])) for name in ("rule_policy", "chase")]
    while not states or not bool(states[-1].terminated | states[-1].truncated):
        states.append(jax.tree.map(lambda leaf: np.asarray(leaf)[0], state))
        both = [bot(state, None) for bot in bots]
        assert all(bool(jnp.take_along_axis(state.legal_action_mask, each[..., None], axis=2).all()) for each in both)
        chosen = jnp.stack([both[0][:, 0], both[1][:, 1]], axis=1)
        state = step(state, chosen, jax.random.split(jax.random.key(0), 4))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    page = game.film(states, [None] * (len(states) - 1))
    assert ElementTree.fromstring(page).tag.endswith("svg") and page.count("animateTransform") >= 6
    moving = re.search(r'type="translate" dur="([\d.]+)s"', page)
    assert moving and abs(float(moving[1]) - (len(states) - 1) * 8 / 120 - drawing.CLOSING) < 0.01
    earned = reward_curves.panels(game, states)
    parts = sum(values for name, values in earned.items() if name != "return")
    np.testing.assert_allclose(parts, earned["return"], atol=1e-5)
    sketch = game.sketch(states[-1])
    assert sketch["cars"].shape == sketch["forward"].shape == (2, 3) and sketch["pads"].shape == (34,)
    assert len(game.film(states, [], pace=2.0)) > 0 and game.render_svg(states[0]).startswith("<svg")
    text = game.render(states[-1])
    assert "seat 1" in text and text.startswith("blue ") and text.count("\n") > 25


@pytest.mark.slow
def test_a_training_of_a_thousand_steps():
    annealed = {"rewards": {"goal": 1, "concede": -1, "touch": [0.1, 0.0]}}
    game = CarSoccer(**OPTIONS | {"teams": (1, 0), "iterations": 2} | annealed)
    config = small_config(num_envs=16, num_steps=32, updates=1, calls=2, hidden=(16,), epochs=1)
    training = make_program(config, game)
    _, found = run(training, training.init(0), calls=2)
    assert np.isfinite(found["train/approx_kl"]) and found["rollout/illegal"] == 0 and found["rollout/games"] > 0
    assert {"rollout/stat_reward_goal", "rollout/stat_touches", "rollout/stat_boost_used"} <= set(found)


def test_the_presets_are_as_they_say():
    half_lives = {"car_soccer": 10.0, "car_soccer_shoot": 4.6, "car_soccer_duel": 6.6, "car_soccer_match": 10.0}
    for name, seconds in half_lives.items():
        config = load(name)
        game = CarSoccer(**config.env.options)
        assert abs(config.ppo.gamma - 0.5 ** (game.seconds / seconds)) < 1e-4
