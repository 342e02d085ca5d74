"""What follows a decision: links between the own decisions of a seat, and n-step returns along them.

A replay buffer holds one record for every decision. A record knows what its seat earned from then up to its own next
decision, and where that one is stored: `following`, the number of a record or one of the codes below. So an observation
is stored once, although it is the beginning of one transition and the end of others. For two seats:

    t            0        1        2        3        4
    acts       seat 0   seat 1   seat 0   seat 1   (not played yet)
    rewards          r[0]     r[1]     r[2]     r[3]
    over                                      yes: the game ends here

    record of t = 0: reward r0[0] + r0[1], following: the record of t = 2     (r0: what seat 0 earned)
    record of t = 1: reward r1[1] + r1[2], following: the record of t = 3
    record of t = 2: reward r0[2] + r0[3], following: END
    record of t = 3: reward r1[3],         following: END

If the game was truncated by t = 3 instead, the seat that is asked in the final observation gets one more record, which
is never drawn, so that its last decision has something to go on from; what would have followed the last decisions of
the others is unknown: they are LOST. Where a rollout ends before a seat's next decision, its last record is OPEN, and
the next rollout closes it.

The n-step return of a record follows up to n links. It ends earlier where a game has ended, and it stands on an earlier
record where the links do not go on (yet): a return over fewer steps then.

The functions work on NumPy arrays and on traced ones alike; `xp` is `numpy` or `jax.numpy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import Transition

NONE = -1  # no record
END, OPEN, LOST = -1, -2, -3  # what follows a record, where it is no record
STORAGE = "float16"  # of stored float observations: half the memory, and their values are small
Array = Any  # np.ndarray or jax.Array


class Recorded(NamedTuple):
    """What the links need to know of a rollout; leading axes [T, B], one column per seat."""

    record: (
        Array  # i32[T, B, P], the number of the record of this seat's decision; NONE where it made none to learn from
    )
    rewards: Array  # f32[T, B, P]
    terminated: Array  # bool[T, B]
    truncated: Array  # bool[T, B]
    final_record: Array  # i32[T, B, P], of the final observation of a truncated game; else NONE


class Waiting(NamedTuple):
    """The last decision of every seat whose next one has not been seen yet."""

    record: Array  # i32[B, P], NONE without one
    reward: Array  # f32[B, P], what the seat has earned since


class Sequel(NamedTuple):
    """What follows a decision."""

    following: Array  # i32[...], a record, END, OPEN or LOST
    reward: Array  # f32[...], earned until then


class Links(NamedTuple):
    """What a rollout tells about its own decisions and about those that waited for it."""

    rollout: Sequel  # [T, B, P], of the decisions made in it; OPEN and 0 elsewhere
    waited: Sequel  # [B, P], of the decisions that waited; OPEN where they still do
    waiting: Waiting  # the decisions that wait now


def before(xp: Any, after: Sequel, now: Recorded) -> tuple[Sequel, Sequel]:
    """One step back in time: what follows it -> what follows the step before it, and what follows its decisions.

    Args:
      xp: numpy or jax.numpy.
      after: [B, P], what a decision before the next step would find.
      now: one step, [B, P] and [B].
    """
    terminated = now.terminated[:, None]
    over = terminated | now.truncated[:, None]
    ended = xp.where(terminated, END, xp.where(now.final_record >= 0, now.final_record, LOST))
    following = xp.where(over, ended, after.following).astype(xp.int32)
    reward = now.rewards + xp.where(over, xp.float32(0.0), after.reward)
    acted = now.record >= 0
    sequel = Sequel(xp.where(acted, following, OPEN).astype(xp.int32), xp.where(acted, reward, xp.float32(0.0)))
    earlier = Sequel(xp.where(acted, now.record, following).astype(xp.int32), xp.where(acted, xp.float32(0.0), reward))
    return earlier, sequel


def _nothing_follows(xp: Any, waiting: Waiting) -> Sequel:
    """What is known after the last step."""
    return Sequel(xp.full_like(waiting.record, OPEN), xp.zeros_like(waiting.reward))


def _links(xp: Any, played: Recorded, sequel: Sequel, first: Sequel, waiting: Waiting) -> Links:
    """Puts together what was found; `first` is what follows the decisions made before the rollout."""
    is_open = (played.record >= 0) & (sequel.following == OPEN)  # of each seat the last decision at most
    some = xp.any(is_open, axis=0)
    newest = xp.sum(xp.where(is_open, played.record, 0), axis=0, dtype=xp.int32)
    since = xp.sum(xp.where(is_open, sequel.reward, xp.float32(0.0)), axis=0, dtype=xp.float32)
    there = waiting.record >= 0
    still = there & (first.following == OPEN)
    waited = Sequel(xp.where(there, first.following, OPEN).astype(xp.int32), waiting.reward + first.reward)
    record = xp.where(some, newest, xp.where(still, waiting.record, NONE)).astype(xp.int32)
    reward = xp.where(some, since, xp.where(still, waited.reward, xp.float32(0.0)))
    return Links(sequel, waited, Waiting(record, reward))


def link(played: Recorded, waiting: Waiting) -> Links:
    """The links of a rollout, inside of a compiled program.

    Args:
      played: [T, B, ...].
      waiting: from the rollout before; records that are not there any more taken out.
    """
    first, sequel = jax.lax.scan(
        lambda after, now: before(jnp, after, now), _nothing_follows(jnp, waiting), played, reverse=True
    )
    return _links(jnp, played, sequel, first, waiting)


def link_on_host(played: Recorded, waiting: Waiting) -> Links:
    """`link` of NumPy arrays."""
    steps = played.record.shape[0]
    after, found = _nothing_follows(np, waiting), []
    for t in reversed(range(steps)):
        after, sequel = before(np, after, Recorded(*[field[t] for field in played]))
        found.append(sequel)
    following, reward = (np.stack([getattr(each, name) for each in found[::-1]]) for name in Sequel._fields)
    return _links(np, played, Sequel(following, reward), after, waiting)


class Writing(NamedTuple):
    """Where the decisions of a rollout go in a ring of records. S' = S, or 2 S with final observations behind them."""

    record: Array  # i32[T, B, S'], NONE where there is nothing to keep
    sequel: Sequel  # [T, B, S'], what follows them
    waited: Array  # i32[B, P], the records that waited for this rollout and are not overwritten by it
    closed: Sequel  # [B, P], what follows those; OPEN where they still wait
    waiting: Waiting  # afterwards
    count: Array  # i32[], records written


def writing(xp: Any, steps: Transition, head: Array, capacity: int, waiting: Waiting) -> Writing:
    """Plans how a rollout is written.

    Args:
      xp: numpy or jax.numpy.
      steps: [T, B, ...]; the learner's decisions are kept, and final observations in which the learner was asked.
      head: i32[], the record that is written next.
      capacity: of the ring.
      waiting: from the rollout before.
    """
    keep = own = steps.weight > 0.0
    asked, seats = own.shape[-1], waiting.record.shape[-1]
    if steps.final_observation is not None:
        cut = (steps.final_weight > 0.0) & (steps.truncated & ~steps.terminated)[..., None]
        keep = xp.concatenate([own, cut], axis=-1)
    place = xp.cumsum(keep.reshape(-1), dtype=xp.int32).reshape(keep.shape) - 1
    record = xp.where(keep, (head + place) % capacity, NONE).astype(xp.int32)
    count = xp.sum(keep, dtype=xp.int32)
    at_seat = _by_seat(xp, record[..., :asked], steps.seat, seats)
    final = xp.full_like(at_seat, NONE)
    if steps.final_observation is not None:
        final = _by_seat(xp, record[..., asked:], steps.final_seat, seats)
    gone = (waiting.record >= 0) & ((waiting.record - head) % capacity < count)  # overwritten
    waiting = Waiting(
        xp.where(gone, NONE, waiting.record).astype(xp.int32), xp.where(gone, xp.float32(0.0), waiting.reward)
    )
    played = Recorded(at_seat, steps.rewards, steps.terminated, steps.truncated, final)
    links = (link_on_host if xp is np else link)(played, waiting)
    following, reward = (xp.take_along_axis(leaf, steps.seat, axis=-1) for leaf in links.rollout)
    if steps.final_observation is not None:  # nothing follows a final observation
        following = xp.concatenate([following, xp.full_like(following, LOST)], axis=-1)
        reward = xp.concatenate([reward, xp.zeros_like(reward)], axis=-1)
    return Writing(record, Sequel(following, reward), waiting.record, links.waited, links.waiting, count)


def _by_seat(xp: Any, record: Array, seat: Array, seats: int) -> Array:
    """Records i32[..., S] of the seats i32[..., S] -> one column for each seat, i32[..., P]."""
    there = seat[..., None] == xp.arange(seats)
    return xp.max(xp.where(there, record[..., None], NONE), axis=-2).astype(xp.int32)


class Return(NamedTuple):
    """A return over up to n own decisions, [N] each; the target is ``reward + discount * value(last)``."""

    reward: Array  # f32, discounted
    discount: Array  # f32, gamma to the power of the links followed; 0 if the game has ended by then
    last: Array  # i32, the record on which it stands


def n_step(xp: Any, sequel: Callable[[Array], Sequel], records: Array, gamma: Array, steps: int) -> Return:
    """Follows the links from some records.

    Args:
      xp: numpy or jax.numpy.
      sequel: what follows some records, i32[N] -> `Sequel` [N].
      records: i32[N], those to begin with.
      gamma: f32[], discount per own decision.
      steps: n.
    """
    chex.assert_rank(records, 1)
    last, total = records, xp.zeros(records.shape, xp.float32)
    discount, alive = xp.ones(records.shape, xp.float32), xp.ones(records.shape, bool)
    for _ in range(steps):
        target, reward = sequel(last)
        known = alive & (target >= END)
        total = total + xp.where(known, discount * reward, xp.float32(0.0))
        discount = xp.where(known, discount * gamma, discount)
        discount = xp.where(known & (target == END), xp.float32(0.0), discount).astype(xp.float32)
        alive = known & (target != END)
        last = xp.where(alive, target, last)
    return Return(total, discount, last)
