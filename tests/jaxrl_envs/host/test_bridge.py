"""The pool of host games: what it writes, and that nothing but seed and actions decides it."""

from __future__ import annotations

import dataclasses
import functools
import time

import numpy as np
import pytest

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.engine import NoopEngine, random_below, random_word
from jaxrl_envs.host.game import FIELDS, PAGE, RANDOM, IllegalAction, aligned, make_buffers
from jaxrl_envs.host.pure import blank_states
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import Board, PicksGame, TicTacToeGame
from tests.support.pools import begun

BOT = -2  # an action: scripted player 0 chooses; BOT - b: player b
ENDED_ONLY = ("final_observation", "stats")


def rows(buffers):
    """The rows as plain arrays; what is written only where a game ended is cleared elsewhere."""
    over = buffers.terminated | buffers.truncated
    arrays = {name: np.array(array) for name, array in buffers.arrays().items()}
    for name in ENDED_ONLY:
        arrays[name][~over] = 0
    return arrays


def assert_same(left, right):
    for name in FIELDS:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def choices(mask, step, first=0):
    """i32[N], or i32[N, P] if all seats are asked: a legal action of every row, by game, seat and step alone."""
    picks = [
        np.flatnonzero(row)[random_below(random_word(9, first + game, step, 1, seat), int(row.sum()))]
        for game, seats in enumerate(mask.reshape(len(mask), -1, mask.shape[-1]))
        for seat, row in enumerate(seats)
    ]
    return np.array(picks, np.int32).reshape(mask.shape[:-1])


def play_sync(game, num_games, steps, *, threads=2, groups=1, controllers=None, first_slot=0, seed=5):
    """Rows [steps + 1] of N games."""
    engine = game.engine(num_games, seed, first_slot=first_slot)
    size = num_games // groups
    with HostPool(engine, threads=threads, groups=groups, controllers=controllers) as pool:
        buffers = make_buffers(engine, num_games)
        parts = [buffers.rows(slice(g * size, (g + 1) * size)) for g in range(groups)]
        pool.start(buffers)
        seen = [rows(buffers)]
        for step in range(steps):
            actions = choices(buffers.legal_action_mask, step, first_slot)
            for group, part in enumerate(parts):
                pool.send(actions[group * size : (group + 1) * size], part, group)
            for group in range(groups):
                pool.recv(group)
            seen.append(rows(buffers))
    return seen


def late(board, action):
    """Makes games answer in an order of their own."""
    time.sleep(((board.slot * 7 + np.sum(action)) % 5) * 2e-4)


# ---- the same for any number of threads, batch, group and order -----------------------------------------------------

CONTROLLERS = np.array([[-1, 0], [1, -1], [-1, -1], [-1, 1]] * 2, np.int8)
in_turn_and_at_once = pytest.mark.parametrize(
    "make", [functools.partial(TicTacToeGame, opening=True, limit=8), functools.partial(PicksGame, limit=3)]
)


@in_turn_and_at_once
@pytest.mark.parametrize(("threads", "groups"), [(1, 1), (2, 2), (8, 1), (8, 4), (3, 8)])
def test_threads_and_groups_change_nothing(make, threads, groups):
    expected = play_sync(make(), 8, 20, threads=1, controllers=CONTROLLERS)
    found = play_sync(make(fault=late), 8, 20, threads=threads, groups=groups, controllers=CONTROLLERS)
    for left, right in zip(expected, found, strict=True):
        assert_same(left, right)
    assert sum(row["terminated"].sum() for row in expected) > 10
    assert sum(row["truncated"].sum() for row in expected) > 0


@in_turn_and_at_once
@pytest.mark.parametrize("batch", [1, 3])
def test_batches_change_nothing(make, batch):
    game = make()
    whole = play_sync(game, 6, 12, seed=2)
    for first in range(0, 6, batch):
        part = play_sync(game, batch, 12, seed=2, first_slot=first)
        for left, right in zip(whole, part, strict=True):
            assert_same({name: array[first : first + batch] for name, array in left.items()}, right)


@in_turn_and_at_once
def test_asynchronous_games_are_those_of_the_synchronous_mode(make):
    game, steps, n = make(fault=late), 12, 8
    expected = play_sync(make(), n, steps, controllers=CONTROLLERS)
    engine = game.engine(n, 5)
    orders = []
    with begun(engine, threads=4, mode="async", controllers=CONTROLLERS) as (pool, buffers, _):
        times = np.zeros(n, int)
        everyone = np.arange(n, dtype=np.int32)
        pool.send(choices(buffers.legal_action_mask, 0), everyone)
        playing = n
        while playing:
            ready = pool.recv(count=min(3, playing))
            orders.append(ready.tolist())
            playing -= len(ready)
            times[ready] += 1
            found = rows(buffers)
            for row in ready:
                assert_same(
                    {name: array[row] for name, array in expected[times[row]].items()},
                    {name: array[row] for name, array in found.items()},
                )
            again = ready[times[ready] < steps]
            actions = [choices(buffers.legal_action_mask, times[row])[row] for row in again]
            pool.send(np.array(actions, np.int32), games=again)
            playing += len(again)
    assert (times == steps).all()
    assert [row for order in orders for row in order] != sorted(row for order in orders for row in order)


# ---- what a row says ------------------------------------------------------------------------------------------------


def test_a_game_by_hand():
    with begun(TicTacToeGame().engine(1, 0), threads=1) as (pool, out, act):
        assert (out.current_player[0], out.length[0], out.final_player[0]) == (0, 0, -1)
        assert out.legal_action_mask.all() and not out.observation.any()
        for step, action in enumerate((0, 3, 1, 4), start=1):
            act([action])
            assert (out.action[0], out.length[0], out.current_player[0]) == (action, step, step % 2)
            assert not out.terminated[0] and not out.rewards.any() and out.info[0].tolist() == [step, 0]
        act([2])
        assert out.terminated[0] and not out.truncated[0]
        assert out.rewards[0].tolist() == [1.0, -1.0]
        assert (out.length[0], out.final_player[0]) == (5, 0)  # the last one to act: no seat is asked any more
        assert out.stats[0].tolist() == [[3.0, 1.0], [2.0, 0.0]]
        assert out.info[0].tolist() == [5, 0]  # of the ended game
        final = out.final_observation[0].reshape(9, 2)
        assert np.flatnonzero(final[:, 0]).tolist() == [0, 1, 2] and np.flatnonzero(final[:, 1]).tolist() == [3, 4]
        assert out.current_player[0] == 0 and not out.observation.any()  # of the next game
        assert pool.length[0] == 0


def test_a_cut_game_names_the_seat_that_would_have_been_asked():
    with begun(TicTacToeGame(limit=3).engine(1, 0)) as (_, out, act):
        for action in (0, 3, 1):
            act([action])
        assert out.truncated[0] and not out.terminated[0] and out.final_player[0] == 1
        assert np.flatnonzero(out.final_observation[0].reshape(9, 2)[:, 0]).tolist() == [3]  # seat 1 sees its own


def test_bots_play_their_seats_without_a_round_trip():
    """Seat 1 is "lowest": its move, and what it earns, are part of the row."""
    with begun(TicTacToeGame().engine(2, 0), controllers=np.array([[-1, 1], [1, -1]])) as (pool, out, act):
        assert out.current_player.tolist() == [0, 1] and out.length.tolist() == [0, 1]
        pool.next_controllers[:] = -1
        assert out.controllers.tolist() == [[-1, 1], [1, -1]]
        for actions in ((8, 8), (7, 7)):
            act(np.array(actions))
        assert out.length.tolist() == [4, 0 + 5]
        # Game 1: "lowest" took 0, 1 and now 2, which wins; the outside seat reads it in the row of its own move.
        assert out.terminated.tolist() == [False, True]
        assert out.rewards.tolist() == [[0.0, 0.0], [1.0, -1.0]]
        assert out.final_player[1] == 0 and out.controllers[1].tolist() == [1, -1]
        assert pool.controllers.tolist() == [[-1, 1], [-1, -1]]  # the next game has the new controllers


class Early(Board):
    """Pays seat 1 at the start, and ends at once in odd episodes."""

    def start(self):
        super().start()
        self.paid, self.how = [-2.0, 2.0], self.episode % 2


class EarlyGame(TicTacToeGame):
    def engine(self, num_games, seed, *, first_slot=0):
        engine = super().engine(num_games, seed, first_slot=first_slot)
        engine.games[:] = [Early(seed, first_slot + game) for game in range(num_games)]
        return engine


def test_what_comes_before_the_first_question_is_told_apart():
    engine = EarlyGame().engine(1, 0)
    with begun(engine) as (pool, out, act):
        assert out.opening[0].tolist() == [-2.0, 2.0] and not out.rewards.any() and pool.unasked == 0
        for action in (0, 3, 1, 4, 2):
            assert not out.terminated[0]
            act([action])
        # Episode 1 ended before a question: it is only counted, and episode 2 has begun.
        assert out.terminated[0] and out.rewards[0].tolist() == [1.0, -1.0]
        assert out.opening[0].tolist() == [-2.0, 2.0] and pool.unasked == 1 and engine.games[0].episode == 2


def test_the_engine_draws_random_actions_and_tells_them():
    """Both seats random from end to end: 0.585 of the games for the first seat, 0.288 for the second."""
    n = 64
    engine = TicTacToeGame().engine(n, 0)
    wins = np.zeros(2)
    games = 0
    with begun(engine) as (_, out, act):
        for _ in range(160):
            mask = out.legal_action_mask.copy()
            act(np.full(n, RANDOM))
            assert mask[np.arange(n), out.action].all()
            wins += (out.rewards > 0).sum(axis=0)
            games += int(out.terminated.sum())
    assert games > 1000
    assert abs(wins[0] / games - 0.585) < 0.05 and abs(wins[1] / games - 0.288) < 0.05


def test_bots_chosen_by_the_action():
    with begun(TicTacToeGame().engine(3, 0)) as (pool, out, act):
        act([5, BOT - 1, 0])
        act([BOT - 1, BOT - 1, BOT - 1])
        assert out.action.tolist() == [0, 1, 1]
        with pytest.raises(IllegalAction, match="game 2: action -4 is not legal"):
            pool.send(np.array([RANDOM, RANDOM, BOT - 2]), out)  # there are two bots


# ---- orders ---------------------------------------------------------------------------------------------------------


def test_illegal_actions_are_refused_before_anything_is_stepped():
    with begun(TicTacToeGame().engine(4, 0)) as (pool, out, act):
        act([1, 1, 1, 1])
        before, states = rows(out), pool.save()
        for wrong in (1, 9, 2**30):
            with pytest.raises(IllegalAction, match=f"game 2: action {wrong} is not legal") as caught:
                pool.send(np.array([0, 0, wrong, 0]), out)
            assert (caught.value.game, caught.value.action) == (2, wrong)
        assert_same(before, rows(out))
        np.testing.assert_array_equal(pool.save(), states)
        act([0, 0, 0, 0])  # and the pool goes on


@in_turn_and_at_once
def test_saved_games_continue_bit_by_bit(make):
    game = make()
    engine, other = game.engine(8, 3), game.engine(8, 99)
    again = make_buffers(engine, 8)
    with begun(engine, controllers=CONTROLLERS) as (pool, out, act), HostPool(other, threads=1) as resumed:
        random = np.full(out.action.shape, RANDOM)
        for _ in range(5):
            act(random)
        states, length = pool.save(), pool.length.copy()
        resumed.next_controllers[:] = CONTROLLERS
        resumed.load(states, pool.controllers, again, length)
        for name in ("current_player", "observation", "legal_action_mask", "length", "controllers"):
            np.testing.assert_array_equal(getattr(out, name) if name != "length" else length, getattr(again, name))
        np.testing.assert_array_equal(resumed.save(), states)
        for _ in range(20):
            act(random)
            resumed.send(random, again)
            resumed.recv()
            assert_same(rows(out), rows(again))


def test_restart_abandons_some_games():
    engine = TicTacToeGame().engine(4, 0)
    with begun(engine, groups=2) as (pool, out, _):
        halves = [out.rows(slice(0, 2)), out.rows(slice(2, 4))]
        for group in (0, 1):
            pool.send(np.array([4, 4]), halves[group], group)
            pool.recv(group)
        pool.next_controllers[1] = [1, -1]
        pool.restart(np.array([1]), out)
        assert out.length.tolist() == [1, 1, 1, 1] and [board.episode for board in engine.games] == [0, 1, 0, 0]
        assert out.current_player.tolist() == [1, 1, 1, 1] and engine.games[1].cells[0] == 0
        pool.send(np.array([0, 0]), halves[1], 1)
        with pytest.raises(ValueError, match="game 3 .* is in play"):
            pool.restart(np.array([3]), out)
        pool.recv(1)


def test_orders_that_cannot_be_carried_out():
    engine = TicTacToeGame().engine(4, 0)
    with pytest.raises(UserError, match="4 games do not divide into 3 groups"):
        HostPool(engine, groups=3)
    with pytest.raises(UserError, match="mode must be"):
        HostPool(engine, mode="both")
    with begun(engine, groups=2) as (pool, out, _):
        half = out.rows(slice(0, 2))
        with pytest.raises(ValueError, match=r"current_player is int32\[4\], not int32\[2\]"):
            pool.send(np.zeros(2, np.int32), out, 0)
        with pytest.raises(ValueError, match="3 actions for 2 games"):
            pool.send(np.zeros(3, np.int32), half, 0)
        with pytest.raises(ValueError, match="there is no group 2"):
            pool.send(np.zeros(2, np.int32), half, 2)
        strided = dataclasses.replace(half, rewards=np.zeros((2, 4), np.float32)[:, ::2])
        with pytest.raises(ValueError, match="rewards must be contiguous"):
            pool.send(np.zeros(2, np.int32), strided, 0)
        pool.send(np.zeros(2, np.int32), half, 0)
        with pytest.raises(ValueError, match="group 0 is in play"):
            pool.send(np.zeros(2, np.int32), half, 0)
        pool.recv(0)
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.send(np.zeros(2, np.int32), half, 0)
    with begun(engine, mode="async") as (pool, _, _):
        pool.send(np.zeros(2, np.int32), games=np.array([0, 3]))
        for games in ([3, 1], [1, 1], [4, 1]):
            with pytest.raises(ValueError, match=r"does not exist, is named twice or is in play"):
                pool.send(np.zeros(2, np.int32), games=np.array(games))
        with pytest.raises(ValueError, match="3 games asked for, 2 were sent"):
            pool.recv(count=3)
        assert sorted(pool.recv(count=2).tolist()) == [0, 3]


# ---- games that begin one by one and stay as they ended, for matches ------------------------------------------------


def test_games_without_a_successor():
    engine = TicTacToeGame().engine(3, 7)
    with HostPool(engine, threads=2, mode="async", follow=False) as pool:
        rows = make_buffers(engine, 3)
        pool.begin([1], rows)
        assert list(pool.recv(1)) == [1] and rows.current_player[1] == 0 and not rows.terminated.any()
        for cell, ended in ((0, False), (3, False), (1, False), (4, False), (2, True)):
            pool.send([cell], [1])
            pool.recv(1)
            assert rows.terminated[1] == ended
        assert rows.length[1] == 5 and list(rows.rewards[1]) == [1.0, -1.0] and list(rows.stats[1, :, 0]) == [3.0, 2.0]
        assert rows.final_player[1] == rows.current_player[1] == 0 and rows.legal_action_mask[1].all()
        np.testing.assert_array_equal(rows.observation[1], rows.final_observation[1])
        with pytest.raises(ValueError, match="game 1 is over"):
            pool.send([5], [1])
        pool.next_controllers[:] = [[0, 0], [-1, 0], [-1, -1]]
        pool.begin([0, 1], rows)  # no outside seat is asked in game 0: it is ready when it has ended
        assert sorted(pool.recv(2)) == [0, 1] and pool.num_ready == 0
        assert rows.terminated[0] and rows.length[0] >= 5 and rows.opening[0].sum() == 0 and not rows.rewards[0].any()
        assert not rows.terminated[1] and rows.length[1] == 0 and rows.info[1, 1] == 1  # its second episode
        pool.begin([0], rows)
        with pytest.raises(ValueError, match="in play"):
            pool.begin([0], rows)
        with pytest.raises(ValueError, match="in play"):
            pool.begin([1], make_buffers(engine, 3))  # other rows while game 0 still writes
        pool.recv(1)


def test_a_game_begins_from_a_saved_state_in_any_place():
    game = TicTacToeGame(opening=True)
    blanks = np.empty((6, game.state_bytes), np.uint8)
    blank_states(game.engine(6, 11), blanks)
    with begun(game.engine(6, 11)) as (_, expected, _):
        pass
    with HostPool(game.engine(2, 99), mode="async", follow=False) as pool:
        rows = make_buffers(pool.engine, 2)
        for first in (4, 0, 2):
            pool.begin([1, 0], rows, blanks[first : first + 2])
            pool.recv(2)
            np.testing.assert_array_equal(rows.observation[[1, 0]], expected.observation[first : first + 2])
        with pytest.raises(ValueError, match="states are u8"):
            pool.begin([0], rows, blanks)


def test_orders_for_the_wrong_mode():
    engine = TicTacToeGame().engine(2, 0)
    with pytest.raises(UserError, match="need the asynchronous mode"):
        HostPool(engine, follow=False)
    with HostPool(engine) as pool, pytest.raises(ValueError, match="use start or restart"):
        pool.begin([0], make_buffers(engine, 2))


# ---- memory and time ------------------------------------------------------------------------------------------------


def test_buffers_belong_to_the_caller():
    engine = NoopEngine(64, num_features=100)
    storage = make_buffers(engine, 64, steps=3)
    assert storage.observation.shape == (3, 64, 100) and storage.observation.ctypes.data % PAGE == 0
    filled = [array for array in storage.arrays().values() if array.size]  # there are no stats
    assert all(array.ctypes.data % 64 == 0 and array.flags.c_contiguous for array in filled)
    assert aligned((3,), np.int8).ctypes.data % 64 == 0
    addresses = {name: array.ctypes.data for name, array in storage.arrays().items()}
    storage.observation[:] = 7.0
    with HostPool(engine) as pool:
        pool.start(storage.at(0))
        pool.send(np.zeros(64, np.int32), storage.at(2))
        pool.recv()
    assert addresses == {name: array.ctypes.data for name, array in storage.arrays().items()}
    assert not storage.observation[0].any() and (storage.observation[1] == 7.0).all()
    assert storage.length[:, 0].tolist() == [0, 0, 1]


def test_counters_of_the_parts():
    with begun(TicTacToeGame().engine(16, 0), controllers=[[-1, 0]] * 16, timed=True, threads=2) as (pool, out, act):
        for _ in range(10):
            act(np.full(16, RANDOM))
        counters = pool.counters
    assert counters["step"][1] == counters["observe"][1] == 11 * 16
    assert 0 < counters["bots"][1] <= 10 * 16
    assert all(ns > 0 for ns, _ in counters.values())
    assert sum(ns for ns, _ in counters.values()) <= pool.busy_ns.sum()
