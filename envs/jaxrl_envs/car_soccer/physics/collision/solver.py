"""The contact solver: sequential impulses over rows, as in the reference (parts b, 9 and c, 6).

A row is one direction in which two bodies (or one body and the arena) must not move, or rub. Spins are kept in each
body's own axes, where its inertia is diagonal. All normal rows are solved before all friction rows; `iterations` times.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec, where


@struct.dataclass
class Motion:
    """A change of velocity, linear (world axes) and angular (the body's own axes)."""

    linear: Vec
    angular: Vec

    def at(self, index) -> Motion:
        return Motion(self.linear.at(index), self.angular.at(index))


@struct.dataclass
class Body:
    """A body as the rows of the solver need it.

    Attributes:
      velocity, spin: state before the forces of this tick. forced_velocity, forced_spin: after them. World axes.
      axes: None for the ball, which is the same all round.
      inverse_mass: 1/kg. inverse_inertia: about its own axes.
    """

    velocity: Vec
    spin: Vec
    forced_velocity: Vec
    forced_spin: Vec
    axes: Axes | None
    inverse_mass: float = struct.field(pytree_node=False)
    inverse_inertia: Vec = struct.field(pytree_node=False)

    def at(self, index) -> Body:
        return jax.tree.map(lambda leaf: leaf[index], self)

    def turn(self, arm: Vec, direction: Vec) -> Vec:
        """Returns the angular impulse of an impulse in a direction at a point, in the body's own axes."""
        torque = arm.cross(direction)
        return torque if self.axes is None else self.axes.to_local(torque)

    def yields(self, turn: Vec) -> jax.Array:
        """Returns the speed of the point in the direction of a unit impulse there."""
        return self.inverse_mass + turn.scaled(turn).dot(self.inverse_inertia)


@struct.dataclass
class ConstraintRow:
    """One direction. `first`, `second`: turns of the two bodies. `inverse`: 1 / what an impulse of one changes, 0 if
    the row is dead. `target`: change of the relative velocity that is wanted.
    """

    direction: Vec
    first: Vec
    second: Vec | None
    inverse: jax.Array
    target: jax.Array

    def at(self, index) -> ConstraintRow:
        return jax.tree.map(lambda leaf: leaf[index], self)


@struct.dataclass
class Contact:
    """A point of contact: its row along the normal, its row of friction.

    Attributes:
      push: f32, speed that takes an overlap away. friction: highest share of the normal impulse.
    """

    normal: ConstraintRow
    tangent: ConstraintRow
    push: jax.Array
    friction: float = struct.field(pytree_node=False)

    def at(self, index) -> Contact:
        return jax.tree.map(lambda leaf: leaf[index], self)


def contact(
    first: Body,
    second: Body | None,
    normal: Vec,
    arm: Vec,
    second_arm: Vec | None,
    gap: jax.Array,
    live: jax.Array,
    material: tuple[float, float],
) -> Contact:
    """Returns a contact at `arm` from the first body's centre; the normal points from the second body to the first."""
    restitution, friction = material
    before, after, unturned = _relative(first, second, arm, second_arm)
    speed = normal.dot(before)
    bounce = jnp.where(jnp.abs(speed) < c.RESTING, 0, jnp.maximum(-restitution * speed, 0))
    slip = after - normal * normal.dot(after)
    square = slip.dot(slip)
    tangent = where(square > c.NO_SLIP, slip * lax.rsqrt(jnp.maximum(square, c.NO_SLIP)), _across(normal))
    return Contact(
        normal=_row(first, second, normal, arm, second_arm, live, bounce - normal.dot(after)),
        tangent=_row(first, second, tangent, arm, second_arm, live, -tangent.dot(unturned)),
        push=jnp.where(live, jnp.maximum(gap * (-c.PUSH / c.DT), 0), 0),
        friction=friction,
    )


def _relative(first: Body, second: Body | None, arm: Vec, second_arm: Vec | None) -> tuple[Vec, Vec, Vec]:
    """Returns the relative velocity of the points: before forces, after them, and after them but for their turning."""
    before = first.velocity + first.spin.cross(arm)
    after = first.forced_velocity + first.forced_spin.cross(arm)
    unturned = first.forced_velocity + first.spin.cross(arm)
    if second is None:
        return before, after, unturned
    assert second_arm is not None
    turning = second.spin.cross(second_arm)
    return (
        before - second.velocity - turning,
        after - second.forced_velocity - second.forced_spin.cross(second_arm),
        unturned - second.forced_velocity - turning,
    )


def _across(normal: Vec) -> Vec:
    """The direction in which a contact without slip rubs, at right angles to a normal: level, unless that one is steep
    (Bullet's `btPlaneSpace1`)."""
    zero = jnp.zeros_like(normal.x)
    steep = jnp.abs(normal.z) > math.sqrt(0.5)
    return where(steep, Vec(zero, -normal.z, normal.y), Vec(-normal.y, normal.x, zero)).unit()


def _row(
    first: Body, second: Body | None, direction: Vec, arm: Vec, second_arm, live, target: jax.Array
) -> ConstraintRow:
    turn = first.turn(arm, direction)
    yields, other = first.yields(turn), None
    if second is not None:
        other = second.turn(second_arm, direction)
        yields = yields + second.yields(other)
    return ConstraintRow(direction, turn, other, jnp.where(live, 1 / yields, 0), jnp.where(live, target, 0))


# ---- solving --------------------------------------------------------------------------------------------------------


@struct.dataclass
class Constraint:
    """One contact (leaves [B]) and the two bodies that it holds apart; -1 is the arena."""

    contact: Contact
    first: int = struct.field(pytree_node=False)
    second: int = struct.field(pytree_node=False)


def solve(
    bodies: list[Body], constraints: list[Constraint], walls: list[tuple[Vec, jax.Array]], iterations: int
) -> tuple[list[Motion], list[Motion]]:
    """Solves the contacts in the order of `constraints`.

    Args:
      bodies: bodies that the numbers of constraints refer to.
      constraints: rows of all lanes; those that are not live in a lane change nothing there.
      walls: the surfaces that push the first body out, before all else: normals, and speeds as `Contact.push`.

    Returns:
      of each body the change of its velocity beyond that of the forces, and a velocity that moves it in this tick only.
    """
    zero = jnp.zeros_like(bodies[0].velocity.x)
    still = [Motion(Vec(zero, zero, zero), Vec(zero, zero, zero))] * len(bodies)
    impulses, rubbed, lifted = [zero] * len(constraints), [zero] * len(constraints), [zero] * len(constraints)
    leaned = [zero] * len(walls)

    def iterate(_, carry):
        change, pushed, impulses, rubbed, lifted, leaned = (list(each) for each in carry)
        for index, (normal, push) in enumerate(walls):
            old, out = leaned[index], pushed[0].linear
            leaned[index] = jnp.where(push > 0, jnp.maximum(old + push - normal.dot(out), 0), 0)
            pushed[0] = pushed[0].replace(linear=out + normal * (leaned[index] - old))
        for index, held in enumerate(constraints):
            row = held.contact.normal
            wanted = (held.contact.push - _speed(held, row, pushed)) * row.inverse
            wanted = jnp.where(held.contact.push > 0, wanted, 0)
            lifted[index] = _settle(bodies, held, row, pushed, lifted[index], wanted, 0, jnp.inf)
            wanted = (row.target - _speed(held, row, change)) * row.inverse
            impulses[index] = _settle(bodies, held, row, change, impulses[index], wanted, 0, jnp.inf)
        for index, held in enumerate(constraints):
            row, limit = held.contact.tangent, held.contact.friction * impulses[index]
            wanted = (row.target - _speed(held, row, change)) * row.inverse
            rubbed[index] = _settle(bodies, held, row, change, rubbed[index], wanted, -limit, limit, limit > 0)
        return change, pushed, impulses, rubbed, lifted, leaned

    carry = (still, still, impulses, rubbed, lifted, leaned)
    change, pushed = lax.fori_loop(0, iterations, iterate, carry)[:2]
    return change, pushed


def _speed(held: Constraint, row: ConstraintRow, motions: list[Motion]) -> jax.Array:
    """Returns the relative speed of the two points along the row."""
    first = motions[held.first]
    speed = row.direction.dot(first.linear) + row.first.dot(first.angular)
    if held.second < 0 or row.second is None:
        return speed
    second = motions[held.second]
    return speed - row.direction.dot(second.linear) - row.second.dot(second.angular)


def _settle(bodies, held, row, motions, impulse, wanted, low, high, active=True) -> jax.Array:
    """Adds `wanted` to a row's impulse within its limits and moves the bodies; the impulse."""
    new = jnp.clip(impulse + wanted, low, high)
    new = new if active is True else jnp.where(active, new, impulse)
    _apply(bodies, held, row, motions, new - impulse)
    return new


def _apply(bodies: list[Body], held: Constraint, row: ConstraintRow, motions: list[Motion], impulse: jax.Array) -> None:
    """Changes `motions` by an impulse along a row."""
    motions[held.first] = _moved(bodies[held.first], motions[held.first], row.direction, row.first, impulse)
    if row.second is not None:
        motions[held.second] = _moved(bodies[held.second], motions[held.second], row.direction, row.second, -impulse)


def _moved(body: Body, motion: Motion, direction: Vec, turn: Vec, impulse: jax.Array) -> Motion:
    angular = turn.scaled(body.inverse_inertia * impulse)
    return Motion(motion.linear + direction * (impulse * body.inverse_mass), motion.angular + angular)
