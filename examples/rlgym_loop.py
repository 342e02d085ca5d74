"""First steps for a user of RLGym 2: its builders as options, its loop; then the same arena as one compiled program.

python -m examples.rlgym_loop                                 # this file: one arena, Python in the loop, as in RLGym
jaxrl train --config car_soccer env.options.rewards.touch=1   # the same options; thousands of arenas and PPO, compiled
jaxrl evaluate car_soccer --simulator rocketsim               # what it has learnt, in RocketSim
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.simulators.rlgym import RLGym

OPTIONS: dict[str, Any] = {
    "teams": (1, 1),  # FixedTeamSizeMutator
    "setters": {"kickoff": 0.6, "random": 0.4},  # KickoffMutator, and others by weight
    "observation": "default",  # DefaultObs
    "tick_skip": 8,  # RepeatAction(LookupTableAction())
    "reward_mode": "listed",
    "rewards": {"goal": 10, "concede": -10, "touch": 1, "velocity_to_ball": 0.1},  # CombinedReward
    "terminations": ("goal",),  # GoalCondition
    "truncations": {"no_touch": 10, "timeout": 60},  # NoTouchTimeoutCondition, TimeoutCondition
}


def play(env: RLGym, decisions: int, seed: int = 0) -> dict[str, float]:
    """Plays at random; returns what each agent has earned."""
    rng, earned = np.random.default_rng(seed), dict.fromkeys(env.agents, 0.0)
    env.reset()
    for _ in range(decisions):
        actions = {agent: rng.integers(env.action_space(agent)[1], size=1) for agent in env.agents}
        _, rewards, terminated, truncated = env.step(actions)
        for agent in env.agents:
            earned[agent] += rewards[agent]
        if any(terminated.values()) or any(truncated.values()):
            env.reset()
    return earned


if __name__ == "__main__":
    print(play(RLGym(CarSoccer(**OPTIONS)), 300))
