"""Learnt beliefs: who holds what is hidden, worlds drawn by it, and moves near the policy."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from jaxrl import cli, xla
from jaxrl.league.config import SeatMix
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.checkpoints import leaves as stored
from jaxrl.runs.directory import load_run
from jaxrl.search.plan import SearchPlan, near_policy
from jaxrl.search.player import Search, make_search
from jaxrl.search.policies import SearchParams, bot_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Key, State
from jaxrl_envs.shared.card_beliefs import CardBeliefs, draw, scaled, uniform
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.dqn_training import dqn_config
from tests.support.games import HighCard, TicTacToe, keys_of
from tests.support.training import assert_identical, program, run, small_config

pytestmark = pytest.mark.thorough

jitted = functools.partial(jax.jit, compiler_options=xla.plain_options())
BELIEF = (32,)


# ---- drawing who holds what -----------------------------------------------------------------------------------------


def all_ways(beliefs: CardBeliefs) -> np.ndarray:
    """i32[ways, N]: every way to hand out the hidden things."""
    possible, room = np.asarray(beliefs.possible), np.asarray(beliefs.room)
    choices = [np.flatnonzero(row) if row.any() else [-1] for row in possible]
    ways = np.array(list(itertools.product(*choices)))
    return ways[((ways[..., None] == np.arange(len(room))).sum(axis=1) == room).all(axis=1)]


def shares(ways: np.ndarray, holders: int) -> np.ndarray:
    return (ways[..., None] == np.arange(holders)).mean(axis=0)


FREE = CardBeliefs(jnp.ones((6, 3), bool).at[2].set(False), jnp.array([2, 1, 2]))
BOUND = CardBeliefs(
    jnp.array([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]], bool), jnp.array([2, 1, 2])
)


@pytest.mark.parametrize(("beliefs", "error"), [(FREE, 1e-6), (BOUND, 0.02)], ids=["free", "bound"])
def test_uniform_odds_are_the_shares_of_all_ways(beliefs: CardBeliefs, error: float) -> None:
    np.testing.assert_allclose(uniform(beliefs), shares(all_ways(beliefs), 3), atol=error)


@pytest.mark.parametrize(("beliefs", "sure", "error"), [(FREE, 0, 0.0), (BOUND, 0, 0.02), (BOUND, 1, 0.05)])
def test_draws_have_the_odds_that_agree_with_the_room(beliefs: CardBeliefs, sure: float, error: float) -> None:
    """20,000 draws: five standard errors are below 0.018; `error` is that of handing out one thing after the other."""
    odds = jnp.exp(sure * jax.random.normal(jax.random.key(3), beliefs.possible.shape))
    drawn = jax.jit(jax.vmap(lambda key: draw(odds, beliefs, key)))(jax.random.split(jax.random.key(0), 20_000))
    ways = {tuple(way) for way in all_ways(beliefs).tolist()}
    assert {tuple(way) for way in np.unique(np.asarray(drawn), axis=0).tolist()} <= ways
    wanted = scaled(odds, beliefs) if sure else shares(all_ways(beliefs), 3)
    np.testing.assert_allclose(shares(np.asarray(drawn), 3), wanted, atol=0.018 + error)


def test_draws_keep_the_rules_where_few_ways_are_left() -> None:
    """Holders 0 and 1 may have suits 0 and 1 alone, and odds urge everything towards holder 2, who may have all."""
    suit = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    possible = np.stack([suit == 0, suit == 1, np.full(8, True), np.isin(suit, (1, 2))], axis=1)
    beliefs = CardBeliefs(jnp.asarray(possible), jnp.array([2, 2, 1, 3]))
    odds = jnp.array([[1e-3, 1e-3, 1.0, 1e-3]] * 8)
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: draw(odds, beliefs, k)))(jax.random.split(jax.random.key(1), 500)))
    ways = {tuple(way) for way in all_ways(beliefs).tolist()}
    assert {tuple(way) for way in np.unique(drawn, axis=0).tolist()} == ways and len(ways) == 3


# ---- learning it ----------------------------------------------------------------------------------------------------

HIGHEST = (SeatMix(learners=1, bots=("highest",)),)  # whose first card is its highest: the others are below


@pytest.fixture(scope="module")
def learnt():
    """A training of eight calls against players whose cards tell what they hold: (program, state, metrics of calls)."""
    rate = Schedule("constant", 3e-3)
    config = small_config(belief=BELIEF, seats=HIGHEST, num_envs=256, num_steps=8, learning_rate=rate, calls=8)
    anakin = program(HighCard(), config)
    state, found = anakin.init(0), []
    for _ in range(8):
        state, metrics = run(anakin, state)
        found.append({name: float(value) for name, value in metrics.items() if "belief" in name})
    return anakin, state, found


def test_a_belief_begins_uniform_and_learns(learnt) -> None:
    """The margin at the end, on positions that it has not learnt from yet: 0.06 nats and more for each hidden card."""
    first, last = learnt[2][0], learnt[2][-1]
    assert first["train/belief_loss"] < first["train/belief_loss_uniform"]
    assert last["train/belief_loss"] < last["train/belief_loss_uniform"] - 0.06
    algorithm = learnt[0].algorithm
    untrained = algorithm.init(jax.random.key(1)).belief
    view = HighCard().init(jax.random.key(0)).observation
    found = algorithm.believe({"params": untrained.params}, view)
    np.testing.assert_allclose(found, uniform(HighCard().card_beliefs(view)), atol=1e-6)


def test_it_changes_nothing_of_the_actor_and_is_saved(learnt) -> None:
    plain, believing = (program(HighCard(), small_config(belief=each)) for each in ((), BELIEF))
    states = [each.init(3) for each in (plain, believing)]
    assert_identical(states[0].learner.params, states[1].learner.params)
    assert_identical(states[0].lanes, states[1].lanes)
    anakin, state, _ = learnt
    arrays, leaves = checkpoint.pack(state)
    assert_identical(checkpoint.unpack(arrays, leaves, anakin.abstract_state), state)
    assert_identical(
        stored.part_of(arrays, stored.BELIEF)["params"], jax.tree.map(np.asarray, state.learner.belief.params)
    )
    assert stored.part_of(checkpoint.pack(states[0])[0], stored.BELIEF) == {}


# ---- search by it ---------------------------------------------------------------------------------------------------


def searching(learnt, **settings) -> tuple[Search, SearchParams]:
    anakin, state, _ = learnt
    highest, chosen = bot_policy(HighCard().bots["highest"]), SearchSettings(**({"simulations": 64} | settings))
    believe = anakin.algorithm.believe if chosen.belief == "learned" else None
    search = make_search(HighCard(), chosen, own=highest, guide=no_guide, believe=believe)
    return search, SearchParams(own=None, belief={"params": state.learner.belief.params})


@pytest.fixture(scope="module")
def tables() -> State:
    """64 games after 1 to 5 highest cards."""
    env = HighCard()

    @jax.jit
    def played(keys: Key) -> State:
        state = jax.vmap(env.init)(keys)
        for turn in range(5):
            after = jax.vmap(env.step)(state, jax.vmap(env.bots["highest"])(state, keys), keys)
            more = jnp.arange(64) % 5 >= turn
            state = jax.tree.map(lambda a, b, m=more: jnp.where(m.reshape(-1, *[1] * (a.ndim - 1)), a, b), after, state)
        return state

    return played(keys_of(9, 64))


def test_nothing_hidden_reaches_odds_worlds_or_moves(learnt, tables) -> None:
    env, (search, params) = HighCard(), searching(learnt, belief="learned", kl=0.3)

    @jitted
    @jax.vmap
    def found(state: State, key: Key):
        seat = state.current_player
        memory = search.belief.init(params, state, seat, key)
        odds = search.belief.believe(params.belief, env.observe(state, seat))
        worlds = search.belief.worlds(params, state, memory, key, 8)[0]
        return odds, worlds, search.plan(params, memory, state, key)

    other = jax.vmap(env.permute_hidden)(tables, tables.current_player, keys_of(2, 64))
    assert (tables.owner != other.owner).any(axis=1).sum() > 32
    first, second = found(tables, keys_of(3, 64)), found(other, keys_of(3, 64))
    assert_identical(first, second)
    owner = np.asarray(first[1].owner)
    seen = (np.asarray(tables.owner) == np.asarray(tables.current_player)[:, None]) | (np.asarray(tables.owner) == 4)
    assert (owner == np.asarray(tables.owner)[:, None])[np.broadcast_to(seen[:, None], owner.shape)].all()
    assert all((np.sort(owner, axis=2)[:, i] == np.sort(tables.owner, axis=1)).all() for i in range(8))


def test_worlds_are_nearer_to_the_truth_than_uniform_ones(learnt, tables) -> None:
    """The share of hidden cards that are where they are, in 64 worlds for each of 64 games; measured: 0.04 more."""
    env, hits = HighCard(), []
    hidden = np.asarray(jax.vmap(lambda s: env.card_beliefs(env.observe(s, s.current_player)).possible[:, 0])(tables))
    for belief in ("learned", "uniform"):
        search, params = searching(learnt, belief=belief, particles=0)

        @jitted
        @jax.vmap
        def worlds(state: State, key: Key, search=search, params=params) -> jax.Array:
            memory = search.belief.init(params, state, state.current_player, key)
            return search.belief.worlds(params, state, memory, key, 64)[0].owner

        same = np.asarray(worlds(tables, keys_of(4, 64))) == np.asarray(tables.owner)[:, None]
        hits.append([same[i][:, hidden[i]].mean() for i in range(64)])
    gain = np.subtract(*hits)
    assert gain.mean() > 0.02 and gain.mean() > 3 * gain.std() / 8


# ---- near the policy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kl", [0.01, 0.3, 2.0])
def test_moves_keep_the_bound_and_are_the_best_within_it(kl: float) -> None:
    """Against 2,000 other distributions within the bound for each of 16 positions."""
    rng = np.random.default_rng(0)
    legal = rng.random((16, 6)) < 0.7
    legal[:, 0] = True
    logits = jnp.asarray(np.where(legal, rng.normal(size=(16, 6)), -1e9), jnp.float32)
    results = jnp.asarray(rng.normal(size=(16, 6)) * 10.0 ** rng.integers(-3, 3, (16, 1)), jnp.float32)
    plan = SearchPlan(jnp.zeros(16, jnp.int32), jnp.zeros((16, 6)), jnp.zeros(16), results)
    prior = np.asarray(jax.nn.softmax(logits), np.float64)
    near = jax.jit(lambda chance: near_policy(plan, logits, jnp.asarray(legal), results, kl, chance))

    def divergence(found: np.ndarray) -> np.ndarray:
        return np.where(found > 0, found * np.log(np.maximum(found, 1e-300) / np.maximum(prior, 1e-300)), 0).sum(
            axis=-1
        )

    policy = np.asarray(near(jnp.zeros(16)).policy, np.float64)
    best = np.asarray(jnp.max(jnp.where(legal, results, -jnp.inf), axis=1))
    at_bound, sure = divergence(policy) > 0.98 * kl, policy.max(axis=1) > 0.99
    assert (divergence(policy) <= kl + 1e-5).all() and (at_bound | sure).all()
    assert not policy[~legal].any() and at_bound.any()
    others = np.where(legal, rng.dirichlet(np.full(6, 0.5), (2_000, 16)) + 1e-12, 0.0)
    others /= others.sum(axis=-1, keepdims=True)
    worth = np.where(divergence(others) <= kl, (others * np.asarray(results)).sum(axis=-1), -np.inf).max(axis=0)
    reached = (policy * np.asarray(results)).sum(axis=1)
    assert (reached >= worth - 1e-3 * np.abs(best)).all()
    drawn = jax.vmap(near)(jnp.tile((jnp.arange(4_000) + 0.5)[:, None] / 4_000, (1, 16))).action
    np.testing.assert_allclose(shares(np.asarray(drawn), 6), policy, atol=1e-3)


# ---- what it does not go with ---------------------------------------------------------------------------------------


def test_a_game_that_does_not_tell_and_dqn_are_one_sentence() -> None:
    with pytest.raises(UserError, match=r"ppo\.belief needs a compiled game that tells who may hold"):
        small_config(belief=BELIEF).check_game(TicTacToe())
    config = dqn_config()
    with pytest.raises(UserError, match=r"ppo\.belief is \(32,\), but with train\.algorithm dqn"):
        dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, belief=BELIEF)).check()
    for wrong in ({"belief": "sure"}, {"kl": 0.0}):
        with pytest.raises(UserError, match=r"the (belief|KL divergence)"):
            SearchSettings(**wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run that has learnt a belief in one update."""
    place = tmp_path_factory.mktemp("beliefs")
    tree = {
        "env": {"id": "tests.support.games:HighCard"},
        "run": {"name": "mine", "cache_dir": "", "directory": str(place / "runs")},
        "network": {"hidden": [4]},
        "ppo": {"minibatches": 2, "belief": [4]},
        "train": {"num_envs": 16, "num_steps": 4, "total_steps": 64, "updates_per_call": 1, "evaluate_every": 0},
        "evaluate": {"opponents": ["random"], "deals": 4},
    }
    (place / "mine.yaml").write_text(yaml.safe_dump(tree))
    assert cli.main(["train", "--config", str(place / "mine.yaml"), *ALLOWED]) == 0
    return place


ALLOWED = ["--allow", "tests"]
SEARCH = ["--search", "8", "--search-belief", "learned"]


def test_a_run_searches_by_its_belief_and_says_so(folder, capsys) -> None:
    mine = folder / "runs" / "mine"
    assert cli.main(["evaluate", str(mine), *ALLOWED, "--deals", "2", *SEARCH, "--search-kl", "0.5"]) == 0
    assert "learned belief, within 0.5 nats of the policy" in capsys.readouterr().out
    record = json.loads((mine / "evaluation.json").read_text())[-1]
    assert record["search"]["belief"] == "learned" and record["search"]["kl"] == 0.5
    assert record["search"]["particles"] == 0


def test_who_has_no_belief_is_told(folder, capsys) -> None:
    mine, file = str(folder / "runs" / "mine"), str(folder / "mine.jaxrl")
    assert cli.main(["export", mine, *ALLOWED, file]) == 0
    for who, more, sentence in (
        ([file], [], "a policy file holds no belief; search with the run"),
        (["bot:lowest", "--config", str(folder / "mine.yaml")], [], "a bot has none"),
        ([mine], ["--particles", "8"], "are kept by a uniform belief"),
        ([mine], ["--search-kl", "0"], "must be above 0"),
    ):
        assert cli.main(["evaluate", *who, *ALLOWED, "--deals", "2", *SEARCH, *more]) == cli.USER_ERROR
        assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_distilling_searches_by_it(folder) -> None:
    """python -m pytest -m slow tests/algorithms/test_beliefs.py; the new run has the belief too."""
    taught = ["--iterations", "1", "--games", "4", "--epochs", "1", "--opponents", "random"]
    mine = str(folder / "runs" / "mine")
    assert cli.main(["imitate", mine, *ALLOWED, "--name", "wiser", *SEARCH, *taught]) == 0
    assert load_run(folder / "runs" / "wiser", allow=["tests"]).beliefs[0]["params"]
