"""Events of a decision: goals, shots, saves, passes, demolitions and kickoffs, credited to cars and teams."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.field import TICKS, Teams
from jaxrl_envs.car_soccer.physics.state import Arena
from jaxrl_envs.car_soccer.prediction import BallPath, foreseen

# The limits of the reference simulator's tracker of events, seconds and uu/s.
GOAL_CREDIT, PASS, SHOT_DELAY, SHOT_PAUSE, SHOT_SPEED = 4.0, 2.0, 0.3, 1.0, 1750.0
AHEAD = 2.0  # how far the ball is predicted, `prediction.foreseen`
KICKOFF_JUDGED = 2.0  # after the first touch of a kickoff: the team with the ball in the opponents' half has won it


@struct.dataclass
class Tracks:
    """The memory of the event detection from decision to decision.

    Attributes:
      ahead: path of the ball if it is left alone, see `prediction.foreseen`.
      own_doing: bool[2], this team's own touch put the ball on the way that it would go into its goal by: no touch of
        the other team since, not counting deflections of a ball that would have gone in anyway.
      last_shot: i32[P], the tick of the touch of the last shot that was credited, -1 none.
      touch_height: f32[P], of the ball at the last touch, uu.
      first_touch: i32[], tick of the first touch since play began, -1 none.
      judged: bool[], whether the kickoff has been won by a team; True where play did not begin with one.
    """

    ahead: BallPath
    own_doing: jax.Array
    last_shot: jax.Array
    touch_height: jax.Array
    first_touch: jax.Array
    judged: jax.Array


class Events(NamedTuple):
    """Of one decision. bool[P] where nothing else is said.

    touches: f32[P], ticks of contact with the ball. touched: there was one.
    scored, conceded: the own team, the other one has scored.
    goal: scored by this car. assist: likewise. own_goal: this car touched the ball last, and its team's own touch, not
      a shot of the other one, put it on its way.
    shot, save: as the reference simulator's tracker counts them.
    passed: this car had the ball before a mate touched it. received: that mate.
    demos, demoed, bumps, small_pads, big_pads: f32[P], how often.
    kickoff_won: of the team.
    possession: this team touched the ball last.
    threat: bool[2], the ball, fast and left alone, goes into this team's goal.
    """

    touches: jax.Array
    touched: jax.Array
    scored: jax.Array
    conceded: jax.Array
    goal: jax.Array
    assist: jax.Array
    own_goal: jax.Array
    shot: jax.Array
    save: jax.Array
    passed: jax.Array
    received: jax.Array
    demos: jax.Array
    demoed: jax.Array
    bumps: jax.Array
    small_pads: jax.Array
    big_pads: jax.Array
    kickoff_won: jax.Array
    possession: jax.Array
    threat: jax.Array


def begin(teams: Teams, ahead: BallPath, *, kickoff: jax.Array) -> Tracks:
    """Returns the memory at the start of play; `kickoff`: bool[], with a still ball in the middle."""
    return Tracks(
        ahead=ahead,
        own_doing=jnp.zeros(2, bool),
        last_shot=jnp.full(teams.seats, -1, jnp.int32),
        touch_height=jnp.zeros(teams.seats, jnp.float32),
        first_touch=jnp.int32(-1),
        judged=~kickoff,
    )


def goals(arena: Arena) -> jax.Array:
    """bool[2], the teams that have scored: the ball is in the other's goal."""
    y = arena.ball.position.y
    return jnp.stack([y > field.GOAL_LINE, y < -field.GOAL_LINE])


def observe(teams: Teams, tracks: Tracks, before: Arena, after: Arena) -> tuple[Tracks, Events]:
    """Returns the events between two arenas."""
    then, now = before.counts, after.counts
    touches = now.touches - then.touches
    touched = touches > 0
    scored = goals(after)
    own, other = scored[teams.of], scored[1 - teams.of]
    last = jnp.max(now.last_touch)
    is_last = (now.last_touch == last) & (last >= 0)  # bool[P]; two may have touched in one tick
    scorer, assist = _credit(teams, own, after)
    ahead = foreseen(after.ball)
    threat, threatened = _threats(after, ahead), _threats(before, tracks.ahead)
    own_doing = _own_doing(teams, tracks, touched)
    shot = _shots(teams, tracks, after, threat, is_last)
    saved = threatened & ~threat & ~scored[::-1]  # bool[2]
    passed, received = _passes(teams, before, after, touched)
    first = jnp.where((tracks.first_touch < 0) & jnp.any(touched), last, tracks.first_touch)
    decided = ~tracks.judged & (((first >= 0) & (after.tick - first >= KICKOFF_JUDGED * TICKS)) | jnp.any(scored))
    events = Events(
        touches=touches.astype(jnp.float32),
        touched=touched,
        scored=own,
        conceded=other,
        goal=scorer,
        assist=assist,
        own_goal=other & is_last & own_doing[teams.of],
        shot=shot,
        save=touched & saved[teams.of],
        passed=passed,
        received=received,
        demos=(now.demolitions - then.demolitions).astype(jnp.float32),
        demoed=(now.demolished - then.demolished).astype(jnp.float32),
        bumps=(now.bumps - then.bumps).astype(jnp.float32),
        small_pads=(now.small_pads - then.small_pads).astype(jnp.float32),
        big_pads=(now.big_pads - then.big_pads).astype(jnp.float32),
        kickoff_won=decided & (after.ball.position.y * teams.attack > 0),
        possession=jnp.any(is_last & (teams.of[:, None] == teams.of), axis=1),
        threat=threat,
    )
    tracks = Tracks(
        ahead=ahead,
        own_doing=own_doing,
        last_shot=jnp.where(shot, now.last_touch, tracks.last_shot),
        touch_height=jnp.where(touched, after.ball.position.z, tracks.touch_height),
        first_touch=first,
        judged=tracks.judged | decided,
    )
    return tracks, events


def _credit(teams: Teams, scored: jax.Array, after: Arena) -> tuple[jax.Array, jax.Array]:
    """bool[P] twice: the scorer, the last of the team to touch the ball not too long ago; and the assistant."""
    touch = after.counts.last_touch
    recent = (touch >= 0) & (after.tick - touch <= GOAL_CREDIT * TICKS)
    behind = jnp.any(teams.mates & (touch[None, :] > touch[:, None]), axis=1)  # a mate touched it later
    scorer = scored & recent & ~behind
    before_scorer = jnp.where(teams.mates & scorer, touch[None, :] - touch[:, None], 10**6).min(axis=1, initial=10**6)
    second = jnp.sum(teams.mates & (touch[None, :] > touch[:, None]), axis=1) == 1
    return scorer, scored & (touch >= 0) & second & (before_scorer <= PASS * TICKS)


def _heading(ahead: BallPath) -> jax.Array:
    """bool[2], the ball will be in this team's goal."""
    return jnp.stack([ahead.scored < 0, ahead.scored > 0])


def _threats(arena: Arena, ahead: BallPath) -> jax.Array:
    """bool[2], the ball is fast and will be in this team's goal."""
    return _heading(ahead) & (arena.ball.velocity.length >= SHOT_SPEED)


def _own_doing(teams: Teams, tracks: Tracks, touched: jax.Array) -> jax.Array:
    """bool[2] of `Tracks` after a decision with some touches, bool[P]."""
    by = jnp.stack([jnp.any(touched & (teams.of == team)) for team in range(2)])
    return ~by[::-1] & (tracks.own_doing | (by & ~_heading(tracks.ahead)))


def _shots(teams: Teams, tracks: Tracks, after: Arena, threat: jax.Array, is_last: jax.Array) -> jax.Array:
    """bool[P]: the ball that this car touched last, a moment ago, goes into the opponents' goal."""
    touch = after.counts.last_touch
    since = after.tick - touch
    fresh = (tracks.last_shot < 0) | (touch - tracks.last_shot >= SHOT_PAUSE * TICKS)
    return threat[1 - teams.of] & is_last & fresh & (since >= SHOT_DELAY * TICKS) & (since <= AHEAD * TICKS)


def _passes(teams: Teams, before: Arena, after: Arena, touched: jax.Array) -> tuple[jax.Array, jax.Array]:
    """bool[P] twice: the car that passed the ball to a mate, and the mate."""
    touch = before.counts.last_touch
    had = (touch == jnp.max(touch)) & (touch >= 0) & (after.tick - touch <= PASS * TICKS) & ~touched
    pairs = teams.mates & had[:, None] & touched[None, :]
    return jnp.any(pairs, axis=1), jnp.any(pairs, axis=0)
