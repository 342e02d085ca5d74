"""Bumps and demolitions: what a car's front does to another (specification, part b, 9; part c, 3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer.physics.collision.manifold import Points
from jaxrl_envs.car_soccer.physics.constants import BUMP_COOLDOWN, RESPAWN, Curve
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Vec, where

FRONT = 64.5  # uu, a contact further ahead than this is with the front
GROUND = Curve((0, 1400, 2200), (5 / 6, 1100, 1530))  # uu/s given to the other car, by the speed towards it
AIR = Curve((0, 1400, 2200), (5 / 6, 1390, 1945))
UPWARD = Curve((0, 1400, 2200), (1 / 3, 278, 417))


@struct.dataclass
class Bumps:
    """Bumps and demolitions of cars in a tick.

    Attributes:
      is_demoed, respawn_time, bumped_car, bump_cooldown: state of the cars as they are now, as in `Cars`.
      push: vectors of f32[P, B], added to the velocities after the solver.
      bumps, demolitions, demolished: i32[P, B], as in `Counts`.
    """

    is_demoed: jax.Array
    respawn_time: jax.Array
    bumped_car: jax.Array
    bump_cooldown: jax.Array
    push: Vec
    bumps: jax.Array
    demolitions: jax.Array
    demolished: jax.Array

    def marked(self, cars: Cars) -> Cars:
        """Returns the cars with demolitions and cooldowns after these bumps."""
        return cars.replace(
            is_demoed=self.is_demoed,
            respawn_time=self.respawn_time,
            bumped_car=self.bumped_car,
            bump_cooldown=self.bump_cooldown,
        )


def no_bumps(cars: Cars) -> Bumps:
    """Returns the bumps of cars that touch no other."""
    zero, none = jnp.zeros_like(cars.boost), jnp.zeros_like(cars.bumped_car)
    return Bumps(
        is_demoed=cars.is_demoed,
        respawn_time=cars.respawn_time,
        bumped_car=cars.bumped_car,
        bump_cooldown=cars.bump_cooldown,
        push=Vec(zero, zero, zero),
        bumps=none,
        demolitions=none,
        demolished=none,
    )


def bumps(cars: Cars, teams: tuple[int, ...], first: list[int], second: list[int], points: Points) -> Bumps:
    """Returns the bumps of a tick.

    Pairs come in turn; in a pair its new points do, and at each the first car may hit the second, then the second the
    first, until one of them is demolished. All that depends on the point is
    whether it lies in front, so what counts is which car's front comes first in the order of points.

    Args:
      cars: [P, B], before forces and contacts.
      teams: teams of the P cars.
      first, second: the cars of each of the K pairs.
      points: the new points, leaves [N, K, B]; none for pairs of which a car was demolished before.
    """
    count, zero = len(teams), jnp.zeros_like(cars.boost[0])
    none, nothing = jnp.zeros(zero.shape, jnp.int32), Vec(zero, zero, zero)
    demoed, respawn = list(cars.is_demoed), list(cars.respawn_time)
    bumped, cooldown = list(cars.bumped_car), list(cars.bump_cooldown)
    push, done = [nothing] * count, {name: [none] * count for name in ("bumps", "demolitions", "demolished")}
    way = cars.velocity.unit()
    for pair, sides in enumerate(zip(first, second, strict=True)):
        local = points.local.x[:, pair], points.anchor.x[:, pair]
        turns = [_front(x, points.live[:, pair]) for x in local]
        alive = ~demoed[sides[0]] & ~demoed[sides[1]]
        towards, wants = [], []
        for (mine, other), turn in zip((sides, sides[::-1]), turns, strict=True):
            direction = (cars.position.at(other) - cars.position.at(mine)).unit()
            towards.append(cars.velocity.at(mine).dot(direction))
            faster = (towards[-1] > 0) & (towards[-1] > cars.velocity.at(other).dot(way.at(mine)))
            cooling = (bumped[mine] == other) & (cooldown[mine] > 0)
            wants.append(faster & ~cooling & alive & (turn < points.gap.shape[0]))
        first_acts, rivals = turns[0] <= turns[1], teams[sides[0]] != teams[sides[1]]
        kills = [want & cars.is_supersonic[mine] & rivals for want, mine in zip(wants, sides, strict=True)]
        acts = wants[0] & (first_acts | ~kills[1]), wants[1] & (~first_acts | ~kills[0])
        for (mine, other), act, kill, speed in zip((sides, sides[::-1]), acts, kills, towards, strict=True):
            lost, hit = act & kill, act & ~kill
            bumped[mine] = jnp.where(act, other, bumped[mine])
            cooldown[mine] = jnp.where(act, BUMP_COOLDOWN, cooldown[mine])
            demoed[other] = demoed[other] | lost
            respawn[other] = jnp.where(lost, RESPAWN, respawn[other])
            push[other] = push[other] + where(hit, _push(cars, way.at(mine), other, speed), nothing)
            done["bumps"][mine] = done["bumps"][mine] + hit
            done["demolitions"][mine] = done["demolitions"][mine] + lost
            done["demolished"][other] = done["demolished"][other] + lost
    stack = lambda *rows: jnp.stack(rows)  # noqa: E731
    return Bumps(
        is_demoed=stack(*demoed),
        respawn_time=stack(*respawn),
        bumped_car=stack(*bumped),
        bump_cooldown=stack(*cooldown),
        push=jax.tree.map(stack, *push),
        **{name: stack(*rows) for name, rows in done.items()},
    )


def _front(forward: jax.Array, live: jax.Array) -> jax.Array:
    """i32[B]: the first of the points (f32[N, B], bool[N, B]) that lies in front, N if no point does."""
    count = forward.shape[0]
    turn = jnp.full(forward.shape[1:], count)
    for index in reversed(range(count)):
        turn = jnp.where(live[index] & (forward[index] > FRONT), index, turn)
    return turn


def _push(cars: Cars, way: Vec, other: int, towards: jax.Array) -> Vec:
    """Returns the velocity that a bump at speed `towards` gives car `other`, by one that drives along `way`."""
    on_ground, up = cars.on_ground[other], cars.axes.up.at(other)
    along = jnp.where(on_ground, GROUND(towards), AIR(towards))
    level = Vec(jnp.zeros_like(towards), jnp.zeros_like(towards), jnp.ones_like(towards))
    return way * along + where(on_ground, up, level) * UPWARD(towards)
