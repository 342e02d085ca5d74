"""`jaxrl plan`: the model of a fleet on cases whose answers are known, and its predictions against measurements."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import time

import jax
import jax.numpy as jnp
import pytest

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.diagnose.estimates import estimate
from jaxrl.diagnose.estimates.cost_model import Footprint, footprint
from jaxrl.diagnose.estimates.fleet import Linear, SimulatedFleet, Times, predict
from jaxrl.diagnose.estimates.jaxprs import count_flops
from jaxrl.diagnose.estimates.microbenchmarks import measure
from jaxrl.diagnose.estimates.roofline import GPUS, USABLE, Work, choose, row
from jaxrl.diagnose.training import Training
from jaxrl.games import make_games

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


# ---- GPUs ---------------------------------------------------------------------------------------------------------


def test_what_is_fused_is_neither_written_nor_read():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))

    def layer(x, w):
        return jnp.sum(jnp.tanh(x @ w) * 2.0 + 1.0)

    found = footprint(jax.make_jaxpr(layer)(x, w).jaxpr)
    product = 64 * 16
    assert found.kernels == 2  # the product; the rest with its sum
    assert found.bytes == 4 * (64 * 32 + 32 * 16 + product) + 4 * (product + 1)
    assert found.flops32 == 2 * product * 32 + 3 * product + product and found.flops16 == 0.0
    assert found.peak == 4 * (64 * 32 + 32 * 16 + product + 1)


def test_loops_count_as_often_as_they_run():
    w = jnp.ones((32, 32))

    def scanned(x):
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=7)[0]

    def counted(x):
        more = jax.lax.while_loop(lambda carry: (carry[0] < 7) & ~carry[2], lambda c: (c[0] + 1, c[1] @ w, c[2]), x)
        return more[1]

    x = jnp.ones((4, 32))
    for program, argument in ((scanned, x), (counted, (0, x, False))):
        jaxpr = jax.make_jaxpr(program)(argument).jaxpr
        assert count_flops(jaxpr) == 7 * 2 * 4 * 32 * 32
        assert 7 <= footprint(jaxpr).kernels <= 3 * 7  # the product, the counter and the condition
        assert footprint(jaxpr).flops32 == pytest.approx(count_flops(jaxpr), rel=0.01)


def test_xla_counts_about_the_same():
    """A network's pass forward and back, which XLA's own analysis of the compiled program can count: no loops."""
    params = [jnp.ones((64, 128)), jnp.ones((128, 128)), jnp.ones((128, 8))]

    def loss(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.mean(jnp.square(x))

    traced = jax.jit(jax.grad(loss)).trace(params, jnp.ones((512, 64)))
    compiled, found = traced.lower().compile(), footprint(traced.jaxpr.jaxpr)
    assert found.flops32 == pytest.approx(compiled.cost_analysis()["flops"], rel=0.1)
    assert found.bytes == pytest.approx(compiled.cost_analysis()["bytes accessed"], rel=0.5)
    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    assert held <= found.peak <= 3 * held


@pytest.mark.parametrize("gpu", sorted(GPUS))
@pytest.mark.parametrize("peak", [1e3, 1e8, 1e9, 2e10, 1e12])
def test_the_choice_fits_and_saturates_if_it_can(gpu, peak):
    work = Work(32, Footprint(flops32=1e9, bytes=1e7, kernels=1000.0, peak=peak), steps=64, most=2**14)
    found, room = choose(GPUS[gpu], work), USABLE * GPUS[gpu].memory
    if found is None:
        assert peak / 32 > room
        return
    assert work.at(found.games).peak <= room and (found.games & (found.games - 1)) == 0
    assert 32 <= found.games <= work.most or peak > room
    larger, smaller = row(GPUS[gpu], work, 2 * found.games), row(GPUS[gpu], work, found.games // 2)
    assert found.share >= 0.8 > smaller.share or found.games <= 32 or not larger.fits or found.games == 2**14
    assert smaller.steps_per_second <= found.steps_per_second <= larger.steps_per_second


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


def test_an_estimate_for_a_gpu(small, capsys):
    assert cli.main(["plan", *small, "--card", "h100", "rtx16"]) == 0
    text = capsys.readouterr().out
    assert text.count("small.yaml h") >= 6 and "not measured on a GPU" in text
    assert cli.main(["plan", *small, "--card", "abacus"]) == 2
    assert cli.main(["plan", *small, "--card", "h100", "--machines", "2"]) == 2
    assert cli.main(["plan", "--all"]) == 2


def test_seeds_are_trained_one_after_the_other():
    for seeds, expected in ((1, ["2", "1.00"]), (3, ["6", "3.00"])):
        config = configs.load("skull_king_cpu", [f"run.seeds={seeds}", "train.total_steps=7_200_000"])
        assert estimate._costs(argparse.Namespace(price=0.5), config, 1000.0) == expected


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
