"""MaskablePPO of sb3-contrib on one of our games through our own vector environment, with the settings of a config.

One learner seat against random bots: every decision that it counts is one that it learns from, as in our self-play.
"""

from __future__ import annotations

from typing import Any

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.contract.env import Env


def contestant(config: Any, env: Env) -> Contestant:
    """One whole iteration of `config.ppo`'s shape per block, playing and learning; a unit is one decision."""
    import torch
    from sb3_contrib import MaskablePPO

    from jaxrl_envs.adapters.sb3 import SeatVecEnv

    ppo, train, network = config.ppo, config.train, config.network
    activations = {
        "relu": torch.nn.ReLU,
        "tanh": torch.nn.Tanh,
        "gelu": torch.nn.GELU,
        "silu": torch.nn.SiLU,
    }
    layers = list(network.hidden)
    model = MaskablePPO(
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
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": activations[network.activation],
        },
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
