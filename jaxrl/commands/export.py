"""`jaxrl export`: a policy file for inference."""

from __future__ import annotations

import argparse
from pathlib import Path

from jaxrl.export import save_policy
from jaxrl.runs.directory import load_run


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl export`."""
    run = load_run(args.run, args.checkpoint, args.allow)
    path = args.file or f"{run.name}.jaxrl"
    save_policy(path, run, args.seed_index)
    size = Path(path).stat().st_size
    print(f"{path}: {run.name} after {run.update} updates, parameters {run.params_hash}, {size / 1e6:.1f} MB")
    return 0
