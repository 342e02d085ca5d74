"""Matches of live games in a pool: the same results as of whole states, in any order of completion."""

from __future__ import annotations

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from jaxrl import cli
from jaxrl.algorithms.registry import trained_player
from jaxrl.matches.deals import TRAINING_DEALS, samples_of
from jaxrl.matches.evaluate import Matchup, evaluate_players
from jaxrl.matches.remote import GamesProgress, RemoteDeals, is_remote
from jaxrl.matches.tournaments import tournament
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.networks.factory import make_network
from jaxrl.players.player import Player, bot_player
from jaxrl.runs.logs.console import ProgressLine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import Board, HostTicTacToe, TicTacToeGame
from tests.support.training import small_config


class RemoteGame(TicTacToeGame):
    remote = True

    def capacity(self) -> int:
        return 4

    def seat(self, engine, names) -> None:
        self.names = names


class Remote(HostEnv):
    """TicTacToe that says its engine were another process."""

    id, version = TicTacToeGame.id, TicTacToeGame.version

    def __init__(self, *, opening: bool = True, limit: int = 9):
        """A game.

        Args:
          opening: begin with one random stone of each seat.
          limit: stones at which the game is cut off.
        """
        super().__init__(RemoteGame(opening=opening, limit=limit))


CONFIG = small_config(hidden=(16,))


def network_player(env: HostEnv, seed: int, *, greedy: bool = False) -> Player:
    network = make_network(CONFIG.network, env)
    params = jax.tree.map(lambda leaf: 3.0 * leaf, network.init(jax.random.key(seed)))
    return trained_player(CONFIG, env, f"net {seed}", params, greedy=greedy)


def same(left, right) -> None:
    for name, values in left.candidate.items():
        np.testing.assert_array_equal(values, right.candidate[name])
    for a, b in zip(left.outcomes, right.outcomes, strict=True):
        np.testing.assert_array_equal(a, b)
    assert left.games == right.games and left.candidate.keys() == right.candidate.keys()


# ---- matches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("greedy", [False, True])
def test_the_same_games_as_with_whole_states(greedy):
    """Without an opening all deals are the same, and both ways to play draw the same numbers for every player."""
    remote, whole = Remote(opening=False), HostTicTacToe(opening=False)
    first, second = network_player(remote, 1, greedy=greedy), network_player(remote, 2, greedy=greedy)
    settings = {"deals": 6, "seed": 3, "stream": TRAINING_DEALS}
    found = Matchup(remote, first, [second], **settings).play(first.params)
    expected = Matchup(whole, first, [second], **settings).play(first.params)
    same(found, expected)
    if not greedy:
        assert len(np.unique(found.outcomes.result)) > 1 and len(np.unique(found.outcomes.length)) > 1


def test_engines_are_told_who_plays():
    env = Remote()
    first, second = bot_player(env, "lowest"), bot_player(env, "random")
    RemoteDeals(env, deals=2)([first, second], jax.random.key(3))
    assert [env.game.names(lane) for lane in range(4)] == [["lowest", "random"], ["random", "lowest"]] * 2


def test_neither_lanes_nor_order_of_arrival_change_a_result():
    env = Remote()
    player = network_player(env, 1)
    for opponent in (bot_player(env, "random"), network_player(env, 2)):
        pair, base = [player, opponent], jax.random.key(3)
        games = [RemoteDeals(env, deals=11, lanes=lanes)(pair, base) for lanes in (1, 4, 22)]
        each = [samples_of(found, env) for found in games]
        same(each[0], each[1])
        same(each[0], each[2])
    other = samples_of(RemoteDeals(env, deals=11)(pair, jax.random.key(4)), env)
    assert not np.array_equal(each[0].outcomes.result, other.outcomes.result)


def test_duplicate_deals_are_the_same_deals():
    """Equal deterministic players: a deal is won by the same seat in both rotations, and deals differ."""
    env = Remote()
    lowest = bot_player(env, "lowest")
    samples = Matchup(env, lowest, [lowest], deals=30, seed=1).play()
    assert np.all(samples.candidate["return"] == 0.0)
    assert len(np.unique(samples.outcomes.result[:, 0])) > 1
    np.testing.assert_array_equal(samples.outcomes.result[:, 0], -samples.outcomes.result[:, 1])
    np.testing.assert_array_equal(samples.outcomes.length[:, 0], samples.outcomes.length[:, 1])


def test_the_evaluator_chooses_the_way_to_play():
    env, whole = Remote(), HostTicTacToe(opening=True)
    assert is_remote(env) and not is_remote(whole)
    player = network_player(env, 1)
    bots = [bot_player(env, "random"), bot_player(env, "lowest")]
    remote = evaluate_players(env, [player, bots[1]][:1], bots, deals=400, seed=2)
    states = evaluate_players(whole, [player], bots, deals=400, seed=2)
    for left, right in zip(remote, states, strict=True):
        a, b = left.figures()["return"], right.figures()["return"]
        assert abs(a.mean - b.mean) < 1.6 * np.hypot(a.half, b.half), left.opponent
    [row] = evaluate_players(env, [bots[1]], [bots[0]], deals=50, seed=2)  # a bot measured against a bot
    assert row.samples.games == 100


def test_a_round_robin_of_live_games(monkeypatch):
    monkeypatch.setattr(tournament, "DuplicateDeals", None)  # which is for games that are compiled
    env = Remote()
    player = network_player(env, 1)
    entrants = [bot_player(env, "random"), bot_player(env, "lowest"), player]
    seen = []
    results = Tournament(env, entrants, deals=20, seed=1).run(lambda done, total: seen.append((done, total)))
    assert results.total_games == 3 * 40 and seen[-1] == (3, 3)
    again = Tournament(env, entrants, deals=20, seed=1).run()
    np.testing.assert_array_equal(results.counts, again.counts)


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_broken_player_and_games_without_an_end():
    env = Remote(opening=False)
    stubborn = Player("stubborn", lambda params, memory, state, key: (jnp.int32(4), memory))
    with pytest.raises(UserError, match="chose an illegal action"):
        Matchup(env, stubborn, [stubborn], deals=2, seed=0).play()
    player = network_player(env, 1)
    with pytest.raises(UserError, match="did not end within 3 steps"):
        Matchup(env, player, [player], deals=2, seed=0, max_steps=3).play(player.params)


def test_an_engine_that_fails_ends_in_a_sentence():
    """Live, and inside of a compiled match."""

    def fault(board: Board, action: int) -> None:
        raise ZeroDivisionError("the dice are lost")

    env, whole = Remote(), HostTicTacToe()
    env.game.fault = whole.game.fault = fault
    random = bot_player(env, "random")
    with pytest.raises(UserError, match="the engine of .* failed in game 0: .*the dice are lost"):
        RemoteDeals(env, deals=1, lanes=1)([random, random], jax.random.key(0))
    with pytest.raises(UserError, match="the engine of .* failed"):
        Matchup(env, random, [random], deals=5, seed=0).play()
    random = bot_player(whole, "random")
    with pytest.raises(UserError, match="^the engine of host_tic_tac_toe failed: ZeroDivisionError: the dice"):
        Matchup(whole, random, [random], deals=2, seed=0).play()


# ---- the progress ---------------------------------------------------------------------------------------------------


def test_the_progress_line():
    screen = Console(file=io.StringIO(), soft_wrap=True)
    line = ProgressLine(quiet=10.0, screen=screen, clock=iter([0.0, 5.0, 10.0, 10.4, 20.0, 65.0]).__next__)
    progress = GamesProgress("against forge", 100, Remote(), line)
    for _ in range(5):
        progress.add(4, 3)
    assert screen.file.getvalue().splitlines() == [
        "against forge: 8 of 200 games, 75.0 % won, 0.8 games/s, 4:00 left",
        "against forge: 20 of 200 games, 75.0 % won, 0.31 games/s, 9:45 left",
    ]


# ---- the commands ---------------------------------------------------------------------------------------------------

SMALL = """
env: {id: "tests.jaxrl_envs.host.test_match:Remote"}
run: {devices: 1, cache_dir: ""}
network: {hidden: [8]}
ppo: {epochs: 1, minibatches: 2}
sebulba: {groups: 1}
train: {num_envs: 4, num_steps: 8, total_steps: 64, updates_per_call: 1, evaluate_every: 1}
evaluate: {deals: 4, training_deals: 3, opponents: [random, lowest], options: {opening: false}}
"""


@pytest.mark.thorough
def test_train_evaluate_and_compare_runs(tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(SMALL)
    for name, seed in (("one", 0), ("two", 1)):
        options = [f"run.directory={tmp_path}", f"run.seed={seed}"]
        assert cli.main(["train", "--config", str(tmp_path / "small.yaml"), "--name", name, *options]) == 0
    assert "mean return against the bots" in capsys.readouterr().err
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert cli.main(["evaluate", one, "--against", two, "--sampled", "--deals", "5"]) == 0
    printed = capsys.readouterr().out
    assert "\n| two " in printed and "| one - two" in printed
    rows = json.loads((tmp_path / "one" / "evaluation.json").read_text())[-1]["rows"]
    assert [row["opponent"] for row in rows] == ["random", "lowest", "random", "lowest", "two"]
    assert cli.main(["tournament", one, two, "bot:random", "--deals", "3"]) == 0
    assert "3 players, 18 games" in capsys.readouterr().out
