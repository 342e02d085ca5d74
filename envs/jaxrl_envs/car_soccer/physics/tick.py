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
from jax import lax

from jaxrl_envs.car_soccer.physics import ball as balls
from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.bodies import Controls, Push, controls_of, turned
from jaxrl_envs.car_soccer.physics.car import air, wheels
from jaxrl_envs.car_soccer.physics.car.bumps import Bumps, bumps
from jaxrl_envs.car_soccer.physics.collision import contacts
from jaxrl_envs.car_soccer.physics.collision.manifold import Points
from jaxrl_envs.car_soccer.physics.collision.solver import Body, Motion, solve
from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.field import pads
from jaxrl_envs.car_soccer.physics.field.arena import Geometry
from jaxrl_envs.car_soccer.physics.field.spawn import respawned
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball, Cars, Counts
from jaxrl_envs.car_soccer.physics.vector import Vec

ZERO = Vec(0.0, 0.0, 0.0)


def ticks(
    geometry: Geometry | None,
    settings: PhysicsSettings,
    arena: Arena,
    controls: jax.Array,
    count: int,
    before: jax.Array | None = None,
    delay: int = 0,
) -> Arena:
    """An arena some ticks later.

    Args:
      geometry: what stands still, None for empty space. settings: static, both.
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
    """One tick; the arenas are the last axis."""
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
    cars, meetings, bumped = meet(settings, cars, present)
    on_arena = world.ball_contacts(geometry, ball.position, c.BALL_RADIUS, c.BALL_REACH)
    on_arena = on_arena.replace(count=jnp.where(asleep, 0, on_arena.count), row_live=on_arena.row_live & ~asleep)
    bodies = contacts.ball_body(ball, asleep), contacts.car_bodies(body, cars, push)
    constraints = contacts.constraints(*bodies, on_arena, touch, cars.position, points, meetings)
    walls = on_arena.row_normals, jnp.where(on_arena.row_live, jnp.maximum(on_arena.row_gaps * (-c.PUSH / c.DT), 0), 0)
    single = [bodies[0], *(bodies[1].at(p) for p in range(settings.cars))]
    changes = solve(single, constraints, walls, settings.iterations)
    change, pushed = (jax.tree.map(lambda *x: jnp.stack(x), *each[1:]) for each in changes)
    cars = kept(~present | cars.is_demoed, cars, limited(moved_cars(bodies[1], cars, change, pushed), bumped.push))
    gone, cars, counts = pads.taken(body, pads.cooled(arena.pads), cars, counted(arena, touch.live, bumped))
    return arena.replace(
        tick=arena.tick + 1,
        ball=moved_ball(bodies[0], ball, changes[0][0], changes[1][0], hit),
        cars=cars,
        pads=gone,
        counts=counts,
    )


def kept(mask: jax.Array, old: Cars, new: Cars) -> Cars:
    """The old cars where bool[P, B] is true."""
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


def meet(settings: PhysicsSettings, cars: Cars, present: jax.Array) -> tuple[Cars, Points | None, Bumps]:
    """Cars against cars: the cars with what bumps and demolitions make of them, and where they touch."""
    if settings.cars == 1:
        zero, none = jnp.zeros_like(cars.boost), jnp.zeros_like(cars.bumped_car)
        return cars, None, Bumps(cars, Vec(zero, zero, zero), none, none, none)
    points = contacts.touch_cars(settings.body, cars, present)
    first, second = contacts.pairs(settings.cars)
    bumped = bumps(cars, settings.teams, first, second, points)
    return bumped.cars, points, bumped


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
    """The vector, not longer than the limit."""
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
