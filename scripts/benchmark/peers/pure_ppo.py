"""`python -m scripts.benchmark.peers.pure_ppo`: a PureJaxRL-style PPO beside our loop, both on CartPole of gymnax.

A PPO of the kind that PureJaxRL made known (Lu et al. 2022, https://arxiv.org/abs/2210.05639): one jitted program, a
scan over updates, each a scan of T steps over B games, advantages by a reverse scan, and epochs over minibatches of a
freshly permuted copy of the rollout. Written from that description as a yardstick for the speed of our own loop; the
network is either PureJaxRL's (separate policy and value torsos) or ours (one torso, two heads).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.diagnose.timing import Contestant
from jaxrl.diagnose.training import Training
from jaxrl.games import make_env
from jaxrl_envs.adapters import require
from scripts.benchmark.report import compare

ACTIVATIONS = {"relu": nn.relu, "tanh": jnp.tanh}


class PeerSettings(NamedTuple):
    """Everything that costs time is equal to the loop it is compared with."""

    num_envs: int = 512
    num_steps: int = 128
    epochs: int = 4
    minibatches: int = 4
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    separate: bool = True  # policy and value have a torso each
    updates: int = 4  # per call
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    max_grad_norm: float = 0.5


class PeerNetwork(nn.Module):
    """Dense layers, then policy logits and a value."""

    actions: int
    hidden: tuple[int, ...]
    activation: str
    separate: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """f32[..., F] -> logits f32[..., A], value f32[...]."""
        policy = self._torso(x)
        critic = self._torso(x) if self.separate else policy
        logits = nn.Dense(self.actions, kernel_init=nn.initializers.orthogonal(0.01))(policy)
        value = nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(critic)
        return logits, value[..., 0]

    def _torso(self, x: jax.Array) -> jax.Array:
        for width in self.hidden:
            x = ACTIVATIONS[self.activation](nn.Dense(width, kernel_init=nn.initializers.orthogonal(2.0**0.5))(x))
        return x


class Step(NamedTuple):
    """What the update needs of one step; every leaf [T, B] or flat [N]."""

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    returned: jax.Array  # the return of the game so far, for the log


class Targets(NamedTuple):
    """What the value and the policy are to learn, per step."""

    advantage: jax.Array
    value: jax.Array


class PeerLearner(NamedTuple):
    """The whole state of the peer."""

    params: Any
    opt_state: Any
    games: Any
    observation: jax.Array  # [B, F]
    returned: jax.Array  # f32[B]
    key: jax.Array


class PeerProgram(NamedTuple):
    """The pieces that the functions below share."""

    settings: PeerSettings
    env: Any
    env_params: Any
    network: PeerNetwork
    optimizer: optax.GradientTransformation


def contestant(settings: PeerSettings, name: str) -> Contestant:
    """`settings.updates` whole updates per block; a unit is one environment step."""
    program, state = build(settings)
    call = jax.jit(lambda learner: run(program, learner), donate_argnums=0)
    holder = [state]

    def block() -> None:
        holder[0], metrics = call(holder[0])
        jax.block_until_ready((holder[0], metrics))

    units = settings.num_envs * settings.num_steps * settings.updates
    return Contestant(name, float(units), block, settings._asdict())


def build(settings: PeerSettings, seed: int = 0) -> tuple[PeerProgram, PeerLearner]:
    """The peer's program and its initial state."""
    env, env_params = require("gymnax", "CartPole", "jaxrl[games]").make("CartPole-v1")
    actions = env.action_space(env_params).n
    network = PeerNetwork(actions, settings.hidden, settings.activation, settings.separate)
    optimizer = optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(settings.learning_rate, eps=1e-5)
    )
    network_key, game_key, key = jax.random.split(jax.random.key(seed), 3)
    keys = jax.random.split(game_key, settings.num_envs)
    observation, games = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, env_params)
    params = network.init(network_key, observation[0])
    returned = jnp.zeros(settings.num_envs)
    learner = PeerLearner(params, optimizer.init(params), games, observation, returned, key)
    return PeerProgram(settings, env, env_params, network, optimizer), learner


def run(program: PeerProgram, learner: PeerLearner) -> tuple[PeerLearner, jax.Array]:
    """`settings.updates` updates; also the mean return of the finished games per update, f32[K]."""
    return jax.lax.scan(lambda carry, _: _update(program, carry), learner, None, program.settings.updates)


def _update(program: PeerProgram, learner: PeerLearner) -> tuple[PeerLearner, jax.Array]:
    settings = program.settings
    learner, steps = jax.lax.scan(lambda carry, _: _play(program, carry), learner, None, settings.num_steps)
    _, last_value = _evaluate(program, learner.params, learner.observation)
    targets = _advantages(settings, steps, last_value)
    learner, _ = jax.lax.scan(
        lambda carry, _: (_epoch(program, carry, steps, targets), None), learner, None, settings.epochs
    )
    finished = jnp.sum(steps.done)
    return learner, jnp.sum(steps.returned * steps.done) / jnp.maximum(finished, 1.0)


def _play(program: PeerProgram, learner: PeerLearner) -> tuple[PeerLearner, Step]:
    key, sample_key, step_key = jax.random.split(learner.key, 3)
    logits, value = _evaluate(program, learner.params, learner.observation)
    action = jax.random.categorical(sample_key, logits)
    log_prob = _log_prob(logits, action)
    step = jax.vmap(program.env.step, in_axes=(0, 0, 0, None))
    keys = jax.random.split(step_key, program.settings.num_envs)
    observation, games, reward, terminated, truncated, _ = step(keys, learner.games, action, program.env_params)
    done = jnp.logical_or(terminated, truncated).astype(jnp.float32)
    returned = learner.returned + reward
    record = Step(learner.observation, action, log_prob, value, reward, done, returned)
    learner = learner._replace(games=games, observation=observation, returned=returned * (1.0 - done), key=key)
    return learner, record


def _advantages(settings: PeerSettings, steps: Step, last_value: jax.Array) -> Targets:
    def backward(carry: tuple[jax.Array, jax.Array], step: Step) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        advantage, next_value = carry
        going_on = 1.0 - step.done
        error = step.reward + settings.gamma * going_on * next_value - step.value
        advantage = error + settings.gamma * settings.gae_lambda * going_on * advantage
        return (advantage, step.value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    _, advantage = jax.lax.scan(backward, start, steps, reverse=True, unroll=16)
    return Targets(advantage, advantage + steps.value)


def _epoch(program: PeerProgram, learner: PeerLearner, steps: Step, targets: Targets) -> PeerLearner:
    settings = program.settings
    key, order_key = jax.random.split(learner.key)
    size = settings.num_envs * settings.num_steps
    order = jax.random.permutation(order_key, size)

    def shuffled(leaf: jax.Array) -> jax.Array:
        flat = leaf.reshape(size, *leaf.shape[2:])[order]
        return flat.reshape(settings.minibatches, size // settings.minibatches, *flat.shape[1:])

    minibatches = jax.tree.map(shuffled, (steps, targets))
    gradient = jax.grad(_loss(program))

    def learn(carry: tuple[Any, Any], minibatch: tuple[Step, Targets]) -> tuple[tuple[Any, Any], None]:
        params, opt_state = carry
        change, opt_state = program.optimizer.update(gradient(params, *minibatch), opt_state, params)
        return (optax.apply_updates(params, change), opt_state), None

    (params, opt_state), _ = jax.lax.scan(learn, (learner.params, learner.opt_state), minibatches)
    return learner._replace(params=params, opt_state=opt_state, key=key)


def _loss(program: PeerProgram) -> Callable[[Any, Step, Targets], jax.Array]:
    settings = program.settings

    def loss(params: Any, steps: Step, targets: Targets) -> jax.Array:
        logits, value = _evaluate(program, params, steps.observation)
        ratio = jnp.exp(_log_prob(logits, steps.action) - steps.log_prob)
        advantage = (targets.advantage - jnp.mean(targets.advantage)) / (jnp.std(targets.advantage) + 1e-8)
        limited = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
        policy = -jnp.mean(jnp.minimum(ratio * advantage, limited * advantage))
        near = steps.value + jnp.clip(value - steps.value, -settings.clip, settings.clip)
        error = jnp.maximum(jnp.square(value - targets.value), jnp.square(near - targets.value))
        entropy = -jnp.mean(jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1))
        return policy + settings.value_coef * 0.5 * jnp.mean(error) - settings.entropy_coef * entropy

    return loss


def _evaluate(program: PeerProgram, params: Any, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    result: Any = program.network.apply(params, observation)
    return result


def _log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


# ---- beside ours --------------------------------------------------------------------------------------------------


def equal_config(settings: PeerSettings) -> Config:
    """Our configuration of the same game with everything that costs time equal."""
    same = ("gamma", "gae_lambda", "clip", "value_coef", "entropy_coef", "max_grad_norm", "learning_rate")
    ppo = {name: getattr(settings, name) for name in ("epochs", "minibatches", *same)}
    return configs.from_dict(
        {
            "run": {"devices": 1},
            "env": {"id": "gymnax:CartPole-v1"},
            "network": {"hidden": list(settings.hidden), "activation": settings.activation},
            "ppo": ppo,
            "train": {
                "num_envs": settings.num_envs,
                "num_steps": settings.num_steps,
                "updates_per_call": settings.updates,
            },
        }
    )


def main() -> int:
    """Measures and prints."""
    settings = PeerSettings()
    config = equal_config(settings)
    xla.prepare_training(config)
    with contextlib.closing(Training(config, make_env(config))) as training:
        theirs = [
            contestant(settings._replace(separate=False), "PureJaxRL-style, our network (one torso)"),
            contestant(settings, "PureJaxRL-style, its network (two torsos)"),
        ]
        compare("training steps", [training.contestant("jaxrl")], theirs, rounds=5, seconds=1.0)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
