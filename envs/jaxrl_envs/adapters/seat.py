"""One seat of a game against bots, as pure functions: the single-agent view that Gymnasium and SB3 learners expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, Key, State, is_over, select
from jaxrl_envs.shared.errors import UserError, nearest


@struct.dataclass
class Lane:
    """A game that waits for the learner's seat, or is over."""

    state: State
    seat: jax.Array  # i32[], the learner's
    bots: jax.Array  # i32[P], the opponent (its place in `opponents`) in each seat, fixed for the game
    pending: jax.Array  # f32[], rewards of the learner's seat since its last decision


class View(NamedTuple):
    """Observation and earnings of the learner."""

    observation: jax.Array  # f32[F]
    mask: jax.Array  # bool[A]
    reward: jax.Array  # f32[], everything the seat earned since its last decision
    terminated: jax.Array  # bool[]
    truncated: jax.Array  # bool[]


class SeatGame:
    """One learner seat of `env`; the others are held by bots drawn uniformly for every game."""

    def __init__(self, env: Env, opponents: Sequence[str] = ("random",), seat: int | None = None):
        """Sets up the game.

        Args:
          env: the game.
          opponents: names of bots of the game.
          seat: the learner's seat; None draws it for every game.

        Raises:
          UserError: an unknown bot, or a seat that the game does not have.
        """
        for name in opponents:
            if name not in env.bots:
                raise UserError(f"{env.id} has no bot {name!r}: {nearest(name, env.bots)}")
        if not opponents:
            raise UserError(f"opponents must name at least one bot of {env.id}: {', '.join(env.bots)}")
        if seat is not None and not 0 <= seat < env.num_players:
            raise UserError(f"{env.id} has the seats 0 to {env.num_players - 1}, not {seat}")
        self.env, self.seat = env, seat
        self.bots = [env.bots[name] for name in opponents]

    def begin(self, key: Key) -> Lane:
        """Returns a new game, played on to the learner's first decision."""
        deal_key, seats_key, play_key = jax.random.split(key, 3)
        return self.restart(self._seated(self.env.init(deal_key), seats_key), play_key)

    def act(self, lane: Lane, action: jax.Array, key: Key) -> Lane:
        """The learner's action, then the opponents' up to the learner's next decision or the end of the game."""
        step_key, bots_key, play_key = jax.random.split(key, 3)
        if self.env.simultaneous:
            others = self._bots_actions(lane, bots_key)
            action = jnp.where(jnp.arange(self.env.num_players) == lane.seat, action, others)
        lane = self._stepped(lane.replace(pending=jnp.float32(0.0)), action, step_key)
        return self._loop(lambda lane: ~self._over(lane) & ~self._asked(lane), self._bots_step, lane, play_key)

    def restart(self, lane: Lane, key: Key) -> Lane:
        """Unchanged while the learner is to decide; a finished game is replaced and played on to the first decision."""

        def one(lane: Lane, key: Key) -> Lane:
            reset_key, seats_key, step_key = jax.random.split(key, 3)
            fresh = self._seated(self.env.reset(lane.state, reset_key), seats_key)
            return select(self._over(lane), fresh, self._bots_step(lane, step_key))

        return self._loop(lambda lane: self._over(lane) | ~self._asked(lane), one, lane, key)

    def view(self, lane: Lane) -> View:
        """Returns the learner's side of a lane."""
        state = lane.state
        mask = state.legal_action_mask[lane.seat] if self.env.simultaneous else state.legal_action_mask
        observation = self.env.features(self.env.observe(state, lane.seat))
        return View(observation, mask, lane.pending, state.terminated, state.truncated)

    # ---- private ----------------------------------------------------------------------------------------------------

    def _over(self, lane: Lane) -> jax.Array:
        return is_over(lane.state)

    def _asked(self, lane: Lane) -> jax.Array:
        return jnp.bool_(True) if self.env.simultaneous else lane.state.current_player == lane.seat

    def _seated(self, state: State, key: Key) -> Lane:
        seat_key, bots_key = jax.random.split(key)
        seats = self.env.num_players
        drawn = jax.random.randint(seat_key, (), 0, seats)
        return Lane(
            state=state,
            seat=drawn if self.seat is None else jnp.int32(self.seat),
            bots=jax.random.randint(bots_key, (seats,), 0, len(self.bots)),
            pending=jnp.float32(0.0),
        )

    def _stepped(self, lane: Lane, action: jax.Array, key: Key) -> Lane:
        state = self.env.step(lane.state, action, key)
        return lane.replace(state=state, pending=lane.pending + state.rewards[lane.seat])

    def _bots_actions(self, lane: Lane, key: Key) -> jax.Array:
        """i32[] for the seat to move, or i32[P]; every bot is evaluated and one action selected."""
        keys = jax.random.split(key, len(self.bots))
        actions = jnp.stack([bot(lane.state, k) for bot, k in zip(self.bots, keys, strict=True)])
        if self.env.simultaneous:
            return jnp.take_along_axis(actions, lane.bots[None], axis=0)[0]
        return actions[lane.bots[lane.state.current_player]]

    def _bots_step(self, lane: Lane, key: Key) -> Lane:
        bots_key, step_key = jax.random.split(key)
        return self._stepped(lane, self._bots_actions(lane, bots_key), step_key)

    def _loop(self, condition, body, lane: Lane, key: Key) -> Lane:
        def one(carry: tuple[Lane, jax.Array]) -> tuple[Lane, jax.Array]:
            lane, count = carry
            return body(lane, jax.random.fold_in(key, count)), count + 1

        return jax.lax.while_loop(lambda carry: condition(carry[0]), one, (lane, jnp.uint32(0)))[0]
