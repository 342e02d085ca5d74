"""`jaxrl plan`: the model of a fleet on cases whose answers are known, and its predictions against measurements."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import pytest

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.diagnose.estimates import estimate
from jaxrl.diagnose.estimates.fleet import Linear, SimulatedFleet, Times, predict
from jaxrl.diagnose.estimates.jaxprs import count_flops
from jaxrl.diagnose.estimates.microbenchmarks import measure
from jaxrl.diagnose.training import Training
from jaxrl.games import make_games
from tests.support.paths import ROOT

ABSENT = importlib.util.find_spec("jax_plugins") is None or importlib.util.find_spec("nvidia") is None
FREE = Linear(0.0, 0.0)
NOTHING = Times(
    engine=0.0, engine_cpu=0.0, transport=FREE, remote=FREE, waiting=0.0, answers=FREE, update=0.0, network=0.0
)


def fleet(workers: int = 1, **changes) -> SimulatedFleet:
    """Four games on each worker, of one core each, that one actor asks for 64 steps in one block."""
    known = {"part": 4, "actors": 1, "groups": 1, "steps": 64, "lag": 1, "threads": 1, "machines": 1}
    return SimulatedFleet(workers=workers, cores=workers + 1, **known)._replace(**changes)


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_with_a_learner_that_takes_no_time_every_engine_plays_all_the_time(workers):
    found = predict(NOTHING._replace(engine=1e-3, engine_cpu=1e-3), fleet(workers))
    assert found.rate == pytest.approx(1000 * workers) and found.engines == pytest.approx(1.0)
    assert found.limit == "engine" and found.gain == pytest.approx(1.0)


def test_an_engine_that_waits_needs_no_core_and_one_that_computes_shares_it():
    waits = NOTHING._replace(engine=1e-3)
    assert predict(waits, fleet(4, cores=1)).rate == pytest.approx(4000)
    assert predict(waits._replace(engine_cpu=1e-3), fleet(4, cores=1)).rate == pytest.approx(1000)
    assert predict(waits._replace(engine_cpu=1e-3), fleet(4, cores=2, machines=2)).rate == pytest.approx(4000, rel=0.05)


def test_a_learner_that_is_the_limit():
    """The actor's turns are hidden by the update at lag 1; at lag 0 one comes after the other."""
    slow = NOTHING._replace(engine=1e-3, update=1e-3)
    for lag, each in ((1, 1e-3), (0, 1e-3 + 1e-3 / 4)):
        found = predict(slow, fleet(4, lag=lag))
        assert found.rate == pytest.approx(1 / each, rel=0.01)
    found = predict(slow, fleet(16))
    assert found.rate == pytest.approx(1000, rel=0.01) and found.limit == "update" and found.learner > 0.95


@pytest.mark.parametrize(
    ("part", "times"),
    [
        ("transport", {"transport": Linear(1e-3, 0.0)}),
        ("answers", {"answers": Linear(0.0, 1e-3)}),
        ("network", {"network": 1e-3}),
    ],
)
def test_the_part_that_is_slow_is_named(part, times):
    found = predict(NOTHING._replace(engine=1e-4, **times), fleet(16, machines=16, cores=2))
    assert found.limit == part and found.gain > 0.5


def test_another_block_is_played_while_the_first_is_answered():
    """Two blocks: answers of 4 ms and decisions of 4 ms take turns, so neither waits; one block waits for both."""
    even = NOTHING._replace(engine=1e-3, answers=Linear(0.0, 1e-3))
    assert predict(even, fleet(groups=1)).rate == pytest.approx(500, rel=0.02)
    assert predict(even, fleet(groups=2)).rate == pytest.approx(1000, rel=0.05)


def test_no_fleet_is_faster_than_its_parts():
    """Conservation: engines, the learner's interpreter and its core each do at most one second of work in a second."""
    times = Times(1e-3, 5e-4, Linear(3e-4, 1e-5), Linear(2e-4, 1e-5), 1e-4, Linear(1e-3, 1e-5), 1e-4, 1e-5)
    before = 0.0
    for workers in (1, 4, 64):
        asked = fleet(workers, machines=max(1, workers // 4), cores=4)
        found = predict(times, asked)
        calls = found.rate / asked.part
        assert before < found.rate <= workers / times.engine and found.engines <= 1.0
        assert calls * times.transport.at(asked.part) <= 1.0
        assert found.rate * times.update == pytest.approx(found.learner, rel=0.25)  # which counts the start too
        before = found.rate


def test_operations_of_loops_count_as_often_as_they_run():
    w, x = jnp.ones((32, 32)), jnp.ones((4, 32))

    def scanned(x):
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=7)[0]

    def counted(x):
        more = jax.lax.while_loop(lambda carry: (carry[0] < 7) & ~carry[2], lambda c: (c[0] + 1, c[1] @ w, c[2]), x)
        return more[1]

    for program, argument in ((scanned, x), (counted, (0, x, False))):
        assert count_flops(jax.make_jaxpr(program)(argument).jaxpr) == 7 * 2 * 4 * 32 * 32


# ---- the command --------------------------------------------------------------------------------------------------

SMALL = """
env: {id: "tests.support.slow_game:Slow", options: {ms: 1.0}}
network: {hidden: [16]}
sebulba: {actors: 1, groups: 1, lag: 1}
ppo: {epochs: 1, minibatches: 2}
run: {devices: 1}
train: {num_envs: 4, num_steps: 32, total_steps: 36000, evaluate_every: 0, updates_per_call: 1}
evaluate: {opponents: [random]}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    return ["--config", str(tmp_path / "small.yaml"), "--allow", "tests"]


@pytest.mark.thorough
def test_a_plan_for_a_fleet(small, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # the way to a worker as documented
    command = ["plan", *small, "--machines", "2", "--cores", "4", "--price", "0.5", "--seconds", "0.2"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"] and "ray is not installed" in text
    rates = [float(row[4].replace(",", "")) for row in rows]
    assert all(a < b for a, b in zip(rates, rates[1:], strict=False)) and rates[0] < 1000
    hours, cost = (float(rows[-1][i]) for i in (6, 7))
    assert hours == pytest.approx(10 / rates[-1], rel=0.01) and cost == pytest.approx(2 * 0.5 * hours, abs=0.006)
    assert cli.main(["plan", *small, "--workers", "1", "--seconds", "0.1"]) == 0  # without a price
    assert "cost" not in capsys.readouterr().out
    for wrong in ("--gbit=0", "--price=-1", "--seconds=0", "--machines=0", "--workers=20000", "--cores=-1"):
        assert cli.main(["plan", *small, wrong]) == 2, wrong


def test_cards_do_not_go_with_a_fleet(small, capsys):
    assert cli.main(["plan", "--all"]) == 2
    if ABSENT:
        assert cli.main(["plan", *small, "--card", "h100"]) == 2
        assert "jaxrl[gpu-compiler]" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(ABSENT, reason="needs XLA's compiler for GPUs: pip install 'jaxrl[gpu-compiler]'")
def test_a_plan_for_cards(tmp_path):
    """In a process of its own, because flags of the compiler precede jax."""
    (tmp_path / "small.yaml").write_text(SMALL)
    command = [sys.executable, "-m", "jaxrl", "plan", "--allow", "tests", "--allow", "examples"]
    flags = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}  # not those of the tests

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], cwd=ROOT, env=flags, capture_output=True, text=True, check=False)

    done = said("--config", "examples/nim.yaml", "--card", "h100", "rtx4080s", "--price", "2")
    assert done.returncode == 0 and "not measured" in done.stdout, done.stderr
    assert "NVIDIA H100" in done.stdout and "RTX 4080" in done.stdout and "cost" in done.stdout
    small = ["--config", str(tmp_path / "small.yaml")]
    for words, message in (
        ([*small, "--card", "abacus"], "no GPU or file 'abacus'"),
        ([*small, "--card", "h100", "--machines", "2"], "does not go with --card"),
        ([*small, "--card", "h100"], "played on the host"),
    ):
        done = said(*words)
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_seeds_are_trained_one_after_the_other():
    for seeds, expected in ((1, ["2", "1.00"]), (3, ["6", "3.00"])):
        config = configs.load("skull_king_cpu", [f"run.seeds={seeds}", "train.total_steps=7_200_000"])
        assert estimate._costs(0.5, config, 1000.0) == expected


# ---- predicted and measured ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'jaxrl[fleet]'")
@pytest.mark.parametrize("ms", [10.0, 1.0])
def test_what_is_predicted_is_measured(tmp_path, ms):
    """On one, two and four workers of Ray here; the quietest stretches of both, for others may use the machine."""
    (tmp_path / "small.yaml").write_text(SMALL)
    config = configs.load(str(tmp_path / "small.yaml"), [f"env.options.ms={ms}"], ["tests"])
    found, env = {}, make_games(config).training
    several = dataclasses.replace(config, fleet=dataclasses.replace(config.fleet, workers=4))  # one cluster for all
    times = measure(several, env, 4, 8, gbit=10.0, seconds=3.0).times
    print(times)
    for workers in (4, 2, 1):
        train = dataclasses.replace(config.train, num_envs=4 * workers)
        played = dataclasses.replace(config, train=train, fleet=dataclasses.replace(config.fleet, workers=workers))
        predicted = predict(times, fleet(workers, steps=32, cores=xla.cores())).rate
        with contextlib.closing(Training(played, env)) as training:
            for _ in range(3):
                training.block()
            stretches = []
            for _ in range(4):
                start = time.perf_counter()
                for _ in range(3):
                    training.block()
                stretches.append(time.perf_counter() - start)
        measured = 3 * played.batch_size / min(stretches)
        print(f"{ms:g} ms, {workers} workers: predicted {predicted:.0f}, measured {measured:.0f}")
        found[workers] = predicted / measured
    assert all(0.75 <= ratio <= 1.25 for ratio in found.values()), found
