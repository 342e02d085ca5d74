"""`jaxrl train` and `jaxrl resume`: the host loop around the compiled training.

The host only starts compiled calls and, between them, logs, checkpoints and evaluates. All randomness and all counters
that matter are in the training state, so a resumed run continues bit by bit as if it had never stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import Any, NoReturn

import jax

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.games import make_stages
from jaxrl.league.pool import entry_names, with_results
from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl.runs import distributed, metric_log, metrics
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import (
    RunDirectory,
    TrainedRun,
    each_seed,
    make_stamp,
    read_json_list,
    seed_names,
    stage_number,
    write_json,
)
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.console import waiting
from jaxrl.runs.logs.run_log import LOG, reached, say
from jaxrl.runs.prometheus import exporting
from jaxrl.runs.stopwatch import Stopwatch
from jaxrl.training import memory_budget
from jaxrl.training.callbacks import Callbacks, RunFacts
from jaxrl.training.evaluation import final_evaluation
from jaxrl.training.exploit import league
from jaxrl.training.exploit.best_response import Exploit, Exploiter
from jaxrl.training.health import diverged, due, first, learning_rates, not_finite, row_of
from jaxrl.training.program import Diverged, Failed, Interrupted
from jaxrl.training.stages import continuation
from jaxrl.training.stages.curriculum import remembered
from jaxrl.training.stages.stage_setup import StageParts, Stages, carried, check_learners
from jaxrl.training.stall_detection import Standstill
from jaxrl.training.state import TrainState
from jaxrl.training.stopping import StopRequest
from jaxrl_envs.shared.errors import UserError

CALLBACK_FAILED = 1000  # above all signals


class Trainer:
    """One training, new or resumed."""

    def __init__(self, config: Config, run: RunDirectory, *, resume: bool, stages: Stages | None = None):
        """Compiles nothing yet except the initial state.

        Args:
          config: what to train.
          run: its directory, locked by the caller.
          resume: continue from the newest intact checkpoint; from the beginning, which may be a checkpoint of another
            run (`train.from_run`), if there never was one.
          stages: of the configuration with their games, if they are made already.

        Raises:
          UserError: every checkpoint is damaged, or they are of another game or network, or a callback does not fit.
        """
        self.run, self.callbacks = run, Callbacks(config.callbacks)
        stages = stages or make_stages(config)
        check_learners(stages)
        distributed.connect_devices()
        self.store, self.best = run.checkpoints(config.train.keep, config.train.keep_every), run.best()
        snapshot = self.store.newest(quarantine=True) if resume and distributed.broadcast(self.store.saved) else None
        number = stage_number([stage for stage, _ in stages], snapshot.meta["host"]) if snapshot is not None else 0
        if snapshot is not None:
            checkpoint.check_stamp(snapshot.meta, make_stamp(stages[number][0].config, stages[number][1].training))
        origin = continuation.find_origin(config, stages) if snapshot is None else None
        if origin is not None:
            config, number = continuation.resolve(config, origin), origin.stage
            stages = [(s._replace(config=continuation.resolve(s.config, origin)), each) for s, each in stages]
        self._whole = config
        self.update = snapshot.step if snapshot else origin.update if origin else 0
        reached(self.update)
        self.host, self.window, self.course = remembered(snapshot, stages, number, self.update)
        self.course.check()
        self._adopt(self.course.parts(number))
        if snapshot is not None:
            self.state = self._restore(snapshot)
        elif origin is not None:
            self.state = continuation.first_state(self.program, origin)
        else:
            self.state = self.program.init(config.run.seed)
        with exporting(config, run.name, lambda: self.program.counters()) as self._exporter:
            if distributed.is_rank0():
                configs.save(config, run.config_file)  # only now: a change that does not fit leaves the run as it was
            self._steps_before = first(self.state.env_steps) - self.update * config.batch_size
            self.logger = metric_log.make_logger(run.path, self.update, self.steps)
            total = self._steps_before + config.num_updates * config.batch_size
            seeds, headline = config.run.seeds, self._headline()
            self._standstill = None if snapshot or origin else Standstill(config.num_updates)
            self.progress = metric_log.Progress(total * seeds, done_steps=self.steps * seeds, headline=headline)
        self.stopped = 0  # the signal that has ended `train`

    @property
    def params(self) -> Any:
        """Of the current policies as they are evaluated, with a leading axis [S] if there are several seeds."""
        return self.state.learner.played(average=self.config.evaluate.average)

    @property
    def steps(self) -> int:
        """Environment steps of each seed so far, with those of the runs that this one continues."""
        return self._steps_before + self.update * self.config.batch_size

    def _headline(self) -> dict[str, str]:
        """What the progress line shows, label -> tag: where only the learner plays, its returns may add up to 0."""
        first = {"return": "rollout/ep_rew_mean"}
        if self.env.num_sides > 1 and self.config.train.evaluate_every:
            first = {"win rate": "eval/mean_win_rate"}
        return self.course.headline | first | dict(self.program.algorithm.headline)

    # ---- the loop ----

    def train(self) -> bool:
        """Trains to the end or until asked to stop; returns whether it reached the end. The last state is saved."""
        say(f"run {self.run.path}: parameters {checkpoint.params_hash(self.params)}")
        source = self.config.train.from_name
        if source and self.update == self.config.train.from_update:
            say(f"continuing {source!r} from its update {self.update}; games are dealt again")
        facts = RunFacts(self.run.name, self.run.path, configs.to_dict(self._whole), self.steps, self.update)
        self.callbacks.start(facts, self.store)
        if self.update < self.config.num_updates:
            with waiting("compiling the training (the next start takes it from run.cache_dir) ..."):
                memory_budget.check_program(self.config, self.program, self.state)
        self.progress.begin()
        with StopRequest(lambda: self.program.request_stop()) as stop, checkpoint.no_space_is_user_error(self.run.path):
            try:
                while not self._halted(stop) and self.update < self.config.num_updates:
                    if not self._moved():
                        self._call()
            except Interrupted:
                LOG.debug("update %d: asked to stop before the next one", self.update)
                self.stopped = distributed.maximum(stop.wanted)
            except Failed as failure:
                if isinstance(failure.__cause__, Diverged):
                    raise self._diverged(str(failure), failure.__cause__.version) from failure
                self._save_last()
                self._tell(failure)
            self._save_last()
        self.progress.close()
        for table in league.tables(self.program, self.state, self.run.name, self.update):
            print(table)
        self.stopped = self.stopped or stop.wanted
        return self.update >= self.config.num_updates

    def _halted(self, stop: StopRequest) -> bool:
        """Whether to stop here, because of a signal to one of the processes.

        Raises:
          Failed: a callback has failed, in process 0.
        """
        found = distributed.maximum(CALLBACK_FAILED if self.callbacks.failing else stop.wanted)
        if found == CALLBACK_FAILED:
            self.callbacks.check()
            raise Failed from distributed.PeerFailed(distributed.USER_ERROR)
        self.stopped = found
        return bool(found)

    def _save_last(self) -> None:
        """The state as it is, if it is not saved yet, and what is being written."""
        self.store.wait()
        if self.update not in distributed.broadcast(self.store.steps):
            self.store.save(self._snapshot())
        self.store.wait()
        self.best.wait()
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

    def _adopt(self, parts: StageParts) -> None:
        """Trains with these from now on."""
        self._parts = parts
        self.config, self.env, self.program = parts.config, parts.env, parts.program

    def _moved(self) -> bool:
        """Whether the training has just moved to another stage of its curriculum."""
        number, why = self.course.due(self.update, self.state.pool)
        if number == self.course.number or self.update % self.config.train.updates_per_call:
            return False
        say(f"update {self.update}: {self.course.stages[number][0]} begins: {why}")
        self.program.close()
        try:
            parts = self.course.parts(number)
            state = carried(parts.program, self.state)
            with waiting("compiling the stage ..."):
                memory_budget.check_program(parts.config, parts.program, state)
        except (UserError, distributed.PeerFailed) as error:
            raise Failed(str(error)) from error
        self._adopt(parts)
        self.state = state
        self.course.enter(number, self.update)
        self.host.best_by, self.host.best_score = parts.config.evaluate.best_by, None  # of other games, or opponents
        return True

    def _call(self) -> None:
        """One compiled call and what is due after it."""
        train, before = self.config.train, self.update
        watch = Stopwatch()
        self.state, found, updates = self.program.advance(self.state)
        found = jax.device_get(found)  # waits for the call
        self.host.seconds += watch.elapsed()
        seconds = watch.seconds()  # only the first call has compiled
        self.update = first(self.state.update)
        reached(self.update)
        self._check_finite(found)
        row = self._row(found, seconds, updates)
        LOG.debug("update %d: %.3f s in the call", self.update, seconds)
        self.window.add(found, seconds, updates)
        if due(before, self.update, train.updates_per_call):
            self._log(self._row(self.window.metrics, self.window.seconds, self.window.updates))
            self.window = metric_log.Window()
        self.progress.show(self.steps * self.config.run.seeds, row)
        if self._standstill is not None and (still := self._standstill(self.update, row)):
            say(f"update {self.update}: {still}")
        if self._exporter is not None:
            games = first(self.state.games)
            self._exporter.update(steps=self.steps, updates=self.update, games=games, row=row)
        if train.evaluate_every and due(before, self.update, train.evaluate_every):
            self._evaluate()
        if self._parts.exploiter is not None and due(before, self.update, self.config.exploit.every):
            self._exploit(self._parts.exploiter)
        if due(before, self.update, train.checkpoint_every):
            self.store.wait()
            self.callbacks.checkpoints(self.store)
            self.store.save(self._snapshot())
        self.store.check()
        self.best.check()

    def _log(self, row: dict[str, float]) -> None:
        if self.logger is None:
            return
        with self.program.timers.log:
            self.logger.write(self.update, self.steps, row)
            self.callbacks.metrics(self.steps, row)

    def _row(self, found: metrics.Metrics, seconds: float, updates: int) -> dict[str, float]:
        """The metrics of `updates` updates as a row."""
        steps = self.config.batch_size * updates * self.config.run.seeds
        return row_of(found, steps, seconds) | {
            "train/updates": updates,
            "time/iterations": self.update,
            "time/total_timesteps": self.steps,
            "time/time_elapsed": self.host.seconds,
            **self.course.metrics(self.update),
        }

    def _check_finite(self, found: metrics.Metrics) -> None:
        """Stops before a state with non-finite numbers is played with, or saved over good ones."""
        if wrong := not_finite(found):
            raise UserError(
                f"{self.env.id} gave observations or rewards that are not finite "
                f"({wrong:.0f} numbers up to update {self.update}): mend the game "
                f"(`jaxrl check` tries it), then {self._back()}"
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
        self.host.controllers, self.host.curriculum = self._parts.controllers, self.course.record()
        self.host.window = self.window.record() if self.window.updates else {}
        stamp = make_stamp(self.config, self.env, self._whole)
        return checkpoint.take(self.update, self.program.saved(self.state), stamp, dataclasses.asdict(self.host))

    def _restore(self, snapshot: checkpoint.Snapshot) -> TrainState:
        template = self.program.abstract_state
        state: TrainState = checkpoint.unpack(snapshot.arrays, snapshot.meta["leaves"], template)
        loaded = checkpoint.params_hash(state.learner.params)
        if loaded != snapshot.meta["params_hash"]:
            raise RuntimeError(f"loaded parameters {loaded} are not those saved, {snapshot.meta['params_hash']}")
        if self.host.controllers not in ([], self._parts.controllers):
            raise UserError(
                f"the games in progress were begun with {', '.join(self.host.controllers)} at the seats: resume with "
                "the same bots in the same order (weights may change), or start a new run with train.from_run."
            )
        if self.host.best_by != self.config.evaluate.best_by:  # scores of two kinds cannot be compared
            self.host.best_by, self.host.best_score = self.config.evaluate.best_by, None
        if not distributed.broadcast(self._still_best):
            self.host.best_score = None
        # Traced hyper-parameters come from the configuration: it may have been changed on purpose for the rest.
        return self.program.restored(self.program.with_hyper(state))

    def _still_best(self) -> bool:
        """Whether there is a best state of the past of this one."""
        self.run.undo_best(self.update, make_stamp(self.config, self.env, self._whole).config_digest)
        return bool(self.best.steps())

    # ---- evaluation ----

    def players(self) -> list[Player]:
        """The current policy of each seed."""
        seeds = self.config.run.seeds
        each = zip(seed_names(self.run.name, seeds), each_seed(self.params, seeds), strict=True)
        return [self._parts.player.named(name, params) for name, params in each]

    def _evaluate(self) -> None:
        """A small evaluation on deals of its own; keeps the state if it is the best so far."""
        players = self.players()
        try:
            verdict = self._parts.evaluation(players)
            row = verdict.row | self.course.evaluated(verdict, players)
        except (UserError, distributed.PeerFailed) as error:  # an engine that fails, a bot that breaks the rules
            raise Failed(str(error)) from error
        self._log(row)
        self.progress.tell(row)
        say(f"update {self.update}: {verdict.text}")
        if self.state.pool is not None:
            names = entry_names(self.config.league, self.env)
            seeds = self.config.run.seeds
            scores = {name: each if seeds > 1 else each[0] for name, each in verdict.scores.items()}
            pool = distributed.place(with_results(self.state.pool, names, scores), self.program.shardings.pool)
            self.state = dataclasses.replace(self.state, pool=pool)
        if self.host.best_score is None or verdict.score > self.host.best_score:
            self.host.best_score, self.host.best_update = verdict.score, self.update
            self.best.save(self._snapshot())
            best = {"update": self.update, "score": verdict.score, "best_by": self.host.best_by, "row": verdict.row}
            if distributed.is_rank0():
                write_json(self.run.best_file, best)
        self._parts.evaluation.keep_replays(self.run.replays, verdict, players, self.update, self.host.best_update)

    def _exploit(self, exploiter: Exploiter) -> None:
        """Best responses to the current policy: what they win goes into the logs, and they into the pool."""
        say(f"update {self.update}: training best responses to the policy ...")
        found: list[Exploit] = []
        for seed, player in enumerate(self.players()):
            found.append(exploiter(player.params, self.update, seed))
            say(f"update {self.update}: {player.name}: {found[-1].text()}")
        self._log(metric_log.flatten_each([exploit.scalars() for exploit in found]))
        if self.config.league.snapshots:
            self.state = league.join(self.program, self.state, found, self.update)

    def final_evaluation(self) -> list[Row]:
        """Measures the final policy on fresh deals, prints the table and keeps it in evaluation.json."""
        config, digest, stage = self.config, checkpoint.params_hash(self.params), self.course.stage.name
        trained = TrainedRun(self.run.name, config, self._parts.evaluation_env, self.update, [], digest, stage)
        rows = final_evaluation(trained, self.players(), self._parts.evaluation, self.run)
        if self.host.best_update not in (None, self.update):
            print(
                f"the best evaluation during training was after update {self.host.best_update}; it was on other deals "
                f"and picked, so measure it again: {next_command('evaluate', self.run.path, '--checkpoint best')}"
            )
        return rows

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: all updates are made, and these parameters have been evaluated."""
        if self.update < self.config.num_updates:
            return False
        digest = checkpoint.params_hash(self.params)
        records = distributed.broadcast(lambda: read_json_list(self.run.evaluation_file))
        return any(record.get("params_hash") == digest for record in records)

    def close(self) -> None:
        """Closes the log files and finishes the checkpoints under way."""
        self.progress.close()
        with contextlib.ExitStack() as stack:  # closes all of them even if the disk is full
            stack.callback(self.callbacks.end, self.update >= self.config.num_updates)
            for part in (self.logger, self.store, self.best, self.program, self._exporter):
                if part is not None:
                    stack.callback(part.close)
