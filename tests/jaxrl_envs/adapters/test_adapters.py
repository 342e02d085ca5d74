"""Games of other libraries behind the contract, and what is said when the library is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.adapters.boards import board_text, place_name
from jaxrl_envs.contract.registry import make, options_of
from jaxrl_envs.contract.wrappers import auto_reset
from jaxrl_envs.shared.errors import UserError


@pytest.mark.parametrize(("game", "package"), [("pgx:connect_four", "pgx"), ("gymnax:CartPole-v1", "gymnax")])
def test_a_missing_package_is_named_with_its_extra(game, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"pip install 'jaxrl\[games\]'"):
        make(game)


def check_in_another_process(game):
    """Runs the conformance suite without XLA flags: multi-output fusion on the CPU aborts on some of these programs."""
    code = "import sys; from jaxrl_envs import registry, conformance as c; "
    code += "r = c.check(registry.make(sys.argv[1]), games=4, max_steps=3000); print(r); sys.exit(not r.ok)"
    environment = os.environ | {"XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code, game], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


# ---- Pgx ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["connect_four", "kuhn_poker"])
def test_a_pgx_game_fulfils_the_contract(name):
    pytest.importorskip("pgx", reason="Pgx is not installed: pip install 'jaxrl[games]'")
    check_in_another_process(f"pgx:{name}")


def test_a_pgx_game_is_the_same_through_the_adapter():
    pgx = pytest.importorskip("pgx", reason="Pgx is not installed: pip install 'jaxrl[games]'")
    env, game = make("pgx:connect_four"), pgx.make("connect_four")
    ours, theirs = env.init(jax.random.key(1)), game.init(jax.random.key(1))
    for column in (3, 3, 2, 2, 1, 1, 0):  # four in a row in the bottom row
        np.testing.assert_array_equal(ours.observation, theirs.observation)
        np.testing.assert_array_equal(ours.legal_action_mask, theirs.legal_action_mask)
        assert int(ours.current_player) == int(theirs.current_player) and not bool(ours.terminated)
        ours, theirs = env.step(ours, jnp.int32(column), jax.random.key(0)), game.step(theirs, column)
    assert bool(ours.terminated) and bool(theirs.terminated)
    np.testing.assert_array_equal(ours.rewards, theirs.rewards)
    assert "svg" in env.render_svg(ours)


def test_a_pgx_game_shows_its_board_and_can_be_searched():
    pytest.importorskip("pgx", reason="Pgx is not installed: pip install 'jaxrl[games]'")
    env = make("pgx:connect_four")
    state = env.init(jax.random.key(1))
    first = int(state.current_player)
    state = env.step(state, jnp.int32(3), jax.random.key(0))
    stone = "XO"[first]
    assert f"6 . . . {stone} . . .\n" in env.render(state, 0)
    assert f"6 . . . {stone} . . .\n" in env.render(state, 1) and "X: seat 0, O: you" in env.render(state, 1)
    assert env.action_name(3) == "column 3" and "svg" in env.render_svg(state, 0)
    assert env.permute_hidden(state, jnp.int32(0), jax.random.key(2)) is state
    kuhn = make("pgx:kuhn_poker")
    hidden = kuhn.init(jax.random.key(0))
    assert kuhn.permute_hidden(hidden, jnp.int32(0), jax.random.key(2)) is None
    with pytest.raises(NotImplementedError):
        kuhn.render(hidden, 0)


def test_boards_are_read_from_planes():
    go = np.zeros((9, 9, 17), bool)
    go[0, 2, 0] = go[8, 8, 1] = go[4, 4, 16] = True
    lines = board_text("go_9x9", go, 1, 1).splitlines()  # of seat 1, whose stones are O
    assert lines[0] == "  a b c d e f g h i" and lines[1] == "1 . . O . . . . . ." and lines[9] == "9 . . . . . . . . X"
    assert lines[10] == "X: seat 0, O: you"
    assert [place_name("go_9x9", action, 9) for action in (0, 11, 81)] == ["a1", "c2", "pass"]
    assert [place_name("hex", action, 11) for action in (120, 121)] == ["k11", "swap"]
    assert place_name("kuhn_poker", 1, 7) == "1"
    chess = np.zeros((8, 8, 119), np.float32)
    chess[7, 4, 5] = chess[0, 4, 11] = 1
    text = board_text("chess", chess, 0, None)
    assert "1 . . . . k . . .\n" in text and "8 . . . . K . . .\nseat 0: PNBRQK, seat 1: pnbrqk" in text
    numbers = np.zeros((4, 4, 31), bool)
    numbers[..., 0] = True
    numbers[0, 1] = np.arange(31) == 11
    assert board_text("2048", numbers, 0, 0).splitlines()[0].split() == [".", "2048", ".", "."]


def test_an_unknown_pgx_game():
    pytest.importorskip("pgx", reason="Pgx is not installed: pip install 'jaxrl[games]'")
    with pytest.raises(UserError, match="did you mean 'connect_four'"):
        make("pgx:conect_four")


# ---- gymnax ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CartPole-v1", "Catch-bsuite"])
def test_a_gymnax_environment_fulfils_the_contract(name):
    pytest.importorskip("gymnax", reason="gymnax is not installed: pip install 'jaxrl[games]'")
    check_in_another_process(f"gymnax:{name}")


def test_a_cut_is_not_an_end():
    pytest.importorskip("gymnax", reason="gymnax is not installed: pip install 'jaxrl[games]'")
    env = make("gymnax:CartPole-v1", max_steps=5)
    lane = auto_reset(env)
    state = lane.init(jax.random.key(0))
    for time in range(5):
        before = state
        state, final = lane.step(state, jnp.int32(time % 2), jax.random.key(time))
        assert bool(final.truncated) == (time == 4) and not bool(final.terminated)
    stepped = env.step(before, jnp.int32(0), jax.random.split(jax.random.key(4))[0])
    np.testing.assert_allclose(final.observation, stepped.observation)
    assert int(state.inner.time) == 0 and not np.allclose(state.observation, final.observation)


def test_gymnax_refusals():
    pytest.importorskip("gymnax", reason="gymnax is not installed: pip install 'jaxrl[games]'")
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        make("gymnax:Cartpole")
    with pytest.raises(UserError, match="continuous actions"):
        make("gymnax:Pendulum-v1")
    assert options_of("gymnax:CartPole-v1")["max_steps"].default == 0
