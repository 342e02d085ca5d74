"""Our games through the interfaces of other libraries' learners."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.adapters.seat import SeatGame
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe

NO_GYMNASIUM = "gymnasium is not installed: pip install 'jaxrl[gymnasium]'"
NO_SB3 = "sb3-contrib is not installed: pip install 'jaxrl[sb3]'"


FUSION = "xla_cpu_use_multi_output_fusion"  # XLA aborts on some of the programs below with it


@pytest.fixture(autouse=True)
def _without_fusion(request):
    here = FUSION in os.environ.get("XLA_FLAGS", "")
    if here and "process_of_its_own" not in request.node.name:
        pytest.skip("runs in test_in_a_process_of_its_own")
    if not here and "process_of_its_own" in request.node.name:
        pytest.skip("this process will do")


def test_in_a_process_of_its_own():
    environment = os.environ | {"XLA_FLAGS": "--xla_backend_extra_options=xla_nothing"}  # the user's flag wins
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def random_action(rng, mask):
    return int(rng.choice(np.flatnonzero(mask)))


# ---- the seat game: what every adapter is made of -------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("seat", [0, 1, 2])
def test_a_seat_gets_all_its_rewards_and_only_its_decisions(seat):
    env = HighCard()
    game = SeatGame(env, opponents=("lowest", "highest"), seat=seat)
    act, view = jax.jit(game.act), jax.jit(game.view)
    rng = np.random.default_rng(seat)
    for number in range(4):
        lane, total = jax.jit(game.begin)(jax.random.key(number)), 0.0
        for turn in range(3):
            assert int(lane.state.current_player) == seat and not bool(lane.state.terminated)
            action = random_action(rng, np.asarray(view(lane).mask))
            lane = act(lane, jnp.int32(action), jax.random.key(turn))
            total += float(view(lane).reward)
        assert bool(lane.state.terminated)
        won = np.asarray(lane.state.won)
        bonus = (won[seat] == won.max()) / (won == won.max()).sum()
        assert total == pytest.approx(1.5 * won[seat] - 1.5 + bonus)


def test_seats_and_bots_are_drawn_for_every_game():
    game = SeatGame(HighCard(), opponents=("lowest", "highest"))
    lanes = jax.jit(jax.vmap(game.begin))(jax.random.split(jax.random.key(0), 60))
    assert set(np.asarray(lanes.seat).tolist()) == {0, 1, 2}
    assert len(np.unique(np.asarray(lanes.bots), axis=0)) == 8


def test_a_simultaneous_game_from_one_seat():
    game = SeatGame(RockPaperScissors(rounds=3), seat=1)
    lane = game.begin(jax.random.key(0))
    total = np.zeros(2)
    for turn in range(3):
        lane = game.act(lane, jnp.int32(turn % 3), jax.random.key(turn))
        total += np.asarray(lane.state.rewards)
        assert float(game.view(lane).reward) == float(lane.state.rewards[1])
        assert int(lane.state.last[1]) == turn % 3
    assert bool(lane.state.terminated)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponents": ("hihest",)}, "did you mean 'highest'"),
        ({"opponents": ()}, "at least one"),
        ({"seat": 3}, "0 to 2"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(UserError, match=message):
        SeatGame(HighCard(), **options)


# ---- Gymnasium ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env", [TicTacToe(), RockPaperScissors(num_players=3), Corridor()], ids=lambda env: env.id)
def test_gymnasium_accepts_the_environment(env):
    pytest.importorskip("gymnasium", reason=NO_GYMNASIUM)
    from gymnasium.utils.env_checker import check_env

    from jaxrl_envs.adapters.gymnasium import SeatEnv

    check_env(SeatEnv(env), skip_render_check=True)


def test_a_whole_game_through_gymnasium():
    pytest.importorskip("gymnasium", reason=NO_GYMNASIUM)
    from jaxrl_envs.adapters.gymnasium import SeatEnv

    env = SeatEnv(TicTacToe(), opponents=("lowest",), seat=0)
    observation, info = env.reset(seed=0)
    assert observation.shape == (18,) and info["action_mask"].all() and "." in env.render()
    for action, over in ((4, False), (2, False), (6, True)):  # the bot answers 0 and 1
        assert env.action_masks()[action]
        observation, reward, terminated, truncated, info = env.step(action)
        assert terminated == over and not truncated and reward == float(over)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[1:3] == (-1.0, True)  # an occupied cell


def test_batched_games_give_every_seats_rewards_and_keep_final_observations():
    pytest.importorskip("gymnasium", reason=NO_GYMNASIUM)
    from jaxrl_envs.adapters.gymnasium import BatchedGames

    games, rng = BatchedGames(HighCard(), 5, seed=1), np.random.default_rng(0)
    batch = games.reset()
    ends = 0
    for time in range(1, 19):
        batch = games.step(np.array([random_action(rng, mask) for mask in batch.mask]))
        assert batch.terminated.all() == batch.terminated.any() == (time % 9 == 0)
        ends += int(batch.terminated.sum())
        seen = batch.final_observation[:, 12:24].sum(axis=1)
        assert (seen == (time - 1) % 9 + 1).all()  # cards played, before the reset
        assert (batch.observation[:, 12:24].sum(axis=1) == time % 9).all()
    assert ends == 10


# ---- Stable-Baselines3 ----------------------------------------------------------------------------------------------


def test_vector_environment_infos():
    pytest.importorskip("stable_baselines3", reason=NO_SB3)
    from jaxrl_envs.adapters.sb3 import SeatVecEnv

    env = SeatVecEnv(Corridor(length=3, limit=4, random_start=False), 3)
    assert env.reset().tolist() == [[1, 0, 0]] * 3
    go = np.array([1, 0, 0])
    env.step(go)
    observation, reward, done, infos = env.step(go)
    assert reward.tolist() == [1, 0, 0] and done.tolist() == [True, False, False]
    assert infos[0]["terminal_observation"].tolist() == [0, 0, 1] and not infos[0]["TimeLimit.truncated"]
    assert observation.tolist() == [[1, 0, 0]] * 3 and infos[1] == {}
    env.step(go * 0)
    done, infos = env.step(go * 0)[2:]
    assert done.tolist() == [False, True, True] and infos[1]["TimeLimit.truncated"]
    assert env.action_masks().all() and len(env.env_method("action_masks", indices=[0, 2])) == 2


def test_maskable_ppo_learns_with_the_vector_environment():
    pytest.importorskip("sb3_contrib", reason=NO_SB3)
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    from jaxrl_envs.adapters.sb3 import SeatVecEnv

    env = SeatVecEnv(TicTacToe(), 16, opponents=("lowest",), seed=3)
    assert is_masking_supported(env) and get_action_masks(env).shape == (16, 9)
    learner = MaskablePPO(
        "MlpPolicy", env, n_steps=32, batch_size=128, n_epochs=4, seed=0, device="cpu", learning_rate=3e-3
    )
    learner.learn(16 * 32 * 12)
    observation, rewards = env.reset(), []
    for _ in range(40):
        action, _ = learner.predict(observation, action_masks=env.action_masks(), deterministic=True)
        observation, reward, done, _ = env.step(action)
        rewards += reward[done].tolist()
    assert np.mean(rewards) > 0.5  # against a bot this simple; 0 would be a draw
