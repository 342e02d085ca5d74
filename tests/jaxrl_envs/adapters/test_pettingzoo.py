"""PettingZoo in both directions: our games pass its own tests, its games satisfy our contract and are trained on."""

from __future__ import annotations

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.conformance import check
from jaxrl_envs.contract.registry import make
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import make_buffers
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe
from tests.support.paths import ROOT

pettingzoo = pytest.importorskip("pettingzoo", reason="PettingZoo is not installed: pip install 'jaxrl[pettingzoo]'")
pytest.importorskip("pygame", reason="pygame is not installed: pip install 'jaxrl[pettingzoo]'")

from gymnasium import spaces  # noqa: E402

from jaxrl_envs.adapters.pettingzoo import SeatsAEC, SeatsParallel  # noqa: E402
from jaxrl_envs.adapters.pettingzoo_games import PettingZooGame  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of PettingZoo's tests, on bounds of -inf and names

# ---- our games as theirs --------------------------------------------------------------------------------------------


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


# ---- their games as ours --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["connect_four", "tictactoe_v3", "rps"])
def test_a_game_of_pettingzoo_fulfils_the_contract(name):
    report = check(make(f"pettingzoo:{name}", max_steps=60), games=4, max_steps=200)
    assert report.ok, str(report)


def test_connect_four_is_the_same_through_the_adapter():
    from pettingzoo.classic import connect_four_v3

    env, game = make("pettingzoo:connect_four"), connect_four_v3.env()
    assert env.version.endswith("-connect_four_v3") and env.perfect_information and not env.simultaneous
    state = env.init(jax.random.key(1))
    game.reset(seed=0)
    for column in (3, 3, 2, 2, 1, 1, 0):  # four in a row in the bottom row
        seen = game.last()[0]
        np.testing.assert_array_equal(state.observation, seen["observation"].ravel())
        np.testing.assert_array_equal(state.legal_action_mask, seen["action_mask"])
        state = env.step(state, jnp.int32(column), jax.random.key(0))
        game.step(column)
    assert bool(state.terminated) and not bool(state.truncated) and state.rewards.tolist() == [1.0, -1.0]
    assert "6 X X X X . . .\n" in env.render(state, 0)


def test_a_limit_cuts_a_game_off():
    env = make("pettingzoo:connect_four", max_steps=2)
    state = env.init(jax.random.key(0))
    for column in (0, 1):
        state = env.step(state, jnp.int32(column), jax.random.key(0))
    assert bool(state.truncated) and not bool(state.terminated) and int(state.current_player) == 0


def test_refusals(monkeypatch):
    with pytest.raises(UserError, match="did you mean 'tictactoe_v3'"):
        make("pettingzoo:tictactoe_v4")
    with pytest.raises(UserError, match="no game 'os.path'"):
        make("pettingzoo:os.path")
    with pytest.raises(UserError, match="max_steps must be 1"):
        make("pettingzoo:tictactoe", max_steps=0)
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(UserError, match=r"pip install 'jaxrl\[pettingzoo\]'"):
        make("pettingzoo:tictactoe")


class Leaving(pettingzoo.ParallelEnv):
    """Agent a leaves after a + 1 steps, having earned its actions; infos hold the masks; one has fewer actions."""

    metadata = {"name": "leaving_v0", "render_modes": []}
    possible_agents = ["player_0", "player_1"]

    def observation_space(self, agent):
        return spaces.Discrete(3) if agent == "player_0" else spaces.Box(0, 1, (2,))

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "player_0" else 2)

    def reset(self, seed=None, options=None):
        self.agents, self.time, self.luck = self.possible_agents[:], 0, np.random.default_rng(seed).integers(2)
        return self._seen(), self._infos()

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.time += 1
        left = {agent: int(agent[-1]) + 1 == self.time for agent in self.agents}
        result = (self._seen(), actions, left, dict.fromkeys(self.agents, False), self._infos())
        self.agents = [agent for agent in self.agents if not left[agent]]
        return result

    def _seen(self):
        seen = {"player_0": self.luck, "player_1": np.array([self.time, self.luck], np.float32)}
        return {agent: seen[agent] for agent in self.agents}

    def _infos(self):
        return {agent: {"action_mask": np.arange(self.action_space(agent).n) > 0} for agent in self.agents}


class LeavingGame(HostEnv):
    id, version = "leaving", "1"

    def __init__(self):
        super().__init__(PettingZooGame(Leaving, "leaving", "1"))


def test_an_environment_of_ones_own_whose_agents_leave_early():
    report = check(LeavingGame(), games=4, max_steps=20)
    assert report.ok, str(report)
    env = LeavingGame()
    state = env.init(jax.random.key(2))
    assert state.legal_action_mask.tolist() == [[False, True, True], [False, True, False]]
    luck = int(state.observation[0, 1])
    assert state.observation.tolist() == [[1.0 - luck, luck, 0.0], [0.0, luck, 0.0]]
    state = env.step(state, jnp.array([2, 1]), jax.random.key(0))
    assert state.rewards.tolist() == [2.0, 1.0] and not bool(state.terminated)
    assert state.legal_action_mask.tolist() == [[True, False, False], [False, True, False]]
    assert state.observation.tolist()[0] == [1.0 - luck, luck, 0.0]  # its last
    state = env.step(state, jnp.array([0, 1]), jax.random.key(0))
    assert state.rewards.tolist() == [0.0, 1.0] and bool(state.terminated)


class Wandering(pettingzoo.ParallelEnv):
    """Continuous actions."""

    metadata = {"name": "wandering_v0"}
    possible_agents = ["player_0"]

    def observation_space(self, agent):
        return spaces.Discrete(2)

    def action_space(self, agent):
        return spaces.Box(-1, 1, (2,))


def test_continuous_actions_are_refused():
    with pytest.raises(UserError, match="only discrete actions"):
        PettingZooGame(Wandering, "wandering", "1")


def test_a_pool_plays_whole_games_and_saved_games_go_on():
    engine = make("pettingzoo:tictactoe").game.engine(3, 5)
    rows, ends = make_buffers(engine, 3), 0
    with HostPool(engine) as pool:
        pool.start(rows)
        for _ in range(20):
            pool.send(rows.legal_action_mask.argmax(axis=1).astype(np.int32), rows)
            pool.recv()
            ends += int(rows.terminated.sum())
    assert ends >= 6
    game = engine.games[0]
    saved, mask, seen = game.save(), game.mask().tolist(), game.observe(0).tolist()
    game.step(int(np.argmax(mask)))
    other = engine.games[1]
    for loaded in (game, other):
        loaded.load(saved.ljust(engine.state_bytes, b"\0"))
        assert loaded.save() == saved and loaded.mask().tolist() == mask and loaded.observe(0).tolist() == seen


@pytest.mark.thorough
def test_a_training_learns_tictactoe_of_pettingzoo(tmp_path):
    import jaxrl

    config = {
        "env": {"id": "pettingzoo:tictactoe"},
        "network": {"hidden": [32]},
        "train": {"total_steps": 12_000, "num_envs": 16, "num_steps": 32, "evaluate_every": 0},
        "league": {"opponents": ["bots"]},
        "evaluate": {"opponents": ["random"], "deals": 20},
        "run": {"directory": str(tmp_path)},
    }
    jaxrl.train(config, name="tictactoe")
    (row,) = jaxrl.evaluate(str(tmp_path / "tictactoe"), ["random"], deals=40)
    assert row.samples.outcomes.tally()[0] > 0.6 * sum(row.samples.outcomes.tally())
