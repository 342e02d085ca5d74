"""Rewards of boost: what is kept, taken and wasted."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.rewards.event import rewarded

small_pad = rewarded(lambda events: events.small_pads, "1 for every small pad taken.")
large_pad = rewarded(lambda events: events.big_pads, "1 for every big pad taken.")


def boost_pickup(step: Step) -> jax.Array:
    """Returns the gain of sqrt(boost / 100), so that a pad is worth most to an empty car."""
    return jnp.maximum(_root(step.cars.boost) - _root(step.was.boost), 0.0) * step.alive


def boost_lost(step: Step) -> jax.Array:
    """Loss of sqrt(boost / 100), but for a demolition."""
    return jnp.maximum(_root(step.was.boost) - _root(step.cars.boost), 0.0) * step.alive


def boost_kept(step: Step) -> jax.Array:
    """sqrt(boost / 100)."""
    return _root(step.cars.boost)


def boost_steal(step: Step) -> jax.Array:
    """1 for every big pad taken in the opponents' half."""
    return jnp.where(step.y > 500, step.events.big_pads, 0.0)


def boost_economy(step: Step) -> jax.Array:
    """1 for every small pad taken with less than half of the boost left."""
    return jnp.where(step.was.boost < 50, step.events.small_pads, 0.0)


def boost_efficiency(step: Step) -> jax.Array:
    """Returns the speed towards the ball, in 2,300 uu/s, while boosting below supersonic speed."""
    towards = jnp.maximum(step.cars.velocity.dot(step.to_ball.unit()), 0.0) / field.CAR_SPEED
    return jnp.where(step.cars.is_boosting & ~step.cars.is_supersonic, towards, 0.0)


def boost_waste(step: Step) -> jax.Array:
    """1 while boosting at supersonic speed on the ground."""
    return (step.cars.is_boosting & step.was.is_supersonic & step.cars.on_ground).astype(jnp.float32)


def boost_starve(step: Step) -> jax.Array:
    """1 with less than 5 boost left."""
    return ((step.cars.boost < 5) & ~step.cars.is_demoed).astype(jnp.float32)


def _root(boost: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.maximum(boost, 0.0) / 100)
