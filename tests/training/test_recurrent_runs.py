"""A run whose network remembers goes wherever a run can go."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import pytest

from jaxrl import cli
from jaxrl.policies.export import load_policy
from jaxrl.runs.directory import load_run

SMALL = """
env: {id: "tests.support.games:TicTacToe", options: {random_start: true}}
run: {devices: 1, cache_dir: ""}
network: {kind: recurrent, hidden: [8], recurrent: {width: 8}}
ppo: {epochs: 1, minibatches: 2, sequence: 3}
train: {num_envs: 8, num_steps: 6, total_steps: 48, updates_per_call: 1}
evaluate: {deals: 2, opponents: [random]}
"""


@pytest.mark.thorough
def test_a_recurrent_run_from_training_to_a_policy_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)

    def jaxrl(*arguments: str) -> None:
        assert cli.main(list(arguments)) == 0, capsys.readouterr().err

    jaxrl("train", "--config", "small.yaml", "--name", "run", f"run.directory={tmp_path}")
    jaxrl("evaluate", "run", "--deals", "4")
    few = ("--search", "8", "--particles", "4")
    jaxrl("evaluate", "run", "--deals", "2", *few)
    jaxrl("imitate", "run", "--name", "wiser", "--opponents", "random", "--games", "4", "--iterations", "1", *few)
    jaxrl("export", "run", "file.jaxrl")
    jaxrl("tournament", "run", "file.jaxrl", "bot:random", "--deals", "4", "--out", "table")
    jaxrl("exploit", "run", "--updates", "1", "--deals", "2")
    records = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert [record["policy"] for record in records[-2:]] == ["greedy", "search"]
    assert (tmp_path / "run" / "exploitability.json").exists()
    assert (tmp_path / "table" / "matrix.json").exists()
    assert load_run("wiser").params_hash != load_run("run").params_hash
    remembers_like(load_run("run"), load_policy("file.jaxrl"))


def remembers_like(run, policy) -> None:
    """A policy file and its run, asked by hand, in two games."""
    player, init = policy.player(), jax.jit(run.env.init)
    for game in range(2):
        policy.reset()
        state = init(jax.random.key(game))
        memory = player.init(run.params[0], state, state.current_player, jax.random.key(0))
        empty = memory
        for _ in range(3):
            policy.probabilities(state.observation, state.legal_action_mask)  # which is not remembered
            action, memory = player.act(run.params[0], memory, state, jax.random.key(0))
            assert policy.act_on(state) == int(action)
            state = run.env.step(state, jnp.argmax(state.legal_action_mask), jax.random.key(0))
        assert any((a != b).any() for a, b in zip(jax.tree.leaves(memory), jax.tree.leaves(empty), strict=True))
