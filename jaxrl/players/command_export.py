"""`jaxrl export`: a policy file for inference."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path

from jaxrl.config import command_line as arguments

HELP = "write a policy file for inference"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl export`."""
    arguments.run(parser)
    arguments.allow(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the policy file (default: RUN.jaxrl)")
    arguments.checkpoint(parser)
    parser.add_argument("--seed-index", type=arguments.whole, default=0, help="which seed of a run with several")
    parser.add_argument("--half", action="store_true", help="weights in half precision; says what that costs")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl export`."""
    from jaxrl.matches.remote import is_remote
    from jaxrl.players.export import load_policy, save_policy
    from jaxrl.players.policy_agreement import count_equal_choices
    from jaxrl.runs.directory import load_run

    run = load_run(args.run, args.checkpoint, args.allow)
    path = args.file or f"{run.name}.jaxrl"
    save_policy(path, run, args.seed_index, half=args.half)
    size = Path(path).stat().st_size
    print(f"{path}: {run.name} after {run.update} updates, parameters {run.params_hash}, {size / 1e6:.1f} MB")
    if args.half and is_remote(run.env):
        print(f"what half precision costs: jaxrl evaluate {args.run} --against {path}")
    elif args.half:
        halved = load_policy(path, args.allow)
        counts = count_equal_choices(run.config, run.env, run.params[args.seed_index], halved.player().params)
        share = counts.equal / counts.decisions
        print(f"half precision: the same choice in {share:.2%} of {counts.decisions:,} decisions of sampled games")
    return 0
