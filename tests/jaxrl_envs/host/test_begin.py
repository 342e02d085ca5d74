"""Games of a pool that begin one by one and stay as they ended: for matches with a fixed number of games."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import make_buffers
from jaxrl_envs.host.pure import blank_states
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import TicTacToeGame


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
    with HostPool(game.engine(6, 11)) as pool:
        expected = make_buffers(pool.engine, 6)
        pool.start(expected)
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
