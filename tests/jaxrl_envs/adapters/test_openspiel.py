"""Games of OpenSpiel: they satisfy the contract, are what pyspiel plays, repeat exactly, and are trained on."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.conformance import check
from jaxrl_envs.contract.registry import make
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import RANDOM
from jaxrl_envs.shared.errors import UserError
from tests.support.pools import begun

pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: pip install 'jaxrl[openspiel]'")

from jaxrl_envs.adapters.openspiel_games import OpenSpielGame  # noqa: E402

KINDS = [  # cards dealt, three seats, a board, dice unseen, dice seen, simultaneous (twice), a board unseen
    "kuhn_poker",
    "leduc_poker(players=3)",
    "tic_tac_toe",
    "liars_dice",
    "pig(winscore=20)",
    "matrix_rps",
    "oshi_zumo(coins=5)",
    "phantom_ttt",
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_a_game_of_openspiel_fulfils_the_contract(name):
    report = check(make(f"openspiel:{name}"), games=4, max_steps=300)
    assert report.ok, str(report)


def whole_games(game, games):
    """Plays random games of an engine; yields the numbers, rewards, observations and masks of each."""
    (each,) = game.engine(1, seed=3).games
    for _ in range(games):
        each.start()
        earned, seen = np.array(each.rewards()), []
        while not each.ended():
            seen.append((each.player(), each.observe(each.player()), each.mask()))
            each.step(each.bot(0))
            earned += each.rewards()
        yield each.played, earned, seen


@pytest.mark.parametrize("name", [*KINDS, "coop_box_pushing", "backgammon", "hanabi(players=3)", "solitaire"])
def test_games_are_those_of_pyspiel(name):
    env = make(f"openspiel:{name}")
    rules, tensor = pyspiel.load_game_as_turn_based(name), env.game.tensor
    deals = set()
    for numbers, earned, seen in whole_games(env.game, 3):
        state, seen = rules.new_initial_state(), iter(seen)
        deals.add(tuple(numbers))
        for number in numbers:
            if not state.is_chance_node():
                player, observation, mask = next(seen)
                assert player == state.current_player()
                np.testing.assert_allclose(observation, getattr(state, tensor)(player), rtol=1e-6)
                assert np.flatnonzero(mask).tolist() == state.legal_actions()
            state.apply_action(number)
        assert state.is_terminal() and next(seen, None) is None
        assert earned.tolist() == pytest.approx(state.returns())
    assert len(deals) > 1


@pytest.mark.parametrize(("name", "pair"), [("kuhn_poker", 0.0), ("leduc_poker(suit_isomorphism=True)", 1 / 5)])
def test_chance_follows_its_probabilities(name, pair):
    """Two of three cards; of three ranks of two cards each, where a second of the same rank is half as probable."""
    (game,) = make(f"openspiel:{name}").game.engine(1, seed=1).games
    deals = np.zeros((3, 3))
    for _ in range(4000):
        game.start()
        deals[tuple(game.played)] += 1
    expected = 4000 / 3 * np.where(np.eye(3), pair, (1 - pair) / 2)
    assert abs(deals - expected).max() < 5 * 4000**0.5 / 3


def test_repeats_are_exact_for_any_number_of_threads_and_saved_games_go_on():
    def play(threads):
        engine = make("openspiel:leduc_poker(players=3)").game.engine(6, seed=5)
        seen = []
        with begun(engine, threads=threads) as (_, rows, act):
            for _ in range(40):
                act(np.full(6, RANDOM, np.int32))
                seen.append([rows.observation.copy(), rows.action.copy(), rows.rewards.copy(), rows.terminated.copy()])
        return engine, seen

    engine, one = play(1)
    _, four = play(4)
    assert sum(int(terminated.sum()) for *_, terminated in one) > 12
    jax.tree.map(np.testing.assert_array_equal, one, four)
    game = engine.games[0]
    game.start()
    saved, seen = game.save(), game.observe(1).tolist()
    actions = [game.bot(0)]
    game.step(actions[0])
    later = game.save()
    for loaded in (game, engine.games[1]):
        loaded.load(saved.ljust(engine.state_bytes, b"\0"))
        assert loaded.save() == saved and loaded.observe(1).tolist() == seen and loaded.bot(0) == actions[0]
        loaded.load(saved)  # the bot has drawn
        loaded.bot(0)
        loaded.step(actions[0])
        assert loaded.save() == later
    game.load(saved)
    position = game.position
    game.load(later)
    assert game.position is position and game.save() == later  # played on, not again


def test_searchable_where_nothing_is_hidden():
    open_games = {name: make(f"openspiel:{name}").perfect_information for name in KINDS}
    assert [name for name, known in open_games.items() if known] == ["tic_tac_toe", "pig(winscore=20)"]


def test_people_read_what_their_seat_knows():
    env = make("openspiel:phantom_ttt")
    state = env.init(jax.random.key(0))
    after = env.step(state, jnp.int32(5), jax.random.key(0))
    assert env.render(after, None) == "...\n..x\n..."
    assert "x" in env.render(after, 0) and "x" not in env.render(after, 1)
    assert env.event(state, 5, after, 0) == env.event(state, 5, after) == "seat 0: x(1,2)"
    assert env.event(state, 5, after, 1) == "seat 0 has acted"
    assert env.action_name(5) == "(1,2)"
    assert [make("openspiel:kuhn_poker").action_name(action) for action in (0, 1)] == ["Pass", "Bet"]
    assert make("openspiel:oshi_zumo").action_name(7) == "Bid: 7"
    chess = make("openspiel:chess")
    assert chess.action_name(89) == "89"  # of several names, by position
    state = chess.init(jax.random.key(0))
    move = int(state.legal_action_mask.argmax())
    assert chess.event(state, move, chess.step(state, jnp.int32(move), jax.random.key(0)), 0) == "seat 1: a3"  # white


def test_the_tensor_is_a_choice_and_long_games_are_cut_off():
    full, short = make("openspiel:leduc_poker"), make("openspiel:leduc_poker", tensor="observation")
    assert full.num_features == 30 and short.num_features == 16 and full.version == pyspiel.__version__
    with pytest.raises(UserError, match="no tensor of its information state"):
        make("openspiel:tic_tac_toe", tensor="information_state")
    chess = make("openspiel:chess")
    assert chess.may_truncate and chess.game.max_steps == 5000 and not full.may_truncate
    env = make("openspiel:tic_tac_toe", max_steps=2)
    state = env.init(jax.random.key(0))
    for square in (0, 1):
        state = env.step(state, jnp.int32(square), jax.random.key(0))
    assert bool(state.truncated) and not bool(state.terminated) and int(state.current_player) == 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kun_poker", "OpenSpiel has no game 'kun_poker': did you mean 'kuhn_poker'"),
        ("kuhn_poker(foo=3)", "Unknown parameter 'foo'. Available parameters are: players"),
        ("kuhn_poker(players=30)", "refuses 'kuhn_poker.players=30.': num_players_ = 30"),
        ("misere", "refuses 'misere': Missing parameter game"),
        ("crossword", "refuses 'crossword'"),
        ("nfg_game", "refuses 'nfg_game'"),
        ("mfg_garnet", "is a mean-field game"),
        ("stones_and_gems", "draws its chance itself"),
        ("coordinated_mp", "has no tensor for a network to read"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(name, sentence):
    with pytest.raises(UserError, match=sentence):
        make(f"openspiel:{name}")


def test_other_refusals(monkeypatch):
    with pytest.raises(UserError, match="max_steps must be 1"):
        make("openspiel:tic_tac_toe", max_steps=0)
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(UserError, match=r"pip install 'jaxrl\[openspiel\]'"):
        make("openspiel:tic_tac_toe")


class Misere(HostEnv):
    id, version = "misere", "1"

    def __init__(self):
        super().__init__(OpenSpielGame(pyspiel.load_game("misere(game=tic_tac_toe())"), "misere", "1"))


def test_a_game_object_of_ones_own():
    env = Misere()
    state = env.init(jax.random.key(0))
    for square in (0, 3, 1, 4, 2):
        state = env.step(state, jnp.int32(square), jax.random.key(0))
    assert state.rewards.tolist() == [-1.0, 1.0] and "xxx" in env.render(state)


@pytest.mark.thorough
def test_a_training_learns_kuhn_poker_of_openspiel(tmp_path):
    import jaxrl

    config = {
        "env": {"id": "openspiel:kuhn_poker(players=2)"},
        "network": {"hidden": [32]},
        "train": {"total_steps": 20_000, "num_envs": 16, "num_steps": 32, "evaluate_every": 0},
        "evaluate": {"opponents": ["random"], "deals": 20},
        "run": {"directory": str(tmp_path)},
    }
    run = jaxrl.train(config, name="kuhn")
    assert run.env.id == "openspiel:kuhn_poker(players=2)"
    (row,) = jaxrl.evaluate(str(tmp_path / "kuhn"), ["random"], deals=400)
    assert row.samples.outcomes.tally()[0] > 0.55 * sum(row.samples.outcomes.tally())


@pytest.mark.parametrize("name", ["kuhn_poker(players=3)", "leduc_poker", "liars_dice(dice_sides=3)"])
def test_a_table_has_the_rules_of_pyspiel(name):
    game, env = pyspiel.load_game(name), make(f"openspiel_table:{name}")
    table = env._table
    assert len(np.unique(table.below[-1])) > 2  # chance begins
    below = np.minimum(table.below, 1.0)
    odds = np.diff(below, prepend=0.0, axis=1)
    weights = table.legal * np.arange(1.0, env.num_actions + 1)  # a policy that prefers high actions
    policy, values = weights / weights.sum(axis=1, keepdims=True), table.returns.copy()
    for at in reversed(range(len(values))):  # what follows a position has a higher number
        if not table.over[at]:
            after = np.einsum("aw,awp->ap", odds[table.draw[at]], values[table.drawn[table.draw[at]]])
            values[at] = policy[at] @ after
    expected = np.einsum("w,wp->p", odds[-1], values[table.drawn[-1]])

    def value(position):
        if position.is_terminal():
            return np.array(position.returns())
        legal = position.legal_actions()
        share = np.add(legal, 1.0) / np.sum(np.add(legal, 1.0))
        pairs = position.chance_outcomes() if position.is_chance_node() else zip(legal, share, strict=True)
        return sum(p * value(position.child(action)) for action, p in pairs)

    np.testing.assert_allclose(expected, value(game.new_initial_state()), atol=1e-4)
    state = jax.jit(env.init)(jax.random.key(0))
    assert env.observe(state, jnp.int32(0)).shape == (game.information_state_tensor_size(),)


@pytest.mark.thorough
def test_a_table_fulfils_the_contract_and_has_a_limit(monkeypatch):
    report = check(make("openspiel_table:kuhn_poker"), games=4, max_steps=300)
    assert report.ok, str(report)
    monkeypatch.setattr("jaxrl_envs.adapters.openspiel_tables._LARGEST", 10)
    with pytest.raises(UserError, match="more than 10 positions"):
        make("openspiel_table:kuhn_poker")
