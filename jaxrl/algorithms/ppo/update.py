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
from jax.flatten_util import ravel_pytree

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import AXIS, across_devices
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import Batch, LossSums, PPOCoefs, combine, ppo_loss
from jaxrl.networks.base import Network
from jaxrl_envs.contract.env import select
from jaxrl_envs.shared import kernels

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
    per_epoch: jax.Array  # minibatches of an epoch


class _Carry(NamedTuple):
    params: Any  # joined, see `optimizer.ParamLayout`
    opt_state: optax.OptState  # joined
    stopped: jax.Array  # bool[]
    sums: jax.Array  # f32[], the numbers of `UpdateSums` as one vector


def empty_sums() -> UpdateSums:
    """Returns zero sums, before the first minibatch."""
    zero = jnp.float32(0.0)
    return UpdateSums(zero, LossSums(*[zero] * len(LossSums._fields)), zero, zero, zero, zero)


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
    order = minibatches_of(group_keys, shape, settings, batch.weight, sequence)
    pick = functools.partial(gathered, rows_of(batch), shape, sequence)
    keys_of = functools.partial(dropout_keys, group_keys, shape, sequence, batch)

    def loss(params: Any, epoch: jax.Array, index: jax.Array) -> tuple[jax.Array, LossSums]:
        keys = keys_of(epoch, index) if network.dropout else None
        return ppo_loss(params, pick(index), network, settings, coefs, keys)

    return passes(loss, settings, coefs, params, opt_state, order, value_only)


class Order(NamedTuple):
    """The sequence of minibatches of an update."""

    length: jax.Array  # i32[], number of minibatches
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
      value_only: bool[], train only the last layer of the value head; None: all parameters.

    Returns:
      As `update`.
    """
    layout = optimizer.layout_of(params, settings.optimizer)
    if value_only is not None:
        loss, layout = _value_head_only(loss, value_only), optimizer.AS_TREES
    step = functools.partial(_minibatch, loss, settings, coefs, order, layout, value_only)
    sums, split_sums = ravel_pytree(empty_sums())
    joined = layout.join_state(params, opt_state)
    carry = _Carry(layout.join(params), joined, jnp.bool_(False), sums)
    carry = _until_stopped(step, settings, order, carry)
    per_epoch = (order.length // settings.epochs).astype(jnp.float32)
    found = split_sums(carry.sums)._replace(per_epoch=per_epoch)
    return layout.split(carry.params), layout.split_state(params, opt_state, carry.opt_state), found


def _until_stopped(
    step: Callable[[jax.Array, _Carry], _Carry], settings: PPOConfig, order: Order, carry: _Carry
) -> _Carry:
    """Runs `step` for the minibatches number 0, 1, ... until the early stop; with several seeds until all have stopped.

    On a GPU each round of a loop whose end depends on data waits for the host: there a quarter of an epoch is one
    round, in which steps after the stop or beyond the last minibatch change nothing.
    """
    together = max(1, settings.minibatches // 4) if kernels.on_gpu() else 1

    def several(first: jax.Array, carry: _Carry) -> _Carry:
        with jax.named_scope("minibatches"):
            return jax.lax.fori_loop(0, together, lambda i, carry: step(first + i, carry), carry)

    rounds, most = -(-order.length // together), -(-settings.epochs * settings.minibatches // together)
    # A report of the compiler finds the loop of minibatches by its name; `most` tells it the bound of an end by data.
    with jax.named_scope("minibatches" if together == 1 else "rounds"):
        _, carry = jax.lax.while_loop(
            lambda state: (state[0] < most) & (state[0] < rounds) & ~state[1].stopped,
            lambda state: (state[0] + 1, several(state[0] * together, state[1])),
            (jnp.int32(0), carry),
        )
    return carry


def normalize(advantage: jax.Array, weight: jax.Array) -> jax.Array:
    """Normalises advantages f32[T, L] to zero mean and unit variance over the learner's decisions of the update."""
    count, total = across_devices((jnp.sum(weight), jnp.sum(weight * advantage)))
    count = jnp.maximum(count, 1.0)
    centred = advantage - total / count
    variance = across_devices(jnp.sum(weight * jnp.square(centred))) / count
    return centred * jax.lax.rsqrt(variance + 1e-8)


def is_value_head(path: Any) -> bool:
    """Returns whether this parameter path belongs to the last layer of the value head, `heads/value`."""
    return "['heads']['value']" in jax.tree_util.keystr(path)


def make_rule(settings: PPOConfig, coefs: PPOCoefs) -> optax.GradientTransformation:
    """Returns the optimizer for one update."""
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
    """Returns the dimensions for shuffling a batch with leaves [T, L, ...] in chunks of `sequence` steps."""
    steps, lanes = batch.weight.shape[:2]
    portions = settings.minibatches * settings.accumulate
    return Shuffle(settings.epochs, portions, group_keys.shape[0], steps // sequence, lanes)


def shuffled_indices(group_keys: jax.Array, shape: Shuffle) -> jax.Array:
    """Returns chunk numbers i32[epochs, portions, n]; number = chunk of the lane * lanes + lane."""
    order = shuffled_groups(group_keys, shape)
    order = order.reshape(shape.epochs, shape.groups, shape.portions, -1)
    return jnp.swapaxes(order, 1, 2).reshape(shape.epochs, shape.portions, -1)


def shuffled_groups(group_keys: jax.Array, shape: Shuffle, last: jax.Array | None = None) -> jax.Array:
    """Shuffles the chunk numbers of every group in every epoch, i32[epochs, groups, size]. `group_keys`: typed keys
    [groups]; `last`: bool[chunks, lanes], chunks to sort behind all others of their group."""
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
    """Returns the batch with one leading axis: steps * lanes, or chunks * lanes for recurrent states."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), batch)


def gathered(rows: Batch, shape: Shuffle, sequence: int, index: jax.Array) -> Batch:
    """Gathers the chunks with numbers i32[n]: leaves [n, ...] for single steps, [n, q, ...] if recurrent."""
    if rows.recurrent is None:
        take = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
        return jax.tree.map(lambda leaf: leaf.at[index].get(**take), rows)
    within = chunk_rows(shape, sequence, index)
    memory = jax.tree.map(lambda leaf: leaf[index], rows.recurrent.memory)
    batch = jax.tree.map(lambda leaf: leaf[within], rows._replace(recurrent=rows.recurrent._replace(memory=())))
    return batch._replace(recurrent=batch.recurrent._replace(memory=memory))


def chunk_rows(shape: Shuffle, sequence: int, index: jax.Array) -> jax.Array:
    """Returns row numbers i32[n, q] (step * lanes + lane) of chunks i32[n]."""
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
    """Returns `fold_in` of keys [...] and numbers [...], broadcast against each other."""
    shape = jnp.broadcast_shapes(keys.shape, numbers.shape)
    keys, numbers = jnp.broadcast_to(keys, shape), jnp.broadcast_to(numbers, shape)
    return jax.vmap(jax.random.fold_in)(keys.reshape(-1), numbers.reshape(-1)).reshape(shape)


def minibatches_of(
    group_keys: jax.Array, shape: Shuffle, settings: PPOConfig, weight: jax.Array, sequence: int
) -> Order:
    """Shuffles the chunks that contain a decision with positive weight into equal minibatches, separately per epoch.

    Their size is that of `ppo.minibatches` over the whole rollout; their number follows the number of these chunks and
    is the same on all devices. Chunks without such a decision only fill up the last places.

    Args:
      group_keys: typed keys [groups].
      shape, sequence: arguments as of `update`.
      weight: f32[T, L] or f32[T, L, S], above 0 where a decision is to be learnt from.
    """
    heavy = weight.reshape(shape.chunks, sequence, shape.lanes, -1) > 0.0
    idle = ~jnp.any(heavy, axis=(1, 3))  # bool[chunks, lanes]
    order = shuffled_groups(group_keys, shape, idle)  # i32[epochs, groups, size]
    part = order.shape[-1] // settings.minibatches  # of a group in a minibatch
    full = jnp.sum(~idle.reshape(shape.chunks, shape.groups, -1), axis=(0, 2))
    minibatches = jax.lax.pmax(-(-jnp.max(full) // part), AXIS)

    def at(number: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = jnp.maximum(minibatches, 1)
        epoch, first = number // each, number % each
        chosen = order[epoch][:, first + each * jnp.arange(part)]  # i32[groups, part]
        chosen = chosen.reshape(shape.groups, settings.accumulate, -1)
        return epoch, jnp.swapaxes(chosen, 0, 1).reshape(settings.accumulate, -1)

    return Order(settings.epochs * minibatches, at)


# ---- minibatches --------------------------------------------------------------------------------------------------


def _minibatch(
    loss: Callable[..., Any],
    settings: PPOConfig,
    coefs: PPOCoefs,
    order: Order,
    layout: optimizer.ParamLayout,
    value_only: jax.Array | None,
    number: jax.Array,
    carry: _Carry,
) -> _Carry:
    """Returns one optimizer step, undone if the KL divergence is too large; nothing if that was so in a step before."""
    done = carry.stopped | (number >= order.length)
    epoch, index = order.at(number)
    gradient, parts = _gradient(loss, layout.split(carry.params), epoch, index)
    norms = optimizer.gradient_norms(gradient, coefs.max_grad_norm)
    limit = jnp.where(coefs.target_kl > 0.0, KL_MARGIN * coefs.target_kl, jnp.inf)
    # Non-finite numbers stop too; they show in the metrics, and the training ends.
    stopped = ~(parts.approx_kl <= limit) | ~jnp.isfinite(norms.raw) | done
    gradient = optimizer.clipped(layout.join(gradient), norms.raw, coefs.max_grad_norm)
    rule = optimizer.make_optimizer(settings.optimizer, coefs.learning_rate, None, ADAM_EPS)
    learnt = optimizer.apply(rule, carry.params, carry.opt_state, gradient)
    if value_only is not None:  # weight decay moves parameters whose gradient is 0
        learnt = (_hold(value_only, carry.params, learnt[0]), learnt[1])
    # A select, not a branch: on a GPU the step costs no more than the decision.
    params, opt_state = select(stopped, (carry.params, carry.opt_state), learnt)
    one, zero = jnp.float32(1.0), jnp.float32(0.0)
    now = UpdateSums(combine(parts, settings, coefs), parts, norms.raw, norms.clipped, one, zero)
    sums = carry.sums + jnp.where(done, 0.0, ravel_pytree(now)[0])
    return _Carry(params, opt_state, stopped, sums)


def _gradient(loss: Callable[..., Any], params: Any, epoch: jax.Array, indices: jax.Array) -> tuple[Any, LossSums]:
    """Returns the gradient of the mean loss of a minibatch (chunks i32[accumulate, n]), and the means of its parts."""

    def portion(index: jax.Array) -> tuple[Any, LossSums]:
        found: tuple[Any, LossSums] = jax.grad(loss, has_aux=True)(params, epoch, index)
        return found

    def add(total: Any, index: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, portion(index)), None

    if len(indices) == 1:
        total = portion(indices[0])
    else:
        nothing = (jax.tree.map(jnp.zeros_like, params), empty_sums().parts)
        total, _ = jax.lax.scan(add, nothing, indices)
    gradient, sums = across_devices(total)
    scale = 1.0 / jnp.maximum(sums.weight, 1.0)
    return jax.tree.map(lambda leaf: leaf * scale, (gradient, sums))
