"""What speeds are measured with: turns, random play of compiled games, operations of programs, the machine's name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jaxrl.diagnose import hardware, play, timing
from jaxrl.diagnose.timing import Contestant
from jaxrl.text_tables import count, table
from tests.support import games


def test_contestants_take_turns_after_their_warm_up():
    calls: list[str] = []
    contestants = [Contestant(name, 10.0, lambda name=name: calls.append(name)) for name in "ab"]
    results = timing.race(contestants, rounds=3, seconds=0.0)
    assert "".join(calls) == "ab" + "ab" + "ab" * 3
    assert [each.name for each in results] == ["a", "b"] and all(each.low <= each.rate <= each.high for each in results)


def test_speed_meters_do_not_divide_by_zero():
    assert timing.safe_ratio(1.0, 0.0) == 0.0
    clock, cpu = timing.timed(lambda: None)
    assert clock > 0 and cpu > 0


@pytest.mark.parametrize("view", ["lean", "observed"])
def test_random_play_goes_on_through_many_games(view):
    program, states, lengths = play.playing(games.TicTacToe(), batch=8, steps=40, view=view)
    assert lengths.shape == (8,) and jnp.all((lengths >= 5) & (lengths <= 9))
    after, total, buffer = program(states, 1)
    assert after.observation is None and after.board.shape == (8, 9)
    assert jnp.any(total != 0) and jnp.any(after.board != states.board)
    leaves = jax.tree.leaves(buffer)
    assert len(leaves) == (0 if view == "lean" else 2) and all(leaf.shape[:2] == (40, 8) for leaf in leaves)


def test_play_without_the_reset_leaves_games_at_their_end():
    program, states, _ = play.playing(games.TicTacToe(), batch=8, steps=9, view="endless")
    after, _, buffer = program(states, 1)
    assert after.terminated.all() and buffer is None


def test_seeds_of_random_play_matter():
    program, states, _ = play.playing(games.TicTacToe(), batch=8, steps=5, view="lean")
    one, same, other = (program(states, seed)[0].board for seed in (1, 1, 2))
    assert jnp.array_equal(one, same) and not jnp.array_equal(one, other)


def test_bots_play_and_their_games_are_counted():
    random, lowest = (
        play.contestant(games.TicTacToe(), batch=16, view="lean", steps=32, player=name)
        for name in games.TicTacToe().bots
    )
    assert 5.0 < random.info["decisions_per_game"] < 9.0
    assert lowest.info["decisions_per_game"] == 7.0  # 0, 2, 4, 6: the first seat's fourth move completes a line
    lowest.block()


def test_simultaneous_games_can_be_measured():
    found = play.contestant(games.RockPaperScissors(), batch=4, view="observed", steps=3)
    found.block()
    assert found.units == 12


def test_long_buffers_are_cut_short(monkeypatch):
    env = games.TicTacToe()
    assert play.view_bytes(env, "lean") == 0
    assert play.view_bytes(env, "observed") == 18 + 9
    monkeypatch.setattr(play, "BUFFER_BYTES", 20_000)
    found = play.contestant(env, batch=2**6, view="observed", steps=128)
    assert found.info["steps"] == 20_000 // (2**6 * 27)


def test_the_size_of_a_program():
    assert play.program_size(games.TicTacToe()) > 20


def test_tables():
    text = table(["name", "x"], [["a", "1"], ["long name", "22"]])
    assert text.splitlines() == ["name        x", "---------  --", "a           1", "long name  22"]
    assert [count(value) for value in (12.3e6, 4.5e3, 7.0)] == ["12.3 M", "4.5 k", "7"]


def test_hardware_is_named():
    facts = hardware.describe()
    assert facts["cpu"] and facts["cores"] >= 1 and facts["jax"] and facts["device_kind"]
    assert isinstance(hardware.gpus(), list)
