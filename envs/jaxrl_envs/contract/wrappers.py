"""Auto-reset: games without an end, for loops over many steps."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl_envs.contract.env import CameTrue, Env, Key, PyTree, State, select


class Final(NamedTuple):
    """The result of one step before a finished game was replaced by a new one.

    The fields describe the stepped state of every lane, so a learner reads rewards here and the observation only where
    `truncated` is set. XLA removes unread fields from the program, so they cost nothing.
    """

    observation: PyTree  # of the stepped state for its current_player; leading P axis in a simultaneous game
    current_player: jax.Array  # i32[] or i32[P], the seat that `observation` belongs to
    rewards: jax.Array  # f32[P]
    terminated: jax.Array  # bool[]
    truncated: jax.Array  # bool[]
    illegal_action: jax.Array  # bool[]
    privileged: PyTree  # `Env.privileged` of the stepped state for its current_player; None: not supported
    stats: dict[str, jax.Array]  # env.episode_stats, f32[P] each; meaningful where the game is over
    came_true: CameTrue | None = None  # `Env.came_true` of the step, where it is requested

    @property
    def over(self) -> jax.Array:
        """bool[]: the game ended in this step, by its rules or by a cut."""
        return self.terminated | self.truncated


def privileged(env: Env, state: State) -> PyTree | None:
    """`Env.privileged` for the seats asked in one game, with the axes of `state.observation`."""
    seat = jnp.asarray(state.current_player, jnp.int32)
    if env.simultaneous:
        return jax.vmap(env.privileged, in_axes=(None, 0))(state, seat)
    return env.privileged(state, seat)


class AutoReset:
    """`env` without an end: a finished game is replaced by a new one in the same step.

    The price of a reset. Under `vmap` both sides of a branch run, so ``env.reset`` is evaluated for every lane in every
    step, whether or not a game ended there. With the default `Env.reset` that is a full deal per lane and step. A game
    with an expensive deal overrides `reset` and prepares its next deal in small portions within `step`, so that the
    reset itself is a few selects. A lane's result never depends on what other lanes do, but its time may: a loop in
    `reset` runs until every lane is through. Skull King's has one that completes a deal interrupted by an illegal
    action; in legal play it costs one "any lane?" reduction per step.
    """

    def __init__(self, env: Env, *, settles: bool = False):
        """`settles`: whether `Final.came_true` is computed."""
        self.env, self.settles = env, settles

    def init(self, key: Key) -> State:
        """Returns a new game."""
        return self.env.init(key)

    def fresh(self, stepped: State, key: Key) -> State:
        """Returns the game that replaces a finished one."""
        return self.env.reset(stepped, key)

    def step(self, state: State, action: jax.Array, key: Key) -> tuple[State, Final]:
        """Returns one step of one game; vmap it over games.

        Args:
          state: a running game.
          action: i32[], or i32[P] in a simultaneous game.
          key: the randomness of this step, of the reset too.

        Returns:
          The next state, already the first of a new game if this step ended one (its rewards are then zero), and
          what the step itself produced.
        """
        step_key, reset_key = jax.random.split(key)
        stepped = self.env.step(state, action, step_key)
        final = Final(
            observation=stepped.observation,
            current_player=stepped.current_player,
            rewards=stepped.rewards,
            terminated=stepped.terminated,
            truncated=stepped.truncated,
            illegal_action=stepped.illegal_action,
            privileged=privileged(self.env, stepped),
            stats=self.env.episode_stats(stepped),
            came_true=self.env.came_true(state, action, stepped) if self.settles else None,
        )
        state = select(final.over, self.fresh(stepped, reset_key), stepped)
        # Observed once, after the choice: XLA then drops the observations of both sides.
        return self.env._with_observation(state), final


def auto_reset(env: Env, *, settles: bool = False) -> AutoReset:
    """`env` with finished games replaced at once; see `AutoReset` for what that costs."""
    return AutoReset(env, settles=settles)
