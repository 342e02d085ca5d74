"""The simulators that bots of car soccer are trained in: RocketSim (C++, https://github.com/ZealanL/RocketSim) with its
Python binding, and RLGym (https://rlgym.org), the Python around it. Both play in our arena, with random controls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.simulators import rocketsim

ARENAS, HELD = 32, 8  # stepped in turn; ticks for which controls are held


def contestants(size: int) -> list[Contestant]:
    """Ticks of the simulator alone, a unit is one tick of one arena; and decisions in RLGym, of one car each.

    Args:
      size: cars of a team.
    """
    simulator = rocketsim.started()  # RLGym finds it done and takes the same arena
    return [_ticks(simulator, size), _decisions(size)]


def _ticks(simulator: Any, size: int, calls: int = 16) -> Contestant:
    rng, arenas = np.random.default_rng(size), []
    for number in range(ARENAS):
        arena = simulator.Arena(simulator.GameMode.SOCCAR)
        cars = [arena.add_car(team, 0) for team in (0, 1) for _ in range(size)]
        arena.reset_kickoff(number)
        arenas.append((arena, cars))
    choices = []
    for row in actions.TABLE.tolist():
        controls = simulator.CarControls()
        controls.throttle, controls.steer, controls.pitch, controls.yaw, controls.roll = row[:5]
        controls.jump, controls.boost, controls.handbrake = (value > 0 for value in row[5:])
        choices.append(controls)

    def block() -> None:
        for chosen in rng.integers(len(choices), size=(calls, ARENAS, 2 * size)).tolist():
            for (arena, cars), rows in zip(arenas, chosen, strict=True):
                for car, row in zip(cars, rows, strict=True):
                    car.set_controls(choices[row])
                arena.step(HELD)

    for _ in range(8):
        block()  # as far into the game as ours, which no longer stand where they began
    return Contestant(f"RocketSim, ticks, {ARENAS} arenas in turn", float(calls * ARENAS * HELD), block)


def _decisions(size: int, steps: int = 32) -> Contestant:
    from rlgym.api import RLGym
    from rlgym.rocket_league import action_parsers, done_conditions, obs_builders, reward_functions, state_mutators
    from rlgym.rocket_league.sim import RocketSimEngine

    env: Any = RLGym(
        state_mutator=state_mutators.MutatorSequence(
            state_mutators.FixedTeamSizeMutator(size, size), state_mutators.KickoffMutator()
        ),
        obs_builder=obs_builders.DefaultObs(zero_padding=3),
        action_parser=action_parsers.RepeatAction(action_parsers.LookupTableAction(), repeats=HELD),
        reward_fn=reward_functions.CombinedReward(
            (reward_functions.GoalReward(), 10.0), (reward_functions.TouchReward(), 0.1)
        ),
        transition_engine=RocketSimEngine(),
        termination_cond=done_conditions.GoalCondition(),
        truncation_cond=done_conditions.AnyCondition(
            done_conditions.NoTouchTimeoutCondition(10.0), done_conditions.TimeoutCondition(300.0)
        ),
    )
    rng = np.random.default_rng(size)
    env.reset()

    def block() -> None:
        for rows in rng.integers(len(actions.TABLE), size=(steps, 2 * size, 1)):
            _, _, ended, cut = env.step(dict(zip(env.agents, rows, strict=True)))
            if any(ended.values()) or any(cut.values()):
                env.reset()

    return Contestant("RLGym, decisions of cars", float(steps * 2 * size), block)
