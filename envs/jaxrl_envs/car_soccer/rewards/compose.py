"""Reward composition: all components by name, the weights of the modes, and one reward made of them.

The weight of an event is paid once, that of something that lasts (`rate`) per second, at any `tick_skip`. A demolished
car, whose state stands still until it comes back, earns nothing by what it seems to do. The defaults
follow the table of weights that people train with, which says nothing of time: speeds are taken per decision of
1/15 s, places and penalties per second, or they would be worth more than goals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.rewards import aerial, ball, boost, positioning, scoring

Pair = tuple[Any, Any]  # at the beginning and at the end of an annealing


class Component(NamedTuple):
    """Something that may be rewarded.

    function: (one decision) -> f32[P]; its docstring is its description.
    group: to which the modes give a factor.
    weight: by default; negative for what should not be.
    rate: the weight is one per second, else it is paid once.
    mates: it is about the play of a team, and left out if no seat has a mate.
    of_ball: it is about the ball, not about the car: a demolished car earns it too.
    """

    function: Callable[[Step], jax.Array]
    group: str
    weight: float
    rate: bool = False
    mates: bool = False
    of_ball: bool = False


COMPONENTS: dict[str, Component] = {
    "goal": Component(scoring.goal, "sparse", 10.0),
    "concede": Component(scoring.concede, "sparse", -10.0),
    "scorer": Component(scoring.scorer, "sparse", 0.0),
    "goal_speed": Component(scoring.goal_speed, "sparse", 0.0),
    "assist": Component(scoring.assist, "sparse", 2.0, mates=True),
    "shot": Component(scoring.shot, "sparse", 2.0),
    "save": Component(scoring.save, "sparse", 3.0),
    "demo": Component(scoring.demo, "sparse", 1.0),
    "demoed": Component(scoring.demoed, "sparse", -1.0),
    "bump": Component(scoring.bump, "sparse", 0.0),
    "kickoff_win": Component(scoring.kickoff_win, "sparse", 0.5),
    "passed": Component(scoring.passed, "sparse", 0.3, mates=True),
    "touch": Component(ball.touch, "ball", 0.1),
    "last_man_touch": Component(ball.last_man_touch, "ball", 0.03),
    "touch_acceleration": Component(ball.touch_acceleration, "ball", 0.0),
    "touch_to_goal": Component(ball.touch_to_goal, "ball", 0.2),
    "touch_height": Component(ball.touch_height, "ball", 0.1),
    "velocity_to_ball": Component(ball.velocity_to_ball, "ball", 0.75, rate=True),
    "approach": Component(ball.approach, "ball", 0.15, rate=True),
    "distance_to_ball": Component(ball.distance_to_ball, "ball", 0.0, rate=True),
    "face_ball": Component(ball.face_ball, "ball", 0.0, rate=True),
    "ball_velocity_to_goal": Component(ball.ball_velocity_to_goal, "goal", 3.0, rate=True, of_ball=True),
    "ball_velocity_to_own_goal": Component(ball.ball_velocity_to_own_goal, "goal", -1.5, rate=True, of_ball=True),
    "ball_nearer_goal": Component(ball.ball_nearer_goal, "goal", 0.0),
    "shot_quality": Component(scoring.shot_quality, "goal", 0.5),
    "possession": Component(ball.possession, "positioning", 0.01, rate=True, of_ball=True),
    "attacking_third": Component(ball.attacking_third, "positioning", 0.005, rate=True, of_ball=True),
    "defensive_third": Component(ball.defensive_third, "positioning", -0.002, rate=True, of_ball=True),
    "optimal": Component(positioning.optimal, "positioning", 0.05, rate=True),
    "defensive": Component(positioning.defensive, "positioning", 0.05, rate=True),
    "offensive": Component(positioning.offensive, "positioning", 0.03, rate=True),
    "midfield": Component(positioning.midfield, "positioning", 0.02, rate=True, mates=True),
    "goal_line": Component(positioning.goal_line, "positioning", 0.1, rate=True),
    "shadow": Component(positioning.shadow, "positioning", 0.08, rate=True),
    "spacing": Component(positioning.spacing, "positioning", 0.03, rate=True, mates=True),
    "coverage": Component(positioning.coverage, "positioning", 0.04, rate=True, mates=True),
    "rotation": Component(positioning.rotation, "positioning", 0.05, rate=True, mates=True),
    "speed": Component(positioning.speed, "mechanics", 0.0, rate=True),
    "small_pad": Component(boost.small_pad, "boost", 0.05),
    "large_pad": Component(boost.large_pad, "boost", 0.15),
    "boost_pickup": Component(boost.boost_pickup, "boost", 0.1),
    "boost_lost": Component(boost.boost_lost, "boost", 0.0),
    "boost_kept": Component(boost.boost_kept, "boost", 0.1, rate=True),
    "boost_steal": Component(boost.boost_steal, "boost", 0.1),
    "boost_economy": Component(boost.boost_economy, "boost", 0.03),
    "boost_efficiency": Component(boost.boost_efficiency, "boost", 0.3, rate=True),
    "in_air": Component(aerial.in_air, "aerial", 0.0, rate=True),
    "aerial_touch": Component(aerial.aerial_touch, "aerial", 0.5),
    "aerial_goal": Component(aerial.aerial_goal, "aerial", 5.0),
    "aerial_shot": Component(aerial.aerial_shot, "aerial", 1.0),
    "aerial_save": Component(aerial.aerial_save, "aerial", 4.0),
    "aerial_positioning": Component(aerial.aerial_positioning, "aerial", 0.5, rate=True),
    "air_control": Component(aerial.air_control, "aerial", 0.5, rate=True),
    "redirect": Component(aerial.redirect, "aerial", 0.8),
    "wall_touch": Component(aerial.wall_touch, "aerial", 0.4),
    "fast_aerial": Component(aerial.fast_aerial, "mechanics", 0.15),
    "flip_reset": Component(aerial.flip_reset, "mechanics", 0.0),
    "wavedash": Component(aerial.wavedash, "mechanics", 0.1),
    "own_goal": Component(scoring.own_goal, "penalties", -15.0),
    "own_goal_risk": Component(scoring.own_goal_risk, "penalties", -0.5),
    "missed_easy_save": Component(scoring.missed_easy_save, "penalties", -2.0),
    "double_commit": Component(positioning.double_commit, "penalties", -0.5, rate=True, mates=True),
    "overcommit": Component(positioning.overcommit, "penalties", -0.3, rate=True),
    "stale": Component(positioning.stale, "penalties", -0.15, rate=True),
    "whiff": Component(ball.whiff, "penalties", -0.2),
    "missed_aerial": Component(aerial.missed_aerial, "penalties", -0.3),
    "boost_waste": Component(boost.boost_waste, "penalties", -0.3, rate=True),
    "boost_starve": Component(boost.boost_starve, "penalties", -0.1, rate=True),
    "bad_recovery": Component(aerial.bad_recovery, "penalties", -0.1, rate=True),
}

# The factor of every group in a mode. "listed" has no weights but those that are listed.
MODES: dict[str, dict[str, float]] = {
    "sparse": {"sparse": 1.0},
    "dense": {
        **{"sparse": 0.2, "ball": 1.0, "goal": 1.0, "positioning": 1.0, "boost": 1.0, "aerial": 1.0},
        **{"mechanics": 1.0, "penalties": 1.0},
    },
    "hybrid": {
        **{"sparse": 1.0, "ball": 0.5, "goal": 0.7, "positioning": 0.6, "boost": 0.5, "aerial": 0.8},
        **{"mechanics": 0.4, "penalties": 0.7},
    },
    "listed": {},
}


def weights_of(
    mode: str, listed: Mapping[str, float], known: Mapping[str, Component] = COMPONENTS, *, mates: bool = True
) -> dict[str, float]:
    """Returns the weights that are not 0: those of the mode, with the listed ones in their place.

    Args:
      mode: one of `MODES`. listed: weights by component. known: all components.
      mates: whether any seat has a mate.
    """
    factors = MODES[mode]
    found = {name: part.weight * factors.get(part.group, 0.0) for name, part in known.items()} | dict(listed)
    return {name: weight for name, weight in found.items() if weight and (mates or not known[name].mates)}


def annealed_weights(
    modes: Pair, listed: Mapping[str, Pair], known: Mapping[str, Component] = COMPONENTS, *, mates: bool = True
) -> dict[str, Pair]:
    """`weights_of` at the beginning and at the end of an annealing, of components that have one at either."""
    ends = [
        weights_of(mode, {name: pair[end] for name, pair in listed.items()}, known, mates=mates)
        for end, mode in enumerate(modes)
    ]
    return {
        name: (ends[0].get(name, 0.0), ends[1].get(name, 0.0)) for name in known if any(name in end for end in ends)
    }


@dataclasses.dataclass(frozen=True)
class Reward:
    """One reward made of components.

    Attributes:
      weights: weights by name, of components among `known`; a pair is annealed, from its first to its second.
      team_spirit: 0..1, the share of its own reward that a seat exchanges for the mean of its team.
      zero_sum: 0..1, the share of the mean of the other team that is taken off.
      factors: factors of rewards, by name (`FACTORS`): in overtime; with at most one goal between the teams in the last
        minute (close); of the team that is behind (losing).
      clip: bound on what a seat earns by itself in a decision, -clip..clip; 0: none.
      annealed: f32[], how far the annealing is, 0..1.
    """

    weights: Mapping[str, float | Pair]
    known: Mapping[str, Component] = dataclasses.field(default_factory=lambda: COMPONENTS)
    team_spirit: float = 0.0
    zero_sum: float = 0.0
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    clip: float = 0.0
    annealed: float | jax.Array = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Of the shares, in order: the components, and how much the cut has taken off them, whatever its sign."""
        return (*self.weights, *([CLIPPED] if self.clip else []))

    def __call__(self, step: Step) -> tuple[jax.Array, jax.Array]:
        """f32[P], what the seats earn, and f32[R, P], the shares of `names`, before they are cut and shared."""
        shares = []
        for name, weight in self.weights.items():
            part = self.known[name]
            if isinstance(weight, tuple):
                weight = weight[0] + self.annealed * (weight[1] - weight[0])
            earned = part.function(step) * (weight * (step.seconds if part.rate else 1.0))
            shares.append(jnp.where(step.alive, earned, 0.0) if part.rate and not part.of_ball else earned)
        each = jnp.stack(shares).astype(jnp.float32) * self._factor(step)
        earned = jnp.sum(each, axis=0)
        if self.clip:
            cut = jnp.clip(earned, -self.clip, self.clip)
            each, earned = jnp.concatenate([each, jnp.abs(earned - cut)[None]]), cut
        return shared(earned, step.teams, self.team_spirit, self.zero_sum), each

    def _factor(self, step: Step) -> jax.Array:
        """f32[P], of the state of the match."""
        board = step.before.board
        behind = (board.goals[step.teams.of] < board.goals[1 - step.teams.of]).astype(jnp.float32)
        close = (jnp.abs(board.goals[0] - board.goals[1]) <= 1) & (board.left < 60) & ~board.overtime
        holds = {"overtime": board.overtime, "close": close, "losing": behind}
        factor = jnp.ones(step.teams.seats)
        for name, value in self.factors.items():
            factor *= jnp.where(holds[name], value, 1.0)
        return factor


FACTORS = ("overtime", "close", "losing")
CLIPPED = "clipped"


def shared(earned: jax.Array, teams: Teams, spirit: float, zero_sum: float) -> jax.Array:
    """f32[P], what is left of f32[P] after teams have shared and paid each other."""
    if spirit:
        team = _mean(earned, teams.mates | np.eye(teams.seats, dtype=bool))
        earned = (1 - spirit) * earned + spirit * team
    if zero_sum and all(teams.sizes):
        earned = earned - zero_sum * _mean(earned, teams.rivals)
    return earned


def _mean(earned: jax.Array, who: np.ndarray) -> jax.Array:
    """f32[P], the mean of f32[P] over the seats bool[P, P] of each."""
    share = (who / who.sum(axis=1, keepdims=True)).astype(np.float32)
    return jnp.sum(share * earned, axis=1)
