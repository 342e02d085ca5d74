"""The game and the algorithm of docs/guides equal their files, satisfy their contracts, and learn."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import own_loop
from examples.nim import Nim
from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.networks.config import NetworkConfig
from jaxrl.runs.directory import find_run, read_checkpoint
from jaxrl.training.config import TrainConfig
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs import conformance
from jaxrl_envs.contract import registry
from tests.support.nim import LARGEST, HostNim, best
from tests.support.paths import ROOT


def test_the_text_shows_the_file():
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "your_game.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks[0].strip() == (ROOT / "examples" / "nim.py").read_text(encoding="utf-8").strip()
    assert blocks[1] in (ROOT / "examples" / "tricks.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("game", ["tricks:Tricks", pytest.param("oh_hell:OhHell", marks=pytest.mark.thorough)])
def test_games_of_hidden_hands_keep_the_contract(game):
    """Nim does by `jaxrl check`, which tests/house/test_readme.py runs."""
    report = conformance.check(registry.make(f"examples.{game}"), games=4)
    assert report.ok, str(report)


def test_worlds_of_oh_hell_have_no_card_of_a_suit_that_a_seat_lacks():
    env, seats = registry.make("examples.oh_hell:OhHell"), np.arange(3)[:, None]

    def after_three_tricks(key):
        def step(state, key):
            return env.step(state, env.random_action(state, key), key), None

        state, _ = jax.lax.scan(step, env.init(key), jax.random.split(key, 12))
        return state, env.permute_hidden(state, state.current_player, key)

    state, world = jax.jit(jax.vmap(after_three_tricks))(jax.random.split(jax.random.key(0), 64))
    before, held = (each.holder[:, None] == seats for each in (state, world))  # bool[64, 3, 52]
    lacks = state.void[:, :, np.arange(52) // 13]
    assert jnp.sum(lacks) > 1000 and not jnp.any(held & lacks)
    assert jnp.array_equal(jnp.sum(before, axis=2), jnp.sum(held, axis=2)) and jnp.any(before != held)


def test_perfect_play_wins_unless_the_pile_is_a_multiple_of_four():
    env = registry.make("examples.nim:Nim")
    key = jax.random.key(0)
    for stones in range(1, 21):
        state = env.init(key).replace(stones=jnp.int32(stones), legal_action_mask=jnp.arange(3) < stones)
        total = jnp.zeros(2)
        while not state.terminated:
            state = env.step(state, env.bots["perfect"](state, key), key)
            total += state.rewards
        assert total[0] == (1 if stones % 4 else -1), stones


def test_a_network_of_ones_own_is_short():
    assert len((ROOT / "examples" / "residual.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_configuration_is_valid(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert configs.load("examples/nim.yaml").env.id == "examples.nim:Nim"


@pytest.mark.thorough
def test_the_example_is_learnt_also_by_a_network_of_ones_own(tmp_path, monkeypatch):
    """With the usual network a notebook shows it: tests/house/test_notebooks.py."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("JAXRL_ALLOW")
    given = [
        f"run.directory={tmp_path}",
        "run.devices=1",
        "run.cache_dir=''",
        "network.kind=examples.residual:Residual",
    ]
    quick = ["network.hidden=64", "train.evaluate_every=0"]
    assert cli.main(["train", "--config", "examples/nim.yaml", "--allow", "examples.nim", *given, *quick]) == 0
    evaluation = json.loads((tmp_path / "nim" / "evaluation.json").read_text(encoding="utf-8"))
    returns = {row["opponent"]: row["figures"]["return"]["mean"] for row in evaluation[-1]["rows"]}
    assert returns["perfect"] == 0.0  # each seat once: perfect play against perfect play is won and lost equally often
    assert returns["random"] > 0.75


@pytest.mark.thorough
def test_a_loop_of_ones_own_trains_as_the_command_does(tmp_path):
    file = str(ROOT / "examples" / "nim.yaml")
    keys = ["run.seed=3", "train.total_steps=8192", "train.evaluate_every=0", "run.devices=1", "run.cache_dir=''"]
    assert cli.main(["train", "--config", file, *keys, f"run.directory={tmp_path}"]) == 0
    assert own_loop.main(file, *keys) == read_checkpoint(find_run(tmp_path / "nim"), "newest").meta["params_hash"]


# ---- the algorithm --------------------------------------------------------------------------------------------------

ACTOR_CRITIC = "examples.actor_critic:ActorCritic"


def test_the_algorithm_fits_on_a_page():
    assert len((ROOT / "examples" / "actor_critic.py").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.thorough
def test_an_algorithm_of_ones_own_learns_nim_by_the_two_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    places = [f"run.directory={tmp_path}", "train.evaluate_every=0", "run.devices=1", "run.cache_dir=''"]
    assert cli.main(["train", "--config", "examples/nim_actor_critic.yaml", *places]) == 0
    monkeypatch.setattr(Nim, "simulators", {"twin": Nim})
    run = str(tmp_path / "nim_actor_critic")
    assert cli.main(["evaluate", run, "--deals", "100", "--seed", "3", "--simulator", "twin"]) == 0
    evaluations = json.loads((tmp_path / "nim_actor_critic" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluations[-1]["simulators"] == {"twin": evaluations[-1]["rows"]} and len(evaluations) == 2
    for evaluation in evaluations:
        returns = {row["opponent"]: row["figures"]["return"]["mean"] for row in evaluation["rows"]}
        assert returns["perfect"] == 0.0  # perfect play against perfect play: each deal is won once and lost once
        assert returns["random"] > 0.75


@pytest.mark.thorough
def test_the_same_algorithm_learns_nim_on_the_host():
    train = TrainConfig(ACTOR_CRITIC, num_envs=64, num_steps=16, total_steps=200 * 1024, updates_per_call=20)
    config = Config(network=NetworkConfig(hidden=(64, 64)), train=train, sebulba=SebulbaConfig(threads=1))
    program = make_program(config, HostNim())
    state = program.init(0)
    for _ in range(config.num_calls):
        state, _, _ = program.advance(state)
    program.close()
    heaps = np.arange(1, LARGEST + 1)
    observation = jnp.asarray(np.arange(LARGEST + 1) == heaps[:, None], jnp.float32)
    mask = jnp.asarray(np.arange(3) < heaps[:, None])
    evaluate = jax.vmap(program.algorithm.network.evaluate, in_axes=(None, None, 0, 0))
    logits = np.asarray(evaluate(state.learner.params, (), observation, mask)[1])
    chosen = logits.argmax(axis=1)
    wrong = [
        int(heap) for heap, action in zip(heaps, chosen, strict=True) if heap % 4 and int(action) not in best(int(heap))
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("algorithm.rate=1", "algorithm.rate"),
        ("algorithm.gamma=2", "algorithm.gamma must be"),
        ("train.algorithm=examples.actor_critic:Missing", "examples.actor_critic has no 'Missing'"),
        ("train.algorithm=examples.actor_critic:A2CConfig", "no subclass of jaxrl.algorithms.base.Algorithm"),
    ],
)
def test_mistakes_are_one_sentence(override, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    places = [f"run.directory={tmp_path}", "run.devices=1"]
    assert cli.main(["train", "--config", "examples/nim_actor_critic.yaml", *places, override]) == 2
    assert sentence in capsys.readouterr().err
