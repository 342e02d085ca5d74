"""The section `evaluate`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from jaxrl.players.spec import check_bots
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env

EVALUATION_SEED = 20250101  # of the deals of evaluations; never used in training


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(Section):
    """Evaluation on fixed deals; every deal is played once from every seat."""

    per_stage: ClassVar[bool] = True
    of_game: ClassVar[bool] = True

    deals: int = option(400, "deals per opponent; for best responses, as many more to select one", minimum=2)
    opponents: tuple[str, ...] = option((), "bots, or searchers such as searcher-200; empty: all bots of the game")
    training_deals: int = option(64, "deals per opponent in evaluations during training", minimum=2)
    best_by: str = option(
        "return",
        "score of the best checkpoint over all opponents: mean return, mean win rate, or lowest win rate",
        choices=("return", "mean_win_rate", "min_win_rate"),
    )
    greedy: bool = option(True, "play the most probable action; false: sample, where only a mixed policy is good")
    beside: bool = option(False, "evaluations during training in a process of their own, which may lag by two of them")
    average: bool = option(
        True, "play the averaged parameters where ppo.ema keeps them; false: the raw ones, to compare both"
    )
    options: dict[str, Any] = option({}, "options of the game that differ from env.options, e.g. {episode: game}")

    def check(self, config: Config) -> None:
        """Rejects a curriculum that would wait for evaluations made beside it."""
        if self.beside and config.curriculum:
            raise UserError(
                "evaluate.beside does not go with a curriculum, whose stages depend on evaluations: set it to false."
            )

    def without_deployment(self) -> EvaluateConfig:
        """Returns the section without the process that plays."""
        return dataclasses.replace(self, beside=False)

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects opponents that the game lacks, and scores that need two sides."""
        if self.beside and env.remote:
            raise UserError(
                f"{config.env.id} is played by engines of other processes, which evaluate.beside would start a second "
                "time: set it to false."
            )
        check_bots(self.opponents, env, "evaluate.opponents", searchers=True)
        if env.num_sides < 2 and (self.best_by != "return" or config.exploit.every):
            raise UserError(
                f"{config.env.id} has one {env.side_name} only, so no side wins or exploits: "
                "set evaluate.best_by to return and exploit.every to 0."
            )
