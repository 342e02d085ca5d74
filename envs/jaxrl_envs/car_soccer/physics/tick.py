"""One tick of an arena, 1/120 s, in the reference's order (parts b, 2 and c); and `ticks`, what games call.

cars: timers, wheels, air, jumps, boost -> velocities and forces
pads cool down; the ball loses speed to the air
contacts at the positions before the tick moves anything -> solver -> velocities, positions
cars: supersonic, bumps, limits; pads are taken; the ball: hits, limits
"""

from __future__ import annotations

import functools

import chex
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from jaxrl_envs.car_soccer.physics import ball as balls
from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.bodies import Controls, Push, controls_of, turned
from jaxrl_envs.car_soccer.physics.car import air, wheels
from jaxrl_envs.car_soccer.physics.car.bumps import Bumps, bumps, no_bumps
from jaxrl_envs.car_soccer.physics.collision import contacts
from jaxrl_envs.car_soccer.physics.collision.manifold import Points
from jaxrl_envs.car_soccer.physics.collision.solver import Body, Constraint, Motion, solve
from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.field import pads
from jaxrl_envs.car_soccer.physics.field.arena import BallContacts, Geometry
from jaxrl_envs.car_soccer.physics.field.spawn import respawned
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball, Cars, Counts
from jaxrl_envs.car_soccer.physics.vector import Vec

ALONE, TOGETHER = 128, 64  # cars on the arena, and arenas in which bodies touch, that are solved at once


def ticks(
    geometry: Geometry | None,
    settings: PhysicsSettings,
    arena: Arena,
    controls: jax.Array,
    count: int,
    before: jax.Array | None = None,
    delay: int = 0,
) -> Arena:
    """Returns an arena some ticks later.

    Args:
      geometry: everything static, None for empty space. settings: physics. Both are compile-time constants.
      arena: one arena, leaves as in `state`; `jax.vmap` gives it many.
      controls: f32[P, 8], see `bodies.Controls`; held for all ticks.
      count: ticks, static.
      before, delay: controls of the first ticks, and how many these are, static.
    """
    chex.assert_shape(controls, (settings.cars, 8))
    last = lambda leaf: leaf[..., None]  # noqa: E731
    before = controls if before is None else before
    after = _batched(geometry, settings, count, delay)(jax.tree.map(last, arena), last(controls), last(before))
    return jax.tree.map(lambda leaf: leaf[..., 0], after)


@functools.lru_cache(maxsize=64)
def _batched(geometry: Geometry | None, settings: PhysicsSettings, count: int, delay: int):
    """`ticks` with the arenas as the last axis; a vmap adds its own to that one instead of putting it first."""

    @jax.custom_batching.custom_vmap
    def run(arena: Arena, controls: jax.Array, before: jax.Array) -> Arena:
        def advance(number: jax.Array, arena: Arena) -> Arena:
            now = jnp.where(number < delay, before, controls) if delay else controls
            return tick(geometry, settings, arena, controls_of(now))

        return lax.fori_loop(0, count, advance, arena)

    @run.def_vmap
    def rule(size, is_batched, arena, controls, before):
        def merged(leaf, batched):
            leaf = leaf if batched else jnp.broadcast_to(leaf, (size, *leaf.shape))
            return jnp.moveaxis(leaf, 0, -2).reshape(*leaf.shape[1:-1], size * leaf.shape[-1])

        def split(leaf):
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], size, leaf.shape[-1] // size), -2, 0)

        after = run(*jax.tree.map(merged, (arena, controls, before), tuple(is_batched)))
        return jax.tree.map(split, after), jax.tree.map(lambda _: True, after)

    return run


def tick(geometry: Geometry | None, settings: PhysicsSettings, arena: Arena, controls: Controls) -> Arena:
    """Returns one tick; the arenas are the last axis."""
    body, ball = settings.body, arena.ball
    asleep = balls.is_asleep(ball)
    cars, back = respawned(settings, arena.cars, arena.seed, arena.tick)
    driven, push = drive(geometry, settings, cars, ball, controls)
    cars = kept(cars.is_demoed, cars, driven)
    present = ~cars.is_demoed & ~back
    ball = ball.replace(velocity=ball.velocity * c.BALL_KEEPS)
    touch = balls.touches(body, cars, ball, present)
    cars, hit = balls.hits(cars, ball, touch, arena.tick)
    cars, points = contacts.touch_arena(geometry, body, cars, present)
    on_arena = world.ball_contacts(geometry, ball.position, c.BALL_RADIUS, c.BALL_REACH)
    on_arena = on_arena.replace(count=jnp.where(asleep, 0, on_arena.count), row_live=on_arena.row_live & ~asleep)
    bodies = contacts.ball_body(ball, asleep), contacts.car_bodies(body, cars, push)
    scene = Scene(cars, present, *bodies, on_arena, touch, points)
    bumped, changes, pushes = collide(settings, scene)
    cars = bumped.marked(cars)
    cars = kept(
        ~present | cars.is_demoed, cars, limited(moved_cars(bodies[1], cars, changes[1], pushes[1]), bumped.push)
    )
    gone, cars, counts = pads.taken(body, pads.cooled(arena.pads), cars, counted(arena, touch.live, bumped))
    return arena.replace(
        tick=arena.tick + 1,
        ball=moved_ball(bodies[0], ball, changes[0], pushes[0], hit),
        cars=cars,
        pads=gone,
        counts=counts,
    )


def kept(mask: jax.Array, old: Cars, new: Cars) -> Cars:
    """Returns the old cars where bool[P, B] is true."""
    pick = lambda a, b: jnp.where(mask if a.ndim == mask.ndim else mask[:, None], a, b)  # noqa: E731
    return jax.tree.map(pick, old, new)


def drive(
    geometry: Geometry | None, settings: PhysicsSettings, cars: Cars, ball: Ball, controls: Controls
) -> tuple[Cars, Push]:
    """Applies controls and wheels: the cars with this tick's impulses, and its forces but for gravity."""
    forward_speed = cars.velocity.dot(cars.axes.forward)
    cars, grip = wheels.grip(geometry, settings.body, cars, ball)
    cars, throttle = wheels.steered(cars, grip, controls, forward_speed)
    cars, push = air.controlled(cars, grip.count, controls)
    cars, jump = air.jumped(cars, controls)
    cars = air.auto_flipped(cars, controls)
    cars = air.dodged(cars, controls, forward_speed)
    roll = wheels.auto_roll(cars, grip, controls)
    cars = wheels.pushed(settings.body, cars, grip)
    cars, boost = air.boosted(cars, controls, settings.boost_use)
    stick = wheels.sticky(grip, throttle, forward_speed)
    cars = cars.replace(jump_held=controls.jump, world_contact=jnp.zeros_like(cars.world_contact))
    return cars, Push(push.linear + jump + roll.linear + boost + stick, push.angular + roll.angular)


@struct.dataclass
class Scene:
    """Inputs of the contact phase: cars, presence mask, rigid bodies, contact points."""

    cars: Cars
    present: jax.Array
    ball_body: Body
    car_bodies: Body
    on_arena: BallContacts
    touch: balls.Touch
    points: Points


def collide(settings: PhysicsSettings, scene: Scene) -> tuple[Bumps, tuple[Motion, Motion], tuple[Motion, Motion]]:
    """Resolves contacts: returns bumps and, as `solve` does, the changes and pushes of ball [B] and cars [P, B].

    Few arenas have two bodies that touch each other: only these are solved whole. Elsewhere the ball and each car that
    touches the arena are solved alone, with the same rows.
    """
    several, present, iterations = settings.cars > 1, scene.present, settings.iterations
    together = scene.touch.live.any(axis=0)
    if several:
        together |= contacts.cars_meet(settings.body, scene.cars, present).any(axis=0)
    ball = solve([scene.ball_body], *contacts.ball_on_arena(scene.ball_body, scene.on_arena), iterations)

    def lone(lanes: tuple[Body, Points]) -> tuple[Motion, Motion]:
        stands = contacts.cars_on_arena(*lanes)
        constraints = [Constraint(stands.at(k), 0, -1) for k in range(stands.push.shape[0])]
        change, pushed = solve([lanes[0]], constraints, [], iterations)
        return change[0], pushed[0]

    def whole(scene: Scene) -> tuple[Bumps, tuple[Motion, Motion], tuple[Motion, Motion]]:
        points, bumped = None, no_bumps(scene.cars)
        if several:
            points = contacts.touch_cars(settings.body, scene.cars, scene.present)
            bumped = bumps(scene.cars, settings.teams, *contacts.pairs(settings.cars), points)
        last, walls = contacts.ball_on_arena(scene.ball_body, scene.on_arena)
        rows = contacts.constraints(scene.ball_body, scene.car_bodies, scene.touch, scene.points, points)
        bodies = [scene.ball_body, *(scene.car_bodies.at(p) for p in range(settings.cars))]
        both = [
            (of_ball, jax.tree.map(lambda *x: jnp.stack(x), *of_cars))
            for of_ball, *of_cars in solve(bodies, rows + last, walls, iterations)
        ]
        return bumped, both[0], both[1]

    zero = jnp.zeros(present.size)
    still = Motion(Vec(zero, zero, zero), Vec(zero, zero, zero))
    alone = (scene.points.live.any(axis=0) & ~together).reshape(1, -1)
    lanes = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-2], -1), (scene.car_bodies, scene.points))
    cars = jax.tree.map(lambda leaf: leaf.reshape(present.shape), gathered(alone, lanes, lone, (still, still), ALONE))
    otherwise = no_bumps(scene.cars), (ball[0][0], cars[0]), (ball[1][0], cars[1])
    return gathered(together[None], scene, whole, otherwise, TOGETHER)


def moved_cars(body: Body, cars: Cars, change: Motion, pushed: Motion) -> Cars:
    """Velocities after forces and contacts, and positions after them."""
    velocity = body.forced_velocity + change.linear
    spin = body.forced_spin + cars.axes.to_world(change.angular)
    aside = cars.axes.to_world(pushed.angular) * (c.PUSH_TURN * c.DT)
    return cars.replace(
        position=cars.position + (velocity + pushed.linear) * c.DT,
        velocity=velocity,
        angular_velocity=spin,
        axes=turned(turned(cars.axes, aside), spin * c.DT),
    )


def limited(cars: Cars, bump: Vec) -> Cars:
    """Supersonic or not, cooldowns, what bumps add, and the limits of speed and spin."""
    speed = cars.velocity.length
    lasting = cars.is_supersonic & (cars.supersonic_time < c.SUPERSONIC_TIME)
    supersonic = speed >= jnp.where(lasting, c.STAYS_SUPERSONIC, c.SUPERSONIC)
    return cars.replace(
        is_supersonic=supersonic,
        supersonic_time=jnp.where(supersonic, cars.supersonic_time + c.DT, 0),
        bump_cooldown=jnp.maximum(cars.bump_cooldown - c.DT, 0),
        velocity=capped(cars.velocity + bump, c.CAR_SPEED),
        angular_velocity=capped(cars.angular_velocity, c.CAR_SPIN),
    )


def moved_ball(body: Body, ball: Ball, change: Motion, pushed: Motion, hit: Vec) -> Ball:
    """As `moved_cars`; hits count from the next tick on."""
    velocity = body.forced_velocity + change.linear
    return Ball(
        position=ball.position + (velocity + pushed.linear) * c.DT,
        velocity=capped(velocity + hit, c.BALL_SPEED),
        angular_velocity=capped(ball.angular_velocity + change.angular, c.BALL_SPIN),
    )


def capped(vector: Vec, limit: float) -> Vec:
    """Returns the vector, not longer than the limit."""
    return vector * (limit / jnp.maximum(vector.length, limit))


def counted(arena: Arena, touches: jax.Array, bumped: Bumps) -> Counts:
    """Counts with this tick's touches, bumps and demolitions."""
    counts = arena.counts
    return counts.replace(
        touches=counts.touches + touches,
        last_touch=jnp.where(touches, arena.tick, counts.last_touch),
        bumps=counts.bumps + bumped.bumps,
        demolitions=counts.demolitions + bumped.demolitions,
        demolished=counts.demolished + bumped.demolished,
    )
