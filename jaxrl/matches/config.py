"""The section `evaluate`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxrl.players.spec import check_bots
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section

EVALUATION_SEED = 20250101  # of the deals of evaluations; never used in training


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(Section):
    """Evaluation on fixed deals; every deal is played once from every seat."""

    per_stage: ClassVar[bool] = True
    of_game: ClassVar[bool] = True

    deals: int = option(400, "deals per opponent; and of a best response, as many others that choose it", minimum=2)
    opponents: tuple[str, ...] = option((), "bots to play against, or searcher-200; empty: all bots of the game")
    training_deals: int = option(64, "deals per opponent in the evaluations during training", minimum=2)
    best_by: str = option(
        "return",
        "what makes a checkpoint the best one, over all opponents: mean return, mean win rate, or the lowest win rate",
        choices=("return", "mean_win_rate", "min_win_rate"),
    )
    greedy: bool = option(True, "play the most probable action; false samples, where only a mixed policy is good")
    average: bool = option(True, "play the average of the parameters where ppo.ema keeps one; false: those that learn")
    options: dict[str, Any] = option({}, "options of the game that differ from env.options, e.g. {episode: game}")

    @staticmethod
    def check_opponents(names: tuple[str, ...], env: Any, path: str, *, searchers: bool) -> None:
        """Raises UserError if the game has not all of these bots; names of searchers pass where they are allowed."""
        check_bots(names, env, path, searchers=searchers)

    def check_game(self, config: Any, env: Any) -> None:
        """Opponents that the game has, and a measure of quality that it allows."""
        self.check_opponents(self.opponents, env, "evaluate.opponents", searchers=True)
        if env.num_sides < 2 and (self.best_by != "return" or config.exploit.every):
            raise UserError(
                f"{config.env.id} has one {env.side_name} only, so no side wins or exploits: "
                "set evaluate.best_by to return and exploit.every to 0."
            )
