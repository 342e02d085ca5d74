"""Hierarchical PPO as an `Algorithm`: a manager that sets goals and a worker that pursues them, trained jointly.

The game defines which decisions set goals (`Env.manages`); in Skull King these are the bids. Each role has its own
network, optimizer, hyper-parameters, reward sequence and metrics (`role`), and both learn from the same rollouts.
Related to feudal reinforcement learning (Dayan & Hinton 1992; Vezhnevets et al. 2017,
https://arxiv.org/abs/1703.01161), but the goals are actions of the game, which only the manager takes. With `hindsight`
the worker also learns from relabelled goals.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from flax import struct

from jaxrl.algorithms.base import Algorithm, Asked, Decision, Learner, Rollout
from jaxrl.algorithms.hierarchical.pair import ROLES, WORKER, pair
from jaxrl.algorithms.hierarchical.role import Role, RoleLearner
from jaxrl.algorithms.ppo.algorithm import PPO, PPOLearner, TemperedPolicy, sample_action
from jaxrl.algorithms.schedule import Hyper, make_hyper
from jaxrl.config import Config
from jaxrl.networks.base import Memory
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule

Both = dict[str, Any]  # one value per role, see `ROLES`
HINDSIGHT = "hindsight"  # a further key of the hyper-parameters


@struct.dataclass
class HierarchicalLearner(Learner):
    """As a `PPOLearner`; parameters, hyper-parameters and each of the copies are those of both roles."""

    opt_state: Both
    critic: Both


class Hierarchical(Algorithm):
    """A manager and a worker, each trained by PPO."""

    headline = PPO.headline
    networks = 2

    def __init__(self, config: Config, env: Env):
        """Compiles nothing. Raises UserError: the game has no goals."""
        super().__init__(config, env)
        self._roles = {name: Role(config, env, name) for name in ROLES}
        worker = self._roles[WORKER].ppo
        self.network = pair({name: role.network for name, role in self._roles.items()}, env)
        self.discount, self.sequence, self.privileged = worker.discount, worker.sequence, worker.privileged
        self.hindsight = config.hierarchical.hindsight.on

    def init(self, key: jax.Array) -> HierarchicalLearner:
        parts = {name: role.ppo.init(jax.random.fold_in(key, i)) for i, (name, role) in enumerate(self._roles.items())}
        return self._joined(parts).replace(hyper=self.hyper())

    def hyper(self) -> dict[str, Hyper]:
        first, last = self.config.train.from_update, self.config.num_updates
        hindsight = make_hyper(self.config.hierarchical, last, first)
        return {name: role.ppo.hyper() for name, role in self._roles.items()} | {HINDSIGHT: hindsight}

    def progress(self, learner: HierarchicalLearner, number: jax.Array) -> jax.Array:
        """Returns f32[], the worker's progress: 0 at the first update, 1 at the last."""
        found: jax.Array = learner.hyper[WORKER].progress(number)
        return found

    def policy(self, learner: HierarchicalLearner, number: jax.Array) -> TemperedPolicy:
        temperature = self._roles[WORKER].ppo.policy(_part(learner, WORKER), number).temperature
        return TemperedPolicy(params=learner.params, temperature=temperature)

    def act(self, policy: TemperedPolicy, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Samples an action from the tempered policy of the acting role."""
        return sample_action(self.network, policy, asked, memory, key)

    def learn(
        self, learner: HierarchicalLearner, rollout: Rollout, key: jax.Array, number: jax.Array
    ) -> tuple[HierarchicalLearner, Metrics]:
        """Updates each role on its own decisions. Metrics of a role are under its name, joint ones under `train`."""
        hindsight = learner.hyper[HINDSIGHT].at(number)[HINDSIGHT]
        parts: dict[str, PPOLearner] = {}
        together: Metrics = {}
        told: Metrics = {}
        for i, (name, role) in enumerate(self._roles.items()):
            view = _view(rollout, role, name)
            mine = RoleLearner(**vars(_part(learner, name)), hindsight=hindsight)
            parts[name], found = role.ppo.learn(mine, view, jax.random.fold_in(key, i), number)
            common = {tag: metric for tag, metric in found.items() if tag.startswith("train/")}
            together = metrics.join(together, common)
            told |= {f"{name}/{tag.removeprefix('train/')}": metric for tag, metric in found.items()}
        return self._joined(parts).replace(hyper=learner.hyper), together | told

    def best_response(self, config: Config) -> Config:
        """As for PPO, with learning rate and entropy bonus of both roles annealed to 0, and without hindsight."""
        section = config.hierarchical
        rate = Schedule("linear", config.exploit.learning_rate, 0.0)

        def falling(role: Any) -> Any:
            entropy = max(role.entropy_coef.start, role.entropy_coef.end)
            return dataclasses.replace(role, learning_rate=rate, entropy_coef=Schedule("linear", entropy, 0.0))

        roles = {name: falling(getattr(section, name)) for name in ROLES}
        section = dataclasses.replace(section, **roles, hindsight=Schedule("constant", 0.0))
        config = self._roles[WORKER].ppo.best_response(config)
        return dataclasses.replace(config, hierarchical=section)

    def _joined(self, parts: dict[str, PPOLearner]) -> HierarchicalLearner:
        """Combines the learners of the roles into one."""
        kept = parts[WORKER].target_params
        return HierarchicalLearner(
            params={name: part.params for name, part in parts.items()},
            hyper={name: part.hyper for name, part in parts.items()},
            target_params={what: {name: part.target_params[what] for name, part in parts.items()} for what in kept},
            opt_state={name: part.opt_state for name, part in parts.items()},
            critic={name: part.critic for name, part in parts.items()},
        )


def _part(learner: HierarchicalLearner, name: str) -> PPOLearner:
    """Extracts the learner of a role."""
    return PPOLearner(
        params=learner.params[name],
        hyper=learner.hyper[name],
        target_params={what: both[name] for what, both in learner.target_params.items()},
        opt_state=learner.opt_state[name],
        critic=learner.critic[name],
    )


def _view(rollout: Rollout, role: Role, name: str) -> Rollout:
    """The rollout for one role: its parameters and recurrent states, weight 0 for decisions of the other role."""
    remembers = role.network.remembers
    return rollout._replace(
        steps=rollout.steps._replace(weight=rollout.steps.weight * role.own(rollout)),
        memory=rollout.memory[name] if remembers else (),
        last_memory=rollout.last_memory[name] if remembers else (),
        policy=rollout.policy.replace(params=rollout.policy.params[name]),
    )
