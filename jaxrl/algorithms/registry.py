"""The registry of algorithms by name; a new algorithm adds one line here."""

from __future__ import annotations

from typing import Any

from jaxrl.algorithms.base import Algorithm
from jaxrl.config import Config
from jaxrl.players.player import Player
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError, nearest

ALGORITHMS = {
    "ppo": "jaxrl.algorithms.ppo.algorithm:PPO",
    "dqn": "jaxrl.algorithms.dqn.algorithm:DQN",
    "hierarchical": "jaxrl.algorithms.hierarchical.algorithm:Hierarchical",
}


def find_algorithm(name: str) -> type[Algorithm]:
    """Returns the class of an algorithm: a registered name, or a user's own as "package.module:Class". Raises
    UserError: there is no such algorithm, or the class is not an `Algorithm`."""
    place = ALGORITHMS.get(name, name)
    if ":" not in place:
        raise UserError(
            f"train.algorithm: there is no algorithm {name!r}: {nearest(name, ALGORITHMS)}; one of your own is "
            "given as package.module:Class."
        )
    return user_code.find_class(place, Algorithm, "train.algorithm")


def check_one_network(name: str, verb: str) -> None:
    """Raises UserError if the policy of an algorithm consists of several networks: supervised training works on the
    single network of the section `network`."""
    if find_algorithm(name).networks > 1:
        raise UserError(f"train.algorithm {name} plays with several networks: {verb} with train.algorithm ppo.")


def make_algorithm(config: Config, env: Env) -> Algorithm:
    """Creates the algorithm that `train.algorithm` names; compiles nothing. Raises UserError: there is no such
    algorithm, or something in the configuration does not fit it or the game."""
    return find_algorithm(config.train.algorithm)(config, env)


def trained_player(config: Config, env: Env, name: str, params: Any, *, greedy: bool) -> Player:
    """Returns the trained player of a configuration; see `Algorithm.player` and `make_algorithm`."""
    return make_algorithm(config, env).player(name, params, greedy=greedy)
