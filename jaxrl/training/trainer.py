"""`jaxrl train` and `jaxrl resume`: the host loop around the compiled training.

The host only starts compiled calls and, between them, logs, checkpoints and evaluates. All randomness and all counters
that matter are in the training state, so a resumed run continues bit by bit as if it had never stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import jax

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.games import Stages
from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl.runs import distributed, metric_log, metrics
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import (
    RunDirectory,
    TrainedRun,
    make_stamp,
    read_json_list,
    stage_number,
    write_json,
)
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.console import waiting
from jaxrl.runs.logs.run_log import LOG, reached, say
from jaxrl.runs.prometheus import exporting
from jaxrl.runs.stopwatch import Stopwatch
from jaxrl.text_tables import milestone
from jaxrl.training import memory_budget, stopping
from jaxrl.training.callbacks import Callbacks, RunFacts
from jaxrl.training.exploit import league
from jaxrl.training.exploit.best_response import Exploit, Exploiter
from jaxrl.training.health import diverged, due, first, game_fault, gpu_utilisation, learning_rates, row_of
from jaxrl.training.profiling import UpdateTrace
from jaxrl.training.program import Diverged, Failed, Interrupted, Program
from jaxrl.training.stages import continuation
from jaxrl.training.stages.curriculum import newest_checkpoint, remembered
from jaxrl.training.stages.stage_setup import StageSetup, carried, check_learners, policies
from jaxrl.training.stall_detection import StallDetector
from jaxrl.training.stopping import StopRequest
from jaxrl.training.strength import milestones
from jaxrl.training.strength.beside import LAG, WAIT, Evaluator
from jaxrl.training.strength.evaluation import Evaluated, final_evaluation
from jaxrl.training.strength.milestones import EvaluationPoint
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

OVER, CALLBACK_FAILED = 999, 1000  # above all signals
AT_RISK = 300.0  # seconds of a run after which what is not saved is saved, whatever `train.checkpoint_every`


@contextlib.contextmanager
def _saved_first() -> Iterator[None]:
    """Turns what ends a part of a training, such as an evaluation, into Failed, before which the state is saved."""
    try:
        yield
    except (UserError, distributed.PeerFailed) as error:
        raise Failed(str(error)) from error


class Trainer:
    """One training, new or resumed."""

    def __init__(self, config: Config, run: RunDirectory, stages: Stages, *, resume: bool):
        """Compiles nothing yet except the initial state.

        Args:
          config: what to train.
          run: its directory, locked by the caller.
          stages: of the configuration, with their games.
          resume: continue from the newest intact checkpoint; from the beginning, which may be a checkpoint of another
            run (`train.from_run`), if there never was one.

        Raises:
          UserError: every checkpoint is damaged, or they are of another game or network, or a callback does not fit.
        """
        self._counted = time.monotonic()  # up to here the time is in `HostState.clock`
        self.run, self.callbacks = run, Callbacks(config.callbacks)
        check_learners(stages)
        distributed.connect_devices()
        self.store, self.best = run.checkpoints(config.train.keep, config.train.keep_every), run.best()
        snapshot, number, setups = None, 0, dict[int, StageSetup]()
        if resume and distributed.broadcast(self.store.saved):
            snapshot = newest_checkpoint(self.store, stages, setups)
            number = stage_number([stage for stage, _ in stages], snapshot.meta["host"])
        origin = continuation.find_origin(config, stages) if snapshot is None else None
        if origin is not None:
            number, train = origin.stage, dataclasses.replace(config.train, from_run=origin.from_run)
            config = dataclasses.replace(config, train=train)  # which is the same in all stages
            stages = [(s._replace(config=dataclasses.replace(s.config, train=train)), games) for s, games in stages]
        self._whole, self.update = config, snapshot.step if snapshot else origin.update if origin else 0
        reached(self.update)
        self.host, self.window, self.course = remembered(snapshot, stages, number, self.update, setups)
        self.course.check()
        self._setup = self.course.setup(number)
        if snapshot is not None:
            self.state = continuation.resumed_state(self.program, snapshot)
            if not distributed.broadcast(self._still_best):
                self.host.best_score = None
        elif origin is not None:
            self.state = continuation.first_state(self.program, origin)
        else:
            self.state = self.program.init(config.run.seed)
        with exporting(config, run.name, lambda: self.program.counters()) as self._exporter:
            if distributed.is_rank0():
                configs.save(config, run.config_file)  # only now: a change that does not fit leaves the run as it was
            self._steps_before = first(self.state.env_steps) - self.update * config.batch_size
            if distributed.is_rank0() and (self.host.milestones or run.milestones_file.exists()):
                write_json(run.milestones_file, self.host.milestones)  # a kill may have come after later ones
            self.logger = metric_log.make_logger(run.path, self.update, self.steps, self._pending, config.run.logs)
            total = self._steps_before + config.num_updates * config.batch_size
            seeds, headline = config.run.seeds, self._setup.headline
            self._stall_detector = None if snapshot or origin else StallDetector(config.num_updates)
            self.progress = metric_log.Progress(total * seeds, done_steps=self.steps * seeds, headline=headline)
        self.stopped = 0  # the signal that has ended `train`
        self._saved = self.host.clock  # at the newest checkpoint
        self._trace = UpdateTrace(run.path / "profile", config.run.profile)
        self._logged = self.steps, time.monotonic()  # at the newest line in the logs
        self._over = ""
        self._beside: Evaluator | None = None
        if (config.evaluate.beside and config.train.evaluate_every) or self._pending:
            self._beside = Evaluator(run, self.update)
            self._recover(self._beside)

    @property
    def config(self) -> Config:
        """The configuration of the stage."""
        return self._setup.config

    @property
    def env(self) -> Env:
        """The game as it is trained on."""
        return self._setup.env

    @property
    def program(self) -> Program:
        """The training program of the stage."""
        return self._setup.program

    @property
    def params(self) -> Any:
        """Of the current policies as they are evaluated, with a leading axis [S] if there are several seeds."""
        return self.state.learner.played(average=self.config.evaluate.average)

    @property
    def steps(self) -> int:
        """Environment steps of each seed so far, with those of the runs that this one continues."""
        return self._steps_before + self.update * self.config.batch_size

    @property
    def over(self) -> str:
        """Why the training is over, before its last update or with it; empty: it is not."""
        if self.update >= self.config.num_updates:
            return "all updates are done"
        return self._over or stopping.over(self.config.train.stop, self.host)

    # ---- the loop ----

    def train(self) -> bool:
        """Trains to the end or until asked to stop; returns whether it reached the end. The last state is saved."""
        say(f"run {self.run.path}: parameters {checkpoint.params_hash(self.params)}")
        train = self.config.train
        if train.from_run and self.update == train.from_update:
            say(f"starting from {train.from_run}; games are dealt again")
        facts = RunFacts(self.run.name, self.run.path, configs.to_dict(self._whole), self.steps, self.update)
        self.callbacks.start(facts, self.store)
        if self._beside is not None and self.config.evaluate.beside and (self.host.pending or not self.over):
            self._beside.start(self.config, self._pending)
        if not self.over:
            with waiting("compiling the training (the next start takes it from run.cache_dir) ..."):
                memory_budget.check_program(self.program, self.state)
        self.progress.begin()
        self._logged = self.steps, time.monotonic()
        with StopRequest(lambda: self.program.request_stop()) as stop, checkpoint.no_space_is_user_error(self.run.path):
            try:
                while not self._halted(stop):
                    if not self._moved():
                        self._call()
                if self.over:
                    self._await_pending(stop)
            except Interrupted:
                LOG.debug("update %d: asked to stop before the next one", self.update)
                self.stopped = distributed.maximum(stop.wanted)
            except Failed as failure:
                if isinstance(failure.__cause__, Diverged):
                    raise self._diverged(str(failure), failure.__cause__.version) from failure
                self._save_last()
                self._tell(failure)
            self._save_last()
        self._trace.close()
        self.progress.close()
        for table in league.tables(self.program, self.state, self.run.name, self.update):
            print(table)
        self.stopped = self.stopped or stop.wanted
        return bool(self.over) and not self.host.pending

    def _halted(self, stop: StopRequest) -> bool:
        """Whether to stop here: a process got a signal, or the training is over.

        Raises:
          Failed: a callback has failed, in process 0.
        """
        self._await_pending(stop, LAG)
        over = self.callbacks.over or self.over
        found = distributed.maximum(CALLBACK_FAILED if self.callbacks.failing else stop.wanted or OVER * bool(over))
        if found == CALLBACK_FAILED:
            self.callbacks.check()
            raise Failed from distributed.PeerFailed(distributed.USER_ERROR)
        if found == OVER:
            self._over = over or "process 0 has found it so"
            if self.update < self.config.num_updates:
                say(f"update {self.update}: the training ends here: {self._over}")
            return True
        self.stopped = found
        return bool(found)

    def _save_last(self) -> None:
        """The state as it is, if it is not saved yet, and what is being written."""
        self.store.wait()
        if self.update not in distributed.broadcast(self.store.steps):
            self._save()
        self.store.wait()
        self.best.wait()
        if self._beside is not None:
            self._beside.forget(self._pending)
        self.callbacks.checkpoints(self.store)

    def _tell(self, failure: Failed) -> NoReturn:
        """Raises what stopped the run; the last state is saved."""
        self.progress.close()
        saved = f"saved after update {self.update}; continue with: {next_command('resume', self.run.path)}"
        cause = failure.__cause__
        if isinstance(cause, UserError):
            raise UserError(f"{str(cause).rstrip('.')}; the training is {saved}") from cause
        if distributed.is_rank0():
            print(f"the training stopped and is {saved}", file=sys.stderr)
        raise cause if cause is not None else failure

    def _moved(self) -> bool:
        """Whether the training has just moved to another stage of its curriculum."""
        number, why = self.course.due(self.update, self.state.pool)
        if number == self.course.number or self.update % self.config.train.updates_per_call:
            return False
        say(f"update {self.update}: {self.course.stages[number][0]} begins: {why}")
        self.program.close()
        with _saved_first():
            setup = self.course.setup(number)
            state = carried(setup.program, self.state)
            with waiting("compiling the stage ..."):
                memory_budget.check_program(setup.program, state)
        self._setup, self.state = setup, state
        self.course.enter(number, self.update)
        self.host.best_by, self.host.best_score = self.config.evaluate.best_by, None  # of other games, or opponents
        self.host.since_best, self.host.first, self.host.win_rates = 0, {}, {}
        return True

    def _call(self) -> None:
        """One compiled call and what is due after it."""
        train, before = self.config.train, self.update
        self._trace.before()
        watch, cpu = Stopwatch(), time.process_time()
        self.state, found, updates = self.program.advance(self.state)
        found = jax.device_get(found)  # waits for the call
        self.host.seconds += watch.elapsed()
        self.host.cpu_seconds += time.process_time() - cpu
        seconds = watch.seconds()  # only the first call has compiled
        self._trace.after(updates)
        self.update = first(self.state.update)
        reached(self.update)
        self._check_sound(found)
        found |= gpu_utilisation(self.program.mesh.local_devices, seconds)
        row = self._row(found, seconds, updates)
        LOG.debug("update %d: %.3f s in the call", self.update, seconds)
        self.window.add(found, seconds, updates)
        if due(before, self.update, train.updates_per_call):
            line = self._row(self.window.metrics, self.window.seconds, self.window.updates)
            self._log(line | {"time/steps_per_s": self._pace()})
            self.window = metric_log.Window()
        self.progress.show(self.steps * self.config.run.seeds, row)
        if self._stall_detector is not None and (still := self._stall_detector(self.update, row)):
            say(f"update {self.update}: {still}")
        if self._exporter is not None:
            games = first(self.state.games)
            self._exporter.update(steps=self.steps, updates=self.update, games=games, row=row)
        if train.evaluate_every and due(before, self.update, train.evaluate_every):
            self._evaluate()
        if self._setup.exploiter is not None and due(before, self.update, self.config.exploit.every):
            self._exploit(self._setup.exploiter)
        now = time.monotonic()
        self.host.clock, self._counted = self.host.clock + now - self._counted, now
        at_risk = self.host.clock - self._saved > AT_RISK
        if due(before, self.update, train.checkpoint_every) or distributed.maximum(at_risk):
            self.store.wait()
            self.callbacks.checkpoints(self.store)
            self._save()
        self.store.check()
        self.best.check()

    def _now(self) -> EvaluationPoint:
        return EvaluationPoint(self.update, self.steps, self.host.seconds, self.host.cpu_seconds)

    def _pace(self) -> float:
        """Environment steps of all seeds per second of the clock since the last line in the logs."""
        (steps, began), self._logged = self._logged, (self.steps, time.monotonic())
        return metric_log.rate((self.steps - steps) * self.config.run.seeds, self._logged[1] - began)

    def _log(self, row: dict[str, float], when: EvaluationPoint | None = None) -> None:
        """Writes a line, of now or of an earlier moment."""
        if self.logger is None:
            return
        when = when or self._now()
        with self.program.timers.log:
            self.logger.write(when.update, when.steps, row)
            self.callbacks.metrics(when.steps, row)

    def _row(self, found: metrics.Metrics, seconds: float, updates: int) -> dict[str, float]:
        """The metrics of `updates` updates as a row."""
        steps = self.config.batch_size * updates * self.config.run.seeds
        return row_of(found, steps, seconds) | {
            "train/updates": updates,
            "time/iterations": self.update,
            "time/total_timesteps": self.steps,
            "time/time_elapsed": self.host.seconds,
            "time/cpu_seconds": self.host.cpu_seconds,
            **self.course.metrics(self.update),
        }

    def _check_sound(self, found: metrics.Metrics) -> None:
        """Stops before a state that a broken game or a diverged learner has spoilt is played with or saved."""
        if fault := game_fault(found):
            raise UserError(
                f"{self.env.id} {fault} up to update {self.update}; mend the game (`jaxrl check` tries it), then "
                f"{self._back()}"
            )
        if what := diverged(found, self.state.learner.params):
            raise self._diverged(what)

    def _diverged(self, what: str, version: int | None = None) -> UserError:
        """The sentence; checkpoints that hold the policy after `version` updates are moved out of the way."""
        self.store.wait()
        for step in self.store.steps():
            if version is not None and step >= version:
                self.store.quarantine(step)
        lower = " and ".join(learning_rates(self.config))
        return UserError(f"training diverged: {what} after update {self.update}: lower {lower}, then {self._back()}")

    def _back(self) -> str:
        """What to do where the present state is lost."""
        self.store.wait()
        steps = self.store.steps()
        if not steps:
            return "start again: nothing was saved yet."
        return f"go on from checkpoint {steps[-1]}, which is intact: {next_command('resume', self.run.path)}"

    # ---- checkpoints ----

    def _snapshot(self) -> checkpoint.Snapshot:
        self.host.controllers, self.host.curriculum = list(self.program.setup.seats.names), self.course.record()
        self.host.window = self.window.record() if self.window.updates else {}
        stamp = make_stamp(self.config, self.env, self._whole)
        return checkpoint.take(self.update, self.program.saved(self.state), stamp, dataclasses.asdict(self.host))

    def _save(self) -> None:
        """Starts writing a checkpoint; the one before is complete."""
        if self._beside is not None:
            self._beside.settle(self._pending)
        self.store.save(self._snapshot())
        self._saved = self.host.clock

    def _still_best(self) -> bool:
        """Whether there is a best state of the past of this one."""
        self.run.undo_best(self.update, make_stamp(self.config, self.env, self._whole).config_digest)
        return bool(self.best.steps())

    # ---- evaluation ----

    def players(self) -> list[Player]:
        """The current policy of each seed."""
        return self._players(self.params)

    def _players(self, params: Any) -> list[Player]:
        return policies(self._setup.player, self.run.name, params, self.config.run.seeds)

    def _evaluate(self) -> None:
        """A small evaluation on deals of its own, here or beside the training; keeps the state if it is the best so
        far."""
        if self._beside is not None and self._beside.alive:
            self.host.pending.append(list(self._now()))
            self._beside.submit(self._snapshot())
        else:
            self._evaluate_here(self._now(), self.players(), self._snapshot)

    def _evaluate_here(
        self, when: EvaluationPoint, players: Sequence[Player], state: Callable[[], checkpoint.Snapshot | None]
    ) -> None:
        with _saved_first():  # an engine may fail, a bot break the rules
            verdict = self._setup.evaluation(players)
            row = verdict.row | self.course.evaluated(verdict, players)
        self._take(when, verdict, row, state)
        self._setup.evaluation.keep_replays(self.run.replays, verdict, players, when.update, self.host.best_update)

    def _take(
        self,
        when: EvaluationPoint,
        verdict: Evaluated,
        row: dict[str, float],
        state: Callable[[], checkpoint.Snapshot | None],
    ) -> None:
        """Takes an evaluation of a `state` into the logs, the milestones and the search for the best one."""
        host = self.host
        more, reached = milestones.take(host, self.config.train.milestones, when, verdict.row)
        self._log(row | more, when)
        self.progress.tell(row)
        say(f"update {when.update}: {verdict.text}")
        for each in reached:
            say(f"update {when.update}: milestone: {milestone(each)}")
        if reached and distributed.is_rank0():
            write_json(self.run.milestones_file, host.milestones)
        host.since_best += 1
        if host.best_score is None or verdict.score > host.best_score:
            host.best_score, host.best_update, host.since_best = verdict.score, when.update, 0
            if (snapshot := state()) is None:  # a later checkpoint did without it, so it lies in `best` already
                return
            self.best.save(snapshot)
            best = {"update": when.update, "score": verdict.score, "best_by": host.best_by, "row": verdict.row}
            if distributed.is_rank0():
                write_json(self.run.best_file, best)

    # ---- evaluations beside the training ----

    @property
    def _pending(self) -> list[int]:
        """Updates whose evaluations are not taken in yet."""
        return [int(update) for update, *_ in self.host.pending]

    def _recover(self, beside: Evaluator) -> None:
        """Takes in results of before; forgets evaluations of which nothing is left."""
        if lost := [update for update in self._pending if not beside.keeps(update)]:
            LOG.warning("the evaluations after updates %s are lost: their states are gone", lost)
        self.host.pending = [each for each in self.host.pending if int(each[0]) not in lost]
        self._collect(only_made=True)

    def _collect(self, only_made: bool = False) -> None:
        """Takes in what the evaluations beside the training have found; makes them here if their process has died."""
        beside = self._beside
        while beside is not None and self.host.pending:
            update, steps, *seconds = self.host.pending[0]
            when = EvaluationPoint(int(update), int(steps), *seconds)
            state = functools.partial(beside.state, when.update)
            if (found := beside.found(when.update)) is not None:
                self._take(when, found, found.row, state)
            elif only_made or beside.alive:
                return
            elif (snapshot := state()) is not None:
                params = checkpoint.params_of(snapshot.arrays, average=self.config.evaluate.average)
                self._evaluate_here(when, self._players(params), state)
            self.host.pending.pop(0)

    def _await_pending(self, stop: StopRequest, most: int = 0) -> None:
        """Takes in the evaluations beside the training, and waits while more than that many are pending."""
        self._collect()
        if len(self.host.pending) <= most:
            return
        with waiting(f"waiting for {len(self.host.pending) - most} evaluation(s) ...", again=bool(most)):
            while len(self.host.pending) > most and not stop.wanted:
                time.sleep(WAIT)
                self._collect()

    def _exploit(self, exploiter: Exploiter) -> None:
        """Best responses to the current policy: what they win goes into the logs, and they into the pool."""
        say(f"update {self.update}: training best responses to the policy ...")
        found: list[Exploit] = []
        for seed, player in enumerate(self.players()):
            with _saved_first():  # a best response may diverge
                found.append(exploiter(player.params, self.update, seed))
            say(f"update {self.update}: {player.name}: {found[-1].text()}")
        self._log(metric_log.flatten_each([exploit.scalars() for exploit in found]))
        if self.config.league.snapshots:
            self.state = league.join(self.program, self.state, found, self.update)

    def final_evaluation(self) -> list[Row]:
        """Measures the final policy on fresh deals, prints the table and keeps it in evaluation.json."""
        config, digest, stage = self.config, checkpoint.params_hash(self.params), self.course.stage.name
        trained = TrainedRun(self.run.name, config, self._setup.evaluation_env, self.update, [], digest, stage)
        rows = final_evaluation(trained, self.players(), self._setup.evaluation, self.run)
        if self.host.best_update not in (None, self.update):
            print(
                f"the best evaluation during training was after update {self.host.best_update}; it was on other deals "
                f"and picked, so measure it again: {next_command('evaluate', self.run.path, '--checkpoint best')}"
            )
        return rows

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: the training is over, and these parameters have been evaluated."""
        if not self.over:
            return False
        digest = checkpoint.params_hash(self.params)
        records = distributed.broadcast(lambda: read_json_list(self.run.evaluation_file))
        return any(record.get("params_hash") == digest for record in records)

    def close(self) -> None:
        """Closes the log files and finishes the checkpoints under way."""
        self.progress.close()
        with contextlib.ExitStack() as stack:  # closes all of them even if the disk is full
            stack.callback(self.callbacks.end, bool(self.over))
            for part in (self.logger, self.store, self.best, self.program, self._exporter, self._beside):
                if part is not None:
                    stack.callback(part.close)
