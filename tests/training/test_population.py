"""Trainings side by side that differ in numbers of the algorithm: each as alone, exact resume, mistakes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.games import make_games
from jaxrl.runs.directory import RunDirectory, each_seed
from jaxrl.training.make import make_program
from jaxrl_envs.shared.errors import UserError
from tests.support.games import TicTacToe
from tests.support.small_runs import configure, resume, train
from tests.support.training import assert_identical, on_host, run, small_config

VARY = {"ppo.learning_rate": [1e-3, 5e-3], "ppo.entropy_coef": [0.01, 0.3], "ppo.gae_lambda": [0.95, 0.5]}


@pytest.mark.thorough
@pytest.mark.optimised  # without optimisation XLA rounds otherwise within a loop
def test_each_training_is_as_alone_bit_by_bit():
    base = small_config(hidden=(16,))
    several = dataclasses.replace(base, run=dataclasses.replace(base.run, seeds=4, vary=VARY))
    program = make_program(several, TicTacToe())
    state, _ = run(program, program.init(5))
    alone = dataclasses.replace(configs.contenders(several)[1], run=base.run)
    single = make_program(alone, TicTacToe())
    for seed in range(2):
        one, _ = run(single, single.init(5 + seed))
        assert_identical(each_seed(on_host(state), 4)[2 + seed], on_host(one))


@pytest.mark.thorough
@pytest.mark.optimised  # without optimisation XLA rounds otherwise within a loop
def test_weights_of_rewards_differ_too():
    tree = {"env": {"id": "tests.support.lever_game:Levers", "options": {"rewards": {"right": 1.0, "always": 0.5}}}}
    tree |= {"network": {"hidden": [8]}, "train": {"num_envs": 16, "num_steps": 4, "total_steps": 256}}
    tree |= {"run": {"devices": 1, "seeds": 2, "vary": {"env.options.rewards.always": [0.5, -0.25]}}}
    config = configs.from_dict(tree)
    program = make_program(config, make_games(config).training)
    state, _ = run(program, program.init(5))
    alone = configs.from_dict(tree | {"run": {"devices": 1}}, overrides=())
    alone = configs.changed(alone, {"env": {"options": {"rewards": {"always": -0.25}}}})
    single = make_program(alone, make_games(alone).training)
    one, _ = run(single, single.init(5))
    assert_identical(each_seed(on_host(state.learner), 2)[1], on_host(one.learner))
    config = configs.changed(config, {"run": {"vary": {"env.options.rewards.never": [1.0, 2.0]}}})
    with pytest.raises(UserError, match="must be a weight that the configuration gives"):
        make_games(config)


@pytest.mark.thorough
def test_a_population_goes_on_exactly(tmp_path):
    configure(tmp_path, "tests.support.games:TicTacToe", 4)
    vary = ("run.seeds=4", "run.vary={ppo.learning_rate: [1e-3, 1e-2]}")
    assert train(tmp_path, "whole", *vary) == 0 and train(tmp_path, "half", *vary, "train.stop.cpu_minutes=1e-9") == 0
    assert resume(tmp_path, "half", "train.stop=") == 0
    whole, half = (RunDirectory(tmp_path / "runs" / name).checkpoints().newest() for name in ("whole", "half"))
    assert whole.step == half.step == 4 and whole.arrays.keys() == half.arrays.keys()
    for name, leaf in whole.arrays.items():
        np.testing.assert_array_equal(leaf, half.arrays[name])


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"ppo.clip": [0.1]}, "at least two"),
        ({"ppo.clip": [0.1, 0.2], "ppo.gamma": [0.9, 0.95, 1.0]}, "one length"),
        ({"ppo.clip": [0.1, 0.2, 0.3]}, "divides run.seeds"),
        ({"ppo.clop": [0.1, 0.2]}, "did you mean 'ppo.clip'"),
        ({"ppo.epochs": [2, 3]}, "different programs"),
        ({"ppo.anchor": [0.0, 0.3]}, "different programs"),
    ],
)
def test_mistakes(vary, said):
    with pytest.raises(UserError, match=said):
        configs.from_dict({"env": {"id": "skull_king"}, "run": {"seeds": 4, "vary": vary}})
