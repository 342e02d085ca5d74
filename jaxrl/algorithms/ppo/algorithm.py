"""Proximal policy optimisation as an `Algorithm`: what it keeps, how it acts, one update from rollout to metrics."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import gae, optimizer
from jaxrl.algorithms.base import (
    ANCHOR,
    AXIS,
    Algorithm,
    Asked,
    Decision,
    Learner,
    Policy,
    Rollout,
    across_devices,
    local_numbers,
    with_normaliser,
)
from jaxrl.algorithms.ppo import target_params
from jaxrl.algorithms.ppo.belief import BeliefLearner
from jaxrl.algorithms.ppo.critic import Critic, explained, returns_of
from jaxrl.algorithms.ppo.loss import Batch, RecurrentInputs
from jaxrl.algorithms.ppo.update import UpdateSums, is_value_head, update
from jaxrl.algorithms.schedule import Hyper, make_hyper
from jaxrl.algorithms.trajectory import (
    Values,
    logits_along,
    of_decisions,
    replay,
    to_seats,
    trajectory_of,
    values_of,
)
from jaxrl.config import Config, PPOConfig, Schedule, shuffle_groups
from jaxrl.config.ppo_checks import check_ppo
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory
from jaxrl.networks.factory import make_network
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, select
from jaxrl_envs.shared.errors import UserError

RHO_CLIP = 1.0  # V-trace: the largest importance weight, as in its paper; more would trade bias for variance


@struct.dataclass
class PPOLearner(Learner):
    """Parameters, hyper-parameters (`Hyper`) and the moments of Adam; critic and belief where they are asked."""

    opt_state: optax.OptState
    critic: Any = None  # a `AuxiliaryState`
    belief: Any = None  # a `AuxiliaryState`


@struct.dataclass
class TemperedPolicy(Policy):
    """A policy and the temperature f32[] at which it is drawn from."""

    temperature: jax.Array


class PPO(Algorithm):
    """Masked PPO over any number of seats; with V-trace where rollouts are old, with a memory where the network has."""

    headline = {"entropy loss": "train/entropy_loss", "KL": "train/approx_kl", "EV": "train/explained_variance"}

    def __init__(self, config: Config, env: Env):
        """Compiles nothing."""
        super().__init__(config, env)
        self.network = make_network(config.network, env)
        self.discount = config.ppo.gamma
        self.sequence = config.ppo.sequence if self.network.remembers else 1
        if self.sequence > 1:  # of a network of one's own nobody could tell before
            check_ppo(config, self.sequence)
        if config.ppo.value_warmup and not config.ppo.critic.privileged:
            self._check_value()
        self._critic = Critic(config, env) if config.ppo.critic.privileged else None
        self._belief = BeliefLearner(config, env) if config.ppo.belief.learned else None
        self.privileged = self._critic is not None or self._belief is not None
        self.believe = self._belief.odds if self._belief else None
        self._corrects = env.host and config.sebulba.lag > 1

    def init(self, key: jax.Array) -> PPOLearner:
        """New parameters from a typed key."""
        params = self.network.init(key)
        critic = self._critic.init(jax.random.fold_in(key, 1)) if self._critic else None
        belief = self._belief.init(jax.random.fold_in(key, 2)) if self._belief else None
        return PPOLearner(
            params=params,
            hyper=self.hyper(),
            opt_state=optimizer.init(params),
            critic=critic,
            belief=belief,
            copies=target_params.first(self.config.ppo, params),
        )

    def _check_value(self) -> None:
        """A warm-up needs something that learns: a critic, or parameters of the value alone."""
        params = jax.eval_shape(self.network.init, jax.random.key(0))
        if not any(is_value_head(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)):
            raise UserError(
                f"ppo.value_warmup: {self.config.network.kind} has no parameters heads/value, so nothing would learn; "
                "end it in self.heads(...), or set ppo.value_warmup to 0."
            )

    def hyper(self) -> Hyper:
        """The numbers of the section `ppo`."""
        return make_hyper(self.config.ppo, self.config.num_updates, self.config.train.from_update)

    def policy(self, learner: PPOLearner, number: jax.Array) -> TemperedPolicy:
        """The parameters as they are, at the temperature of this update."""
        coefs: Any = learner.hyper.at(self.config.ppo, number)
        return TemperedPolicy(params=learner.params, temperature=coefs.temperature)

    def act(self, policy: TemperedPolicy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Draws an action from the tempered distribution."""
        memory, logits, value = self.network.evaluate(policy.params, memory, asked.observation, asked.mask)
        logits = distributions.temper(logits, policy.temperature)
        action = distributions.sample(logits, jax.random.uniform(key))
        return Decision(action, distributions.log_prob(logits, action), value, memory)

    def learn(
        self, learner: PPOLearner, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[PPOLearner, Metrics]:
        """Estimates advantages, then epochs x minibatches of the clipped loss."""
        coefs = learner.hyper.at(self.config.ppo, number)
        if self.config.ppo.value_warmup:
            coefs, learner = self._value_warmup(learner, coefs, number)
        values = self._critic.values(learner.critic, rollout) if self._critic else None
        estimate = self._estimate(learner.params, rollout, coefs, values)
        kept = target_params.with_magnet(learner.copies, learner.params, number, self.config.ppo.magnet_refresh)
        batch = self._batch(rollout, estimate, kept)
        groups = shuffle_groups(self.config.train.num_envs, jax.lax.axis_size(AXIS))
        group_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, local_numbers(groups))
        params, opt_state, sums, about = self._improve(learner, rollout, batch, coefs, group_keys)
        seen = with_normaliser(self.network, params, rollout.steps, across_devices)
        warming: Any = coefs.value_warmup
        params = select(warming, params, seen) if self.config.ppo.value_warmup else seen
        kept = target_params.with_average(kept, params, number, coefs.ema)
        learner = learner.replace(params=params, opt_state=opt_state, copies=kept)
        found = metrics_of(sums, batch, coefs) | about
        if self._critic and values is not None:
            returns = returns_of(rollout, values, estimate.advantage, estimate.known)
            critic, about = self._critic.learn(learner.critic, rollout, returns, coefs, group_keys)
            learner, found = learner.replace(critic=critic), found | about
        if self._belief:
            belief, about = self._belief.learn(learner.belief, rollout, coefs, group_keys)
            learner, found = learner.replace(belief=belief), found | about
        return learner, found

    def best_response(self, config: Config) -> Config:
        """PPO as in `config`, at temperature 1, with a learning rate and an entropy bonus that fall to 0, and nothing
        that holds it: no magnet, anchor, average or warm-up."""
        ppo = config.ppo
        entropy = max(ppo.entropy_coef.start, ppo.entropy_coef.end)
        ppo = dataclasses.replace(
            ppo,
            learning_rate=Schedule("linear", config.exploit.learning_rate, 0.0),
            entropy_coef=Schedule("linear", entropy, 0.0),
            temperature=Schedule("constant", 1.0),
            magnet="none",
            anchor=False,
            value_warmup=0,
            ema=0.0,
            belief=dataclasses.replace(ppo.belief, learned=False),  # nobody would search with it
        )
        return dataclasses.replace(config, ppo=ppo)

    # ---- from a rollout to what is learnt from ------------------------------------------------------------------

    def _estimate(self, params: Any, rollout: Rollout, coefs: PPOConfig, values: Values | None = None) -> Estimates:
        """Advantages and targets of all decisions, by the values of a critic or by those of the network."""
        steps, seats = rollout.steps, rollout.steps.rewards.shape[-1]
        gamma, gae_lambda = jnp.asarray(coefs.gamma), jnp.asarray(coefs.gae_lambda)
        if not self._corrects:
            values = values_of(self.network, rollout) if values is None else values
            per_seat, known = gae.gae(trajectory_of(rollout, values), gamma, gae_lambda)
            found = of_decisions(per_seat, steps.seat)
            correction = found + (values.value - steps.value)  # the network's own value predicts the same return
            return Estimates(steps.value, found, correction, of_decisions(known, steps.seat))
        temperature: Any = coefs.temperature
        log_prob, values = replay(self.network, params, rollout, temperature)
        ratio = jnp.exp(jnp.where(steps.weight > 0.0, log_prob - steps.log_prob, 0.0))  # opponents' have ratio 1
        trajectory = trajectory_of(rollout, values)
        weights = jnp.where(trajectory.steps.acting, to_seats(ratio, steps.seat, seats), 1.0)
        per_seat, beyond, known = gae.vtrace(trajectory, weights, RHO_CLIP, gamma, gae_lambda)
        found, correction = of_decisions(per_seat, steps.seat), of_decisions(beyond, steps.seat)
        return Estimates(values.value, found, correction, of_decisions(known, steps.seat))

    def _improve(
        self, learner: PPOLearner, rollout: Rollout, batch: Batch, coefs: PPOConfig, group_keys: jax.Array
    ) -> tuple[Any, optax.OptState, UpdateSums, Metrics]:
        """New parameters and optimizer state, the sums of the passes and what else there is to say of them."""
        del rollout
        learnt = update(self.network, coefs, learner.params, learner.opt_state, batch, group_keys, self.sequence)
        return *learnt, {}

    def _value_warmup(self, learner: PPOLearner, coefs: PPOConfig, number: jax.Array) -> tuple[PPOConfig, PPOLearner]:
        """For an update that may be of the warm-up: `value_warmup` as bool[], whether it is; and Adam without a past
        where the warm-up begins and where it is over: moments of before would move what is to stay."""
        done: Any = number - learner.hyper.first_update
        length = self.config.ppo.value_warmup
        fresh = (done == 0) | (done == length)
        opt_state = select(fresh, optimizer.init(learner.params), learner.opt_state)
        warming: Any = done < length
        return dataclasses.replace(coefs, value_warmup=warming), learner.replace(opt_state=opt_state)

    def _batch(self, rollout: Rollout, estimate: Estimates, kept: target_params.Copies) -> Batch:
        """The decisions [T, L, ...], L lanes x seats asked; with a memory [T, B, S, ...]. `kept`: beside the policy."""
        steps = rollout.steps

        def logits_of(name: str) -> jax.Array | None:
            return logits_along(self.network, kept[name], rollout) if name in kept else None

        batch = Batch(
            observation=steps.observation,
            mask=steps.mask,
            action=steps.action,
            log_prob=steps.log_prob,
            value=estimate.value,
            advantage=estimate.advantage,
            target=estimate.correction + estimate.value,
            weight=steps.weight * estimate.known,
            magnet=logits_of(target_params.MAGNET),
            anchor=logits_of(ANCHOR),
        )
        if self.network.remembers:
            return batch._replace(played=RecurrentInputs(rollout.memory, steps.seat, steps.over))
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), batch)


class Estimates(NamedTuple):
    """What is known of all decisions afterwards, [T, B, S] each."""

    value: jax.Array  # f32, expected when they were made
    advantage: jax.Array  # f32
    correction: jax.Array  # f32; value + correction is what the value function should predict
    known: jax.Array  # 1 where what follows is known, else 0


# ---- metrics ------------------------------------------------------------------------------------------------------


def metrics_of(sums: UpdateSums, batch: Batch, coefs: PPOConfig) -> Metrics:
    """The metrics of one update, in TensorBoard's names."""
    steps, parts = sums.steps, sums.parts
    pulled = {
        "train/magnet_kl": metrics.mean(parts.magnet_kl, steps),
        "train/magnet_coef": metrics.last(coefs.magnet_coef),
    }
    held = {
        "train/anchor_kl": metrics.mean(parts.anchor_kl, steps),
        "train/anchor_coef": metrics.last(coefs.anchor_coef),
    }
    return {
        "train/loss": metrics.mean(sums.loss, steps),
        "train/policy_gradient_loss": metrics.mean(parts.policy, steps),
        "train/value_loss": metrics.mean(parts.value, steps),
        "train/entropy_loss": metrics.mean(-parts.entropy, steps),
        "train/approx_kl": metrics.mean(parts.approx_kl, steps),
        "train/clip_fraction": metrics.mean(parts.clip_fraction, steps),
        "train/explained_variance": metrics.mean(explained(batch.value, batch.target, batch.weight)),
        "train/learning_rate": metrics.last(coefs.learning_rate),
        "train/entropy_coef": metrics.last(coefs.entropy_coef),
        "train/temperature": metrics.last(coefs.temperature),
        "train/grad_norm": metrics.mean(sums.grad_norm, steps),
        "train/grad_norm_clipped": metrics.mean(sums.grad_norm_clipped, steps),
        "train/epochs_done": metrics.mean(steps, coefs.minibatches),
        **(pulled if coefs.magnet != "none" else {}),
        **(held if coefs.anchor else {}),
    }
