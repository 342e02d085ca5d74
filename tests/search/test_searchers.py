"""Reference searchers: bots that look ahead in worlds, wherever a bot can be named; what they find and may not know."""

from __future__ import annotations

import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from rich.console import Console

from examples.nim import Nim
from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.games import GameForms, compare
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.play import Sitting
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.player import bot_player
from jaxrl.players.spec import worlds_of
from jaxrl.policies.find import find_players
from jaxrl.search.player import make_search
from jaxrl.search.policies import bot_policy, no_guide
from jaxrl.search.searchers import reference_searcher, scripted_player
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.beasty_bar.env import BeastyBar
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env, Key, State
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.env import SkullKing
from tests.support.games import HighCard, RockPaperScissors, keys_of

pytestmark = pytest.mark.thorough

jitted = functools.partial(jax.jit, compiler_options=xla.plain_options())


class Tricks(HighCard):
    """HighCard with a best bot."""

    reference_bot = "highest"


def decide(env: Env, worlds: int):
    """(states, keys) -> what a searcher does in the seats asked."""
    player = reference_searcher(env, worlds)

    def one(state: State, key: Key) -> jax.Array:
        memory = player.init(player.params, state, state.current_player, key)
        return player.act(player.params, memory, state, key)[0]

    return jax.vmap(one)


def test_names():
    assert worlds_of("searcher-200") == 200 and worlds_of("hard") is None
    for name in ("searcher-0", "searcher-", "searcher-1e3", "searcher-200000"):
        with pytest.raises(UserError, match="1 to 100000, e.g. searcher-200"):
            worlds_of(name)


def test_nim_is_played_perfectly():
    env = Nim(largest=11)
    stones = jnp.array([n for n in range(2, 12) if n % 4], jnp.int32)
    state = jax.vmap(env.init)(keys_of(0, len(stones)))
    state = state.replace(stones=stones, legal_action_mask=jnp.arange(3) < stones[:, None])
    np.testing.assert_array_equal(jitted(decide(env, 4))(state, keys_of(1, len(stones))), stones % 4 - 1)


@pytest.fixture(scope="module")
def tricks():
    """(32 games after 0 to 5 cards, what the searcher does in batches of any size)."""
    env = Tricks()

    @jax.jit
    def played(keys: Key) -> State:
        state = jax.vmap(env.init)(keys)
        for turn in range(5):
            after = jax.vmap(env.step)(state, jax.vmap(env.random_action)(state, keys_of(turn, 32)), keys)
            more = jnp.arange(32) % 6 > turn
            state = jax.tree.map(lambda a, b, m=more: jnp.where(m.reshape(-1, *[1] * (a.ndim - 1)), a, b), after, state)
        return state

    return played(keys_of(9, 32)), jitted(decide(env, 8))


def test_it_does_not_depend_on_what_its_seat_cannot_see(tricks):
    state, act = tricks
    env, seat = Tricks(), state.current_player
    other = jax.vmap(env.permute_hidden)(state, seat, keys_of(2, 32))
    assert (state.owner != other.owner).any(axis=1).sum() > 16
    np.testing.assert_array_equal(act(state, keys_of(3, 32)), act(other, keys_of(3, 32)))
    assert len({tuple(act(state, keys_of(3 + i, 32)).tolist()) for i in range(3)}) > 1, "it draws no worlds"


def test_a_decision_does_not_depend_on_the_others_of_its_batch(tricks):
    state, act = tricks
    keys = keys_of(3, 32)
    together = np.asarray(act(state, keys))
    few = [act(jax.tree.map(lambda x, i=i: x[i : i + 8], state), keys[i : i + 8]) for i in range(0, 32, 8)]
    np.testing.assert_array_equal(together, np.concatenate(few))


NIM = ["env.id=examples.nim:Nim", "run.cache_dir=''"]


def test_games_with_one_are_compiled_without_what_xla_cannot_compile_searches_with(monkeypatch):
    """Also where it keeps nothing in mind between its moves. XLA aborts the process otherwise."""
    env, asked = SkullKing(), []
    searcher, hard = reference_searcher(env, 8), bot_player(env, "hard")
    assert searcher.observe is None

    def found(*args, plain=False, **settings):
        asked.append(plain)
        return lambda *call: None

    monkeypatch.setattr("jaxrl.matches.evaluate.DuplicateDeals", found)
    monkeypatch.setattr("jaxrl.matches.tournaments.tournament.DuplicateDeals", found)
    for players in ((searcher, hard), (hard, searcher), (hard, hard)):
        Matchup(env, players[0], [players[1]], deals=2, seed=0)
        Tournament(env, players, deals=2)
    assert asked == [True] * 4 + [False] * 2


def test_in_a_tournament_it_beats_random_play_and_is_a_match_for_the_best():
    """200 games of Nim against each: 0.8 is four standard errors below 0.9, and the best play wins every deal from
    one of the two seats."""
    field = find_players([*NIM, "bot:random", "bot:perfect", "bot:searcher-8"])
    assert [player.name for player in field.players] == ["random", "perfect", "searcher-8"]
    found = Tournament(field.env, field.players, deals=100, seed=2).run()
    share = found.points / np.maximum(found.games, 1)
    assert share[2, 0] > 0.8 and share[2, 1] == 0.5


def test_the_command_line_takes_them_as_bots(capsys):
    played = ["--deals", "4", "--opponents", "random,searcher-8"]
    assert cli.main(["evaluate", "bot:searcher-4", *NIM, *played]) == 0
    table = capsys.readouterr().out
    assert "searcher-4" in table and "searcher-8" in table and "random" in table
    assert cli.main(["evaluate", "bot:searcher-4", *NIM, "--search", "20"]) == 2
    assert "leave --search out" in capsys.readouterr().err


def test_a_person_plays_against_one():
    env = Nim(largest=5)
    player = scripted_player(env, "searcher-4")
    screen = Console(file=io.StringIO(), width=100, highlight=False)
    answers = iter(["hint", *["0"] * 5])
    screen.input = lambda *_: next(answers)  # type: ignore[method-assign]
    end = Sitting(env, 0, [player, player], adviser=player, screen=screen).play(jax.random.key(0))
    assert bool(end.terminated) and "searcher-4 would choose" in screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("game", "name", "sentence"),
    [
        (RockPaperScissors, "searcher-8", "asks all seats at once: search is for games that ask one seat"),
        (lambda: registry.make("forge"), "searcher-8", "forge cannot be searched: another process plays it"),
        (Tricks, "searcher-x", "named after its worlds"),
    ],
)
def test_games_that_it_cannot_play(game, name, sentence):
    with pytest.raises(UserError, match=sentence):
        scripted_player(game(), name)


def test_a_battle_is_searched_by_its_best_script():
    """The engine plays the simulated battles; a choice follows from the key, whatever else is in the batch."""
    env = registry.make("battle", rounds=1)
    assert env.reference_bot == "balanced" and env.reference_bot in env.bots
    state, act = jax.vmap(env.init)(keys_of(0, 4)), jitted(decide(env, 2))
    found = np.asarray(act(state, keys_of(1, 4)))
    assert state.legal_action_mask[np.arange(4), found].all()
    other = act(jax.tree.map(lambda leaf: leaf[::-1], state), keys_of(1, 4)[::-1])
    np.testing.assert_array_equal(found, other[::-1])


@pytest.mark.parametrize("override", ["seats=[{learners: 1, bots: [searcher-8]}]", "league.opponents=[searcher-8]"])
def test_trainings_meet_it_in_evaluations_alone(override):
    game = ["env.id=tests.search.test_searchers:Tricks", "evaluate.opponents=[searcher-8, random]"]
    compare(configs.load(None, game), GameForms(Tricks(), Tricks()))
    with pytest.raises(UserError, match="name it in evaluate.opponents"):
        compare(configs.load(None, [*game, override]), GameForms(Tricks(), Tricks()))
    with pytest.raises(UserError, match="name it in evaluate.opponents"):
        bot_player(Tricks(), "searcher-8")


def test_a_training_ends_with_replays_of_games_against_a_searcher_and_a_bot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {
        "env": {"id": "tests.support.games:TicTacToe"},
        "run": {"name": "mine", "cache_dir": ""},
        "network": {"hidden": [4]},
        "train": {"num_envs": 16, "num_steps": 4, "total_steps": 64, "updates_per_call": 1},
        "evaluate": {"opponents": ["random", "searcher-2"], "deals": 4, "training_deals": 2},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(tree))
    assert cli.main(["train", "--config", "mine.yaml", "--allow", "tests"]) == 0
    assert len(list((tmp_path / "runs" / "mine" / "replays" / "final").iterdir())) == 4


def test_a_game_that_does_not_judge_positions_has_no_standing():
    random = bot_policy(Tricks().bots["random"])
    with pytest.raises(UserError, match="does not say how its seats stand"):
        make_search(Tricks(), SearchSettings(objective="standing"), own=random, guide=no_guide)
    with pytest.raises(UserError, match="halving.* and depth 0"):
        SearchSettings(objective="standing", depth=1)


# ---- the worlds of Skull King ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    """Positions of whole games of given decks, every seventh of random play: states [N], and the function of worlds."""
    env = SkullKing()

    def play(state: State, number: jax.Array) -> tuple[State, State]:
        keys = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys_of(4, 16))
        action = jax.vmap(env.random_action)(state, keys)
        return jax.vmap(env.step)(state, action, keys), state

    states = jax.jit(lambda keys: jax.lax.scan(play, jax.vmap(env.init_deal)(keys), jnp.arange(224))[1])(keys_of(3, 16))
    flat = jax.tree.map(lambda leaf: leaf[::7].reshape(-1, *leaf.shape[2:]), states)
    return env, jax.tree.map(lambda leaf: leaf[~flat.terminated], flat), jax.jit(jax.vmap(env.permute_hidden))


def test_worlds_agree_with_all_that_a_seat_of_skull_king_can_conclude(tables):
    env, state, permute = tables
    count = len(state.terminated)
    seat = jnp.arange(count) % 4
    world = permute(state, seat, keys_of(5, count))
    assert world.game.fixed is None, "decks of later rounds are known"
    real, drawn = state.game.round, world.game.round
    size = jax.vmap(lambda hands, s: hands.of(s).count(), in_axes=(0, None))
    bits = jax.vmap(lambda hands, s: hands.of(s).bits(), in_axes=(0, None))
    lacking = 0
    for other in range(4):
        np.testing.assert_array_equal(size(real.hands, jnp.int32(other)), size(drawn.hands, jnp.int32(other)))
        held = np.asarray(bits(drawn.hands, jnp.int32(other)))
        for suit in range(4):
            void = np.asarray((real.voids >> (4 * other + suit)) & 1).astype(bool) & (np.asarray(seat) != other)
            lacking += int((void & (np.asarray(size(real.hands, jnp.int32(other))) > 0)).sum())
            assert not held[void, 16 * suit : 16 * suit + 14].any()
    assert lacking > 50
    stocks = [jax.vmap(lambda game: rules.stock(game, env.setup).bits())(s.game) for s in (state, world)]
    jade = np.asarray(real.jade) == np.asarray(seat)
    np.testing.assert_array_equal(stocks[0].sum(axis=1), stocks[1].sum(axis=1))
    seen = np.asarray(jax.vmap(lambda cards: cards.bits())(real.jade_view))
    assert jade.sum() > 3 and not (np.asarray(stocks[1])[jade] & ~seen[jade]).any()


def test_worlds_of_skull_king_do_not_depend_on_hidden_cards_bids_or_deals_to_come(tables):
    _, state, permute = tables
    count = len(state.terminated)
    seat = jnp.arange(count) % 4
    first = permute(state, seat, keys_of(5, count))
    second = permute(permute(state, seat, keys_of(6, count)), seat, keys_of(5, count))
    for left, right in zip(*(jax.tree.leaves(w.replace(observation=None)) for w in (first, second)), strict=True):
        np.testing.assert_array_equal(left, right)


def test_hidden_bids_of_a_world_are_those_of_the_model(tables):
    env, state, permute = tables
    bidding = np.flatnonzero((state.game.phase == rules.BID) & (state.game.actor != state.game.round.leader))
    state = jax.tree.map(
        lambda leaf: leaf[bidding], permute(state, state.current_player, keys_of(5, len(state.terminated)))
    )
    chosen = jax.vmap(lambda s, k: env.with_secret_choices(s, s.current_player, lambda *_: jnp.int32(1), k))(
        state, keys_of(6, len(bidding))
    )
    made = (np.arange(4) - np.asarray(state.game.round.leader)[:, None]) % 4 < (
        np.asarray(state.game.actor - state.game.round.leader)[:, None] % 4
    )
    bids = (np.asarray(chosen.game.round.bids)[:, None] >> (4 * np.arange(4))) & 15
    np.testing.assert_array_equal(bids, made)
    assert len(bidding) > 10


@pytest.mark.slow
@pytest.mark.parametrize("make", [SkullKing, BeastyBar])
def test_in_card_games_it_does_not_depend_on_what_its_seat_cannot_see(make):
    """A minute each, most of it compilation: python -m pytest -m slow tests/search/test_searchers.py"""
    env, count = make(), 16
    bot = env.bots[env.reference_bot]

    @jax.jit
    def dealt(keys: Key) -> State:
        def play(number: jax.Array, state: State) -> State:
            return jax.vmap(env.step)(state, jax.vmap(bot)(state, keys), keys)

        return jax.lax.fori_loop(0, 9, play, jax.vmap(env.init)(keys))

    state = dealt(keys_of(1, count))
    other = jax.vmap(env.permute_hidden)(state, state.current_player, keys_of(2, count))
    act = jax.jit(decide(env, 8))
    np.testing.assert_array_equal(act(state, keys_of(3, count)), act(other, keys_of(3, count)))
