"""What a GPU would be given, on a machine without one; see `jaxrl.measure.lowering`."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import presets
from jaxrl.measure.lowering import Program, lower, lowered, programs
from jaxrl.runs.games import make_games


def small(name: str) -> configs.Config:
    """A shipped preset; the number of games changes nothing in its programs but sizes."""
    return configs.stages(configs.load(name))[0].config


def test_what_a_gpu_cannot_do_is_found():
    number = jnp.ones(3)

    def calls(x):
        return jax.pure_callback(lambda x: np.asarray(x), jax.ShapeDtypeStruct((3,), "float32"), x)

    def solves(x):
        return jnp.linalg.qr(jnp.outer(x, x))[0]

    found = [lower(Program(f.__name__, jax.jit(f), (number,))) for f in (jnp.sin, calls, solves)]
    assert found[0].wrong == () and found[0].operations > 0
    assert found[1].wrong == ("calls the host (pure_callback)",)
    assert any(word.startswith("calls ") for word in found[2].wrong)
    with jax.enable_x64(True):
        assert "float64" in lower(Program("wide", jax.jit(jnp.sin), (np.ones(3),))).wrong[0]


def test_a_training_and_its_evaluation_lower_for_a_gpu():
    config = small("skull_king_cpu")
    games = make_games(config)
    each = programs(dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1)), games)
    found = [lower(next(each)) for _ in range(2)]
    assert [one.name for one in found] == ["training", "evaluation"]
    assert all(one.wrong == () and one.operations > 1000 for one in found)


def test_what_a_game_on_the_host_needs_lowers_for_a_gpu(capsys):
    assert cli.main(["diagnose", "--config", "battle_balance", "--gpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("nothing")]
    assert [row[0] for row in rows] == ["answers", "learning"] and all(float(row[2]) > 1e6 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(presets.shipped()))
def test_every_preset_lowers_for_a_gpu(name):
    for stage in configs.stages(configs.load(name)):
        for one in lowered(stage.config, make_games(stage.config)):
            assert one.wrong == (), f"{stage}: {one.name}"
