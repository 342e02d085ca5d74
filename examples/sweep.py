"""A search for hyper-parameters with Optuna: pip install optuna.

python -m examples.sweep --config examples/nim.yaml --allow examples --trials 20 --storage sqlite:///sweep.db

Every trial is a run of its own. The win rate of its evaluations in training may prune it, which costs nothing of the
others; what is left is scored on deals of another seed. Processes that name the same storage and study share the work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import jaxrl
from jaxrl.matches.tables import overall
from jaxrl.training.callbacks import Callback, RunFacts

PROGRESS = "eval/mean_win_rate"  # of metrics.jsonl
DEALS_SEED = 7  # not that of the evaluations in training


class Pruning(Callback):
    """Stops the training of a trial that is doing worse than the others did by then; the run stays, saved."""

    def __init__(self, trial: Any):
        self.trial, self.pruned = trial, False

    def on_start(self, run: RunFacts) -> None:
        """Notes in the study which run this is."""
        self.trial.set_user_attr("run", str(run.directory))

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tells Optuna of an evaluation, and asks whether to go on."""
        if PROGRESS in metrics:
            self.trial.report(metrics[PROGRESS], step)
            self.pruned = self.trial.should_prune()
            if self.pruned:
                raise RuntimeError("this trial does worse than the others")


def score(trial: Any, args: argparse.Namespace) -> float:
    """The mean win rate of a training with the values that the trial suggests."""
    import optuna  # here, because only a sweep needs it

    values = [
        f"ppo.learning_rate={trial.suggest_float('learning_rate', 1e-4, 1e-2, log=True)}",
        f"ppo.entropy_coef={trial.suggest_float('entropy', 0.003, 0.3, log=True)}",
        f"ppo.epochs={trial.suggest_int('epochs', 1, 4)}",
    ]
    pruning, name = Pruning(trial), f"{args.study}-{trial.number}"
    try:
        jaxrl.train(args.config, [*args.overrides, *values], name=name, callbacks=[pruning], allow=args.allow)
    except jaxrl.UserError:
        if pruning.pruned:
            raise optuna.TrialPruned from None
        raise
    rows = jaxrl.evaluate(trial.user_attrs["run"], deals=args.deals, seed=DEALS_SEED, allow=args.allow)
    total = overall(rows)
    if total is None:
        raise jaxrl.UserError("a sweep compares win rates, which a game of one side does not have.")
    return total.win.mean


def main(argv: Sequence[str] | None = None) -> Any:
    """The study, with its trials."""
    import optuna

    parser = argparse.ArgumentParser(description="search for hyper-parameters with Optuna")
    parser.add_argument("--config", default="skull_king_cpu")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--study", default="sweep", help="its name, with which the names of the runs begin")
    parser.add_argument("--storage", help="of Optuna, e.g. sqlite:///sweep.db; default: in memory")
    parser.add_argument("--deals", type=int, default=200, help="of the evaluation that scores a trial")
    parser.add_argument("--allow", action="append", default=[], help="a module that the configuration may name")
    parser.add_argument("overrides", nargs="*", metavar="a.b=v")
    args = parser.parse_args(argv)
    study = optuna.create_study(
        study_name=args.study,
        storage=args.storage,
        load_if_exists=True,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
    )
    study.optimize(lambda trial: score(trial, args), args.trials)
    print(f"best of {len(study.trials)} trials: {study.best_value:.3f} won with {study.best_params}")
    return study


if __name__ == "__main__":
    main()
