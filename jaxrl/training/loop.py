"""`jaxrl train` and `jaxrl resume`: the host loop around the compiled training.

The host only starts compiled calls and, between them, logs, checkpoints and evaluates. All randomness and all counters
that matter are in the training state, so a resumed run continues bit by bit as if it had never stopped.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import jax

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl.runs import distributed, metric_log, metrics
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory, make_stamp
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.console import waiting
from jaxrl.runs.logs.run_log import LOG, say
from jaxrl.runs.prometheus import exporting
from jaxrl.runs.stopwatch import Stopwatch
from jaxrl.training import memory_budget, stopping
from jaxrl.training.callbacks import Callbacks, RunFacts
from jaxrl.training.checkpoints import Checkpoints
from jaxrl.training.evaluations import Evaluations
from jaxrl.training.exploit import league
from jaxrl.training.exploit.best_response import Exploiter
from jaxrl.training.health import diverged, due, first, game_fault, gpu_utilisation, learning_rates
from jaxrl.training.loggers import LIBRARIES, LibraryLogger
from jaxrl.training.plan import Plan
from jaxrl.training.program import Diverged, Failed, Interrupted, Program, saved_first
from jaxrl.training.record import HostRecord
from jaxrl.training.reports import Reports, StallDetector
from jaxrl.training.stages import continuation
from jaxrl.training.stages.curriculum import Course
from jaxrl.training.stages.stage_setup import carried
from jaxrl.training.stopping import StopRequest
from jaxrl.training.strength.milestones import EvaluationPoint
from jaxrl_envs.shared.errors import UserError

OVER, CALLBACK_FAILED = 999, 1000  # above all signals


class Training:
    """One training, new or resumed: the loop, with its parts.

    Attributes:
      course: the way through its stages; `course.now` is what the present one consists of.
      state: state of the compiled program; the rest is what the host does between two calls of that.
      checkpoints, evaluations, reports: the parts.
      stopped: the signal that has ended `train`.
    """

    def __init__(
        self, plan: Plan, run: RunDirectory, course: Course | None = None, snapshot: checkpoint.Snapshot | None = None
    ):
        """Compiles nothing yet except the initial state. Raises UserError: the checkpoint is of another game or
        network, or a callback does not fit.

        Args:
          run: its directory, locked by the caller.
          course: position in the plan's stages, if it is made already.
          snapshot: the checkpoint that it goes on from; None: it begins, with `plan.origin` if there is one.
        """
        self._counted = time.monotonic()  # up to here the time is in `Clock.clock`
        config, origin, callbacks = plan.config, plan.origin, Callbacks(plan.config.callbacks)
        callbacks.add([LibraryLogger(name) for name in LIBRARIES if name in config.run.logs])
        self._whole, self.run, self.course = config, run, course or Course(plan.stages)
        self.update = snapshot.step if snapshot else origin.update if origin else 0
        past = HostRecord.of(snapshot) if snapshot else HostRecord()
        self.clock = past.clock
        if snapshot is None:
            self.course.begin(origin.stage if origin else 0, self.update)
        self.course.check()
        self.checkpoints = Checkpoints(run, config.train)
        self.checkpoints.saved_at = self.clock.clock
        if past.evaluations.best_by != self.config.evaluate.best_by:  # scores of two kinds cannot be compared
            past.evaluations.best_by, past.evaluations.best_score = self.config.evaluate.best_by, None
        if snapshot is not None:
            self.state = continuation.resumed_state(self.program, snapshot)
            digest = make_stamp(self.config, self.course.now.env, config).config_digest
            if not self.checkpoints.still_best(self.update, digest):
                past.evaluations.best_score = None
        elif origin is not None:
            self.state = continuation.first_state(self.program, origin)
        else:
            self.program.begin_compiling()  # on one core, while another makes the state
            self.state = self.program.init(config.run.seed)
        self._steps_before = first(self.state.env_steps) - self.update * config.batch_size
        with exporting(config, run.name, lambda: self.program.counters()) as exporter:
            if distributed.is_rank0():
                configs.save(config, run.config_file)  # only now: a change that does not fit leaves the run as it was
            pending = past.evaluations.updates
            logger = metric_log.make_logger(run.path, self.update, self.steps, pending, config.run.logs)
            total, seeds = self._steps_before + config.num_updates * config.batch_size, config.run.seeds
            headline, done = self.course.now.headline, self.steps * seeds
            self.reports = Reports(
                logger,
                metric_log.Progress(total * seeds, done_steps=done, headline=headline),
                callbacks,
                seeds=seeds,
                exporter=exporter,
                stall_detector=None if snapshot or origin else StallDetector(config.num_updates),
                window=past.window,
            )
            self.evaluations = Evaluations(run, self.course, past.evaluations, self.checkpoints, self.reports)
        self.stopped = 0
        self._trace = UpdateTrace(run.path / "profile", config.run.profile)
        self._over = ""
        self.evaluations.recover(self.update)

    @property
    def config(self) -> Config:
        """The configuration of the stage."""
        return self.course.now.config

    @property
    def program(self) -> Program:
        """The training program of the stage."""
        return self.course.now.program

    @property
    def params(self) -> Any:
        """The parameters of the current policies as they are evaluated, with a leading axis [S] if there are several
        seeds."""
        return self.state.learner.played(average=self.config.evaluate.average)

    @property
    def steps(self) -> int:
        """Environment steps of each seed so far, with those of the runs that this one continues."""
        return self._steps_before + self.update * self.config.batch_size

    @property
    def over(self) -> str:
        """Reason why the training is over, before its last update or with it; empty: it is not."""
        if self.update >= self.config.num_updates:
            return "all updates are done"
        return self._over or stopping.over(self.config.train.stop, self.clock, self.evaluations.record)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: the training is over, and its parameters have been evaluated."""
        return bool(self.over) and self.evaluations.is_final(self.params)

    # ---- the loop ----

    def train(self) -> bool:
        """Trains to the end or until asked to stop; returns whether it reached the end. The last state is saved."""
        say(f"run {self.run.path}: parameters {checkpoint.params_hash(self.params)}")
        train = self.config.train
        if train.from_run and self.update == train.from_update:
            say(f"starting from {train.from_run}; games are dealt again")
        facts = RunFacts(self.run.name, self.run.path, configs.to_dict(self._whole), self.steps, self.update)
        self.reports.callbacks.start(facts, self.checkpoints.store)
        self.evaluations.begin(bool(self.over))
        if not self.over:
            with waiting("compiling the training (the next start takes it from run.cache_dir) ..."):
                memory_budget.check_program(self.program, self.state)
        self.reports.begin(self.steps)
        with StopRequest(lambda: self.program.request_stop()) as stop, checkpoint.no_space_is_user_error(self.run.path):
            try:
                while not self._halted(stop):
                    if not self._moved():
                        self._call()
                if self.over:
                    self.evaluations.wait(stop, 0)
            except Interrupted:
                LOG.debug("update %d: asked to stop before the next one", self.update)
                self.stopped = distributed.maximum(stop.wanted)
            except Failed as failure:
                if isinstance(failure.__cause__, Diverged):
                    self.checkpoints.refuse_from(failure.__cause__.version)
                    raise self._diverged(str(failure)) from failure
                self._save_last()
                self._tell(failure)
            self._save_last()
        self._trace.close()
        self.reports.progress.close()
        for table in league.tables(self.program, self.state, self.run.name, self.update):
            print(table)
        self.stopped = self.stopped or stop.wanted
        return bool(self.over) and not self.evaluations.pending

    def _halted(self, stop: StopRequest) -> bool:
        """Returns whether to stop here: a process got a signal, or the training is over. Raises Failed: a callback has
        failed, in process 0."""
        self.evaluations.wait(stop)
        callbacks = self.reports.callbacks
        over = callbacks.over or self.over
        found = distributed.maximum(CALLBACK_FAILED if callbacks.failing else stop.wanted or OVER * bool(over))
        if found == CALLBACK_FAILED:
            callbacks.check()
            raise Failed from distributed.PeerFailed(distributed.USER_ERROR)
        if found == OVER:
            self._over = over or "process 0 has found it so"
            if self.update < self.config.num_updates:
                say(f"update {self.update}: the training ends here: {self._over}")
            return True
        self.stopped = found
        return bool(found)

    def _moved(self) -> bool:
        """Returns whether the training has just moved to another stage of its curriculum."""
        number, why = self.course.due(self.update, self.state.pool)
        if number == self.course.number or self.update % self.config.train.updates_per_call:
            return False
        tell = LOG.debug if self.course.cyclic else say
        tell(f"update {self.update}: {self.course.stages[number][0]} begins: {why}")
        self.program.close()
        with saved_first():
            program = self.course.setup(number).program
            state = carried(program, self.state)
            with waiting("compiling the stage ...", again=self.course.cyclic):
                memory_budget.check_program(program, state)
        self.state = state
        self.course.enter(number, self.update)
        self.evaluations.record.begin(self.config.evaluate.best_by)
        return True

    def _call(self) -> None:
        """Makes one compiled call and does what is due after it."""
        train, before, reports = self.config.train, self.update, self.reports
        self._trace.before()
        watch, cpu = Stopwatch(), time.process_time()
        self.state, found, updates = self.program.advance(self.state)
        found = jax.device_get(found)  # waits for the call
        self.clock.seconds += watch.elapsed()
        self.clock.cpu_seconds += time.process_time() - cpu
        seconds = watch.seconds()  # only the first call has compiled
        self._trace.after(updates)
        self.update = first(self.state.update)
        self._check_sound(found)
        found |= gpu_utilisation(self.program.mesh.local_devices, seconds)
        row = self._row(found, seconds, updates)
        reports.window.add(found, seconds, updates)
        if due(before, self.update, train.updates_per_call):
            line = self._row(reports.window.metrics, reports.window.seconds, reports.window.updates)
            self._log(line | {"time/steps_per_s": reports.pace(self.steps)})
            reports.window = metric_log.Window()
        reports.called(row, self._now(), first(self.state.games), seconds)
        if train.evaluate_every and due(before, self.update, train.evaluate_every):
            self.evaluations.submit(self._now(), self.params, self.snapshot)
        if self.course.now.exploiter is not None and due(before, self.update, self.config.exploit.every):
            self._exploit(self.course.now.exploiter)
        now = time.monotonic()
        self.clock.clock, self._counted = self.clock.clock + now - self._counted, now
        if self.checkpoints.due(before, self.update, train.checkpoint_every, self.clock.clock):
            self.checkpoints.store.wait()
            reports.callbacks.checkpoints(self.checkpoints.store)
            self._save()
        self.checkpoints.check()

    def _exploit(self, exploiter: Exploiter) -> None:
        """Trains best responses to the current policy: what they win goes into the logs, and they into the pool."""
        found = league.respond(exploiter, self.players(), self.update)
        self._log(metric_log.flatten_each([exploit.scalars() for exploit in found]))
        if self.config.league.snapshots:
            self.state = league.join(self.program, self.state, found, self.update)

    def _now(self) -> EvaluationPoint:
        return EvaluationPoint(self.update, self.steps, self.clock.seconds, self.clock.cpu_seconds)

    def _log(self, row: dict[str, float]) -> None:
        """Writes a line."""
        self.reports.log(row, self._now(), self.program.timers)

    def _row(self, found: metrics.Metrics, seconds: float, updates: int) -> dict[str, float]:
        row = self.reports.row(found, self._now(), self.config.batch_size, seconds, updates)
        return row | self.course.metrics(self.update)

    # ---- failures ----

    def _check_sound(self, found: metrics.Metrics) -> None:
        """Stops before a state that a broken game or a diverged learner has spoilt is played with or saved."""
        if fault := game_fault(found):
            raise UserError(
                f"{self.course.now.env.id} {fault} up to update {self.update}; mend the game (`jaxrl check` tries it), "
                f"then {self.checkpoints.way_back()}"
            )
        if what := diverged(found, self.state.learner.params):
            raise self._diverged(what)

    def _diverged(self, what: str) -> UserError:
        lower, back = " and ".join(learning_rates(self.config)), self.checkpoints.way_back()
        return UserError(f"training diverged: {what} after update {self.update}: lower {lower}, then {back}")

    def _tell(self, failure: Failed) -> NoReturn:
        """Raises what stopped the run; the last state is saved."""
        self.reports.progress.close()
        saved = f"saved after update {self.update}; continue with: {next_command('resume', self.run.path)}"
        cause = failure.__cause__
        if isinstance(cause, UserError):
            raise UserError(f"{str(cause).rstrip('.')}; the training is {saved}") from cause
        if distributed.is_rank0():
            print(f"the training stopped and is {saved}", file=sys.stderr)
        raise cause if cause is not None else failure

    # ---- what is saved, and the end ----

    def snapshot(self) -> checkpoint.Snapshot:
        """Returns a snapshot of the whole training, with the records of its parts."""
        window = self.reports.window
        past = HostRecord(
            clock=self.clock,
            evaluations=self.evaluations.record,
            curriculum=self.course.record(),
            window=window,
            controllers=list(self.program.setup.seats.names),
        )
        stamp = make_stamp(self.config, self.course.now.env, self._whole)
        return checkpoint.take(self.update, self.program.saved(self.state), stamp, past.tree())

    def _save(self) -> None:
        """Starts writing a checkpoint; the one before is complete."""
        self.evaluations.settle()
        self.checkpoints.save(self.snapshot(), self.clock.clock)

    def _save_last(self) -> None:
        """Saves the state as it is, unless it is saved, and waits for what is being written."""
        self.checkpoints.store.wait()
        if not self.checkpoints.holds(self.update):
            self._save()
        self.checkpoints.wait()
        self.evaluations.forget()
        self.reports.callbacks.checkpoints(self.checkpoints.store)

    def players(self) -> list[Player]:
        """Returns the current policy of each seed."""
        return self.evaluations.players(self.params)

    def final_evaluation(self) -> list[Row]:
        """Measures the final policy on fresh deals, prints the table and keeps it in evaluation.json."""
        return self.evaluations.final(self.params, self.update)

    def close(self) -> None:
        """Closes the log files and finishes the checkpoints under way."""
        reports, saved = self.reports, self.checkpoints
        reports.progress.close()
        with contextlib.ExitStack() as stack:  # closes all of them even if the disk is full
            stack.callback(reports.callbacks.end, bool(self.over))
            for part in (reports.logger, saved.store, saved.best, self.program, reports.exporter, self.evaluations):
                if part is not None:
                    stack.callback(part.close)


class UpdateTrace:
    """Traces whole calls after the first one, which compiles, until they have made some updates.

    Args:
      folder: folder of the traces, in the form of TensorBoard; every process adds a file of its own.
      updates: least number of traced updates; 0: none.
    """

    def __init__(self, folder: Path, updates: int):
        self._folder, self._left = folder, updates
        self._compiled = self._on = False

    def before(self) -> None:
        """Begins the trace, if the next call is the first one to be traced."""
        if self._compiled and self._left > 0 and not self._on:
            jax.profiler.start_trace(str(self._folder))
            self._on = True

    def after(self, updates: int) -> None:
        """Counts the updates of a call, and ends the trace after the last one."""
        self._compiled = True
        if self._on:
            self._left -= updates
            if self._left <= 0:
                self.close()
                say(f"the trace of run.profile is in {self._folder}")

    def close(self) -> None:
        """Ends the trace, if it runs."""
        if self._on:
            self._on = False
            jax.profiler.stop_trace()
