"""Hindsight: the worker also learns from its sequences relabelled with the goal that came true.

A worker whose goal was three tricks and that won five has shown how to win five. Each *sequence* (all decisions of a
seat between two goals) is relabelled with the achieved goal g' and the score H that g' would have earned. The
relabelled sequences are used as off-policy data with full importance weighting: the actions were sampled given the old
goal g, and

    W = prod_k pi(a_k | o_k(g')) / pi(a_k | o_k(g))

over *all* decisions of the sequence corrects for that (hindsight policy gradients, Rauber et al. 2019,
https://arxiv.org/abs/1711.06006). Summed over the decisions of a sequence and averaged over sequences,

    W H grad log pi(a_k | o_k(g'))   is an unbiased estimate of   grad sum_g E[score of reaching g; played for g],

the sum over all goals with equal weights. Choosing the goal afterwards adds no bias, because in the sum over all goals
only the one that came true has a score. For the same reason no baseline is subtracted: it would also have to be
subtracted for the goals that did not come true. The estimate covers neither the cost of missing a goal, which the
worker learns from its own data, nor the reactions of other seats to g' instead of g (bids are public once all are
made). If the actions of others do not depend on the goal, it is exact.

W has a large variance; it is truncated at `CAP`, which biases the estimate towards actions that
were likely anyway. Sequences that began before the rollout or continue after it are left out, because W is incomplete.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Rollout, Transition
from jaxrl.algorithms.trajectory import of_decisions, to_seats
from jaxrl.networks import distributions
from jaxrl.networks.base import Network, Params
from jaxrl_envs.contract.env import CameTrue, Env

CAP = 2.0  # of importance weights of a sequence; a larger one has less bias and more noise


class Relabelled(NamedTuple):
    """The decisions of a rollout, relabelled with the goals that came true, [T, B, S, ...]."""

    observation: Any  # packed
    mask: jax.Array  # u32[W]
    action: jax.Array  # i32[]
    log_prob: jax.Array  # f32[], of the action, under the behaviour policy
    gain: jax.Array  # f32[], W H; 0 where not valid
    weight: jax.Array  # f32[], W, truncated; 0 where not valid
    valid: jax.Array  # bool[], a decision of the learner's worker in a complete sequence with an achieved goal


def relabel(
    network: Network,
    env: Env,
    params: Params,
    rollout: Rollout,
    manages: jax.Array,
    temperature: jax.Array | float,
    cap: Any,
) -> Relabelled:
    """Relabels the sequences of a rollout with the goals that came true. `rollout`: rollout with
    `Transition.came_true`; its weights are 1 for the learner's worker decisions. `manages`: bool[T, B, S], the decision
    sets a goal. `cap`: f32[], truncation of W."""
    steps = rollout.steps
    seats = steps.rewards.shape[-1]
    began = to_seats(manages.astype(jnp.float32), steps.seat, seats) > 0.0
    goal, reward = _settled(steps.came_true, began, steps.over)
    own_goal = of_decisions(goal + 1, steps.seat) - 1  # i32[T, B, S]

    def evaluate_step(now: tuple[Transition, jax.Array]) -> tuple[Any, jax.Array, jax.Array]:
        step, goal = now
        mask = distributions.unpack_mask(step.mask, network.num_actions)
        observation, mask = jax.vmap(jax.vmap(env.relabelled))(step.observation, mask, jnp.maximum(goal, 0))
        evaluate = jax.vmap(jax.vmap(network.evaluate, in_axes=(None, None, 0, 0)), in_axes=(None, None, 0, 0))
        _, logits, _ = evaluate(params, (), observation, mask)
        log_prob = distributions.log_prob(distributions.temper(logits, temperature), step.action)
        return observation, distributions.pack_mask(mask), log_prob

    observation, mask, log_prob = jax.lax.map(evaluate_step, (steps, own_goal))
    counts = (steps.weight > 0.0) & (own_goal >= 0)
    ratio = to_seats(jnp.where(counts, log_prob - steps.log_prob, 0.0), steps.seat, seats)
    total, whole = _of_sequences(ratio, began, steps.came_true.goal >= 0, steps.over)
    valid = counts & (of_decisions(whole, steps.seat) > 0)
    weight = jnp.exp(jnp.minimum(of_decisions(total, steps.seat), jnp.log(cap)))
    weight = jnp.where(valid, weight, 0.0)
    gain = weight * of_decisions(reward, steps.seat)
    return Relabelled(observation, mask, steps.action, log_prob, gain, weight, valid)


def surrogate(
    params: Params, batch: Relabelled, network: Network, temperature: jax.Array | float, clip: jax.Array | float
) -> jax.Array:
    """Returns the objective f32[] to maximise: the sum of gain * min(r, 1 + clip) over decisions [N], where r is the
    ratio of new to behaviour policy, both given the new goal. At r = 1 its gradient is sum gain * grad log pi."""
    mask = distributions.unpack_mask(batch.mask, network.num_actions)
    _, logits, _ = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))(params, (), batch.observation, mask)
    log_prob = distributions.log_prob(distributions.temper(logits, temperature), batch.action)
    ratio = jnp.exp(jnp.where(batch.valid, log_prob - batch.log_prob, 0.0))
    return jnp.sum(batch.gain * jnp.minimum(ratio, 1.0 + clip))


def _settled(came_true: CameTrue, began: jax.Array, over: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For every step and seat, the goal i32[T, B, P] that its current sequence achieves (-1: none), and the reward."""

    def step(carry: tuple[jax.Array, jax.Array], now: Any) -> Any:
        found, began, over = now
        here, ended = found.goal >= 0, over[:, None]
        goal = jnp.where(here, found.goal, jnp.where(ended, -1, carry[0]))
        reward = jnp.where(here, found.reward, jnp.where(ended, 0.0, carry[1]))
        return (jnp.where(began, -1, goal), jnp.where(began, 0.0, reward)), (goal, reward)

    last = (jnp.full_like(came_true.goal[0], -1), jnp.zeros_like(came_true.reward[0]))
    found: tuple[jax.Array, jax.Array] = jax.lax.scan(step, last, (came_true, began, over), reverse=True)[1]
    return found


def _of_sequences(
    amount: jax.Array, began: jax.Array, settled: jax.Array, over: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns, for every step and seat, the sum f32[T, B, P] of `amount` over its sequence, and whether that lies
    within the rollout, bool[T, B, P]. All arguments are [T, B, P], except `over`, bool[T, B]."""

    def onward(carry: tuple[jax.Array, jax.Array], now: Any) -> Any:
        amount, began, over = now
        total, running = jnp.where(began, 0.0, carry[0]) + amount, carry[1] | began
        return (total, running & ~over[:, None]), (total, running)

    def back(carry: tuple[jax.Array, jax.Array], now: Any) -> Any:
        (total, running), settled, began, over = now
        whole = jnp.where(settled, running, carry[1] & ~over[:, None])
        total = jnp.where(settled, total, carry[0])
        return (total, whole & ~began), (total, whole)

    nothing = (jnp.zeros_like(amount[0]), jnp.zeros_like(began[0]))
    sums = jax.lax.scan(onward, nothing, (amount, began, over))[1]
    found: tuple[jax.Array, jax.Array] = jax.lax.scan(back, nothing, (sums, settled, began, over), reverse=True)[1]
    return found
