"""Moves the weights of `zoo:skull_king` into the network for any table, where they play at a table of four exactly as
before: the training of `zoo:skull_king_any` begins with them."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.games import make_evaluation_env
from jaxrl.policies.export import load_policy, save_policy
from jaxrl.runs.directory import TrainedRun
from jaxrl_envs.contract.env import PyTree

CARDS, SEAT, SEATS, BETWEEN, AFTER = 4 * 74, 40, 8, 6 + 10 + 6, 14 + 10 + 12  # numbers of features


def rows(players: int) -> np.ndarray:
    """Returns the place of each feature of a table among those for any table."""
    sizes = [(CARDS, CARDS), (SEAT * players, SEAT * SEATS), (BETWEEN, BETWEEN), (players, SEATS), (AFTER, AFTER)]
    ends = np.cumsum([wide for _, wide in sizes])
    return np.concatenate([end - wide + np.arange(own) for (own, wide), end in zip(sizes, ends, strict=True)])


def widened(params: PyTree, features: int, players: int = 4) -> PyTree:
    """Returns the parameters of a dense network at a table as those of one that reads `features`."""
    params = jax.tree.map(np.asarray, params)
    kernel = params["dense_0"]["kernel"]
    wide = np.zeros((features, kernel.shape[1]), kernel.dtype)
    wide[rows(players)] = kernel
    return {**params, "dense_0": {**params["dense_0"], "kernel": wide}}


def write(file: Path) -> None:
    """Writes the policy file."""
    config = configs.stages(configs.load("skull_king_any"))[-1].config
    env = make_evaluation_env(config)
    params = widened(load_policy(zoo.policy_file("skull_king")).params, env.num_features)
    save_policy(file, TrainedRun(file.stem, config, env, 0, [params], ""))
