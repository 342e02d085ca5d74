"""`python -m scripts.benchmark.gate`: fails if training or random play became slower than `speed_gate.json` says.

A rate is in steps per CPU second of one core, divided by that of a calibration kernel in the same process: plain jax,
none of our code. What the machine's clock and its other users do to both of them cancels. All of them take turns, the
best turn counts, and what looks slow is measured again before it fails.

Ratios hold for one kind of processor. On another kind the figures are printed, and nothing fails.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.diagnose import hardware
from jaxrl.diagnose.timing import Speed, safe_ratio
from jaxrl.text_tables import table
from scripts.benchmark.worker import Task, ask

FILE = Path(__file__).with_name("speed_gate.json")
MOST = 15.0  # per cent of its ratio that a figure may lose; card games kept within 4 % at a load of 15 on two cores
LOOSE = {"battle": 60.0}  # the same where threads hand over to each other: training was 42 % off at that load
ATTEMPTS = 3  # a figure is slow if it is slow in all of them
TURNS, SECONDS = 7, 0.3  # of every figure in an attempt; least CPU seconds of a turn
SMALL = ["run.devices=1", "train.updates_per_call=1", "train.num_envs=256", "train.num_steps=16", "train.stagger=0"]
ALONE = ["league.opponents=[]", "league.snapshots=0"]
PRESETS = {  # so small that they are compiled and measured within a CI step
    "skull_king": ("skull_king_cpu", [*SMALL, "ppo.minibatches=4", "seats=[{learners: all}]"]),
    "beasty_bar": ("beasty_bar", [*SMALL, "ppo.minibatches=4", *ALONE, "env.options.lookahead=false"]),
    "battle": ("battle_speed", ["run.devices=1", "train.updates_per_call=1", "train.num_steps=32"]),
}

Ratios = dict[str, float]  # "preset, figure" -> its rate over that of the calibration kernel


def ratio(figure: Speed, calibration: Speed) -> float:
    """The best rate per CPU second of a figure over that of the calibration kernel."""
    return safe_ratio(figure.best_cpu_rate, calibration.best_cpu_rate)


def measured() -> Ratios:
    """All ratios, by workers that take turns on one core."""
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    trees = [configs.to_dict(configs.load(name, overrides)) for name, overrides in PRESETS.values()]
    answers = ask([Task("gate", {"config": tree}, core=core) for tree in trees], rounds=TURNS, seconds=SECONDS)
    return {
        f"{preset}, {figure.name}": ratio(figure, calibration)
        for preset, answer in zip(PRESETS, answers, strict=True)
        for *figures, calibration in [answer.results]
        for figure in figures
    }


def slow(found: Ratios, recorded: Ratios, most: float) -> list[str]:
    """The figures that lost more than `most` per cent of what is recorded, or more than `LOOSE` allows."""
    share = {name: 1.0 - max(most, LOOSE.get(name.partition(",")[0], 0.0)) / 100.0 for name in recorded}
    return [name for name, value in recorded.items() if found.get(name, 0.0) < value * share[name]]


def best_of(attempts: int, recorded: Ratios, most: float) -> Ratios:
    """The best of as many attempts as it takes until nothing is slow; workers take programs from a common cache."""
    found: Ratios = {}
    with tempfile.TemporaryDirectory(prefix="jaxrl-gate-") as cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        for _ in range(attempts):
            now = measured()
            found = {name: max(value, found.get(name, 0.0)) for name, value in now.items()}
            if not slow(found, recorded, most):
                break
    return found


def run(args: argparse.Namespace) -> int:
    """Measures, prints, and records or compares; 1 if a figure is slow."""
    known: dict[str, Ratios] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    machine = ", ".join(filter(None, [hardware.cpu_model(), hardware.cpu_generation(), hardware.vector_width()]))
    recorded = {} if args.record else known.get(machine, {})
    found = best_of(1 if args.record else ATTEMPTS, recorded, args.most)
    rows = [
        [name, f"{value:.4g}", f"{recorded[name]:.4g}", f"{100 * (value / recorded[name] - 1):+.1f} %"]
        if name in recorded
        else [name, f"{value:.4g}", "-", "-"]
        for name, value in found.items()
    ]
    print(table([f"steps per calibration, {machine}", "now", "recorded", "change"], rows))
    if args.record:
        FILE.write_text(json.dumps(known | {machine: found}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    if not recorded:
        print("nothing is recorded for this processor, so nothing fails (python -m scripts.benchmark.gate --record)")
    lost = slow(found, recorded, args.most)
    print("\n".join(f"FAIL  {name} lost too much (bound: {args.most:g} %)" for name in lost), end="\n" * bool(lost))
    return 1 if lost else 0


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = cli.Parser(prog="python -m scripts.benchmark.gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write today's ratios for this processor")
    parser.add_argument("--most", type=float, default=MOST, metavar="PERCENT", help="that a figure may lose")
    args = parser.parse_args(argv)
    return cli.guarded(functools.partial(run, args))


if __name__ == "__main__":
    sys.exit(main())
