"""Players with a memory, in any seat and several at once: they play as players do who read the same off the state."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl.algorithms.registry import trained_player
from jaxrl.config import Config
from jaxrl.matches.evaluate import Matchup, evaluate_players
from jaxrl.matches.interactive import InteractiveGame
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.networks.config import NetworkConfig, RecurrentConfig
from jaxrl.networks.factory import make_network
from jaxrl.players.player import Player, agent_player, bot_player, network_player
from jaxrl.policies.export import load_policy, save_policy
from jaxrl.policies.find import FoundPlayers, Lookup, find_opponents
from jaxrl.runs.directory import load_run
from jaxrl.search.player import make_search
from jaxrl.search.policies import SearchParams, bot_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.outside_agent import OutsideAgent
from jaxrl_envs.shared.errors import UserError
from tests.jaxrl_envs.host.test_match import Remote
from tests.policies.test_export import a_run
from tests.support.games import HighCard, OneAgainstTwo, RockPaperScissors, TicTacToe, lowest_action
from tests.support.host_games import HostSignals, HostTicTacToe


def init(params, state, seat, key):
    """Decisions of the seat so far."""
    return {"decisions": jnp.int32(0)}


def counting(choose, name="counts", params=None) -> Player:
    """Chooses by how often its seat has decided."""

    def act(params, memory, state, key):
        return choose(params, memory["decisions"], state), {"decisions": memory["decisions"] + 1}

    return Player(name, act, params, init=init)


def reading(choose, decisions, name="reads", params=None) -> Player:
    """The same, but it sees in the state how often that was."""
    return Player(name, lambda params, memory, state, key: (choose(params, decisions(state), state), memory), params)


def high_then_low(params, decisions, state):
    mask = state.legal_action_mask
    first, last = jnp.argmax(mask), mask.shape[0] - 1 - jnp.argmax(mask[::-1])
    return jnp.where((decisions + (0 if params is None else params)) % 2 == 0, last, first).astype(jnp.int32)


def cards_played(state):
    return 3 - jnp.sum(state.owner == state.current_player)


def same(left, right) -> None:
    for mine, theirs in ((left.candidate, right.candidate), (left.opponents, right.opponents)):
        for name, values in mine.items():
            np.testing.assert_array_equal(values, theirs[name])
    np.testing.assert_array_equal(left.outcomes.result, right.outcomes.result)


@pytest.mark.thorough
@pytest.mark.parametrize("env", [HighCard(), OneAgainstTwo()], ids=lambda env: env.id)
def test_everybody_may_remember_in_every_seat(env):
    """The candidate and, at the other seats (two of them), copies of one or of the other kind."""
    counts, reads = counting(high_then_low), reading(high_then_low, cards_played)
    by_memory = Matchup(env, counts, [counts, bot_player(env, "highest")], deals=30, seed=2)
    by_state = Matchup(env, reads, [reads, bot_player(env, "highest")], deals=30, seed=2)
    for opponent in (0, 1):
        same(by_memory.play(opponent=opponent), by_state.play(opponent=opponent))
    highest = Matchup(env, bot_player(env, "highest"), [bot_player(env, "highest")], deals=30, seed=2).play()
    assert not np.array_equal(highest.outcomes.result, by_memory.play(opponent=1).outcomes.result)


def test_seats_that_act_at_the_same_time_remember_each_for_itself():
    env = RockPaperScissors(num_players=3, rounds=4)

    def begin(params, state, seat, key):
        return seat

    def act(params, memory, state, key):
        return (memory % 3).astype(jnp.int32), memory + 1

    counts = Player("counts", act, init=begin)
    reads = Player("reads", lambda p, memory, state, key: ((jnp.arange(3) + state.round) % 3, memory))
    random = bot_player(env, "random")
    for opponent in (random, None):
        left = Matchup(env, counts, [opponent or counts], deals=20, seed=1).play()
        same(left, Matchup(env, reads, [opponent or reads], deals=20, seed=1).play())
    assert (left.outcomes.result == 0).all(), "three different choices in every round"


def test_a_tournament_of_players_with_memories():
    env = HighCard()
    tables = []
    for kind in (counting, lambda *args: reading(args[0], cards_played, *args[1:])):
        first = kind(high_then_low, "even", jnp.int32(0))
        players = [bot_player(env, "lowest"), first, first.named("odd", jnp.int32(1))]
        tables.append(Tournament(env, players, deals=20, seed=1).run())
    np.testing.assert_array_equal(tables[0].counts, tables[1].counts)
    assert tables[0].names == ("lowest", "even", "odd") and len(np.unique(tables[0].counts[..., 0])) > 2


def test_live_games_keep_memories_too():
    """By lane and seat, begun again with each game; one player holds one seat, or in Signals two."""
    env = Remote(opening=True)

    def stones(state):
        return jnp.sum(state.observation.reshape(9, 2)[:, 0]).astype(jnp.int32) - 1

    counts, reads = counting(high_then_low), reading(high_then_low, stones)
    for opponents in ((bot_player(env, "random"), bot_player(env, "random")), (counts, reads)):
        left, right = (
            Matchup(env, player, [opponent], deals=12, seed=3).play()
            for player, opponent in zip((counts, reads), opponents, strict=True)
        )
        same(left, right)
    teams = HostSignals(remote=True)

    def begin(params, state, seat, key):
        return {"seat": seat, "decisions": jnp.int32(0)}

    def act(params, memory, state, key):
        right = (memory["seat"] == state.current_player) & (memory["decisions"] < 6)
        number, word, _ = state.observation.reshape(3, 4)
        said = jnp.where(state.current_player < 2, jnp.argmax(number), jnp.argmax(word))
        return jnp.where(right, said, -1).astype(jnp.int32), memory | {"decisions": memory["decisions"] + 1}

    remembers = Player("remembers", act, init=begin)
    samples = Matchup(teams, remembers, [bot_player(teams, "random")], deals=10, seed=0).play()
    assert samples.outcomes.tally().wins == 20, "a seat's own memory in each of its decisions, or the move is illegal"


def test_memories_draw_the_same_numbers_live_and_compiled():
    """A memory that is begun at random: the deal, the seat and the player's number decide, not the way to play."""

    def begin(params, state, seat, key):
        return jax.random.randint(key, (), 0, 2)

    def act(params, memory, state, key):
        return high_then_low(None, memory, state), memory

    player = Player("moody", act, init=begin)
    settings = {"deals": 8, "seed": 1}
    live = Matchup(Remote(opening=False), player, [player], **settings).play()
    whole = Matchup(HostTicTacToe(opening=False), player, [player], **settings).play()
    same(live, whole)
    assert len(np.unique(live.outcomes.length)) > 1


@pytest.mark.thorough
def test_recurrent_networks_remember_in_matches():
    """Live as compiled, and not as a network would whose memory is cleared before each of its decisions."""
    live, whole = Remote(opening=False), HostTicTacToe(opening=False)
    network = make_network(NetworkConfig(kind="recurrent", hidden=(8,), recurrent=RecurrentConfig(width=8)), whole)
    assert network.remembers
    params = jax.tree.map(lambda leaf: 4.0 * leaf, network.init(jax.random.key(1)))
    player = network_player(network, whole, "lstm", params, greedy=False)
    forgetful = Player("forgets", lambda p, _, *rest: (player.act(p, network.memory(()), *rest)[0], ()), params)
    settings = {"deals": 12, "seed": 3}
    found = [Matchup(env, player, [player], **settings).play(params) for env in (live, whole)]
    same(*found)
    without = Matchup(whole, forgetful, [forgetful], **settings).play(params)
    assert not np.array_equal(found[0].outcomes.length, without.outcomes.length)
    env = RockPaperScissors(num_players=3)
    network = make_network(NetworkConfig(kind="recurrent", hidden=(8,), recurrent=RecurrentConfig(width=8)), env)
    player = network_player(network, env, "lstm", network.init(jax.random.key(1)), greedy=False)
    results = Tournament(env, [bot_player(env, "random"), player], deals=10).run()
    assert results.total_games == 60


@pytest.mark.thorough
def test_searches_sit_in_any_seat():
    """Two searches that know each other's policy, one as the opponent at a table of three."""
    env = HighCard()
    settings = SearchSettings(simulations=16, particles=8)
    search = make_search(env, settings, own=bot_policy(env.bots["lowest"]), guide=no_guide)
    player = search.player("search", SearchParams(None))
    row = evaluate_players(env, [bot_player(env, "lowest")], [player], deals=8, seed=1)[0]
    assert row.samples.candidate["tricks"].mean() < 1.0
    results = Tournament(env, [bot_player(env, "lowest"), player], deals=4).run()
    assert results.points[1, 0] > results.points[0, 1]


@pytest.mark.parametrize("plain", [False, True])
def test_games_with_people_are_compiled_as_the_player_says(plain):
    """Whether or not it has odds: a user's own player may have none, and a search some."""

    def programs(function, *, plain=False):
        asked[function] = plain
        return function

    asked: dict = {}
    player = Player("own", lambda params, memory, state, key: (lowest_action(state, key), memory), plain=plain)
    game = InteractiveGame(TicTacToe(), [player, player], programs)
    game.deal(jax.random.key(1))
    assert game.answer(jax.random.key(2)) == 0 and asked[player.act] is plain


# ---- policy files ---------------------------------------------------------------------------------------------------


def test_a_policy_file_is_the_run(tmp_path, capsys, monkeypatch):
    run = load_run(a_run(tmp_path).path)
    path = tmp_path / "agent.jaxrl"
    save_policy(path, run)
    player = load_policy(path).player()
    assert player.name == run.name
    env, trained = run.env, trained_player(run.config, run.env, run.name, run.params[0], greedy=True)
    [left] = evaluate_players(env, [player], [bot_player(env, "random")], deals=6, seed=1)
    [right] = evaluate_players(env, [trained], [bot_player(env, "random")], deals=6, seed=1)
    same(left.samples, right.samples)
    name = str(tmp_path / run.name)
    assert cli.main(["evaluate", name, "--against", str(path), "--deals", "4", "--opponents", "random"]) == 0
    assert "| agent " in capsys.readouterr().out
    assert cli.main(["tournament", name, str(path), "bot:lowest", "--deals", "4"]) == 0
    assert "| agent " in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda: (_ for _ in ()).throw(EOFError))
    assert cli.main(["play", str(path), "--seed", "1"]) == 0
    assert "you left the table" in capsys.readouterr().out


def test_a_person_is_told_who_is_on_the_side(capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda: (_ for _ in ()).throw(EOFError))
    assert (
        cli.main(["play", "bot:optimal", "env.id=tests.support.games:Signals", "run.cache_dir=''", "--seed", "1"]) == 0
    )
    assert "seat 1: optimal, seat 2: optimal (your side), seat 3: optimal" in capsys.readouterr().out


# ---- programs of the user's own --------------------------------------------------------------------------------------


class Lowest(OutsideAgent):
    """Plays the first legal action, as NumPy finds it."""

    def act(self, seen):
        return np.argmax(seen[1], axis=-1)


@pytest.mark.parametrize("game", [HighCard, RockPaperScissors])
def test_an_agent_on_the_host_plays_as_the_same_function_in_the_program(game):
    env = game()
    inside = Player("inside", lambda params, memory, state, key: (jnp.argmax(state.legal_action_mask, -1), memory))
    outside = find_opponents(["agent:tests.players.test_players:Lowest"], Lookup(), FoundPlayers([], Config(), env))[0]
    bots = [bot_player(env, "random")]
    left, right = (evaluate_players(env, [player], bots, deals=8, seed=1)[0] for player in (inside, outside))
    same(left.samples, right.samples)
    results = Tournament(env, [inside, outside, *bots], deals=4).run()
    assert results.names[1] == "tests.players.test_players:Lowest"


def test_an_agent_that_is_none_is_a_sentence():
    with pytest.raises(UserError, match="agent 'tests.players.test_players:HighCard' is no subclass"):
        agent_player(HighCard(), "tests.players.test_players:HighCard")
