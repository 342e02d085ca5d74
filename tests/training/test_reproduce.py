"""`jaxrl check POLICY --train`: a second training has the same bits, and what keeps it from that is said."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.policies.export import PolicyParameters, read_parameters
from jaxrl.training.launching import reproduce
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import PYTHONPATH

TINY = """
env: {id: tests.support.games:TicTacToe}
network: {hidden: [16]}
train: {total_steps: 2000, num_envs: 16, num_steps: 16, updates_per_call: 2, checkpoint_every: 2}
evaluate: {deals: 4, opponents: [random]}
run: {cache_dir: ''}
"""
ALLOW = ("--allow", "tests.support.games")


def jaxrl(folder, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own, whose devices are not chosen yet."""
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu", **more}
    command = [sys.executable, "-m", "jaxrl", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=500)


@pytest.mark.thorough
def test_a_policy_that_is_trained_again_has_the_same_bits(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    for words in (
        ("train", "--config", "tiny.yaml", "--name", "tiny", "run.devices=2", *ALLOW),
        ("export", "tiny", "tiny.jaxrl", "--half", "--checkpoint", "4", *ALLOW),
    ):
        done = jaxrl(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    made = read_parameters(tmp_path / "tiny.jaxrl").made
    assert made["devices"] == 2 and made["jax"] == jax.__version__ and made["vectors"] and len(made["rules"]) == 64
    done = jaxrl(tmp_path, "check", "tiny.jaxrl", "--train", *ALLOW)
    assert done.returncode == 0 and "equal, bit by bit" in done.stdout, done.stderr
    assert "under the same conditions" in done.stderr and "update 4: the training ends here" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.yaml", "tiny.jaxrl", "runs"}, "nothing is left"


def found(**made) -> PolicyParameters:
    return PolicyParameters("game", "1", {"a": jax.numpy.arange(3.0)}, "mine", 1, made, False)


def test_what_cannot_be_trained_again_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "bot:random", "--train"]) == 2
    assert "name the policy to train again" in capsys.readouterr().err
    config = configs.from_dict({"env": {"id": "tests.support.games:TicTacToe"}})
    with pytest.raises(UserError, match="its training went on from stage 'goals'"):
        reproduce.check("mine", found(origin="stage 'goals' of a curriculum"), config)
    with pytest.raises(UserError, match="no update"):
        reproduce.check("mine", found()._replace(update=10**9), config)
    reproduce.check("mine", found(), config)
    assert "lacks the conditions of its training" in capsys.readouterr().err


def test_conditions_that_differ_are_told(monkeypatch, capsys):
    here = {"jax": "0.12.0", "vectors": "AVX2", "devices": 1}
    monkeypatch.setattr(reproduce.xla, "conditions", lambda: here)
    told = reproduce._differences({"jax": "0.10.2", "vectors": "AVX-512", "devices": 1}, "game")
    assert len(told) == 2 and "another jax: 0.10.2 then, 0.12.0 now" in told and "xla_cpu_max_isa" in told[1]
    assert reproduce._compare("mine", found(jax="0"), {"a": jax.numpy.arange(3.0) + 1e-3}, []) == 1
    assert "0 of 3 parameters are equal; the largest difference is 0.001" in capsys.readouterr().out
