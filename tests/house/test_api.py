"""jaxrl from Python: the functions of `jaxrl.api`, as a program or a notebook calls them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import jaxrl
from jaxrl import xla
from jaxrl.training.callbacks import Callback

TREE = {
    "env": {"id": "examples.nim:Nim"},
    "run": {"cache_dir": ""},
    "network": {"hidden": [16]},
    "train": {"num_envs": 16, "num_steps": 8, "total_steps": 1024, "updates_per_call": 4},
    "ppo": {"epochs": 2, "minibatches": 2},
    "evaluate": {"deals": 4, "opponents": ["perfect"]},
}
UNTOUCHED = """
import sys, jaxrl
assert "jax" not in sys.modules and jaxrl.__version__
jaxrl.make
import jax._src.xla_bridge as bridge
assert not bridge._backends
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished training."""
    place = tmp_path_factory.mktemp("library")
    return jaxrl.train(TREE, [f"run.directory={place}"], name="mine"), place / "mine"


def test_a_run_is_trained_loaded_and_evaluated(run, monkeypatch):
    monkeypatch.delenv("JAXRL_ALLOW")
    trained, path = run
    assert trained.name == "mine" and trained.update == 8 and (path / "evaluation.json").exists()
    before = (path / "evaluation.json").read_bytes()
    found = jaxrl.load(path, allow=["examples"])
    assert [player.name for player in found.players] == ["mine"] and found.env.num_sides == 2
    rows = jaxrl.evaluate(path, ["random", "perfect"], deals=8, allow=["examples"])
    expected = [("mine", "random", 16), ("mine", "perfect", 16)]
    assert [(row.candidate, row.opponent, row.samples.games) for row in rows] == expected
    assert [row.opponent for row in jaxrl.evaluate(path, allow=["examples"])] == ["perfect"]
    assert (path / "evaluation.json").read_bytes() == before, "nothing is written"


def test_a_tournament_has_everybody_in_it(run):
    results = jaxrl.tournament([str(run[1]), "bot:perfect", "bot:random"], deals=8, allow=["examples"])
    assert len(results.names) == 3 and results.total_games == 3 * 16
    order = [results.names[i] for i in results.ratings("random").order()]
    assert order.index("perfect") < order.index("random")


def test_a_game_is_made_with_its_options():
    assert jaxrl.make("skull_king", players=3).num_players == 3


@pytest.mark.parametrize(
    ("given", "game", "wanted"),
    [
        ("", "skull_king", "--xla_backend_extra_options=xla_cpu_use_multi_output_fusion"),
        ("", "tests.support.games:TicTacToe", ""),  # does not ask for it
        ("--xla_backend_extra_options=", "skull_king", "--xla_backend_extra_options="),  # the user's own
    ],
)
def test_a_game_is_compiled_as_the_commands_do(monkeypatch, given, game, wanted):
    monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    jaxrl.make(game)
    assert os.environ["XLA_FLAGS"] == wanted


def test_callbacks_are_objects_of_the_program(run, tmp_path):
    class Watch(Callback):
        def __init__(self, last):
            self.last, self.steps, self.finished = last, [], None

        def on_metrics(self, step, metrics):
            self.steps.append(step)
            if step >= self.last:
                raise ZeroDivisionError("nothing to divide by")

        def on_end(self, finished):
            self.finished = finished

    first, second = Watch(9999), Watch(512)
    with pytest.raises(jaxrl.UserError, match="'Watch 2' failed in on_metrics: ZeroDivisionError"):
        jaxrl.train(TREE, [f"run.directory={tmp_path}"], name="watched", callbacks=[first, second])
    assert first.steps == second.steps == [512] and (first.finished, second.finished) == (False, None)
    assert jaxrl.load(tmp_path / "watched", allow=["examples"]).run.update == 4, "it is saved, and not of another name"


@pytest.mark.parametrize(("config", "name"), [("skull_king_cpu", "skull_king_cpu"), (TREE, "Nim")])
def test_a_run_is_called_as_by_the_command(monkeypatch, config, name):
    def stop(wanted):
        raise KeyError(wanted.run.name)

    monkeypatch.setattr(xla, "prepare_training", stop)
    with pytest.raises(KeyError, match=f"'{name}'"):
        jaxrl.train(config)


def test_mistakes_are_sentences(run, monkeypatch):
    monkeypatch.delenv("JAXRL_ALLOW")
    with pytest.raises(jaxrl.UserError, match="train.num_env"):
        jaxrl.train({**TREE, "train": {"num_env": 16}})
    with pytest.raises(jaxrl.UserError, match="exists"):
        jaxrl.train(TREE, [f"run.directory={run[1].parent}"], name="mine")
    with pytest.raises(jaxrl.UserError, match="--allow"):
        jaxrl.train("examples/nim.yaml")
    with pytest.raises(jaxrl.UserError, match="--allow"):
        jaxrl.load(run[1])  # a stranger's run runs nothing
    with pytest.raises(jaxrl.UserError, match="perfekt"):
        jaxrl.evaluate(run[1], ["perfekt"], allow=["examples"])
    with pytest.raises(AttributeError, match="no attribute 'trains'"):
        jaxrl.trains  # noqa: B018


def test_importing_it_starts_nothing():
    subprocess.run([sys.executable, "-c", UNTOUCHED], check=True)
