"""One PPO update: epochs x minibatches in one loop over a rollout that stays where it is.

Minibatches are gathered by index: no shuffled copy of the rollout is ever made. Lanes are split into groups, every
group is shuffled by itself and gives every minibatch an equal share. Groups never leave their device, so the result
does not depend on the number of devices beyond the order of sums.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from envs.core import select
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.ppo.loss import Batch, LossCoefs, LossSums, combine, ppo_loss
from jaxrl.algorithms.ppo.state import Hyper
from jaxrl.config import Config, shuffle_groups
from jaxrl.networks.factory import Network

KL_MARGIN = 1.5  # as in Stable-Baselines3: the passes stop beyond 1.5 x target_kl


@dataclasses.dataclass(frozen=True)
class UpdateShape:
    """What is fixed when the update is compiled."""

    epochs: int
    minibatches: int
    accumulate: int  # portions per minibatch
    groups: int  # shuffle groups on this device
    axis_name: str | None  # mesh axis of the lanes, None outside of a mesh


def shape_of(config: Config, devices: int, axis_name: str) -> UpdateShape:
    """What a configuration fixes, for one of so many devices along a mesh axis."""
    ppo = config.ppo
    return UpdateShape(
        epochs=ppo.epochs,
        minibatches=ppo.minibatches,
        accumulate=ppo.accumulate,
        groups=shuffle_groups(config.train.num_envs, devices) // devices,
        axis_name=axis_name,
    )


class UpdateSums(NamedTuple):
    """Sums over the minibatches that were taken, f32[]."""

    loss: jax.Array
    parts: LossSums  # means per minibatch, summed
    grad_norm: jax.Array
    grad_norm_clipped: jax.Array
    steps: jax.Array  # minibatches evaluated


class _Carry(NamedTuple):
    number: jax.Array  # i32[], minibatches evaluated
    params: Any
    opt_state: optax.OptState
    stopped: jax.Array  # bool[]
    sums: UpdateSums


def across_devices(tree: Any, axis_name: str | None) -> Any:
    """The sum of `tree` over the devices."""
    return tree if axis_name is None else jax.lax.psum(tree, axis_name)


def empty_sums() -> UpdateSums:
    """Sums over nothing."""
    zero = jnp.float32(0.0)
    return UpdateSums(zero, LossSums(*[zero] * len(LossSums._fields)), zero, zero, zero)


def update(
    network: Network,
    shape: UpdateShape,
    params: Any,
    opt_state: optax.OptState,
    batch: Batch,
    group_keys: jax.Array,
    hyper: Hyper,
    number: jax.Array,
) -> tuple[Any, optax.OptState, UpdateSums]:
    """Learns from one rollout.

    Args:
      network: the policy and value network.
      shape: what is static.
      params: of the network.
      opt_state: of the optimizer.
      batch: leaves [T, L, ...], L decision lanes of this device; groups are consecutive lanes.
      group_keys: typed keys [groups], by global group number.
      hyper: traced hyper-parameters.
      number: i32[], of this update, for the schedules.

    Returns:
      New parameters, new optimizer state, sums over the minibatches.
    """
    batch = batch._replace(advantage=normalize(batch.advantage, batch.weight, shape.axis_name))
    steps, lanes = batch.weight.shape
    indices = shuffled_indices(group_keys, steps, lanes, shape)
    rows = jax.tree.map(lambda leaf: leaf.reshape(steps * lanes, *leaf.shape[2:]), batch)
    coefs = LossCoefs(
        clip=hyper.clip,
        value_clip=hyper.value_clip,
        value_coef=hyper.value_coef,
        entropy_coef=hyper.entropy_coef_at(number),
        temperature=hyper.temperature_at(number),
    )
    keys_of = functools.partial(dropout_keys, group_keys, lanes, shape) if network.dropout else None
    step = functools.partial(
        _minibatch, network, shape, rows, indices, keys_of, coefs, hyper, hyper.learning_rate_at(number)
    )
    # The stop is the loop's condition and the step below is selected: a GPU waits for the host at every branch that
    # depends on data, and this way that is once per minibatch. With several seeds it runs until the last one stops.
    carry = _Carry(jnp.int32(0), params, opt_state, jnp.bool_(False), empty_sums())
    carry = jax.lax.while_loop(lambda carry: (carry.number < len(indices)) & ~carry.stopped, step, carry)
    return carry.params, carry.opt_state, carry.sums


def normalize(advantage: jax.Array, weight: jax.Array, axis_name: str | None) -> jax.Array:
    """Zero mean and unit variance over all learner decisions of the update, f32[T, L] each."""
    count, total = across_devices((jnp.sum(weight), jnp.sum(weight * advantage)), axis_name)
    count = jnp.maximum(count, 1.0)
    centred = advantage - total / count
    variance = across_devices(jnp.sum(weight * jnp.square(centred)), axis_name) / count
    return centred * jax.lax.rsqrt(variance + 1e-8)


def shuffled_indices(group_keys: jax.Array, steps: int, lanes: int, shape: UpdateShape) -> jax.Array:
    """Row numbers i32[epochs * minibatches, accumulate, n]; row = t * lanes + lane."""
    groups = shape.groups
    width = lanes // groups  # lanes per group
    size = steps * width  # decisions per group

    def of_group(key: jax.Array, group: jax.Array) -> jax.Array:
        def of_epoch(epoch: jax.Array) -> jax.Array:
            member = permutation(jax.random.fold_in(key, epoch), size)
            return (member // width) * lanes + group * width + member % width

        return jax.vmap(of_epoch)(jnp.arange(shape.epochs))

    order = jax.vmap(of_group, out_axes=1)(group_keys, jnp.arange(groups))  # i32[epochs, groups, size]
    portions = shape.minibatches * shape.accumulate
    order = order.reshape(shape.epochs, groups, portions, size // portions)
    return jnp.swapaxes(order, 1, 2).reshape(shape.epochs * shape.minibatches, shape.accumulate, -1)


def permutation(key: jax.Array, size: int) -> jax.Array:
    """A random order i32[size] of 0 .. size - 1 by one sort of single words.

    The low bits of each word are the number itself, the high bits are random: six times faster on CPU than sorting
    pairs. Words with equal high bits stay in order; with 2^13 numbers that concerns one pair in 2^19.
    """
    bits = max(1, (size - 1).bit_length())
    low = jnp.uint32((1 << bits) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jax.lax.sort(words, is_stable=False) & low).astype(jnp.int32)


def dropout_keys(
    group_keys: jax.Array, lanes: int, shape: UpdateShape, epoch: jax.Array | int, rows: jax.Array
) -> jax.Array:
    """Keys [n] for the rows i32[n] in an epoch (i32[]): every decision has its own, new in every epoch.

    They depend on the group and on the decision's place in it, so neither devices nor portions change them.
    """
    width = lanes // shape.groups
    time, lane = rows // lanes, rows % lanes
    # The numbers below `epochs` have shuffled the groups.
    of_group = jax.vmap(jax.random.fold_in, in_axes=(0, None))(group_keys, shape.epochs + epoch)
    return jax.vmap(jax.random.fold_in)(of_group[lane // width], time * width + lane % width)


def _minibatch(network, shape, rows, indices, keys_of, coefs, hyper, learning_rate, carry: _Carry) -> _Carry:
    """One optimizer step; the one that finds the KL divergence too large is not taken."""
    index, epoch = indices[carry.number], carry.number // shape.minibatches
    keys = None if keys_of is None else functools.partial(keys_of, epoch)
    gradient, parts = _gradient(network, shape, rows, keys, coefs, carry.params, index)
    gradient, norms = optimizer.clip_by_global_norm(gradient, hyper.max_grad_norm)
    limit = jnp.where(hyper.target_kl > 0.0, KL_MARGIN * hyper.target_kl, jnp.inf)
    # Numbers that are none stop too; the metrics show them and the trainer ends the run.
    stopped = ~(parts.approx_kl <= limit) | ~jnp.isfinite(norms.raw)
    learnt = optimizer.apply(carry.params, carry.opt_state, gradient, learning_rate, hyper.adam_eps)
    # Selected, not branched: the step is as cheap as the question whether to take it.
    params, opt_state = select(stopped, (carry.params, carry.opt_state), learnt)
    sums = UpdateSums(combine(parts, coefs), parts, norms.raw, norms.clipped, jnp.float32(1.0))
    return _Carry(carry.number + 1, params, opt_state, stopped, jax.tree.map(jnp.add, carry.sums, sums))


def _gradient(network, shape, rows, keys_of, coefs, params: Any, indices: jax.Array) -> tuple[Any, LossSums]:
    """Gradient of the mean loss of one minibatch (i32[accumulate, n] rows) and the means of its parts."""

    def portion(index: jax.Array) -> tuple[Any, LossSums]:
        batch = jax.tree.map(lambda leaf: leaf[index], rows)
        keys = None if keys_of is None else keys_of(index)
        return jax.grad(ppo_loss, has_aux=True)(params, batch, network, coefs, keys)

    def add(total, index):
        return jax.tree.map(jnp.add, total, portion(index)), None

    if shape.accumulate == 1:
        total = portion(indices[0])
    else:
        nothing = (jax.tree.map(jnp.zeros_like, params), empty_sums().parts)
        total, _ = jax.lax.scan(add, nothing, indices)
    gradient, sums = across_devices(total, shape.axis_name)
    scale = 1.0 / jnp.maximum(sums.weight, 1.0)
    return jax.tree.map(lambda leaf: leaf * scale, (gradient, sums))
