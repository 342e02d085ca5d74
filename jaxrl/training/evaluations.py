"""The evaluations of a training along its way, made here or beside it (`jaxrl.training.strength.beside`), and what
follows from them: milestones, the best checkpoint, the curriculum; and the final one."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.checkpoints.checkpoint import Snapshot
from jaxrl.runs.directory import RunDirectory, TrainedRun, read_json_list, write_json
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.console import waiting
from jaxrl.runs.logs.run_log import LOG, say
from jaxrl.text_tables import milestone
from jaxrl.training.checkpoints import Checkpoints
from jaxrl.training.program import saved_first
from jaxrl.training.reports import Reports
from jaxrl.training.stages.curriculum import Course
from jaxrl.training.stages.stage_setup import policies
from jaxrl.training.stopping import StopRequest
from jaxrl.training.strength import milestones
from jaxrl.training.strength.beside import LAG, WAIT, Evaluator
from jaxrl.training.strength.evaluation import Evaluated, final_evaluation
from jaxrl.training.strength.milestones import EvaluationPoint, EvaluationRecord


class Evaluations:
    """Evaluations of one training; what they have found is in its checkpoints as `record`."""

    def __init__(
        self, run: RunDirectory, course: Course, record: EvaluationRecord, checkpoints: Checkpoints, reports: Reports
    ):
        """Evaluates nothing yet. `course`: says in which stage it is, and takes evaluations in."""
        self.record = record
        self._run, self._course, self._checkpoints, self._reports = run, course, checkpoints, reports
        self._beside: Evaluator | None = None
        if distributed.is_rank0() and (record.milestones or run.milestones_file.exists()):
            write_json(run.milestones_file, record.milestones)  # a kill may have come after later ones

    @property
    def pending(self) -> list[int]:
        """Updates whose evaluations beside the training are not taken in yet."""
        return self.record.updates

    def recover(self, update: int) -> None:
        """Takes in results of before that the state after `update` updates does without; forgets evaluations of which
        nothing is left."""
        settings = self._course.now.config
        if not (settings.evaluate.beside and settings.train.evaluate_every) and not self.record.pending:
            return
        self._beside = beside = Evaluator(self._run, update)
        if lost := [each for each in self.pending if not beside.keeps(each)]:
            LOG.warning("the evaluations after updates %s are lost: their states are gone", lost)
        self.record.pending = [each for each in self.record.pending if int(each[0]) not in lost]
        self.collect(only_made=True)

    def begin(self, over: bool) -> None:
        """Starts the process that evaluates beside the training, unless that is `over` and nothing is pending."""
        config = self._course.now.config
        if self._beside is not None and config.evaluate.beside and (self.record.pending or not over):
            self._beside.start(config, self.pending)

    def players(self, params: Any) -> list[Player]:
        """Returns the policy of each seed."""
        now = self._course.now
        return policies(now.player, self._run.name, params, now.config.run.seeds)

    def submit(self, when: EvaluationPoint, params: Any, snapshot: Callable[[], Snapshot]) -> None:
        """Makes a small evaluation on deals of its own, here or beside the training; keeps the state if it is the best
        so far. Raises Failed: an engine has failed, or a bot has broken the rules."""
        if self._beside is not None and self._beside.alive:
            self.record.pending.append(list(when))
            self._beside.submit(snapshot())
        else:
            self._evaluate(when, self.players(params), snapshot)

    def collect(self, only_made: bool = False) -> None:
        """Takes in what the evaluations beside the training have found; makes them here if their process has died."""
        beside = self._beside
        while beside is not None and self.record.pending:
            update, steps, *seconds = self.record.pending[0]
            when = EvaluationPoint(int(update), int(steps), *seconds)
            state = functools.partial(beside.state, when.update)
            if (found := beside.found(when.update)) is not None:
                self._take(when, found, found.row, state)
            elif only_made or beside.alive:
                return
            elif (snapshot := state()) is not None:
                average = self._course.now.config.evaluate.average
                params = checkpoint.params_of(snapshot.arrays, average=average)
                self._evaluate(when, self.players(params), state)
            self.record.pending.pop(0)

    def wait(self, stop: StopRequest, most: int = LAG) -> None:
        """Takes in the evaluations beside the training, and waits while more than that many are pending."""
        self.collect()
        if len(self.record.pending) <= most:
            return
        with waiting(f"waiting for {len(self.record.pending) - most} evaluation(s) ...", again=bool(most)):
            while len(self.record.pending) > most and not stop.wanted:
                time.sleep(WAIT)
                self.collect()

    def settle(self) -> None:
        """Prepares for a checkpoint, when the one before it is complete."""
        if self._beside is not None:
            self._beside.settle(self.pending)

    def forget(self) -> None:
        """Removes the states of evaluations that are taken in; no write is under way."""
        if self._beside is not None:
            self._beside.forget(self.pending)

    def close(self) -> None:
        """Ends the process beside the training."""
        if self._beside is not None:
            self._beside.close()

    def _evaluate(self, when: EvaluationPoint, players: Sequence[Player], state: Callable[[], Snapshot | None]) -> None:
        evaluation = self._course.now.evaluation
        with saved_first():  # an engine may fail, a bot break the rules
            verdict = evaluation(players)
            row = verdict.row | self._course.evaluated(verdict, players)
        self._take(when, verdict, row, state)
        evaluation.keep_replays(self._run.replays, verdict, players, when.update, self.record.best_update)

    def _take(
        self, when: EvaluationPoint, verdict: Evaluated, row: dict[str, float], state: Callable[[], Snapshot | None]
    ) -> None:
        """Takes an evaluation of a `state` into the logs, the milestones and the search for the best one."""
        record, wanted = self.record, self._course.now.config.train.milestones
        more, reached = milestones.take(record, wanted, when, verdict.row)
        self._reports.log(row | more, when, self._course.now.program.timers)
        self._reports.progress.tell(row)
        say(f"update {when.update}: {verdict.text}")
        for each in reached:
            say(f"update {when.update}: milestone: {milestone(each)}")
        if reached and distributed.is_rank0():
            write_json(self._run.milestones_file, record.milestones)
        record.since_best += 1
        if record.best_score is None or verdict.score > record.best_score:
            record.best_score, record.best_update, record.since_best = verdict.score, when.update, 0
            if (snapshot := state()) is not None:  # else a later checkpoint did without it: it lies in `best` already
                best = {"update": when.update, "score": verdict.score, "best_by": record.best_by, "row": verdict.row}
                self._checkpoints.save_best(snapshot, best)

    # ---- the end ----

    def final(self, params: Any, update: int) -> list[Row]:
        """Measures the final policy on fresh deals, prints the table and keeps it in evaluation.json."""
        now, digest = self._course.now, checkpoint.params_hash(params)
        name, stage = self._run.name, self._course.stage.name
        trained = TrainedRun(name, now.config, now.evaluation_env, update, [], digest, stage)
        rows = final_evaluation(trained, self.players(params), now.evaluation, self._run)
        if self.record.best_update not in (None, update):
            print(
                f"the best evaluation during training was after update {self.record.best_update}; it was on other "
                f"deals and picked, so measure it again: "
                f"{next_command('evaluate', self._run.path, '--checkpoint best')}"
            )
        return rows

    def is_final(self, params: Any) -> bool:
        """Returns whether these parameters have been measured already."""
        digest = checkpoint.params_hash(params)
        records = distributed.broadcast(lambda: read_json_list(self._run.evaluation_file))
        return any(record.get("params_hash") == digest for record in records)
