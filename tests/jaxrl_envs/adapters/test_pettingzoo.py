"""Our games as PettingZoo environments pass its own tests."""

from __future__ import annotations

import re

import numpy as np
import pytest

from jaxrl_envs.contract.registry import make
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe
from tests.support.paths import ROOT

pytest.importorskip("pettingzoo", reason="PettingZoo is not installed: pip install 'jaxrl[pettingzoo]'")

from jaxrl_envs.adapters.pettingzoo import SeatsAEC, SeatsParallel

pytestmark = pytest.mark.filterwarnings("ignore")  # of PettingZoo's tests, on bounds of -inf and names


@pytest.mark.parametrize("env", [TicTacToe(), HighCard(), Corridor()], ids=lambda env: env.id)
def test_turn_based_games_pass_the_api_test(env):
    from pettingzoo.test import api_test

    api_test(SeatsAEC(env), num_cycles=60)


@pytest.mark.parametrize("env", [RockPaperScissors(rounds=3), RockPaperScissors(num_players=3)], ids=lambda env: env.id)
def test_simultaneous_games_pass_the_parallel_api_test(env):
    from pettingzoo.test import parallel_api_test

    parallel_api_test(SeatsParallel(env), num_cycles=60)


@pytest.mark.thorough
@pytest.mark.parametrize("id", ["skull_king", "beasty_bar", "battle"])
def test_games_of_ours_pass_the_api_test(id):
    from pettingzoo.test import api_test

    api_test(SeatsAEC(make(id)), num_cycles=100)


@pytest.mark.thorough
@pytest.mark.parametrize("id", ["beasty_bar", "battle"])  # so does skull_king, which compiles for half a minute
def test_games_of_ours_pass_gymnasiums_check(id):
    from gymnasium.utils.env_checker import check_env

    from jaxrl_envs.adapters.gymnasium import SeatEnv

    check_env(SeatEnv(make(id)), skip_render_check=True)


def test_the_loop_of_pettingzoo_plays_a_game_and_credits_every_agent():
    env, rng = SeatsAEC(HighCard()), np.random.default_rng(0)
    env.reset(seed=1)
    earned = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        seen, reward, terminated, truncated, _ = env.last()
        earned[agent] += reward
        others = [other for other in env.agents if other != agent]
        assert not any(env.observe(other)["action_mask"].any() for other in others) or terminated
        env.step(None if terminated or truncated else rng.choice(np.flatnonzero(seen["action_mask"])))
    assert env.agents == []
    won = np.asarray(env._state.won)
    bonus = (won == won.max()) / (won == won.max()).sum()
    assert list(earned.values()) == pytest.approx((1.5 * won - 1.5 + bonus).tolist())


def test_a_seed_decides_the_deals_and_an_illegal_action_ends_the_game():
    from pettingzoo.test import seed_test

    seed_test(lambda: SeatsAEC(TicTacToe(random_start=True)), num_cycles=10)
    env = SeatsAEC(TicTacToe(random_start=True))
    deals = []
    for seed in (3, None, 3, None):
        env.reset(seed=seed)
        deals.append(env.last()[0]["observation"].tolist())
    assert deals[:2] == deals[2:] and "X" in env.render()
    mask = env.last()[0]["action_mask"]
    env.step(int(np.flatnonzero(mask == 0)[0]))
    assert env.terminations == {"seat_0": True, "seat_1": True} and env.rewards == {"seat_0": -1.0, "seat_1": 1.0}


@pytest.mark.thorough
def test_the_example_of_the_documents_runs():
    page = (ROOT / "docs/start/coming_from.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(re.search(r"```python\n(.*?SeatsAEC.*?)```", page, re.DOTALL)[1], names)
    assert names["env"].agents == []


def test_each_kind_of_game_names_the_other_class():
    with pytest.raises(UserError, match="use SeatsParallel"):
        SeatsAEC(RockPaperScissors())
    with pytest.raises(UserError, match="use SeatsAEC"):
        SeatsParallel(TicTacToe())
