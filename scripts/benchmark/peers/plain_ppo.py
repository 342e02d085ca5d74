"""`python -m scripts.benchmark.peers.plain_ppo`: a PPO in one plain loop beside ours, both on CartPole of gymnax.

The plain loop is `examples.ppo_in_one_file`, of the kind that PureJaxRL made known (Lu et al. 2022,
https://arxiv.org/abs/2210.05639): one jitted program, a scan over updates, each a scan of T steps over B games,
advantages by a reverse scan, and epochs over minibatches of a permuted rollout. Its policy and its value have a
perceptron each, ours share one.
"""

from __future__ import annotations

import functools
import sys

import jax

from examples import ppo_in_one_file as plain
from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.contract.env import Env
from scripts.benchmark.peers import beside_our_training

SETTINGS = plain.Config(lanes=512, steps=128, updates=4, learning_rate=2.5e-4, gamma=0.99, clip=0.2, entropy_coef=0.01)


def contestant(settings: plain.Config, env: Env) -> Contestant:
    """Returns `settings.updates` whole updates per block; a unit is one environment step."""
    program = jax.jit(lambda key: plain.train(env, settings, key)[1:], compiler_options=xla.plain_options())
    units = settings.lanes * settings.steps * settings.updates
    return Contestant("one plain loop", float(units), lambda: jax.block_until_ready(program(jax.random.key(0))))


def equal_config(settings: plain.Config) -> Config:
    """Returns our configuration of CartPole with everything that costs time equal."""
    same = ("epochs", "minibatches", "gamma", "gae_lambda", "clip", "value_coef", "entropy_coef", "max_grad_norm")
    train = {"num_envs": settings.lanes, "num_steps": settings.steps, "updates_per_call": settings.updates}
    return configs.from_dict(
        {
            "run": {"devices": 1},
            "env": {"id": "gymnax:CartPole-v1"},
            "network": {"hidden": [settings.hidden] * 2, "activation": "tanh"},
            "ppo": {name: getattr(settings, name) for name in same},
            "train": train,
        }
    )


def main() -> int:
    """Measures and prints."""
    return beside_our_training(equal_config(SETTINGS), functools.partial(contestant, SETTINGS))


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
