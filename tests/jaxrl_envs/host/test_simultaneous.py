"""Host games that ask all seats at once: what the pool writes, beside a plain loop over the same games."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, IllegalAction, make_buffers, shapes
from tests.jaxrl_envs.host.test_bridge import BOT, assert_same, choices, play_sync, rows
from tests.support.host_games import NUMBERS, PicksGame
from tests.support.pools import begun

THREE = np.array([[-1, -1, -1], [0, -1, -1], [-1, 1, 0], [1, 1, -1]], np.int8)


def plain_loop(game, controllers, steps, seed=5):
    """Rows [steps + 1] as `play_sync` gives them, from the games alone, one after the other."""
    games = game.engine(len(controllers), seed).games
    for one in games:
        one.start()
    seen = [questions(game, games, controllers)]
    for step in range(steps):
        actions = choices(seen[-1]["legal_action_mask"], step)
        for one, chosen, held in zip(games, actions, controllers, strict=True):
            for seat in np.flatnonzero(held >= 0):
                chosen[seat] = one.bot(seat, held[seat])
            one.step(chosen.tolist())
        after = questions(game, games, controllers)
        over = np.flatnonzero([one.ended() for one in games])
        ended = {
            "action": actions,
            "rewards": np.array([one.rewards() for one in games], np.float32),
            "terminated": np.array([one.ended() == 1 for one in games]),
            "truncated": np.array([one.ended() == 2 for one in games]),
            **{name: after[name] for name in ("info", "length", "final_player", "final_observation", "stats")},
        }
        for number in over:
            ended["final_player"][number] = np.arange(game.num_players)
            ended["final_observation"][number] = after["observation"][number]
            ended["stats"][number] = games[number].stats()
            games[number].start()
        seen.append(questions(game, games, controllers) | ended)
    return seen


def questions(game, games, controllers):
    """What a row says of games in which nothing was done."""
    empty = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes(game, len(games)).items()}
    seats = range(game.num_players)
    return empty | {
        "current_player": np.tile(np.arange(game.num_players), (len(games), 1)),
        "observation": np.array([[one.observe(seat) for seat in seats] for one in games]),
        "legal_action_mask": np.array([[one.mask(seat) for seat in seats] for one in games]),
        "action": np.full_like(empty["action"], -1),
        "final_player": np.full_like(empty["final_player"], -1),
        "info": np.array([one.info() for one in games]),
        "length": np.array([one.round for one in games]),
        "controllers": controllers,
    }


@pytest.mark.parametrize("limit", [3, 5])
def test_it_is_a_plain_loop_over_the_games(limit):
    game = PicksGame(num_players=3, limit=limit)
    expected = plain_loop(game, THREE, 20)
    found = play_sync(game, 4, 20, controllers=THREE)
    for left, right in zip(expected, found, strict=True):
        assert_same(left, right)
    assert sum(row["terminated"].sum() for row in found) > 4
    assert (sum(row["truncated"].sum() for row in found) > 0) == (limit < 5)


def test_a_round_by_hand():
    """3 beats 1 and 0; two that pick the same number lose to a lower one."""
    engine = PicksGame(num_players=3).engine(1, 0)
    with begun(engine) as (_, out, act):
        assert out.current_player.tolist() == [[0, 1, 2]] and out.legal_action_mask.shape == (1, 3, NUMBERS)
        stake = 2 if engine.games[0].lucky == 3 else 1
        act([[1, 3, 0]])
        assert out.rewards.tolist() == [[-stake, 2 * stake, -stake]] and out.length.tolist() == [1]
        assert out.legal_action_mask[0].argmin(axis=1).tolist() == [1, 3, 0]  # not the same number again
        own = out.observation[0].reshape(3, -1)[:, :NUMBERS].argmax(axis=1)
        assert own.tolist() == [1, 3, 0] and out.final_player.tolist() == [[-1, -1, -1]]
        stake = 2 if engine.games[0].lucky == 0 else 1
        act([[2, 0, 2]])
        assert out.rewards.tolist() == [[-stake, 2 * stake, -stake]]


def test_illegal_actions_are_refused_before_anything_is_stepped():
    with begun(PicksGame().engine(3, 0), controllers=[[-1, -1], [-1, -1], [1, -1]]) as (pool, out, act):
        act([[0, 1], [1, 0], [-99, 1]])  # what is said for a bot's seat is not looked at
        assert out.action.tolist() == [[0, 1], [1, 0], [3, 1]]
        before, states = rows(out), pool.save()
        for actions, game, action, seat in (
            ([[1, 1], [0, 1], [0, 0]], 0, 1, 1),
            ([[1, 0], [0, NUMBERS], [0, 0]], 1, NUMBERS, 1),
            ([[1, 0], [0, 1], [0, 2**30]], 2, 2**30, 1),
            ([[BOT - 2, 0], [0, 1], [0, 0]], 0, -4, 0),  # there are two bots
        ):
            message = rf"^game {game}: action {action} of seat {seat} is not legal$"
            with pytest.raises(IllegalAction, match=message) as caught:
                pool.send(np.array(actions), out)
            assert (caught.value.game, caught.value.action, caught.value.seat) == (game, action, seat)
        for wrong in (np.zeros(6), np.zeros((3, 1)), np.zeros((3, 3))):
            with pytest.raises(ValueError, match=r"actions are \[.*\], not \[n, 2\]: one for each seat"):
                pool.send(wrong, out)
        with pytest.raises(ValueError, match="2 actions for 3 games"):
            pool.send(np.zeros((2, 2)), out)
        assert_same(before, rows(out))
        np.testing.assert_array_equal(pool.save(), states)


def test_the_engine_draws_actions_seat_by_seat():
    n = 64
    engine = PicksGame(num_players=3).engine(n, 0)
    drawn = np.zeros((2, NUMBERS), int)
    with begun(engine) as (_, out, act):
        for step in range(40):
            mask, outside = out.legal_action_mask.copy(), choices(out.legal_action_mask, step)[:, 1]
            act(np.stack([np.full(n, RANDOM), outside, np.full(n, BOT - 1)], axis=1))
            assert np.take_along_axis(mask, out.action[..., None], axis=2).all()
            np.testing.assert_array_equal(out.action[:, 1], outside)
            np.testing.assert_array_equal(out.action[:, 2], NUMBERS - 1 - mask[:, 2, ::-1].argmax(axis=1))
            drawn += [np.bincount(out.action[:, seat], minlength=NUMBERS) for seat in (0, 2)]
    assert (np.abs(drawn[0] / drawn[0].sum() - 0.25) < 0.04).all()  # 2560 draws: four standard deviations
    assert drawn[1, 0] == drawn[1, 1] == 0


def test_games_without_an_outside_seat():
    with HostPool(PicksGame(limit=4).engine(2, 0), mode="async", follow=False) as pool:
        out = make_buffers(pool.engine, 2)
        pool.next_controllers[:] = [[0, 1], [1, 1]]
        pool.begin([0, 1], out)
        assert sorted(pool.recv(2)) == [0, 1]
        assert (out.terminated | out.truncated).all() and (out.length >= 4).all() and out.legal_action_mask.all()
        np.testing.assert_array_equal(out.current_player, [[0, 1], [0, 1]])
        np.testing.assert_array_equal(out.observation, out.final_observation)
        assert out.stats[0].sum() > 0 and not out.stats[1].any()  # equal bots pick the same number
