"""Preallocated storage of rollouts, [T + 1, B], filled in place by the engine threads.

Row t holds the observations of step t. The results of the actions of step t (rewards, ends of games and next
observations) are written to row t + 1, the `into` of that `send`; row T holds the first observations of the next
rollout. Between engine and learner only one row per rollout is copied, apart from transfers to an accelerator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.algorithms.base import Algorithm, Asked, Rollout, Transition
from jaxrl.league.seats import LEARNER
from jaxrl.training.state import HostLanes
from jaxrl_envs.host.game import Buffers, HostGame, aligned, make_buffers


class PlayedGames(NamedTuple):
    """The part of a rollout needed for episode statistics. T steps, B lanes, P seats, K statistics."""

    rewards: Any  # f32[T, B, P], up to the lane's next question
    opening: Any  # f32[T, B, P], of a game that began in this step
    over: Any  # bool[T, B]
    stats: Any  # f32[T, B, P, K], of an ended game
    length: Any  # i32[T, B], of an ended game
    controllers: Any  # i8[T, B, P], of the game that the action was taken in
    restarted: Any  # bool[B], games that were dealt again before the first step
    first: Any  # f32[B, P], what the seats of those had earned before the first question


@dataclasses.dataclass
class Storage:
    """Storage of one rollout."""

    steps: int
    buffers: Buffers  # T + 1 rows
    rows: list[list[Buffers]]  # [T + 1][block], views of `buffers`; a block of lanes is sent and received together
    whole: list[Buffers]  # row 0 per actor, all of its lanes
    log_prob: np.ndarray  # f32[T, B, S], of the learner's policy
    value: np.ndarray  # f32[T, B, S], of the learner's policy
    controllers: np.ndarray  # i8[T, B, P]
    memory: Any  # [C + 1, B, P, ...], recurrent states at the start of every chunk and after the last step
    restarted: np.ndarray  # bool[B]
    after: HostLanes  # the lanes after the last step; arrays of their own in every rollout
    simultaneous: bool

    def renew(self) -> None:
        """Hands the lanes of the last rollout to their present holders."""
        old = self.after
        self.after = jax.tree.map(np.empty_like, old)
        self.restarted[:] = False

    def copy_questions(self, last: Storage, blocks: Sequence[int]) -> None:
        """Copies the observations after the last step of the previous rollout to row 0, for some blocks."""
        for block in blocks:
            source, target = last.rows[-1][block], self.rows[0][block]
            target.current_player[:] = source.current_player
            target.observation[:] = source.observation
            target.legal_action_mask[:] = source.legal_action_mask

    def rollout(self, policy: Any, *, may_truncate: bool) -> Rollout:
        """Returns the stored data as a `Rollout`; views and small host arrays."""
        rows, steps = self.buffers, self.steps
        final_seat, final_observation = self._asked(rows.final_player[1:]), None
        if may_truncate:
            final_observation = self._asked(rows.final_observation[1:])
        seat = self._asked(rows.current_player)
        memory = jax.tree.map(lambda leaf: leaf[:-1], self.memory)
        asked = Asked(self._asked(rows.observation), self._asked(rows.legal_action_mask), seat)
        transition = Transition(
            observation=asked.observation[:steps],
            mask=asked.mask[:steps],
            action=self._asked(rows.action[1:]),
            log_prob=self.log_prob,
            value=self.value,
            seat=seat[:steps],
            weight=self._own(seat[:steps]),
            rewards=rows.rewards[1:],
            terminated=rows.terminated[1:],
            truncated=rows.truncated[1:],
            final_observation=final_observation,
            final_seat=final_seat,
            final_weight=self._own(final_seat),
        )
        last = jax.tree.map(lambda leaf: leaf[steps], asked)
        return Rollout(transition, memory, last, jax.tree.map(lambda leaf: leaf[-1], self.memory), policy)

    def _asked(self, rows: np.ndarray) -> np.ndarray:
        """Adds the axis of acting seats: [T, B, ...] -> [T, B, S, ...]."""
        return rows if self.simultaneous else rows[:, :, None]

    def _own(self, seat: np.ndarray) -> np.ndarray:
        """Returns f32[T, B, S]: 1 where the learner holds the seat i32[T, B, S]; seat -1 gives 0."""
        holder = np.take_along_axis(self.controllers, np.maximum(seat, 0), axis=-1)
        return ((holder == LEARNER) & (seat >= 0)).astype(np.float32)

    def games_played(self) -> PlayedGames:
        """Returns the arrays needed for episode statistics; views."""
        rows = self.buffers
        return PlayedGames(
            rewards=rows.rewards[1:],
            opening=rows.opening[1:],
            over=rows.terminated[1:] | rows.truncated[1:],
            stats=rows.stats[1:],
            length=rows.length[1:],
            controllers=self.controllers,
            restarted=self.restarted,
            first=rows.opening[0],
        )


def make_storage(game: HostGame, algorithm: Algorithm, steps: int, lanes: int, actors: int, groups: int) -> Storage:
    """Allocates storage for `steps` steps of `lanes` games, divided evenly among actors and their groups."""
    buffers = make_buffers(game, lanes, steps=steps + 1)
    size, seats, share = lanes // (actors * groups), game.num_players, lanes // actors
    blocks = [slice(i * size, (i + 1) * size) for i in range(actors * groups)]
    at = [buffers.at(t) for t in range(steps + 1)]
    simultaneous = bool(getattr(game, "simultaneous", False))
    asked = seats if simultaneous else 1
    memory = jax.tree.map(np.asarray, algorithm.network.memory((steps // algorithm.sequence + 1, lanes, seats)))
    after = HostLanes(
        blobs=np.empty((lanes, game.state_bytes), np.uint8),
        controllers=np.empty((lanes, seats), np.int8),
        memory=jax.tree.map(lambda leaf: np.empty_like(leaf[0]), memory),
        episode=np.empty(lanes, np.uint32),
        length=np.empty(lanes, np.int32),
        episode_return=None,  # the learner's to know
    )
    return Storage(
        steps=steps,
        buffers=buffers,
        rows=[[row.rows(block) for block in blocks] for row in at],
        whole=[at[0].rows(slice(i * share, (i + 1) * share)) for i in range(actors)],
        log_prob=aligned((steps, lanes, asked), np.float32),
        value=aligned((steps, lanes, asked), np.float32),
        controllers=aligned((steps, lanes, seats), np.int8),
        memory=jax.tree.map(np.array, memory),
        restarted=np.zeros(lanes, bool),
        after=after,
        simultaneous=simultaneous,
    )
