"""Bids as goals: trick-level rewards that sum to the score, and bids that came true, by playing the round again."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.env import SkullKing

GAMES, STEPS = 400, 36  # single rounds of three to five cards, to their end: 16 to 24 decisions and those of pirates
SEAT = 1


@cache
def player() -> Any:
    """(forced actions i32[GAMES, STEPS], -1 = random) -> what happened, leaves [GAMES, STEPS, ...]."""
    env = SkullKing(reward="points_tricks", episode="round", round_weights=[0, 0, 1, 1, 1, 0, 0, 0, 0, 0])

    def game(key: Any, forced: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            forced, key = now
            action = jnp.where(forced < 0, env.random_action(state, key), forced).astype(jnp.int32)
            after = env.step(state, action, key)
            told = {
                "observation": env.observe(state, state.current_player),
                "mask": state.legal_action_mask,
                "seat": state.current_player,
                "phase": state.game.phase,
                "action": action,
                "rewards": after.rewards,
                "running": ~state.terminated,
                "came": env.came_true(state, action, after),
                "points": env.episode_stats(after)["points"],
                "illegal": after.illegal_action,
            }
            return after, told

        first, rest = jax.random.split(key)
        return jax.lax.scan(step, env.init(first), (forced, jax.random.split(rest, STEPS)))[1]

    keys = jax.random.split(jax.random.key(3), GAMES)
    compiled = jax.jit(jax.vmap(game))
    return env, lambda forced: jax.tree.map(np.asarray, compiled(keys, jnp.asarray(forced)))


@cache
def first() -> Any:
    return player()[1](np.full((GAMES, STEPS), -1, np.int32))


@pytest.mark.thorough
def test_rewards_of_tricks_sum_exactly_to_the_score() -> None:
    played = first()
    assert not played["running"][:, -1].any()  # all rounds are over
    hundredths = np.rint(100 * played["rewards"]).astype(int)
    np.testing.assert_allclose(100 * played["rewards"], hundredths, atol=1e-4)
    np.testing.assert_array_equal(hundredths.sum(axis=1), played["points"][:, -1])
    cards = played["phase"] == rules.PLAY
    early = np.any(hundredths != 0, axis=-1)[:, : STEPS // 3] & cards[:, : STEPS // 3]
    assert early.mean() > 0.1  # and do not wait for the end
    assert not hundredths[played["phase"] == rules.BID].any()


def test_a_bid_that_came_true_is_what_another_bid_and_the_same_cards_would_have_brought() -> None:
    """Every round played again with the bid of one seat exchanged for the one that came true: the points are those
    told, and what the seat sees on the way, and may do, is `relabelled`."""
    env, play = player()
    played = first()
    ends = played["running"].sum(axis=1) - 1
    rows = np.arange(GAMES)
    goal, reward = played["came"].goal[rows, ends, SEAT], played["came"].reward[rows, ends, SEAT]
    assert (played["came"].goal[played["running"]] >= 0).any(axis=-1).sum() == GAMES  # told once a round
    bids = (played["phase"] == rules.BID) & (played["seat"] == SEAT) & played["running"]
    old = played["action"][bids]
    forced = np.where(played["running"], played["action"], 0)
    forced[bids] = goal
    told = goal >= 0
    assert told.mean() > 0.95 and (goal != old)[told].mean() > 0.5
    again = play(np.where(told[:, None], forced, played["action"]))
    assert not again["illegal"][told].any()
    np.testing.assert_array_equal(again["points"][told, -1, SEAT], np.rint(100 * reward[told]))
    assert np.all(reward[told] > 0.0)
    theirs = (played["seat"] == SEAT) & played["running"] & (played["phase"] != rules.BID) & told[:, None]
    pirates = (played["phase"] == rules.HARRY) & theirs
    assert pirates.sum() > 5  # Harry changes the bid at the end
    relabelled = jax.jit(jax.vmap(env.relabelled))
    goals = np.broadcast_to(goal[:, None], theirs.shape)[theirs]
    observation, mask = relabelled(played["observation"][theirs], played["mask"][theirs], goals)
    np.testing.assert_array_equal(observation, again["observation"][theirs])
    np.testing.assert_array_equal(mask, again["mask"][theirs])


def test_roles_and_phases_are_told_by_the_observation() -> None:
    env = player()[0]
    played = first()
    seen = played["observation"][played["running"]]
    phase = played["phase"][played["running"]]
    np.testing.assert_array_equal(jax.jit(jax.vmap(env.manages))(seen), phase == rules.BID)
    found = jax.jit(jax.vmap(env.phase))(seen)
    np.testing.assert_array_equal(found["phase"] == 0, phase == rules.BID)
    assert set(np.unique(found["round"])) == {2, 3, 4} and set(np.unique(found["phase"])) == {0, 1, 2, 3}
    ranked, key = SkullKing(reward="rank"), jax.random.key(0)
    assert jax.eval_shape(lambda: ranked.came_true(ranked.init(key), jnp.int32(0), ranked.init(key))) is None
