"""Where a training stands in its curriculum, and when it moves.

Whether it moves is decided before each call, from what the checkpoint's record holds and nothing else: a run resumes
exactly in any stage, and just before and after a move.

    over by steps            update - since, in environment steps
    over by what is won      the newest evaluations in the stage with `until.games` games together
    back to the one before   the same, of evaluations in the stage before, if that was left with its win rate

A move empties what was measured, so that the next one takes as many games again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl.config import Stage
from jaxrl.config.curriculum import Until
from jaxrl.games import Stages
from jaxrl.league.pool import PoolState
from jaxrl.league.seats import LEARNER
from jaxrl.players.player import Player
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Snapshot, check_fits, check_stamp, unreadable_is_damaged
from jaxrl.runs.directory import make_stamp, stage_number
from jaxrl.training.record import unknown
from jaxrl.training.stages.stage_setup import StageSetup, make_stage
from jaxrl.training.strength.evaluation import Evaluated
from jaxrl_envs.shared.errors import UserError

Results = list[tuple[float, int]]  # of evaluations: a win rate, and the games that it is of


@dataclasses.dataclass
class Standing:
    """Part of a checkpoint's record about the curriculum."""

    stage: str  # its name
    since: int  # updates done when the training came into it
    won: list[str] = dataclasses.field(default_factory=list)  # stages that were left with their win rate
    here: Results = dataclasses.field(default_factory=list)  # results in the stage, the newest last
    before: Results = dataclasses.field(default_factory=list)  # in the stage before, since then


class Course:
    """The way of one training through its stages. Without a curriculum there is one, and nothing to tell."""

    def __init__(self, stages: Stages):
        """Stands at the beginning of a training's `stages`."""
        self.stages, self.number = stages, 0
        self.standing = Standing(self.stage.name, 0)
        self._made: dict[int, StageSetup] = {}

    def begin(self, number: int, update: int, record: Mapping[str, Any] | None = None) -> None:
        """Goes on in a stage after `update` updates, with the `record` of a checkpoint if there is one. Raises
        UserError: the record has unknown keys."""
        self.number = number
        try:
            self.standing = Standing(**record) if record else Standing(self.stage.name, update)
        except TypeError as error:
            raise unknown(update, error) from None

    @property
    def now(self) -> StageSetup:
        """The set-up of the stage in which the training is."""
        return self.setup(self.number)

    @property
    def stage(self) -> Stage:
        """Current stage of the training."""
        return self.stages[self.number][0]

    @property
    def cyclic(self) -> bool:
        """Whether the stages take turns: the first follows the last."""
        return self.stages[-1][0].until is not None

    def setup(self, number: int) -> StageSetup:
        """Returns the set-up of a stage: what was compiled for it stays for when the training comes back. Raises
        UserError: see `make_stage`."""
        if number not in self._made:
            self._made[number] = make_stage(*self.stages[number])
        return self._made[number]

    def check(self) -> None:
        """Makes the set-up of all stages: what is wrong with a late one is said before hours of training. Raises
        UserError: see `make_stage`."""
        for number, (stage, _) in enumerate(self.stages):
            try:
                self.setup(number)
            except UserError as error:
                raise UserError(f"{stage}: {error}" if stage.name else str(error)) from error

    @property
    def watched(self) -> Stage | None:
        """The stage before, if the training may have to go back to it."""
        stage = self.stages[self.number - 1][0] if self.number else None
        return stage if stage and stage.until and stage.until.margin and stage.name in self.standing.won else None

    def record(self) -> dict[str, Any]:
        """Returns the record for a checkpoint; empty without a curriculum."""
        return dataclasses.asdict(self.standing) if self.stage.name else {}

    def evaluated(self, here: Evaluated, players: Sequence[Player]) -> dict[str, float]:
        """Takes in an evaluation of the players in the stage, and plays one in `watched` if there is one; returns
        metrics for the logs."""
        return self.take(here, self.setup(self.number - 1).evaluation(players) if self.watched else None)

    def take(self, here: Evaluated, before: Evaluated | None = None) -> dict[str, float]:
        """Takes in evaluations in the stage, and in `watched`; returns metrics for the logs."""
        standing, metrics = self.standing, {}
        if self.stage.until and self.stage.until.earned:
            standing.here = _added(standing.here, here, self.stage.until)
            metrics["curriculum/win_rate"] = _rate(standing.here, self.stage.until)
        if before and self.watched and self.watched.until:
            standing.before = _added(standing.before, before, self.watched.until)
            metrics["curriculum/win_rate_before"] = _rate(standing.before, self.watched.until)
        return {tag: value for tag, value in metrics.items() if not math.isnan(value)}

    def metrics(self, update: int) -> dict[str, float]:
        """Returns metrics for a line of the logs after `update` updates."""
        if not self.stage.name:
            return {}
        return {"curriculum/stage": self.number, "curriculum/steps": self._steps(update)}

    def _steps(self, update: int) -> int:
        """Returns the number of environment steps in the stage."""
        return (update - self.standing.since) * self.stage.config.batch_size

    def due(self, update: int, pool: PoolState | None) -> tuple[int, str]:
        """Returns the number of the stage to train in from now on, and why, if that is another one. `pool`: pool with
        the rating of the policy; with several seeds their mean counts."""
        standing, watched, until = self.standing, self.watched, self.stage.until
        following = (self.number + 1) % len(self.stages)
        if watched and watched.until:
            rate = _rate(standing.before, watched.until)
            if rate < watched.until.win_rate - watched.until.margin:
                return self.number - 1, f"its win rate has fallen to {rate:.1%}"
        if until is None:
            return self.number, ""
        rate = _rate(standing.here, until)
        rating = float(np.mean(pool.elo[..., LEARNER])) if until.rating and pool is not None else 0.0
        if until.earned and rate >= until.win_rate and rating >= until.rating:
            rated = f", rated {rating:.0f}" if until.rating else ""
            return following, f"the one before is done with a win rate of {rate:.1%}{rated}"
        if until.steps and self._steps(update) >= until.steps:
            return following, f"the one before has had its {until.steps:,} steps"
        return self.number, ""

    def newest_checkpoint(self, store: CheckpointStore) -> Snapshot:
        """Returns the newest intact checkpoint of a training that goes on, in whose stage the course stands from now
        on. Before its arrays are read, their shapes and types are compared with what that stage makes. Raises
        UserError: as `CheckpointStore.newest` and `make_stage`, or it is of another game, network or size."""
        self.check()

        def check(meta: dict[str, Any]) -> None:
            number = self._stage_of(meta)
            stamp = make_stamp(self.stages[number][0].config, self.stages[number][1].training)
            state = self.setup(number).program.abstract_state
            with unreadable_is_damaged():
                check_stamp(meta, stamp)
                check_fits(meta["leaves"], state)

        found = store.newest(quarantine=True, check=check)
        self.begin(self._stage_of(found.meta), found.step, found.meta["host"].get("curriculum"))
        return found

    def _stage_of(self, meta: Mapping[str, Any]) -> int:
        return stage_number([stage for stage, _ in self.stages], meta["host"])

    def enter(self, number: int, update: int) -> None:
        """Moves to another stage after `update` updates."""
        until, name = self.stage.until, self.stages[number][0].name
        won = [each for each in self.standing.won if each != name]
        if number > self.number and until and until.win_rate and _rate(self.standing.here, until) >= until.win_rate:
            won.append(self.stage.name)
        self.number, self.standing = number, Standing(name, update, won)


def _added(results: Results, found: Evaluated, until: Until) -> Results:
    """Returns the results with those of an evaluation, without old ones that the others can do without."""
    names = until.against or tuple(found.scores)
    rate = float(np.mean([found.scores[name] for name in names]))
    results = [*results, (rate, found.games * len(names))]
    while sum(games for _, games in results[1:]) >= until.games:
        results = results[1:]
    return results


def _rate(results: Results, until: Until) -> float:
    """Returns the win rate over some results; not a number while they are too few."""
    games = sum(games for _, games in results)
    return sum(rate * games for rate, games in results) / games if games >= until.games else math.nan
