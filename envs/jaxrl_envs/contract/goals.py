"""What a game tells of goals: which of its decisions set one, which goal came true, and what phase a decision is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax


class CameTrue(NamedTuple):
    """The goals that a step has settled, as they turned out."""

    goal: jax.Array  # i32[P], the goal with which the same moves of the seat would have reached it; -1: none
    reward: jax.Array  # f32[P], what the seat would have earned of reaching it, since it set its goal; >= 0


class Goals:
    """The part of `jaxrl_envs.contract.env.Env` that hierarchical learners ask (`jaxrl.algorithms.hierarchical`).

    A *manager's* decision sets the goal of its seat, such as a bid; all others are the *worker's*, who is rewarded up
    to the seat's next goal and sees its goal in the observation.

    Attributes:
      phases: how the game's decisions can be sorted, e.g. ``{"round": ("1", "2"), "phase": ("bid", "play")}``.
    """

    phases: Mapping[str, tuple[str, ...]] = {}

    def manages(self, observation: Any) -> jax.Array | None:
        """bool[]: the decision that is asked with this packed observation sets a goal. None: the game has no goals."""
        return None

    def came_true(self, before: Any, action: jax.Array, after: Any) -> CameTrue | None:
        """What one step of `Env.step` has settled, from the states around it; None if the game does not say."""
        return None

    def relabelled(self, observation: Any, mask: jax.Array, goal: jax.Array) -> tuple[Any, jax.Array]:
        """The packed observation and mask bool[A] of a worker's decision as they would be had its seat had another goal
        (i32[], one that `came_true` may tell) from the beginning of the goal on, and everything else the same."""
        raise NotImplementedError

    def phase(self, observation: Any) -> dict[str, jax.Array]:
        """i32[] for every key of `phases`: the number of the name in it that a packed observation belongs to."""
        return {}
