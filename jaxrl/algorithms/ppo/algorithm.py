"""PPO as an `Algorithm`: learner state, acting, and one update from rollout to metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import optimizer
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
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.critic import Critic, explained, returns_of
from jaxrl.algorithms.ppo.loss import Batch, PPOCoefs, RecurrentInputs
from jaxrl.algorithms.ppo.phases import by_phase
from jaxrl.algorithms.ppo.update import UpdateSums, is_value_head, update
from jaxrl.algorithms.schedule import Hyper, make_hyper
from jaxrl.algorithms.trajectory import Estimates, Values, gae_estimates, logits_along, vtrace_estimates
from jaxrl.config import Config
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory, Network
from jaxrl.networks.factory import make_network
from jaxrl.runs import metrics
from jaxrl.runs.config import shuffle_groups
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, select
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule

RHO_CLIP = 1.0  # V-trace: truncation of importance weights, as in its paper; larger: less bias, more variance


@struct.dataclass
class PPOLearner(Learner):
    """The learner state of PPO, with hyper-parameters (`Hyper`); critic and belief if configured."""

    opt_state: optax.OptState
    critic: Any = None  # an `AuxiliaryState`
    belief: Any = None  # an `AuxiliaryState`


@struct.dataclass
class TemperedPolicy(Policy):
    """A policy with its sampling temperature f32[]."""

    temperature: jax.Array


class PPO(Algorithm):
    """PPO with action masking for any number of seats; with V-trace for stale rollouts, and recurrent networks."""

    headline = {"entropy loss": "train/entropy_loss", "KL": "train/approx_kl", "EV": "train/explained_variance"}

    def __init__(
        self,
        config: Config,
        env: Env,
        *,
        estimate: Callable[..., Estimates] | None = None,
        improve: Callable[..., tuple[Any, optax.OptState, UpdateSums, Metrics]] | None = None,
    ):
        """Compiles nothing. `estimate`: advantages and value targets of a rollout, instead of `estimated`; with its
        arguments. `improve`: the optimizer steps of an update, instead of `improved`; with its arguments."""
        super().__init__(config, env)
        self._estimate, self._improve = estimate or self.estimated, improve or self.improved
        self.network = make_network(config.network, env)
        self.discount = config.ppo.gamma
        self.sequence = config.ppo.sequence if self.network.remembers else 1
        if self.sequence > 1:  # only now known for a user's own network
            config.ppo.check_batch(config, self.sequence)
        if config.ppo.value_warmup and not config.ppo.critic:
            self._check_value()
        self._critic = Critic(config, env) if config.ppo.critic else None
        self._belief = BeliefLearner(config, env) if config.ppo.belief else None
        self.privileged = self._critic is not None or self._belief is not None
        self.believe = self._belief.odds if self._belief else None
        self._corrects = env.host and config.sebulba.lag > 1

    def init(self, key: jax.Array) -> PPOLearner:
        params = self.network.init(key)
        critic = self._critic.init(jax.random.fold_in(key, 1)) if self._critic else None
        belief = self._belief.init(jax.random.fold_in(key, 2)) if self._belief else None
        return PPOLearner(
            params=params,
            hyper=self.hyper(),
            opt_state=optimizer.init(params, self.config.ppo.optimizer),
            critic=critic,
            belief=belief,
            target_params=target_params.first(self.config.ppo, params),
        )

    def _check_value(self) -> None:
        """Rejects a value warm-up without anything to train: it needs a critic or a separate value head."""
        params = jax.eval_shape(self.network.init, jax.random.key(0))
        if not any(is_value_head(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)):
            raise UserError(
                f"ppo.value_warmup: {self.config.network.kind} has no parameters heads/value, so nothing would learn; "
                "end it in self.heads(...), or set ppo.value_warmup to 0."
            )

    def hyper(self) -> Hyper:
        return make_hyper(self.config.ppo, self.config.num_updates, self.config.train.from_update)

    def policy(self, learner: PPOLearner, number: jax.Array) -> TemperedPolicy:
        return TemperedPolicy(params=learner.params, temperature=coefs_of(learner, number).temperature)

    def act(self, policy: TemperedPolicy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Samples an action from the tempered policy."""
        return sample_action(self.network, policy, asked, memory, key)

    def learn(
        self, learner: PPOLearner, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[PPOLearner, Metrics]:
        """Estimates advantages, then minimises the clipped loss in epochs x minibatches."""
        coefs, warming = coefs_of(learner, number), None
        if self.config.ppo.value_warmup:
            warming, learner = self._value_warmup(learner, number)
        values = self._critic.values(learner.critic, rollout) if self._critic else None
        estimate = self._estimate(learner.params, rollout, coefs, values)
        kept = target_params.with_magnet(learner.target_params, learner.params, number, self.config.ppo.magnet_refresh)
        batch = self._batch(rollout, estimate, kept)
        groups = shuffle_groups(self.config.train.num_envs, jax.lax.axis_size(AXIS))
        group_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, local_numbers(groups))
        params, opt_state, sums, about = self._improve(learner, rollout, batch, coefs, group_keys, warming)
        seen = with_normaliser(self.network, params, rollout.steps, across_devices)
        params = seen if warming is None else select(warming, params, seen)
        kept = target_params.with_average(kept, params, number, coefs.ema)
        learner = learner.replace(params=params, opt_state=opt_state, target_params=kept)
        found = metrics_of(sums, batch, self.config.ppo, coefs) | by_phase(self.env, batch) | about
        if self._critic and values is not None:
            returns = returns_of(rollout, values, estimate.advantage, estimate.valid)
            critic, about = self._critic.learn(learner.critic, rollout, returns, coefs, group_keys)
            learner, found = learner.replace(critic=critic), found | about
        if self._belief:
            belief, about = self._belief.learn(learner.belief, rollout, coefs, group_keys)
            learner, found = learner.replace(belief=belief), found | about
        return learner, found

    def best_response(self, config: Config) -> Config:
        """Returns PPO as in `config`, but at temperature 1, with learning rate and entropy bonus annealed to 0, and
        without magnet, anchor, average and warm-up."""
        ppo = config.ppo
        entropy = max(ppo.entropy_coef.start, ppo.entropy_coef.end)
        ppo = dataclasses.replace(
            ppo,
            learning_rate=Schedule("linear", config.exploit.learning_rate, 0.0),
            entropy_coef=Schedule("linear", entropy, 0.0),
            temperature=Schedule("constant", 1.0),
            magnet="none",
            anchor=Schedule("constant", 0.0),
            value_warmup=0,
            ema=0.0,
            belief=(),  # only a search reads it
        )
        return dataclasses.replace(config, ppo=ppo)

    # ---- from a rollout to batches ------------------------------------------------------------------------------

    def estimated(self, params: Any, rollout: Rollout, coefs: PPOCoefs, values: Values | None = None) -> Estimates:
        """Advantages and value targets of all decisions, from the values of the critic or else of the network."""
        if self._corrects:
            return vtrace_estimates(
                self.network, params, rollout, coefs.temperature, RHO_CLIP, coefs.gamma, coefs.gae_lambda
            )
        return gae_estimates(self.network, rollout, coefs.gamma, coefs.gae_lambda, values)

    def improved(
        self,
        learner: PPOLearner,
        rollout: Rollout,
        batch: Batch,
        coefs: PPOCoefs,
        group_keys: jax.Array,
        value_only: jax.Array | None,
    ) -> tuple[Any, optax.OptState, UpdateSums, Metrics]:
        """Runs the optimizer steps. Returns (params, opt_state, sums over minibatches, further metrics)."""
        del rollout
        learnt = update(
            self.network,
            self.config.ppo,
            coefs,
            learner.params,
            learner.opt_state,
            batch,
            group_keys,
            self.sequence,
            value_only,
        )
        return *learnt, {}

    def _value_warmup(self, learner: PPOLearner, number: jax.Array) -> tuple[jax.Array, PPOLearner]:
        """Returns whether the update belongs to the value warm-up (bool[]), and the learner, with its optimizer state
        reset where the warm-up begins and ends: older moments would move parameters that must not change."""
        done: Any = number - learner.hyper.first_update
        length, name = self.config.ppo.value_warmup, self.config.ppo.optimizer
        fresh = (done == 0) | (done == length)
        opt_state = select(fresh, optimizer.init(learner.params, name), learner.opt_state)
        return done < length, learner.replace(opt_state=opt_state)

    def _batch(self, rollout: Rollout, estimate: Estimates, kept: target_params.TargetParams) -> Batch:
        """Returns the batch of decisions [T, L, ...], L lanes x acting seats; recurrent: [T, B, S, ...]. `kept`: the
        target parameters."""
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
            target=estimate.value_error + estimate.value,
            weight=steps.weight * estimate.valid,
            magnet=logits_of(target_params.MAGNET),
            anchor=logits_of(ANCHOR),
        )
        if self.network.remembers:
            return batch._replace(recurrent=RecurrentInputs(rollout.memory, steps.seat, steps.over))
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), batch)


def coefs_of(learner: PPOLearner, number: jax.Array) -> PPOCoefs:
    """Returns the coefficients of update `number` (i32[])."""
    return PPOCoefs(**learner.hyper.at(number))


def sample_action(network: Network, policy: TemperedPolicy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
    """Samples one seat's action from the tempered policy of a network; see `Algorithm.act`."""
    memory, logits, value = network.evaluate(policy.params, memory, asked.observation, asked.mask)
    logits = distributions.temper(logits, policy.temperature)
    action = distributions.sample(logits, jax.random.uniform(key))
    return Decision(action, distributions.log_prob(logits, action), value, memory)


# ---- metrics ------------------------------------------------------------------------------------------------------


def metrics_of(sums: UpdateSums, batch: Batch, settings: PPOConfig, coefs: PPOCoefs) -> Metrics:
    """Returns the metrics of one update, by TensorBoard tag."""
    steps, parts = sums.steps, sums.parts
    learnt, decisions = across_devices((jnp.sum(batch.weight > 0.0), jnp.float32(batch.weight.size)))
    pulled = {
        "train/magnet_kl": metrics.mean(parts.magnet_kl, steps),
        "train/magnet_coef": metrics.last(coefs.magnet_coef),
    }
    held = {"train/anchor_kl": metrics.mean(parts.anchor_kl, steps), "train/anchor_coef": metrics.last(coefs.anchor)}
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
        "train/epochs_done": metrics.mean(steps, sums.per_epoch),
        "train/learnt_fraction": metrics.mean(learnt, decisions),
        **(pulled if settings.magnet != "none" else {}),
        **(held if settings.anchor.on else {}),
    }
