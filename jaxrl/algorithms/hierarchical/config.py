"""The section `hierarchical`: a manager that sets goals and a worker that pursues them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Schedule, Section

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env


@dataclasses.dataclass(frozen=True)
class RoleConfig:
    """Settings of one role, which replace the keys of the same names in `ppo`."""

    epochs: int = option(
        12, "passes over the role's own decisions per update, in minibatches as large as those of ppo", minimum=1
    )
    learning_rate: Schedule = option(Schedule("linear", 5e-4, 2e-5), "learning rate")
    entropy_coef: Schedule = option(Schedule("linear", 0.01, 0.001), "weight of the entropy bonus")


@dataclasses.dataclass(frozen=True)
class HierarchicalConfig(Section):
    """A manager sets goals (bids), a worker makes all other decisions; other settings are those of `ppo`."""

    per_stage: ClassVar[bool] = True
    traced: ClassVar[bool] = True

    manager: RoleConfig = option(
        RoleConfig(epochs=25, learning_rate=Schedule("linear", 3e-4, 2e-5)), "settings of the manager"
    )
    worker: RoleConfig = option(RoleConfig(), "settings of the worker")
    hindsight: Schedule = option(
        Schedule("constant", 0.0),
        "weight of the loss on worker sequences relabelled with the goal that came true, e.g. 0.5; 0: off "
        "(https://arxiv.org/abs/1711.06006)",
    )
    balance: bool = option(False, "normalise advantages within each phase of the game, instead of over all decisions")

    def check_game(self, config: Config, env: Env) -> None:
        """Requires a compiled game with goals, and with the members that hindsight and balanced phases need."""
        if config.train.algorithm != "hierarchical":
            return
        import jax  # here, because reading a configuration does without

        name = config.env.id
        if env.host:
            raise UserError(f"train.algorithm hierarchical is for compiled games, which {name} is not: use ppo.")
        if config.ppo.belief:
            raise UserError("ppo.belief goes with train.algorithm ppo alone: leave it empty.")
        if jax.eval_shape(env.manages, env.observation_spec) is None:
            raise UserError(
                "train.algorithm hierarchical needs a game that says which decisions set goals (Env.manages), which "
                f"{name} does not: use ppo."
            )
        if self.balance and not env.phases:
            raise UserError(
                f"hierarchical.balance needs the phases of the game (Env.phases), which {name} does not tell."
            )
        if self.hindsight.on:
            self._check_hindsight(config, env)

    def _check_hindsight(self, config: Config, env: Env) -> None:
        """Raises UserError for a game or network that does not support relabelled sequences."""
        import jax

        state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
        action = jax.ShapeDtypeStruct((env.num_players,) if env.simultaneous else (), "int32")
        if jax.eval_shape(env.came_true, state, action, state) is None:
            raise UserError(
                "hierarchical.hindsight needs a game that says which goals came true (Env.came_true), which "
                f"{config.env.id} with these env.options does not: set hierarchical.hindsight to 0."
            )
        if config.network.kind == "recurrent" or ":" in config.network.kind:
            raise UserError(
                "hierarchical.hindsight needs a network without a memory, which would remember the goal that did not "
                "come true: set it to 0, or network.kind to mlp or transformer."
            )
