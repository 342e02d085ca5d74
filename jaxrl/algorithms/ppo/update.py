"""One PPO update: a single loop over epochs x minibatches.

Chunks of consecutive steps of a lane are shuffled (single steps for a feed-forward network). Minibatches are gathered
by index, without a shuffled copy of the rollout. Lanes are split into groups; each group is shuffled separately and
contributes an equal share to every minibatch. A group stays on one device, so that results depend on the number of
devices only through the order of summation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import across_devices
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import Batch, LossSums, PPOCoefs, combine, ppo_loss
from jaxrl.networks.base import Network
from jaxrl_envs.contract.env import select

ADAM_EPS = 1e-5  # as in the reference implementations of PPO; Adam's default 1e-8 makes the first steps unstable
TOP = np.uint32(1 << 31)  # the highest bit of a word
KL_MARGIN = 1.5  # as in Stable-Baselines3: early stop beyond 1.5 x target_kl


class UpdateSums(NamedTuple):
    """Sums over the minibatches of an update, f32[]."""

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


def empty_sums() -> UpdateSums:
    """Zero sums, before the first minibatch."""
    zero = jnp.float32(0.0)
    return UpdateSums(zero, LossSums(*[zero] * len(LossSums._fields)), zero, zero, zero)


def update(
    network: Network,
    settings: PPOConfig,
    coefs: PPOCoefs,
    params: Any,
    opt_state: optax.OptState,
    batch: Batch,
    group_keys: jax.Array,
    sequence: int = 1,
    value_only: jax.Array | None = None,
) -> tuple[Any, optax.OptState, UpdateSums]:
    """Learns from one rollout; inside the mesh.

    Args:
      network: the policy and value network.
      settings: the section `ppo`.
      coefs: coefficients of this update.
      params: of the network.
      opt_state: of the optimizer.
      batch: leaves [T, L, ...], L decision lanes of this device; groups are consecutive lanes. Recurrent:
        [T, B, S, ...], and `recurrent` with states [C, B, P, ...].
      group_keys: typed keys [groups], by global group number.
      sequence: steps of a chunk.
      value_only: bool[], see `passes`.

    Returns:
      New parameters, new optimizer state, sums over the minibatches.
    """
    batch = batch._replace(advantage=normalize(batch.advantage, batch.weight))
    shape = shuffle_of(settings, batch, group_keys, sequence)
    indices = shuffled_indices(group_keys, shape).reshape(
        settings.epochs * settings.minibatches, settings.accumulate, -1
    )
    order = Order(len(indices), lambda number: (number // settings.minibatches, indices[number]))
    pick = functools.partial(gathered, rows_of(batch), shape, sequence)
    keys_of = functools.partial(dropout_keys, group_keys, shape, sequence, batch)

    def loss(params: Any, epoch: jax.Array, index: jax.Array) -> tuple[jax.Array, LossSums]:
        keys = keys_of(epoch, index) if network.dropout else None
        return ppo_loss(params, pick(index), network, settings, coefs, keys)

    return passes(loss, settings, coefs, params, opt_state, order, value_only)


class Order(NamedTuple):
    """The sequence of minibatches of an update."""

    length: int | jax.Array  # i32[], number of minibatches
    at: Callable[[jax.Array], tuple[jax.Array, jax.Array]]
    """Maps the number of a minibatch, i32[], to its epoch i32[] and its chunks i32[accumulate, n]."""


def passes(
    loss: Callable[[Any, jax.Array, jax.Array], tuple[jax.Array, LossSums]],
    settings: PPOConfig,
    coefs: PPOCoefs,
    params: Any,
    opt_state: optax.OptState,
    order: Order,
    value_only: jax.Array | None = None,
) -> tuple[Any, optax.OptState, UpdateSums]:
    """Takes an optimizer step for every minibatch of `order`, with early stopping at `target_kl`.

    Args:
      loss: (params, epoch i32[], chunks i32[n]) -> the *sum* of the loss over a portion of a minibatch, and its parts.
      settings: the section `ppo`.
      coefs: coefficients of this update.
      params: parameters to optimise.
      opt_state: of the optimizer.
      order: of the minibatches.
      value_only: bool[], train only the last layer of the value head; None: all parameters.

    Returns:
      As `update`.
    """
    if value_only is not None:
        loss = _value_head_only(loss, value_only)
    step = functools.partial(_minibatch, loss, settings, coefs, order, value_only)
    # Early stopping is the loop condition, and the last step is undone by a select: on a GPU every data-dependent
    # branch waits for the host, here once per minibatch. With several seeds the loop runs until all have stopped.
    carry = _Carry(jnp.int32(0), params, opt_state, jnp.bool_(False), empty_sums())
    carry = jax.lax.while_loop(lambda carry: (carry.number < order.length) & ~carry.stopped, step, carry)
    return carry.params, carry.opt_state, carry.sums


def normalize(advantage: jax.Array, weight: jax.Array) -> jax.Array:
    """Normalises advantages f32[T, L] to zero mean and unit variance over the learner's decisions of the update."""
    count, total = across_devices((jnp.sum(weight), jnp.sum(weight * advantage)))
    count = jnp.maximum(count, 1.0)
    centred = advantage - total / count
    variance = across_devices(jnp.sum(weight * jnp.square(centred))) / count
    return centred * jax.lax.rsqrt(variance + 1e-8)


def is_value_head(path: Any) -> bool:
    """Whether this parameter path belongs to the last layer of the value head, `heads/value`."""
    return "['heads']['value']" in jax.tree_util.keystr(path)


def make_rule(settings: PPOConfig, coefs: PPOCoefs) -> optax.GradientTransformation:
    """The optimizer for one update."""
    return optimizer.make_optimizer(settings.optimizer, coefs.learning_rate, coefs.max_grad_norm, ADAM_EPS)


def _hold(value_only: jax.Array, before: Any, after: Any) -> Any:
    """The parameters `after` a step; if `value_only` (bool[]), all but the value head's last layer as `before` it."""

    def of(path: Any, old: jax.Array, new: jax.Array) -> jax.Array:
        return new if is_value_head(path) else jnp.where(value_only, old, new)

    return jax.tree_util.tree_map_with_path(of, before, after)


def _value_head_only(loss: Callable[..., Any], alone: jax.Array) -> Callable[..., Any]:
    """Wraps a loss; if `alone` (bool[]), its gradient is 0 except for the last layer of the value head, which the
    policy does not depend on."""

    def held(path: Any, leaf: jax.Array) -> jax.Array:
        return leaf if is_value_head(path) else jnp.where(alone, jax.lax.stop_gradient(leaf), leaf)

    return lambda params, *about: loss(jax.tree_util.tree_map_with_path(held, params), *about)


# ---- chunks and their order ---------------------------------------------------------------------------------------


class Shuffle(NamedTuple):
    """Dimensions of the shuffle."""

    epochs: int
    portions: int  # equal portions per epoch
    groups: int  # of lanes, on this device
    chunks: int  # per lane
    lanes: int  # of this device


def shuffle_of(settings: PPOConfig, batch: Batch, group_keys: jax.Array, sequence: int) -> Shuffle:
    """The dimensions for shuffling a batch with leaves [T, L, ...] in chunks of `sequence` steps."""
    steps, lanes = batch.weight.shape[:2]
    portions = settings.minibatches * settings.accumulate
    return Shuffle(settings.epochs, portions, group_keys.shape[0], steps // sequence, lanes)


def shuffled_indices(group_keys: jax.Array, shape: Shuffle) -> jax.Array:
    """Chunk numbers i32[epochs, portions, n]; number = chunk of the lane * lanes + lane."""
    order = shuffled_groups(group_keys, shape)
    order = order.reshape(shape.epochs, shape.groups, shape.portions, -1)
    return jnp.swapaxes(order, 1, 2).reshape(shape.epochs, shape.portions, -1)


def shuffled_groups(group_keys: jax.Array, shape: Shuffle, last: jax.Array | None = None) -> jax.Array:
    """Shuffles the chunk numbers of every group in every epoch, i32[epochs, groups, size].

    Args:
      group_keys: typed keys [groups].
      shape: dimensions.
      last: bool[chunks, lanes], chunks to sort behind all others of their group.
    """
    width = shape.lanes // shape.groups  # lanes per group
    size = shape.chunks * width  # chunks per group

    def of_group(key: jax.Array, group: jax.Array, last: jax.Array | None) -> jax.Array:
        def of_epoch(epoch: jax.Array) -> jax.Array:
            member = permutation(jax.random.fold_in(key, epoch), size, last)
            return (member // width) * shape.lanes + group * width + member % width

        return jax.vmap(of_epoch)(jnp.arange(shape.epochs))

    if last is not None:
        last = jnp.swapaxes(last.reshape(shape.chunks, shape.groups, width), 0, 1).reshape(shape.groups, size)
    return jax.vmap(of_group, out_axes=1)(group_keys, jnp.arange(shape.groups), last)


def rows_of(batch: Any) -> Any:
    """The batch with one leading axis: steps * lanes, or chunks * lanes for recurrent states."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), batch)


def gathered(rows: Batch, shape: Shuffle, sequence: int, index: jax.Array) -> Batch:
    """Gathers the chunks with numbers i32[n]: leaves [n, ...] for single steps, [n, q, ...] if recurrent."""
    if rows.recurrent is None:
        return jax.tree.map(lambda leaf: leaf[index], rows)
    within = chunk_rows(shape, sequence, index)
    memory = jax.tree.map(lambda leaf: leaf[index], rows.recurrent.memory)
    batch = jax.tree.map(lambda leaf: leaf[within], rows._replace(recurrent=rows.recurrent._replace(memory=())))
    return batch._replace(recurrent=batch.recurrent._replace(memory=memory))


def chunk_rows(shape: Shuffle, sequence: int, index: jax.Array) -> jax.Array:
    """Row numbers i32[n, q] (step * lanes + lane) of chunks i32[n]."""
    first = index // shape.lanes * sequence * shape.lanes + index % shape.lanes
    return first[:, None] + jnp.arange(sequence) * shape.lanes


def permutation(key: jax.Array, size: int, last: jax.Array | None = None) -> jax.Array:
    """A random permutation i32[size] of 0 .. size - 1 by one sort of single words; `last` (bool[size]) sort behind.

    The low bits of each word are the number itself, the high bits are random: six times faster on CPU than sorting
    pairs. Numbers with equal high bits stay in order; with 2^13 numbers this affects one pair in 2^19.
    """
    bits = max(1, (size - 1).bit_length())
    low = jnp.uint32((1 << bits) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    if last is not None:
        words = jnp.where(last, words | TOP, words & ~TOP)
    return (jax.lax.sort(words, is_stable=False) & low).astype(jnp.int32)


def dropout_keys(
    group_keys: jax.Array, shape: Shuffle, sequence: int, batch: Batch, epoch: jax.Array | int, index: jax.Array
) -> jax.Array:
    """Keys [n] or [n, q, S] for chunks i32[n] in an epoch (i32[]): a different key for every decision and epoch.

    A key depends on the group and the decision's position in it, but not on devices or portions.
    """
    width = shape.lanes // shape.groups
    rows = index if batch.recurrent is None else chunk_rows(shape, sequence, index)
    time, lane = rows // shape.lanes, rows % shape.lanes
    # Numbers below `epochs` are used for shuffling.
    of_group = jax.vmap(jax.random.fold_in, in_axes=(0, None))(group_keys, shape.epochs + epoch)
    keys = _fold(of_group[lane // width], time * width + lane % width)
    return keys if batch.recurrent is None else _fold(keys[..., None], jnp.arange(batch.action.shape[2]))


def _fold(keys: jax.Array, numbers: jax.Array) -> jax.Array:
    """`fold_in` of keys [...] and numbers [...], broadcast against each other."""
    shape = jnp.broadcast_shapes(keys.shape, numbers.shape)
    keys, numbers = jnp.broadcast_to(keys, shape), jnp.broadcast_to(numbers, shape)
    return jax.vmap(jax.random.fold_in)(keys.reshape(-1), numbers.reshape(-1)).reshape(shape)


# ---- minibatches --------------------------------------------------------------------------------------------------


def _minibatch(
    loss, settings: PPOConfig, coefs: PPOCoefs, order: Order, value_only: jax.Array | None, carry: _Carry
) -> _Carry:
    """One optimizer step, undone if the KL divergence is too large."""
    epoch, index = order.at(carry.number)
    gradient, parts = _gradient(loss, carry.params, epoch, index)
    norms = optimizer.gradient_norms(gradient, coefs.max_grad_norm)
    limit = jnp.where(coefs.target_kl > 0.0, KL_MARGIN * coefs.target_kl, jnp.inf)
    # Non-finite numbers stop too; they show in the metrics, and the trainer ends the run.
    stopped = ~(parts.approx_kl <= limit) | ~jnp.isfinite(norms.raw)
    learnt = optimizer.apply(make_rule(settings, coefs), carry.params, carry.opt_state, gradient)
    if value_only is not None:  # weight decay moves parameters whose gradient is 0
        learnt = (_hold(value_only, carry.params, learnt[0]), learnt[1])
    # A select, not a branch: on a GPU the step costs no more than the decision.
    params, opt_state = select(stopped, (carry.params, carry.opt_state), learnt)
    sums = UpdateSums(combine(parts, settings, coefs), parts, norms.raw, norms.clipped, jnp.float32(1.0))
    return _Carry(carry.number + 1, params, opt_state, stopped, jax.tree.map(jnp.add, carry.sums, sums))


def _gradient(loss, params: Any, epoch: jax.Array, indices: jax.Array) -> tuple[Any, LossSums]:
    """The gradient of the mean loss of a minibatch (chunks i32[accumulate, n]), and the means of its parts."""

    def portion(index: jax.Array) -> tuple[Any, LossSums]:
        found: tuple[Any, LossSums] = jax.grad(loss, has_aux=True)(params, epoch, index)
        return found

    def add(total, index):
        return jax.tree.map(jnp.add, total, portion(index)), None

    if len(indices) == 1:
        total = portion(indices[0])
    else:
        nothing = (jax.tree.map(jnp.zeros_like, params), empty_sums().parts)
        total, _ = jax.lax.scan(add, nothing, indices)
    gradient, sums = across_devices(total)
    scale = 1.0 / jnp.maximum(sums.weight, 1.0)
    return jax.tree.map(lambda leaf: leaf * scale, (gradient, sums))
