"""`python -m scripts.benchmark.peers.soccer`: car soccer beside the simulators that its bots are trained in elsewhere.

RocketSim (C++, https://github.com/ZealanL/RocketSim) with its Python binding, and RLGym (https://rlgym.org), the Python
around it. All play in our arena, with random controls that are held for eight ticks. Compared are ticks of the physics
alone, and decisions of cars with observation, mask and reward.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.diagnose import play
from jaxrl.diagnose.timing import Contestant
from jaxrl.games import make_env
from jaxrl_envs.adapters import require
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.physics.state import Arena
from jaxrl_envs.car_soccer.physics.tick import ticks
from jaxrl_envs.car_soccer.simulators import rocketsim
from scripts.benchmark.report import compare

HELD = 8  # ticks for which controls are held
CALLS = 8  # of ours in a block
WARM = 128  # calls of ours before anything is timed: no arena is still where it began
BATCHES = (1024, 4096)  # arenas of ours at once
ARENAS = 32  # of RocketSim, stepped in turn
RLGYM = "jaxrl[rlgym], then pip install --no-deps rlgym-rocket-league==2.0.1"  # which asks for an old numpy


def our_ticks(env: CarSoccer, batch: int) -> Contestant:
    """Returns the physics alone, without observation, mask or reward; a unit is one tick of one arena."""

    def play(arenas: Arena, seed: jax.Array) -> Arena:
        shape = (CALLS, batch, env.num_players)
        rows = jax.random.randint(jax.random.key(seed), shape, 0, actions.NUM_ACTIONS)
        act = jax.vmap(lambda arena, controls: ticks(env.geometry, env.settings, arena, controls, HELD))

        def call(arenas: Arena, rows: jax.Array) -> tuple[Arena, None]:
            return act(arenas, jnp.asarray(actions.TABLE)[rows]), None

        return jax.lax.scan(call, arenas, rows)[0]

    def begin(key: jax.Array) -> Arena:
        state: Any = env.init(key)
        return state.game.arena

    arenas = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(batch), batch))
    program, seeds = jax.jit(play), iter(range(2**31))
    for _ in range(WARM // CALLS):
        arenas = program(arenas, next(seeds))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(arenas)) // batch
    name = f"jaxrl, {batch:,} arenas of {size:,} bytes"
    return Contestant(name, float(batch * HELD * CALLS), lambda: jax.block_until_ready(program(arenas, next(seeds))))


def our_decisions(env: CarSoccer, batch: int) -> Contestant:
    """Returns random play, observation and mask written; a unit is one decision of one car."""
    found = play.contestant(env, batch=batch, view="observed", name=f"jaxrl, {batch:,} arenas")
    return found._replace(units=found.units * env.num_players, info={})


def rocketsim_ticks(size: int, calls: int = 16) -> Contestant:
    """Returns RocketSim alone with `size` cars in a team; a unit is one tick of one arena."""
    simulator: Any = rocketsim.started()  # RLGym finds it started and takes the same arena
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

    for _ in range(WARM // calls):
        block()
    return Contestant(f"RocketSim, {ARENAS} arenas in turn", float(calls * ARENAS * HELD), block)


def rlgym_decisions(size: int, steps: int = 32) -> Contestant:
    """Returns RLGym around RocketSim with `size` cars in a team; a unit is one decision of one car."""
    made = _rlgym(size)
    rng = np.random.default_rng(size)
    made.reset()

    def block() -> None:
        for rows in rng.integers(len(actions.TABLE), size=(steps, 2 * size, 1)):
            _, _, ended, cut = made.step(dict(zip(made.agents, rows, strict=True)))
            if any(ended.values()) or any(cut.values()):
                made.reset()

    return Contestant("RLGym", float(steps * 2 * size), block)


def _rlgym(size: int) -> Any:
    """Returns RLGym's environment with the observation and the actions of ours."""
    api = require("rlgym.api", "RLGym", RLGYM)
    from rlgym.rocket_league import action_parsers, obs_builders
    from rlgym.rocket_league import done_conditions as done
    from rlgym.rocket_league import reward_functions as rewards
    from rlgym.rocket_league import state_mutators as mutators
    from rlgym.rocket_league.sim import RocketSimEngine

    return api.RLGym(
        state_mutator=mutators.MutatorSequence(mutators.FixedTeamSizeMutator(size, size), mutators.KickoffMutator()),
        obs_builder=obs_builders.DefaultObs(zero_padding=3),
        action_parser=action_parsers.RepeatAction(action_parsers.LookupTableAction(), repeats=HELD),
        reward_fn=rewards.CombinedReward((rewards.GoalReward(), 10.0), (rewards.TouchReward(), 0.1)),
        transition_engine=RocketSimEngine(),
        termination_cond=done.GoalCondition(),
        truncation_cond=done.AnyCondition(done.NoTouchTimeoutCondition(10.0), done.TimeoutCondition(300.0)),
    )


def main() -> int:
    """Measures and prints, for teams of one, two and three cars."""
    for size in (1, 2, 3):
        config = configs.load("car_soccer", [f"env.options.teams=[{size},{size}]", *sys.argv[1:]])
        xla.prepare_training(config)
        env, same = make_env(config), f"{size} against {size}"
        assert isinstance(env, CarSoccer)
        compare(f"{same}: ticks of an arena", [our_ticks(env, each) for each in BATCHES], [rocketsim_ticks(size)])
        compare(f"{same}: decisions of cars", [our_decisions(env, each) for each in BATCHES], [rlgym_decisions(size)])
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
