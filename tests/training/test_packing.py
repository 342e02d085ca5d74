"""Lanes as words, and the other forms of a training that are made for GPUs: on a CPU they must give the same games."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.league.config import SeatMix
from jaxrl.training.anakin.packing import LARGE, pack, unpack
from jaxrl.training.make import make_program
from jaxrl_envs.shared import kernels
from jaxrl_envs.shared.fused.kernel import fused, fused_if_possible
from tests.support.games import HighCard, TicTacToe
from tests.support.training import assert_close, assert_identical, run, small_config

BOTS = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("lowest", "random")))


def test_what_is_packed_comes_back() -> None:
    rng, lanes = np.random.default_rng(0), 6
    tree = {
        "flags": rng.random((lanes, 5, 13)) < 0.5,
        "flag": rng.random(lanes) < 0.5,
        "bytes": rng.integers(-128, 128, (lanes, 7), np.int8),
        "halves": jnp.asarray(rng.normal(size=(lanes, 3)), jnp.bfloat16),
        "numbers": (rng.integers(-9, 9, lanes, np.int32), rng.integers(0, 2**32, (lanes, 2, 2), np.uint32)),
        "floats": np.array([[-0.0, np.inf]] * lanes, np.float32),
        "large": rng.normal(size=(lanes, LARGE + 1)).astype(np.float32),
        "nothing": None,
    }
    tree = jax.tree.map(jnp.asarray, tree)
    packed = pack(tree)
    assert packed.words.shape == (3 + 2 + 2 + 1 + 4 + 2, lanes)  # 5 * 13 + 1 flags are 3 words
    assert [leaf.shape for leaf in packed.large] == [(lanes, LARGE + 1)]
    assert_identical(unpack(packed, jax.eval_shape(lambda: tree)), tree)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("game", "target_kl", "one_kernel"), [(HighCard, 0.0, True), (TicTacToe, 1e-4, True), (TicTacToe, 0.0, False)]
)
def test_the_forms_for_gpus_train_the_same(game, target_kl, one_kernel, monkeypatch) -> None:
    config = small_config(seats=BOTS if game is TicTacToe else (SeatMix(),), updates=1, target_kl=target_kl)
    programs = [make_program(config, game()) for _ in range(2)]
    in_kernel = set()

    def over_lanes(function):
        in_kernel.add(function.__name__)  # a kernel has no sort, with which High Card deals
        return fused(function, interpret=True) if game is TicTacToe else fused_if_possible(function)

    if one_kernel:
        programs[1].setup = dataclasses.replace(programs[1].setup, over_lanes=over_lanes)
    plain, found = run(programs[0], programs[0].init(0))
    monkeypatch.setattr(kernels, "on_gpu", lambda: True)
    formed, other = run(programs[1], programs[1].init(0))
    assert_identical(formed.lanes, plain.lanes)
    assert_close(formed.learner.params, plain.learner.params, 1e-5)
    assert_close(formed.learner.opt_state, plain.learner.opt_state, 1e-5)
    for name in found:
        np.testing.assert_allclose(other[name], found[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert ("play_lane" in in_kernel) == one_kernel  # the step of a rollout, not only those of the first lanes
