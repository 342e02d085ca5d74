"""Evaluations of a training: quick ones along the way, on separate deals, for the logs, the best checkpoint, the pool
and the curriculum; and the final one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl.config import Config
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.deals import TRAINING_DEALS
from jaxrl.matches.evaluate import Matchup, evaluation_record
from jaxrl.matches.recording.highlights import HighlightRecorder, highlights
from jaxrl.matches.recording.replays import ReplayLanes, write_replays
from jaxrl.matches.tables import Row, format_table, overall, scalars
from jaxrl.players.player import Player
from jaxrl.runs import distributed, metric_log
from jaxrl.runs.directory import RunDirectory, TrainedRun, append_json
from jaxrl.runs.logs.run_log import LOG
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files


class Evaluated(NamedTuple):
    """The results of one evaluation."""

    row: dict[str, float]  # for the logs
    score: float  # of `evaluate.best_by`, mean over seeds; higher is better
    text: str  # for the terminal
    scores: dict[str, np.ndarray]  # win rates by opponent, draws counting half, f64[S]; empty in a game of one side
    games: int  # against each opponent, of each seed
    tables: Sequence[Sequence[Row]] = ()  # by seed


class TrainingEvaluation:
    """The current policy against every configured opponent; one program, compiled at the first call."""

    def __init__(self, config: Config, env: Env, player: Player, opponents: Sequence[Player]):
        """Compiles nothing yet. `config`: configuration of the training; its section `evaluate` is read. `env`: the
        game as it is evaluated."""
        self._config, self.opponents = config, opponents
        self._matchup = Matchup(
            env,
            player,
            opponents,
            deals=config.evaluate.training_deals,
            seed=EVALUATION_SEED,
            stream=TRAINING_DEALS,
            surprise=True,
        )
        self.lanes = ReplayLanes(env)
        self._recorder = None if env.host else HighlightRecorder(config, self._matchup, self.lanes)

    def __call__(self, players: Sequence[Player]) -> Evaluated:
        """Plays all tables; `players` are the seeds of the run."""
        tables = [self._matchup.rows(player.params, player.name) for player in players]
        rates = _rates(tables)
        return Evaluated(
            row=metric_log.flatten_each([scalars(rows) for rows in tables]),
            score=float(np.mean([score(rows, self._config.evaluate.best_by) for rows in tables])),
            text=_text(tables, rates),
            scores={name: wins + draws / 2 for name, (wins, draws) in rates.items()},
            games=tables[0][0].samples.games,
            tables=tables,
        )

    def keep_replays(
        self, folder: Path, found: Evaluated, players: Sequence[Player], update: int, best: int | None
    ) -> None:
        """Writes the highlights of an evaluation as replays, and removes those of older evaluations whose checkpoints
        are not kept."""
        if self._recorder is None or not distributed.is_rank0():
            return
        replays = self._recorder(highlights(found.tables), players, f"the evaluation after {update} updates")
        with _if_possible(folder):
            write_replays(folder / f"{update:08d}", replays)
            numbers = files.numbered(folder)
            past = [number for number in numbers if number <= update]  # later ones: a continuation that was discarded
            for number in set(numbers) - {*past[-self._config.train.keep :], best}:
                shutil.rmtree(folder / f"{number:08d}", ignore_errors=True)


def final_evaluation(
    run: TrainedRun, players: Sequence[Player], before: TrainingEvaluation, directory: RunDirectory
) -> list[Row]:
    """Evaluates the final policy on fresh deals, prints the table, appends it to evaluation.json, and keeps highlights
    as replays. `before`: the evaluations along the way, with the opponents and the programs of replays."""
    settings, env = run.config.evaluate, run.env
    where = f" in stage {run.stage!r}" if run.stage else ""
    print(
        f"evaluating the final policy{where}: {settings.deals} deals x {env.num_sides} {env.side_name}s, "
        f"seed {EVALUATION_SEED}"
    )
    matchup = Matchup(env, players[0], before.opponents, deals=settings.deals, seed=EVALUATION_SEED, surprise=True)
    tables = [matchup.rows(player.params, player.name) for player in players]
    rows = [row for table in tables for row in table]
    print(format_table(rows, env))
    policy = "greedy" if settings.greedy else "sampled"
    if not distributed.is_rank0():
        return rows
    append_json(directory.evaluation_file, evaluation_record(run, rows, policy=policy, seed=EVALUATION_SEED))
    if not env.host:
        found = HighlightRecorder(run.config, matchup, before.lanes)(
            highlights(tables), players, "the final evaluation"
        )
        with _if_possible(directory.replays):
            write_replays(directory.replays / "final", found)
    return rows


@contextlib.contextmanager
def _if_possible(folder: Path) -> Iterator[None]:
    """Warns if replays cannot be written: the training does not depend on them."""
    try:
        yield
    except OSError as error:
        LOG.warning("cannot keep replays in %s: %s", folder, error.strerror or error)


def score(rows: Sequence[Row], best_by: str) -> float:
    """Returns the score of one candidate by `evaluate.best_by`; higher is better."""
    total = overall(rows)
    if best_by == "return" or total is None:
        return float(np.mean([row.samples.candidate["return"].mean() for row in rows]))
    return total.win.mean if best_by == "mean_win_rate" else total.minimum_win


def _rates(tables: Sequence[Sequence[Row]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns shares of wins and draws by opponent, f64[S] each; empty in a game of one side."""
    found: dict[str, list[tuple[float, float]]] = {}
    for rows in tables:
        for row in rows:
            if row.samples.outcomes is not None:
                found.setdefault(row.opponent, []).append(row.samples.outcomes.tally().rates()[:2])
    return {name: (np.array([w for w, _ in each]), np.array([d for _, d in each])) for name, each in found.items()}


def _text(tables: Sequence[Sequence[Row]], rates: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Returns the evaluation in one line, means over seeds."""
    returned = np.mean([score(rows, "return") for rows in tables])
    text = f"mean return against the bots {returned:.3f}"
    if not rates:
        return text
    wins = {name: float(won.mean()) for name, (won, _) in rates.items()}
    worst = min(wins, key=wins.__getitem__)
    return f"{text}, win rate {np.mean(list(wins.values())):.1%}, lowest {wins[worst]:.1%} ({worst})"
