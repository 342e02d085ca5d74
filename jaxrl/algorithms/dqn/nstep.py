"""Links between successive decisions of a seat, and n-step returns along them.

A replay buffer holds one record per decision. A record stores the reward of its seat until that seat's next decision,
and `following`: the number of the record of that decision, or one of the codes below. Each observation is stored once,
although it starts one transition and ends others. For two seats:

    t            0        1        2        3        4
    acts       seat 0   seat 1   seat 0   seat 1   (not played yet)
    rewards          r[0]     r[1]     r[2]     r[3]
    over                                      yes: the game ends here

    record of t = 0: reward r0[0] + r0[1], following: the record of t = 2     (r0: reward of seat 0)
    record of t = 1: reward r1[1] + r1[2], following: the record of t = 3
    record of t = 2: reward r0[2] + r0[3], following: END
    record of t = 3: reward r1[3],         following: END

If the game is truncated by t = 3 instead, the seat of the final observation gets an additional record, which is never
sampled, for its last decision to bootstrap from; the last decisions of the other seats have no known successor and are
LOST. If a rollout ends before a seat's next decision, its last record is OPEN, and the next rollout completes it.

The n-step return of a record follows up to n links. It ends earlier at the end of a game, and it bootstraps from an
earlier record, over fewer steps, where the next link is LOST or OPEN.

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
END, OPEN, LOST = -1, -2, -3  # codes of `following` other than record numbers
STORAGE = "float16"  # dtype of stored float observations: halves the memory, and values are small
Array = Any  # np.ndarray or jax.Array


class Recorded(NamedTuple):
    """The rollout data needed for links; leading axes [T, B], one column per seat."""

    record: Array  # i32[T, B, P], record number of the seat's decision; NONE where it has none to learn from
    rewards: Array  # f32[T, B, P]
    terminated: Array  # bool[T, B]
    truncated: Array  # bool[T, B]
    final_record: Array  # i32[T, B, P], record number of the final observation of a truncated game; else NONE


class Waiting(NamedTuple):
    """The pending records: the last decision of every seat whose next one is not known yet."""

    record: Array  # i32[B, P], or NONE
    reward: Array  # f32[B, P], reward since then


class Sequel(NamedTuple):
    """The successor of a decision."""

    following: Array  # i32[...], record number, END, OPEN or LOST
    reward: Array  # f32[...], reward until then


class Links(NamedTuple):
    """Successors of the decisions of a rollout and of earlier pending ones."""

    rollout: Sequel  # [T, B, P], of the rollout's decisions; OPEN and 0 elsewhere
    waited: Sequel  # [B, P], of the pending decisions; OPEN where they still are
    waiting: Waiting  # the pending decisions after the rollout


def before(xp: Any, after: Sequel, now: Recorded) -> tuple[Sequel, Sequel]:
    """Takes one backward step. Returns the successors seen from the previous step, and those of this step's decisions.
    `after`: [B, P], successors seen from this step; `now`: one step, [B, P] and [B]."""
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
    """Returns the successors seen from the last step."""
    return Sequel(xp.full_like(waiting.record, OPEN), xp.zeros_like(waiting.reward))


def _links(xp: Any, played: Recorded, sequel: Sequel, first: Sequel, waiting: Waiting) -> Links:
    """Assembles the links; `first` holds the successors of decisions before the rollout."""
    is_open = (played.record >= 0) & (sequel.following == OPEN)  # at most the last decision of each seat
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
    """Computes the links of a rollout, inside a compiled program. `played`: [T, B, ...]; `waiting`: pending records of
    the previous rollout, without those overwritten since."""
    first, sequel = jax.lax.scan(
        lambda after, now: before(jnp, after, now), _nothing_follows(jnp, waiting), played, reverse=True
    )
    return _links(jnp, played, sequel, first, waiting)


def link_on_host(played: Recorded, waiting: Waiting) -> Links:
    """Computes `link` for NumPy arrays."""
    steps = played.record.shape[0]
    after, found = _nothing_follows(np, waiting), []
    for t in reversed(range(steps)):
        after, sequel = before(np, after, Recorded(*[field[t] for field in played]))
        found.append(sequel)
    following, reward = (np.stack([getattr(each, name) for each in found[::-1]]) for name in Sequel._fields)
    return _links(np, played, Sequel(following, reward), after, waiting)


class Writing(NamedTuple):
    """A plan for writing a rollout to a ring buffer. S' = S, or 2 S with final observations appended."""

    record: Array  # i32[T, B, S'], record numbers; NONE = not stored
    sequel: Sequel  # [T, B, S'], their successors
    waited: Array  # i32[B, P], earlier pending records that this rollout does not overwrite
    closed: Sequel  # [B, P], their successors; OPEN where still pending
    waiting: Waiting  # pending records afterwards
    count: Array  # i32[], number of records written


def writing(xp: Any, steps: Transition, head: Array, capacity: int, waiting: Waiting) -> Writing:
    """Plans the writing of a rollout. `steps`: [T, B, ...]; stored are the learner's decisions, and final observations
    of seats held by the learner. `head`: i32[], the record to write next. `waiting`: pending records of the previous
    rollout."""
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
    if steps.final_observation is not None:  # final observations have no successor
        following = xp.concatenate([following, xp.full_like(following, LOST)], axis=-1)
        reward = xp.concatenate([reward, xp.zeros_like(reward)], axis=-1)
    return Writing(record, Sequel(following, reward), waiting.record, links.waited, links.waiting, count)


def _by_seat(xp: Any, record: Array, seat: Array, seats: int) -> Array:
    """Maps record numbers i32[..., S] of the seats i32[..., S] -> one column per seat, i32[..., P]."""
    there = seat[..., None] == xp.arange(seats)
    return xp.max(xp.where(there, record[..., None], NONE), axis=-2).astype(xp.int32)


class Return(NamedTuple):
    """n-step returns, [N] each; the target is ``reward + discount * value(last)``."""

    reward: Array  # f32, discounted
    discount: Array  # f32, gamma to the power of the links followed; 0 if the game has ended
    last: Array  # i32, the record to bootstrap from


def n_step(xp: Any, sequel: Callable[[Array], Sequel], records: Array, gamma: Array, steps: int) -> Return:
    """Computes n-step returns by following links. `sequel`: record numbers i32[N] -> their successors [N]; `records`:
    i32[N], the first records; `gamma`: f32[], discount per own decision."""
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
