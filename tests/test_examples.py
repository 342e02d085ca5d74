"""The game of CONTRIBUTING.md: the text is the file, it keeps the contract, and it is learnt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from envs import conformance, registry
from jaxrl import cli
from jaxrl import config as configs

ROOT = Path(__file__).resolve().parent.parent


def test_the_text_shows_the_file():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks[0].strip() == (ROOT / "examples" / "nim.py").read_text(encoding="utf-8").strip()


def test_the_example_keeps_the_contract():
    report = conformance.check(registry.make("examples.nim:Nim"), games=4)
    assert report.ok, str(report)


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


def test_the_configuration_is_valid(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert configs.load("examples/nim.yaml").env.id == "examples.nim:Nim"


@pytest.mark.slow
def test_the_example_is_learnt(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    directory = f"run.directory={tmp_path}"
    assert cli.main(["train", "--config", "examples/nim.yaml", directory, "run.devices=1", "run.cache_dir=''"]) == 0
    evaluation = json.loads((tmp_path / "nim" / "evaluation.json").read_text(encoding="utf-8"))
    returns = {row["opponent"]: row["figures"]["return"]["mean"] for row in evaluation[-1]["rows"]}
    assert returns["perfect"] == 0.0  # each seat once: perfect play against perfect play is won and lost equally often
    assert returns["random"] > 0.75
