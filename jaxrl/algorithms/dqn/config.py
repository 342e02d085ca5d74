"""The section `dqn`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Schedule, Section

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env


@dataclasses.dataclass(frozen=True)
class DQNConfig(Section):
    """Deep Q-learning: double, dueling, n-step, with prioritised replay (Rainbow, https://arxiv.org/abs/1710.02298)."""

    per_stage: ClassVar[bool] = True
    traced: ClassVar[bool] = True
    largest_rollout: ClassVar[int] = 512  # a longer one would be learnt from no more often

    updates: int = option(4, "optimizer steps per rollout", minimum=1)
    batch: int = option(384, "transitions per optimizer step", minimum=1)
    capacity: int = option(
        100_000, "transitions in the replay buffer, or as many as fit into memory; the oldest is overwritten", minimum=1
    )
    learning_starts: int = option(10_000, "transitions of random play before the first optimizer step", minimum=1)
    alpha: float = option(0.6, "exponent of prioritised replay; 0: uniform replay", minimum=0.0, maximum=1.0)
    n_step: int = option(3, "decisions of a seat in an n-step target", minimum=1)
    exploration: str = option(
        "epsilon",
        "epsilon-greedy (epsilon) or noisy layers (noisy; https://arxiv.org/abs/1706.10295)",
        choices=("epsilon", "noisy"),
    )
    epsilon: Schedule = option(Schedule("linear", 1.0, 0.05, until=0.25), "epsilon-greedy: share of random actions")
    learning_rate: Schedule = option(Schedule("constant", 1e-4, 1e-4), "learning rate of Adam")
    gamma: float = option(0.99, "discount per decision of a seat", minimum=0.0, maximum=1.0)
    target_every: int = option(1_000, "optimizer steps between copies to the target network", minimum=1)

    def check(self, config: Config) -> None:
        """Rejects a replay buffer that is too small, shares above 1, and features that DQN lacks."""
        if config.train.algorithm != "dqn":
            return
        if self.learning_starts > self.capacity:
            raise UserError(
                f"dqn.learning_starts ({self.learning_starts}) must be at most dqn.capacity ({self.capacity}): lower "
                "it."
            )
        if config.batch_size * 2 > self.capacity:
            raise UserError(
                f"dqn.capacity ({self.capacity}) must hold two rounds of playing, 2 * train.num_envs * "
                f"train.num_steps = {2 * config.batch_size}: raise it."
            )
        if max(self.epsilon.ends) > 1.0:
            raise UserError(
                f"dqn.epsilon is a share of actions, at most 1, got {' to '.join(map(str, self.epsilon.ends))}."
            )
        _check_others(config)

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects a replay buffer that is too small for the game."""
        if config.train.algorithm != "dqn":
            return
        asked = env.num_players if env.simultaneous else 1
        records = config.batch_size * asked * (2 if env.may_truncate else 1)
        if records > self.capacity:
            raise UserError(
                f"dqn.capacity ({self.capacity}) must hold one round of {config.env.id}, {records} records: raise it."
            )


def _check_others(config: Config) -> None:
    """Rejects features of other sections that DQN lacks."""
    wrong = {
        "league.snapshots": (config.league.snapshots, "DQN meets bots and itself only: use 0"),
        "exploit.every": (config.exploit.every, "best responses are trained by PPO: use 0"),
        "network.kind": (
            config.network.kind if config.network.kind == "recurrent" else "",
            "nothing is remembered between decisions: use another",
        ),
        "network.transformer.dropout": (
            config.network.transformer.dropout if config.network.kind == "transformer" else 0,
            "a Q network is trained without: use 0",
        ),
        "ppo.critic": (config.ppo.critic, "there are no advantages: leave it empty"),
        "ppo.belief": (config.ppo.belief, "DQN does not learn it: leave it empty"),
        "train.from_run": (config.train.from_run, "nothing of another run is taken over: leave it empty"),
    }
    for key, (value, advice) in wrong.items():
        if value:
            raise UserError(f"{key} is {value}, but with train.algorithm dqn {advice}.")
    if config.run.devices > 1:
        raise UserError(f"run.devices is {config.run.devices}, but DQN learns on one device: use 1 or 0.")
