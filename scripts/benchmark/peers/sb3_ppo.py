"""`python -m scripts.benchmark.peers.sb3_ppo`: MaskablePPO of sb3-contrib beside our PPO.

Both have the settings of `skull_king_cpu`. The peer plays through our own vector environment, one learner seat against
random bots: every decision that it counts is one that it learns from, as in our self-play.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.adapters import require
from jaxrl_envs.contract.env import Env
from scripts.benchmark.peers import beside_our_training


def contestant(config: Any, env: Env) -> Contestant:
    """Returns one whole iteration of `config.ppo`'s shape per block, playing and learning; a unit is one decision."""
    torch = require("torch", "MaskablePPO", "jaxrl[sb3]")
    contrib = require("sb3_contrib", "MaskablePPO", "jaxrl[sb3]")
    from jaxrl_envs.adapters.sb3 import SeatVecEnv

    ppo, train, network = config.ppo, config.train, config.network
    activations = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "gelu": torch.nn.GELU, "silu": torch.nn.SiLU}
    layers = list(network.hidden)
    model = contrib.MaskablePPO(
        "MlpPolicy",
        SeatVecEnv(env, train.num_envs),
        n_steps=train.num_steps,
        batch_size=config.batch_size // ppo.minibatches,
        n_epochs=ppo.epochs,
        learning_rate=ppo.learning_rate.start,
        ent_coef=ppo.entropy_coef.start,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip,
        max_grad_norm=ppo.max_grad_norm,
        policy_kwargs={"net_arch": {"pi": layers, "vf": layers}, "activation_fn": activations[network.activation]},
        device="cpu",
        verbose=0,
    )

    def block() -> None:
        steps, passes = model.num_timesteps, model._n_updates
        model.learn(config.batch_size, reset_num_timesteps=False)
        done = (model.num_timesteps - steps, model._n_updates - passes)
        if done != (config.batch_size, ppo.epochs):  # playing alone is many times as fast as playing and learning
            raise RuntimeError(f"a block of SB3 made {done} steps and passes, not one whole iteration")

    return Contestant("SB3 MaskablePPO", float(config.batch_size), block, {"threads": torch.get_num_threads()})


def main() -> int:
    """Measures and prints."""
    config = configs.load("skull_king_cpu", sys.argv[1:])
    return beside_our_training(config, functools.partial(contestant, config))


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
