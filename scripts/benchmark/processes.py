"""`python -m scripts.benchmark.processes --config NAME a.b=value`: what it costs to train in several processes.

One process with N devices and N processes with one device each (`--processes`) train the same in turn; compared are
the steps per second of the second half of every run, in which nothing is compiled.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from jaxrl.runs.metric_log import read_rows


def steps_per_second(folder: Path, words: list[str]) -> float:
    """Measures one training, which ends in the folder of runs `folder`."""
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        command = [sys.executable, "-m", "jaxrl", *words, "--name", "run", f"run.directory={runs}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rates = [row["time/fps"] for row in read_rows(Path(runs) / "run" / "metrics.jsonl") if "time/fps" in row]
    return float(np.median(rates[len(rates) // 2 :]))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=2, help="processes, and devices of the one process (default: 2)")
    parser.add_argument("--rounds", type=int, default=5, help="trainings of each kind (default: 5)")
    parser.add_argument("--config", required=True)
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_intermixed_args()
    train = ["train", "--config", args.config, *args.overrides, f"run.devices={args.n}", "train.evaluate_every=0"]
    launch, ratios = ["--processes", str(args.n), "--restarts", "0"], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            one, several = (steps_per_second(Path(folder), words) for words in (train, [*train, *launch]))
            ratios.append(several / one)
            print(f"round {number}: one process {one:,.0f} steps/s, {args.n} processes {several:,.0f}", flush=True)
    print(f"ratio: median {np.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
