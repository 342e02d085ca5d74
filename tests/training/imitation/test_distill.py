"""Distillation: what a search finds is learnt by the network, and the result is a run like any other."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.algorithms import optimizer
from jaxrl.matches.evaluate_search import make_searcher, other_scale, warn_of_scale
from jaxrl.networks.config import NetworkConfig, RecurrentConfig
from jaxrl.networks.distributions import mask_logits
from jaxrl.networks.factory import make_network
from jaxrl.players.player import bot_player
from jaxrl.runs.directory import find_run, load_run, read_checkpoint
from jaxrl.search.player import make_search
from jaxrl.search.policies import SearchParams, network_guide, network_policy
from jaxrl.search.settings import SearchRequest, SearchSettings
from jaxrl.training.imitation import distillation
from jaxrl.training.imitation.distillation import LabelledDecisions, collect_games, make_learner
from tests.support.games import TicTacToe

pytestmark = pytest.mark.thorough

RECURRENT = NetworkConfig(kind="recurrent", hidden=(16,), recurrent=RecurrentConfig(width=16))

SMALL = """
env: {id: "tests.support.games:TicTacToe", options: {random_start: true}}
run: {devices: 1, cache_dir: ""}
network: {hidden: [8]}
ppo: {epochs: 1, minibatches: 2}
train: {num_envs: 8, num_steps: 6, total_steps: 48, updates_per_call: 1, evaluate_every: 1}
evaluate: {deals: 2, opponents: [lowest]}
"""


def test_a_network_that_remembers_is_taught_whole_games_in_order():
    env, network = TicTacToe(), make_network(RECURRENT, TicTacToe())
    params = network.init(jax.random.key(0))
    own, guide = network_policy(network), network_guide(network)
    search = make_search(env, SearchSettings(simulations=8, particles=0), own=own, guide=guide)
    collect = collect_games(env, search, bot_player(env, "random"), games=16, steps=12, in_order=True)
    found = jax.jit(collect, compiler_options=xla.plain_options())(SearchParams(params), None, jax.random.key(1))
    decisions, taught = found.decisions, np.asarray(found.decisions.weight) > 0
    assert decisions.mask.shape == (16, 12, 9) and taught[:, :2].all() and not taught[:, 5:].any()
    stones = np.asarray(decisions.observation).reshape(16, 12, -1).sum(axis=-1)
    np.testing.assert_array_equal(np.diff(stones, axis=1)[taught[:, 1:]], 2)
    ends = np.broadcast_to(decisions.value[:, :1], taught.shape)  # only the last step pays
    np.testing.assert_allclose(decisions.value[taught], ends[taught])


def test_values_are_discounted_by_own_decisions():
    """By the definition of `jaxrl.algorithms.gae`."""
    draws = np.random.default_rng(1)
    earned, decides = draws.normal(size=(9, 5)).astype(np.float32), draws.random((9, 5)) < 0.5
    expected, following = np.zeros((9, 5)), np.zeros(5)
    for t in reversed(range(9)):
        later = decides[t + 1] if t < 8 else False
        expected[t] = following = earned[t] + np.where(later, 0.5, 1.0) * following
    np.testing.assert_allclose(distillation.returns_from(earned, decides, 0.5), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(distillation.returns_from(earned, decides, 1.0)[0], earned.sum(axis=0), rtol=1e-5)


def test_the_search_of_a_run_has_its_discount():
    config = configs.from_dict({"env": {"id": "tests.support.games:TicTacToe"}, "ppo": {"gamma": 0.9}})
    env = TicTacToe()
    request = SearchRequest(SearchSettings(simulations=8, particles=0))
    assert make_searcher(env, config, [bot_player(env, "random")], request).search.lineup.discount == 0.9


def test_only_a_network_that_remembers_learns_what_depends_on_the_number_of_the_decision():
    """All observations are alike, the third of five decisions is another one: not to know it costs 0.5 nats or more."""
    env, shape = TicTacToe(), (16, 8)
    state, number = env.init(jax.random.key(1)), jnp.arange(8)
    decisions = LabelledDecisions(
        observation=jnp.broadcast_to(state.observation, (*shape, *state.observation.shape)),
        mask=jnp.ones((*shape, 9), bool),
        policy=jnp.broadcast_to(jax.nn.one_hot(jnp.where(number == 2, 4, 8), 9), (*shape, 9)),
        value=jnp.zeros(shape),
        weight=jnp.broadcast_to((number < 5).astype(jnp.float32), shape),
    )
    gaps = []
    for config, given in (
        (RECURRENT, decisions),
        (NetworkConfig(hidden=(16,)), jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), decisions)),
    ):
        network = make_network(config, env)
        params = network.init(jax.random.key(0))
        learn = jax.jit(make_learner(network, epochs=100, minibatch=64, learning_rate=0.02, value_coef=0.5))
        gaps.append(float(learn(params, optimizer.init(params), given, jax.random.key(2))[2].policy))
    assert gaps[0] < 0.05 and gaps[1] > 0.45


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one update."""
    place = tmp_path_factory.mktemp("runs")
    (place / "small.yaml").write_text(SMALL)
    arguments = ["train", "--config", str(place / "small.yaml"), "--name", "source", f"run.directory={place}"]
    assert cli.main(arguments) == 0
    return place / "source"


def test_the_learner_closes_the_gap_and_ignores_what_was_not_searched():
    env = TicTacToe()
    network = make_network(NetworkConfig(hidden=(16,)), env)
    params = network.init(jax.random.key(0))
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(1), 32))
    best = jnp.arange(32) % 2 * 4  # nothing in the observation tells these decisions apart: half 0, half 4
    decisions = LabelledDecisions(
        observation=states.observation,
        mask=states.legal_action_mask,
        policy=jax.nn.one_hot(jnp.where(jnp.arange(32) < 16, best, 8), 9),
        value=jnp.where(jnp.arange(32) < 16, 0.5, -1.0),
        weight=(jnp.arange(32) < 16).astype(jnp.float32),
    )
    learn = jax.jit(make_learner(network, epochs=400, minibatch=32, learning_rate=0.02, value_coef=0.5))
    params, _, losses = learn(params, optimizer.init(params), decisions, jax.random.key(2))
    _, logits, value = network.evaluate(params, (), states.observation[0], states.legal_action_mask[0])
    policy = jax.nn.softmax(mask_logits(logits, states.legal_action_mask[0]))
    np.testing.assert_allclose(policy[jnp.array([0, 4, 8])], [0.5, 0.5, 0.0], atol=0.05)
    assert abs(float(value) - 0.5) < 0.05
    assert abs(float(losses.policy) - np.log(2)) < 0.05  # each decision is sure of itself, together they are not


def test_distilled_run_is_a_run(run, capsys):
    options = ["--search", "16", "--games", "12", "--iterations", "2", "--minibatch", "32"]
    assert cli.main(["imitate", str(run), "--name", "wiser", "--opponents", "random", *options, "ppo.clip=0.125"]) == 0
    printed, said = capsys.readouterr()
    assert said.splitlines()[1] == "playing and learning from 12 games; the first turn compiles ..."
    assert load_run(run.parent / "wiser").config.ppo.clip == 0.125
    assert "2/2 against random: search earns" in printed
    before, after = load_run(run), load_run(run.parent / "wiser")
    assert after.update == before.update and after.params_hash in printed
    assert after.params_hash != before.params_hash
    host = read_checkpoint(find_run(run.parent / "wiser"), "newest").meta["host"]
    assert read_checkpoint(find_run(run), "newest").meta["host"]["best_update"] == 1
    assert host["best_update"] is None and host["best_score"] is None and not host["window"] and host["seconds"] == 0
    more = ["resume", str(run.parent / "wiser"), "--steps", "96"]
    assert cli.main(more) == 0
    assert load_run(run.parent / "wiser").update == load_run(run.parent / "wiser", "best").update == 2


def test_a_policy_plays_with_other_options_and_that_is_not_kept(run, capsys):
    file = run / "evaluation.json"
    before = file.read_text() if file.exists() else ""
    words = ["evaluate", str(run), "--deals", "4", "--opponents", "lowest"]
    assert cli.main([*words, "evaluate.options={random_start: false}"]) == 0
    assert "with {'random_start': False}, on which the policy was not measured before: not kept" in (
        capsys.readouterr().out
    )
    assert (file.read_text() if file.exists() else "") == before
    assert cli.main([*words, "env.options={random_start: false}"]) == 2
    assert "To play other options of the game, e.g. another roster, set evaluate.options." in capsys.readouterr().err


def test_evaluate_searches_and_says_how(run, capsys):
    pytest.importorskip("mctx")
    options = ["--search", "24", "--search-planner", "tree", "--search-model", "opponent", "--worlds", "2"]
    assert cli.main(["evaluate", str(run), "--deals", "8", "--opponents", "lowest", *options]) == 0
    assert "search with 24 simulations a move (tree, model opponent" in capsys.readouterr().out
    record = json.loads((run / "evaluation.json").read_text())[-1]
    assert record["search"]["planner"] == "tree" and record["search"]["model"] == "opponent"
    assert record["policy"] == "search"
    # A player that always takes the lowest free cell loses from either seat to one that looks ahead.
    assert record["rows"][0]["figures"]["return"]["mean"] > 0.7


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--search", "2"], "at least 4 simulations"),
        (["--search", "8", "--search-model", "absent"], "self, opponent, types or bot:NAME"),
        (["--search", "8", "--search-model", "bot:hihgest"], "no bot 'hihgest'"),
        (["--search", "8", "--sampled"], "--sampled is of a policy that does not search"),
        (["--search-model", "self"], "--search-model describes a search: ask for one with --search"),
        (["--worlds", "0"], "--worlds describes a search"),
        (["--search", "8", "--search-prior", "-1"], "the prior of a search must be at least 0"),
    ],
)
def test_mistakes_are_explained(run, arguments, sentence, capsys):
    assert cli.main(["evaluate", str(run), "--deals", "2", *arguments]) == cli.USER_ERROR
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--opponents", "self,random"], "either self alone"),
        (["--opponents", "rnadom"], "did you mean 'random'"),
        (["--learning-rate", "0"], "--learning-rate must be above 0"),
        (["--learning-rate", "nan"], "--learning-rate: must be a number"),
        (["--value-coef", "-1"], "--value-coef must be at least 0"),
        (["--search-model", "absent"], "self, opponent, types or bot:NAME"),
        (["network.hidden=[3]"], "network cannot be changed here"),
    ],
)
def test_a_mistake_leaves_no_run(run, arguments, sentence, capsys):
    assert cli.main(["imitate", str(run), "--name", "no", "--search", "8", *arguments]) == cli.USER_ERROR
    assert sentence in capsys.readouterr().err
    assert not (run.parent / "no").exists()


@pytest.mark.parametrize(
    ("trained", "settings", "warns"),
    [
        ("wins", {}, False),
        ("wins", {"depth": 1}, True),
        ("wins", {"planner": "tree"}, True),
        ("wins", {"depth": 1, "objective": "wins"}, False),  # the objective is the reward of the training
        ("margin", {"depth": 1, "objective": "wins"}, True),
        ("outcome", {"depth": 1}, False),
    ],
)
def test_values_on_another_scale_are_warned_of(trained, settings, warns, capsys):
    tree = {
        "env": {"id": "beasty_bar", "options": {} if trained == "outcome" else {"reward": trained}},
        "evaluate": {"options": {"reward": "outcome"}},
    }
    config = configs.from_dict(tree)
    assert other_scale(config) == ([] if trained == "outcome" else ["reward"])
    warn_of_scale(config, SearchSettings(**settings))
    printed = capsys.readouterr().err
    assert ("trained with another reward than is evaluated" in printed) == warns and printed.count("\n") == warns
