"""Proximal policy optimization (PPO, https://arxiv.org/abs/1707.06347) by self-play, all of it in one file.

A game, a network, rollouts, seat-wise advantages, the loss, the update and an evaluation, on the contract of games
(`jaxrl_envs`) with flax and optax, and without jaxrl's learner. `python -m examples.ppo_in_one_file` learns tic-tac-toe
in 15 seconds of one core.

Shape letters: T steps of a rollout, B lanes (games side by side), P seats, A actions, N = T x B decisions.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields
from jaxrl_envs.contract.wrappers import AutoReset


@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters; 400 updates of 128 x 16 decisions are 0.8 million."""

    lanes: int = 128
    steps: int = 16
    updates: int = 400
    epochs: int = 4
    minibatches: int = 4
    hidden: int = 64
    learning_rate: float = 3e-3  # falls linearly to 0
    max_grad_norm: float = 0.5
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip: float = 0.1
    value_coef: float = 0.5
    entropy_coef: float = 0.3  # self-play wants much: what is never tried is never punished


# ---- the game: seats are asked for one legal action ----------------------------------------------------------------
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@struct.dataclass
class Board(State):
    """The public leaves of every game, and the nine cells."""

    cells: jax.Array  # i32[9], -1 empty, else the seat


class TicTacToe(Env):
    """Three in a row win; action a marks cell a. Perfect play draws."""

    id, version = "one_file_tic_tac_toe", "1"
    num_players, num_actions = 2, 9
    perfect_information = True

    def _init(self, key: jax.Array) -> Board:
        return Board(observation=None, cells=jnp.full(9, -1), **public_fields(num_players=2, num_actions=9))

    def _step(self, state: Any, action: jax.Array, key: jax.Array) -> Board:
        cells = state.cells.at[action].set(state.current_player)
        won = jnp.any(jnp.all(cells[jnp.array(LINES)] == state.current_player, axis=1))
        rewards = jnp.where(won, jnp.where(jnp.arange(2) == state.current_player, 1.0, -1.0), 0.0)
        state = state.replace(cells=cells, current_player=1 - state.current_player, legal_action_mask=cells < 0)
        return state.replace(rewards=rewards, terminated=won | jnp.all(cells >= 0))

    def observe(self, state: Any, seat: jax.Array) -> jax.Array:
        """Returns f32[18]: this seat's marks, the other seat's marks."""
        return jnp.concatenate([state.cells == seat, state.cells == 1 - seat]).astype(jnp.float32)


# ---- the network ---------------------------------------------------------------------------------------------------
class ActorCritic(nn.Module):
    """Logits f32[A] and a value f32[] from one observation and its mask bool[A], by two separate perceptrons."""

    num_actions: int
    hidden: int

    @nn.compact
    def __call__(self, observation: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        def perceptron(outputs: int, scale: float) -> jax.Array:
            x = observation
            for _ in range(2):
                x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.orthogonal(2**0.5))(x))
            return nn.Dense(outputs, kernel_init=nn.initializers.orthogonal(scale))(x)

        logits, value = perceptron(self.num_actions, 0.01), perceptron(1, 1.0)
        return jnp.where(mask, logits, -1e9), value[0]  # finite: -inf gives NaN in gradients of the entropy


# ---- rollouts: the same network in all seats -----------------------------------------------------------------------
class Decision(NamedTuple):
    """One decision and the step that followed; every leaf has leading axes [T, B]."""

    observation: jax.Array
    mask: jax.Array  # bool[A]
    seat: jax.Array  # i32[], which decided
    action: jax.Array  # i32[]
    log_prob: jax.Array  # f32[]
    value: jax.Array  # f32[], expected by the seat
    rewards: jax.Array  # f32[P], of the step, to every seat
    over: jax.Array  # bool[], the step ended the game; the next decision belongs to a new one


def collect(game: AutoReset, apply: Any, params: Any, lanes: State, key: jax.Array, steps: int) -> tuple[State, Any]:
    """Plays T steps in all lanes, where a new game follows one that ends; returns the lanes and `Decision`s [T, B]."""

    def step(lanes: State, key: jax.Array) -> tuple[State, Decision]:
        act_key, step_key = jax.random.split(key)
        observation, mask, seat = lanes.observation, lanes.legal_action_mask, lanes.current_player
        logits, value = apply(params, observation, mask)
        action = jax.random.categorical(act_key, logits)
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=1)[:, 0]
        lanes, left = jax.vmap(game.step)(lanes, action, jax.random.split(step_key, len(action)))
        return lanes, Decision(observation, mask, seat, action, log_prob, value, left.rewards, left.over)

    return jax.lax.scan(step, lanes, jax.random.split(key, steps))


# ---- advantages: every seat over its own decisions -----------------------------------------------------------------
def advantages(
    rollout: Decision, last_seat: jax.Array, last_value: Any, gamma: float, gae_lambda: float
) -> tuple[jax.Array, jax.Array]:
    """Estimates generalized advantages (https://arxiv.org/abs/1506.02438) for seats that take turns.

    What a seat earns from one of its decisions up to its next one belongs to the former, also by another seat's move.
    Games must end by their rules, not by a time limit. `last_seat` and `last_value` [B] belong to the decision after
    the last step. Returns advantages f32[T, B] and weights f32[T, B], 0 where the seat's next decision is not known.
    """

    def back(carry: tuple[jax.Array, ...], now: Decision) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        next_value, next_advantage, earned, known = carry  # [B, P], what follows this step for each seat
        over, acts, value = now.over[:, None], now.seat[:, None] == jnp.arange(now.rewards.shape[1]), now.value[:, None]
        next_value, next_advantage, earned = (jnp.where(over, 0.0, x) for x in (next_value, next_advantage, earned))
        known, earned = known | over, earned + now.rewards
        advantage = jnp.where(known, earned + gamma * next_value - value + gamma * gae_lambda * next_advantage, 0.0)
        next_value, next_advantage = jnp.where(acts, value, next_value), jnp.where(acts, advantage, next_advantage)
        before = (next_value, next_advantage, jnp.where(acts, 0.0, earned), known | acts)
        return before, (jnp.sum(acts * advantage, axis=1), jnp.sum(acts * known, axis=1, dtype=jnp.float32))

    asked = last_seat[:, None] == jnp.arange(rollout.rewards.shape[2])
    after = (asked * last_value[:, None], jnp.zeros(asked.shape), jnp.zeros(asked.shape), asked)
    return jax.lax.scan(back, after, rollout, reverse=True)[1]


# ---- the loss ------------------------------------------------------------------------------------------------------
class Losses(NamedTuple):
    """Weighted means over a minibatch, f32[]."""

    policy: jax.Array
    value: jax.Array
    entropy: jax.Array


def loss(
    params: Any, apply: Any, config: Config, made: Decision, advantage: jax.Array, target: jax.Array, weight: jax.Array
) -> tuple[jax.Array, Losses]:
    """Sums the clipped surrogate, half the squared value error and the entropy bonus of N weighted decisions."""
    logits, value = apply(params, made.observation, made.mask)
    log_probs = jax.nn.log_softmax(logits)
    log_prob = jnp.take_along_axis(log_probs, made.action[:, None], axis=1)[:, 0]
    ratio = jnp.exp(jnp.where(weight > 0.0, log_prob - made.log_prob, 0.0))

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(weight * x) / jnp.maximum(jnp.sum(weight), 1.0)

    losses = Losses(
        policy=mean(-jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - config.clip, 1 + config.clip) * advantage)),
        value=0.5 * mean(jnp.square(value - target)),
        entropy=mean(-jnp.sum(jnp.exp(log_probs) * log_probs, axis=1)),
    )
    return losses.policy + config.value_coef * losses.value - config.entropy_coef * losses.entropy, losses


# ---- the training: one compiled program ----------------------------------------------------------------------------
def train(env: Env, config: Config, key: jax.Array) -> tuple[Any, Any, Losses]:
    """Learns a turn-based game without time limits; returns (apply, params, losses [updates])."""
    network, game = ActorCritic(env.num_actions, config.hidden), AutoReset(env)
    apply = jax.vmap(network.apply, in_axes=(None, 0, 0))
    rate = optax.linear_schedule(config.learning_rate, 0.0, config.updates * config.epochs * config.minibatches)
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))

    def minibatch(learner: tuple[Any, Any], batch: tuple[Any, ...]) -> tuple[tuple[Any, Any], Losses]:
        params, opt_state = learner
        gradient, losses = jax.grad(loss, has_aux=True)(params, apply, config, *batch)
        changes, opt_state = optimizer.update(gradient, opt_state)
        return (optax.apply_updates(params, changes), opt_state), losses

    def update(carry: tuple[Any, State], key: jax.Array) -> tuple[tuple[Any, State], Losses]:
        (params, opt_state), lanes = carry
        play_key, *epoch_keys = jax.random.split(key, 1 + config.epochs)
        lanes, rollout = collect(game, apply, params, lanes, play_key, config.steps)
        _, last_value = apply(params, lanes.observation, lanes.legal_action_mask)
        advantage, weight = advantages(rollout, lanes.current_player, last_value, config.gamma, config.gae_lambda)
        normalized = jax.nn.standardize(advantage, axis=(0, 1), where=weight > 0.0, epsilon=1e-8)
        batch = (rollout, normalized, advantage + rollout.value, weight)
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
        orders = [jax.random.permutation(key, config.steps * config.lanes) for key in epoch_keys]
        rows = jnp.concatenate(orders).reshape(config.epochs * config.minibatches, -1)
        learner, losses = jax.lax.scan(minibatch, (params, opt_state), jax.tree.map(lambda x: x[rows], batch))
        return (learner, lanes), jax.tree.map(jnp.mean, losses)

    @jax.jit
    def run(key: jax.Array) -> tuple[Any, Losses]:
        params_key, deal_key, run_key = jax.random.split(key, 3)
        lanes = jax.vmap(env.init)(jax.random.split(deal_key, config.lanes))
        params = network.init(params_key, lanes.observation[0], lanes.legal_action_mask[0])
        start = ((params, optimizer.init(params)), lanes)
        ((params, _), _), losses = jax.lax.scan(update, start, jax.random.split(run_key, config.updates))
        return params, losses

    return apply, *run(key)


def evaluate(env: Env, apply: Any, params: Any, seat: int, games: int, key: jax.Array) -> jax.Array:
    """Returns f32[games] of the greedy policy in `seat`; uniformly random legal actions everywhere else."""

    def step(carry: tuple[State, jax.Array, jax.Array]) -> tuple[State, jax.Array, jax.Array]:
        states, total, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        greedy = jnp.argmax(apply(params, states.observation, states.legal_action_mask)[0], axis=1)
        random = jax.vmap(env.random_action)(states, jax.random.split(act_key, games))
        action = jnp.where(states.current_player == seat, greedy, random)
        states = jax.vmap(env.step)(states, action, jax.random.split(step_key, games))
        return states, total + states.rewards[:, seat], key

    deal_key, play_key = jax.random.split(key)
    start = (jax.vmap(env.init)(jax.random.split(deal_key, games)), jnp.zeros(games), play_key)
    return jax.lax.while_loop(lambda carry: ~jnp.all(carry[0].terminated), step, start)[1]


def main() -> None:
    """Trains and prints what was learnt."""
    env = TicTacToe()
    apply, params, losses = train(env, Config(), jax.random.key(0))
    for number in range(0, len(losses.policy), 50):
        print(f"update {number}: " + ", ".join(f"{name} {x[number]:.3f}" for name, x in losses._asdict().items()))
    for seat in range(env.num_players):
        result = evaluate(env, apply, params, seat, 1000, jax.random.key(seat))
        won, drawn, lost = (jnp.mean(result == each) for each in (1, 0, -1))
        print(f"seat {seat} against random play: won {won:.1%}, drawn {drawn:.1%}, lost {lost:.1%}")


if __name__ == "__main__":
    main()
