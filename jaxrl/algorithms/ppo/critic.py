"""A critic that sees all of the position, for the advantages only (`ppo.critic`): the actor stays what it is.

Asymmetric actor-critic (Pinto et al. 2018, https://arxiv.org/abs/1710.06542; in a card game Yang et al. 2022,
https://arxiv.org/abs/2203.16406). What a seat earns depends on cards that it cannot see. A value that knows them takes
that noise out of the advantages, and adds no bias: given what the seat sees, its action tells nothing of the rest.

The critic is a dense network of its own on observation and hidden part, with parameters that no policy, snapshot or
policy file carries. It learns after each rollout by the passes of the policy, but for the stop at `ppo.target_kl`. The
value of the policy network goes on learning the same returns, for search and play.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl import figures
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import Rollout, Transition, across_devices
from jaxrl.algorithms.ppo.update import ADAM_EPS, Shuffle, shuffled_indices
from jaxrl.algorithms.trajectory import Values
from jaxrl.config.ppo_checks import check_critic
from jaxrl.config.schema import Config, PPOConfig
from jaxrl.envs.core import Env, PyTree, select
from jaxrl.figures import Figures
from jaxrl.networks import normaliser
from jaxrl.networks.mlp import MLP
from jaxrl.networks.normaliser import Statistics


@struct.dataclass
class CriticState:
    """The part of a learner that is the critic's."""

    params: Any
    opt_state: optax.OptState
    statistics: Statistics | None  # of its features, with `network.normalize`


class Returns(NamedTuple):
    """What the critic learns from, leaves [T, L, ...]: L lanes x seats asked."""

    view: PyTree  # observation and hidden part, packed
    value: jax.Array  # f32, expected before the update
    target: jax.Array  # f32, the return that it should predict
    weight: jax.Array  # f32, 1 = the learner's decision with a known return, 0 = not to be learnt from


class ValueHead(nn.Module):
    """The value of one torso vector, in float32."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array) -> jax.Array:
        """[..., H] -> f32[...]."""
        init = nn.initializers.orthogonal(1.0)
        return nn.Dense(1, kernel_init=init, name="value")(torso.astype(jnp.float32))[..., 0]


class Critic:
    """Values of positions from the view of a seat and what that leaves out."""

    def __init__(self, config: Config, env: Env):
        """Compiles nothing.

        Raises:
          UserError: the game does not tell what its seats cannot see.
        """
        check_critic(config, env)
        network = config.network
        self._env, self._forms, self._normalize = env, _forms(env), network.normalize
        self._module = MLP(
            env.num_actions,
            tuple(config.ppo.critic.hidden),
            network.activation,
            compute_dtype=network.compute_dtype,
            make_heads=ValueHead,
        )
        self._size = jax.eval_shape(self._encode, self._forms).shape[0]
        self._init = _initialiser(self._module, self._size)

    def init(self, key: jax.Array) -> CriticState:
        """A new critic from a typed key."""
        params = self._init(key)
        statistics = normaliser.fresh(self._size) if self._normalize else None
        return CriticState(params=params, opt_state=optimizer.init(params), statistics=statistics)

    def values(self, critic: CriticState, rollout: Rollout) -> Values:
        """What it expects along a rollout, step by step: expanded features of all of it would not fit into memory."""
        value = functools.partial(self._value, critic)

        def final(now: Transition) -> jax.Array:
            return jnp.where(now.truncated[:, None], value((now.final_observation, now.final_privileged)), 0.0)

        def at(now: Transition) -> tuple[jax.Array, jax.Array]:
            found, nothing = value((now.observation, now.privileged)), jnp.zeros_like(now.value)
            if now.final_observation is None:
                return found, nothing
            return found, jax.lax.cond(jnp.any(now.truncated), final, lambda now: nothing, now)

        found, at_cuts = jax.lax.map(at, rollout.steps)
        return Values(found, at_cuts, value((rollout.last.observation, rollout.last_privileged)))

    def learn(
        self, critic: CriticState, rollout: Rollout, returns: Returns, coefs: PPOConfig, group_keys: jax.Array
    ) -> tuple[CriticState, Figures]:
        """Epochs x minibatches of the squared error; inside the mesh.

        Args:
          critic: that gave `returns.value`.
          rollout: for the features' statistics.
          returns: of it.
          coefs: the numbers and schedules of this update, f32[] each.
          group_keys: typed keys [groups], by global group number.
        """
        steps, lanes = returns.weight.shape
        shape = Shuffle(coefs.epochs, coefs.minibatches * coefs.accumulate, group_keys.shape[0], steps, lanes)
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(group_keys, jnp.uint32(2**31))  # an order of its own
        order = shuffled_indices(keys, shape).reshape(coefs.epochs * coefs.minibatches, coefs.accumulate, -1)
        rows = jax.tree.map(lambda leaf: leaf.reshape(steps * lanes, *leaf.shape[2:]), returns)
        step = functools.partial(self._minibatch, coefs, rows)
        critic, losses = jax.lax.scan(step, critic, order)
        found = {
            "train/critic_loss": figures.mean(jnp.sum(losses), losses.shape[0]),
            "train/critic_explained_variance": figures.mean(explained(returns.value, returns.target, returns.weight)),
        }
        return critic.replace(statistics=self._absorbed(critic.statistics, rollout)), found

    # ---- parts --------------------------------------------------------------------------------------------------

    def _encode(self, view: PyTree) -> jax.Array:
        """(observation, hidden part) -> f32[F + G]."""
        observation, hidden = view
        return jnp.concatenate([self._env.features(observation), self._env.privileged_features(hidden)])

    def _value(self, critic: CriticState, view: PyTree) -> jax.Array:
        """f32[...]: values of views with any leading axes."""
        form = jax.tree.leaves(self._forms)[0]
        encode = self._encode
        for _ in range(jax.tree.leaves(view)[0].ndim - len(form.shape)):
            encode = jax.vmap(encode)
        features = encode(view)
        if critic.statistics is not None:
            features = normaliser.normalised(critic.statistics, features)
        found: jax.Array = self._module.apply({"params": critic.params}, features)  # type: ignore[assignment]
        return found

    def _minibatch(
        self, coefs: PPOConfig, rows: Returns, critic: CriticState, index: jax.Array
    ) -> tuple[CriticState, jax.Array]:
        """One optimizer step on rows i32[accumulate, n]; and the mean loss before it."""

        def loss(params: Any, index: jax.Array) -> jax.Array:
            batch = jax.tree.map(lambda leaf: leaf[index], rows)
            value = self._value(critic.replace(params=params), batch.view)
            reach = jnp.where(coefs.value_clip > 0.0, coefs.value_clip, jnp.inf)
            near = batch.value + jnp.clip(value - batch.value, -reach, reach)
            error = jnp.maximum(jnp.square(value - batch.target), jnp.square(near - batch.target))
            return 0.5 * jnp.sum(batch.weight * error)

        def add(total: Any, index: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(critic.params, index)), None

        nothing = (jnp.float32(0.0), jax.tree.map(jnp.zeros_like, critic.params))
        total, _ = jax.lax.scan(add, nothing, index)
        weight = jnp.maximum(across_devices(jnp.sum(rows.weight[index])), 1.0)
        found, gradient = jax.tree.map(lambda leaf: leaf / weight, across_devices(total))
        gradient, norms = optimizer.clip_by_global_norm(gradient, coefs.max_grad_norm)
        learnt = optimizer.apply(critic.params, critic.opt_state, gradient, coefs.learning_rate, jnp.float32(ADAM_EPS))
        params, opt_state = select(jnp.isfinite(norms.raw), learnt, (critic.params, critic.opt_state))
        return critic.replace(params=params, opt_state=opt_state), found

    def _absorbed(self, statistics: Statistics | None, rollout: Rollout) -> Statistics | None:
        """The statistics of its features after a rollout."""
        if statistics is None:
            return None
        steps = rollout.steps
        views = steps.observation, steps.privileged
        return normaliser.absorbed(statistics, self._encode, views, steps.weight, across_devices)


def returns_of(rollout: Rollout, values: Values, advantage: jax.Array, known: jax.Array) -> Returns:
    """What the critic learns from a rollout.

    Args:
      rollout: [T, B, S, ...].
      values: that the critic expected.
      advantage: f32[T, B, S].
      known: [T, B, S], 1 where what follows is known, else 0.
    """
    steps = rollout.steps
    weight = steps.weight * known
    returns = Returns((steps.observation, steps.privileged), values.value, values.value + advantage, weight)
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), returns)


def explained(value: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
    """f32[]: the share of the variance of the returns that values explain; 0 if they do not vary. Over all devices."""
    error = target - value
    moments = (jnp.ones_like(weight), target, jnp.square(target), error, jnp.square(error))
    sums = across_devices(tuple(jnp.sum(weight * moment) for moment in moments))
    count, target, target2, error, error2 = sums
    count = jnp.maximum(count, 1.0)
    total = target2 / count - jnp.square(target / count)
    left = error2 / count - jnp.square(error / count)
    return jnp.where(total > 1e-8, 1.0 - left / jnp.maximum(total, 1e-8), 0.0)


def _initialiser(module: nn.Module, size: int) -> Callable[[jax.Array], Any]:
    """Key -> parameters of a module that reads f32[size]."""

    @jax.jit  # one program instead of one for every operation of every layer
    @jax.custom_batching.sequential_vmap  # LAPACK's batched QR waits for itself for ever on two cores
    def init(key: jax.Array) -> Any:
        return module.init(key, jnp.zeros(size))["params"]

    return init


def _forms(env: Env) -> tuple[PyTree, PyTree]:
    """The forms of an observation and of what it leaves out."""
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    seat = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.eval_shape(env.observe, state, seat), jax.eval_shape(env.privileged, state, seat)
