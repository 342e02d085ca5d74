"""What a GPU would be given, on a machine without one; see `jaxrl.diagnose.gpu.programs`."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import presets
from jaxrl.diagnose import device_parity, saturation
from jaxrl.diagnose.gpu.programs import Lowerable, lower, lowered, programs
from jaxrl.games import make_games


def small(name: str) -> configs.Config:
    """A shipped preset; the number of games changes nothing in its programs but sizes."""
    return configs.stages(configs.load(name))[0].config


def test_what_a_gpu_cannot_do_is_found():
    number = jnp.ones(3)

    def calls(x):
        return jax.pure_callback(lambda x: np.asarray(x), jax.ShapeDtypeStruct((3,), "float32"), x)

    def solves(x):
        return jnp.linalg.qr(jnp.outer(x, x))[0]

    found = [lower(Lowerable(f.__name__, jax.jit(f), (number,))) for f in (jnp.sin, calls, solves)]
    assert found[0].wrong == () and found[0].operations > 0
    assert found[1].wrong == ("calls the host (pure_callback)",)
    assert any(word.startswith("calls ") for word in found[2].wrong)
    with jax.enable_x64(True):
        assert "float64" in lower(Lowerable("wide", jax.jit(jnp.sin), (np.ones(3),))).wrong[0]


@pytest.mark.thorough
def test_a_training_and_its_evaluation_lower_for_a_gpu():
    config = small("skull_king_cpu")
    games = make_games(config)
    each = programs(dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1)), games)
    found = [lower(next(each)) for _ in range(2)]
    assert [one.name for one in found] == ["training", "evaluation"]
    assert all(one.wrong == () and one.operations > 1000 for one in found)


@pytest.mark.thorough
def test_what_a_game_on_the_host_needs_lowers_for_a_gpu(capsys):
    assert cli.main(["diagnose", "--config", "battle_balance", "--gpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("nothing")]
    assert [row[0] for row in rows] == ["answers", "learning"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(presets.shipped()))
def test_every_preset_lowers_for_a_gpu(name):
    for stage in configs.stages(configs.load(name)):
        for one in lowered(stage.config, make_games(stage.config)):
            assert one.wrong == (), f"{stage}: {one.name}"


# ---- beside the CPU, and rates: with two CPU devices in the place of a CPU and a GPU --------------------------------


@pytest.fixture(scope="module")
def nim():
    """A small training and its game."""
    keys = ["network.hidden=[16]", "train.num_envs=256", "train.num_steps=8", "ppo.minibatches=2", "ppo.epochs=2"]
    config = configs.load("examples/nim.yaml", keys, ["examples"])
    return config, make_games(config).training


def test_a_device_that_computes_the_same_is_fine(nim):
    found = list(device_parity.agreements(*nim, *[jax.devices()[0]] * 2))
    assert [each.fine for each in found] == [True] * 3
    assert [each.found for each in found[::2]] == ["100.0% equal", "differ by 0.0e+00 of their length"]


def test_a_device_that_computes_something_else_is_not(nim, monkeypatch):
    config, env = nim
    devices, small = [jax.devices()[0]] * 2, device_parity.smaller(config)
    assert small.train.num_envs == device_parity.LANES
    on, within, turn = device_parity._on, device_parity._within, itertools.count()

    def second():
        """Of two calls in turn."""
        return next(turn) % 2 == 1

    def other_sums(device, function, *arguments):
        more = second()
        return jax.tree.map(lambda leaf: leaf + more * leaf.dtype.type(1), on(device, function, *arguments))

    def other_seed(device, function, seed):
        return on(device, function, seed + np.uint32(second()))

    def other_start(program, function):
        learn, more = within(program, function), next(turn) == 2  # playing, learning, learning
        return lambda learner, *rest: learn(_doubled(learner) if more else learner, *rest)

    monkeypatch.setattr(device_parity, "_on", other_sums)
    assert not device_parity.same_answers(small, env, *devices).fine
    monkeypatch.setattr(device_parity, "_on", other_seed)
    found = device_parity.same_games(env, *devices)
    assert not found.fine and found.bound == ">= 100%"
    turn = itertools.count()
    monkeypatch.setattr(device_parity, "_within", other_start)
    assert not device_parity.same_update(small, env, *devices).fine


def _doubled(learner):
    return learner.replace(params=jax.tree.map(lambda x: 2 * x, learner.params))


@pytest.mark.thorough
def test_rates_go_up_to_what_is_asked(nim):
    config, env = nim
    found = list(saturation.rates(config, env, 0.03, most=1024))
    assert [each.num_envs for each in found] in ([256, 1024], [256])  # it ends where more games bring nothing
    assert all(each.playing > 0 and each.training > 0 for each in found)
