"""Where rollouts are written: fixed memory [T + 1, B] in pages of its own, filled in place by the engine threads.

Row t holds the questions of step t. The answers of the engine to the actions of step t (rewards, ends of games, and the
next questions) stand in row t + 1, which is the `into` of that `send`; the questions of row T are the first of the
next rollout. Nothing is copied between engine and learner but what crosses to an accelerator, and one row a rollout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.host.core import Buffers, HostGame, aligned, make_buffers
from jaxrl.training.sebulba.state import HostLanes


class Played(NamedTuple):
    """A rollout as the learner reads it. T steps, B lanes, P seats, F features, A actions, K statistics."""

    observation: Any  # f32[T, B, F]
    mask: Any  # bool[T, B, A]
    seat: Any  # i32[T, B], asked
    action: Any  # i32[T, B]
    log_prob: Any  # f32[T, B], of the learner's policy
    value: Any  # f32[T, B]
    rewards: Any  # f32[T, B, P], up to the lane's next question
    opening: Any  # f32[T, B, P], of a game that began in this step
    terminated: Any  # bool[T, B]
    truncated: Any  # bool[T, B]
    final_seat: Any  # i32[T, B], asked in the final observation
    final_observation: Any  # f32[T, B, F]; None if games are never cut off
    stats: Any  # f32[T, B, P, K], of an ended game
    length: Any  # i32[T, B], of an ended game
    controllers: Any  # i8[T, B, P], of the game that the action was taken in; None if all seats are the learner's


class Ends(NamedTuple):
    """The two ends of a rollout."""

    observation: Any  # f32[B, F], asked after the last step
    seat: Any  # i32[B]
    restarted: Any  # bool[B], games that were dealt anew before the first step; None without snapshots
    opening: Any  # f32[B, P], of those


@dataclasses.dataclass
class Storage:
    """The memory of one rollout.

    Attributes:
      steps: T.
      buffers: T + 1 rows.
      rows: [T + 1][block], views of `buffers`: a block of lanes is what is sent and received at a time.
      whole: row 0 by actor, all of its lanes.
      log_prob, value: f32[T, B], of the learner's policy.
      controllers: i8[T, B, P].
      restarted: bool[B].
      after: the lanes after the last step; arrays of their own in every rollout.
    """

    steps: int
    buffers: Buffers
    rows: list[list[Buffers]]
    whole: list[Buffers]
    log_prob: np.ndarray
    value: np.ndarray
    controllers: np.ndarray
    restarted: np.ndarray
    after: HostLanes

    def renew(self) -> None:
        """Leaves the lanes of the last rollout to whoever holds them now."""
        old = self.after
        blobs, controllers, episode, length = map(np.empty_like, (old.blobs, old.controllers, old.episode, old.length))
        self.after = HostLanes(blobs, controllers, episode, length, episode_return=None)
        self.restarted[:] = False

    def copy_questions(self, last: Storage, blocks: Sequence[int]) -> None:
        """The questions after the last step of the rollout before become the first ones of this, for some blocks."""
        for block in blocks:
            source, target = last.rows[-1][block], self.rows[0][block]
            target.current_player[:] = source.current_player
            target.observation[:] = source.observation
            target.legal_action_mask[:] = source.legal_action_mask

    def played(self, *, may_truncate: bool, varied: bool) -> tuple[Played, Ends]:
        """Views for the learner.

        Args:
          may_truncate: games may be cut off.
          varied: seats may be held by others than the learner.
        """
        rows, steps = self.buffers, self.steps
        played = Played(
            observation=rows.observation[:steps],
            mask=rows.legal_action_mask[:steps],
            seat=rows.current_player[:steps],
            action=rows.action[1:],
            log_prob=self.log_prob,
            value=self.value,
            rewards=rows.rewards[1:],
            opening=rows.opening[1:],
            terminated=rows.terminated[1:],
            truncated=rows.truncated[1:],
            final_seat=rows.final_player[1:],
            final_observation=rows.final_observation[1:] if may_truncate else None,
            stats=rows.stats[1:],
            length=rows.length[1:],
            controllers=self.controllers if varied else None,
        )
        ends = Ends(
            observation=rows.observation[steps],
            seat=rows.current_player[steps],
            restarted=self.restarted,
            opening=rows.opening[0],
        )
        return played, ends


def make_storage(game: HostGame, steps: int, lanes: int, actors: int, groups: int) -> Storage:
    """Empty storage for `steps` steps of `lanes` games, shared evenly by actors and their groups."""
    buffers = make_buffers(game, lanes, steps=steps + 1)
    size, seats = lanes // (actors * groups), game.num_players
    blocks = [slice(i * size, (i + 1) * size) for i in range(actors * groups)]
    at = [buffers.at(t) for t in range(steps + 1)]
    share = lanes // actors
    after = HostLanes(
        blobs=np.empty((lanes, game.state_bytes), np.uint8),
        controllers=np.empty((lanes, seats), np.int8),
        episode=np.empty(lanes, np.uint32),
        length=np.empty(lanes, np.int32),
        episode_return=None,  # the learner's to know
    )
    return Storage(
        steps=steps,
        buffers=buffers,
        rows=[[row.rows(block) for block in blocks] for row in at],
        whole=[at[0].rows(slice(i * share, (i + 1) * share)) for i in range(actors)],
        log_prob=aligned((steps, lanes), np.float32),
        value=aligned((steps, lanes), np.float32),
        controllers=aligned((steps, lanes, seats), np.int8),
        restarted=np.zeros(lanes, bool),
        after=after,
    )
