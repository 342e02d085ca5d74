"""`jaxrl export`: a policy file for inference, or a policy as a program or model of others."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path

from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl_envs.shared.errors import UserError


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl export`."""
    help = "a run; with --numpy, --onnx and --rlbot also zoo:NAME or a policy file"
    names.add_player(parser, "run", metavar="RUN", help=help)
    arguments.allow(parser)
    help = "where to write (default: RUN.jaxrl, .py, .onnx or a folder RUN_rlbot)"
    parser.add_argument("file", type=arguments.new_file, metavar="FILE", nargs="?", help=help)
    arguments.checkpoint(parser)
    parser.add_argument("--seed-index", type=arguments.whole, default=0, help="which seed of a run with several")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--half", action="store_true", help="weights in half precision; says what that costs")
    form.add_argument("--numpy", action="store_true", help="one Python file that needs NumPy alone, not jax")
    form.add_argument("--onnx", action="store_true", help="an ONNX model (needs the extra onnx)")
    form.add_argument("--rlbot", action="store_true", help="a folder for RLBot v5, of a policy of car_soccer")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl export`."""
    from jaxrl.players.spec import HUB, ZOO, parse
    from jaxrl.policies.agreement import count_equal_choices
    from jaxrl.policies.export import load_policy, save_policy
    from jaxrl.runs.directory import load_run

    if args.numpy or args.onnx or args.rlbot:
        return _standalone(args)
    if parse(args.run).kind in (ZOO, HUB):
        raise UserError(
            f"{args.run} is a policy file already (`jaxrl zoo get` or `pull`): add --numpy, --onnx or --rlbot."
        )
    run = load_run(args.run, args.checkpoint, args.allow)
    path = args.file or f"{run.name}.jaxrl"
    save_policy(path, run, args.seed_index, half=args.half)
    size = Path(path).stat().st_size
    print(f"{path}: {run.name} after {run.update} updates, parameters {run.params_hash}, {size / 1e6:.1f} MB")
    if args.half and run.env.remote and not run.env.simultaneous:
        print(f"what half precision costs: jaxrl evaluate {args.run} --against {path}")
    elif args.half:
        halved = load_policy(path, args.allow)
        counts = count_equal_choices(run.config, run.env, run.params[args.seed_index], halved.player().params)
        share = counts.equal / counts.decisions
        print(f"half precision: the same choice in {share:.2%} of {counts.decisions:,} decisions of sampled games")
    return 0


def _standalone(args: argparse.Namespace) -> int:
    """Writes the program or the model, and prints what goes into it."""
    from jaxrl.policies.find import find_policy
    from jaxrl.policies.standalone.layers import layers_of
    from jaxrl.policies.standalone.numpy_file import save_numpy
    from jaxrl.policies.standalone.onnx_file import save_onnx
    from jaxrl.policies.standalone.rlbot_folder import save_rlbot

    policy, name = find_policy(args.run, args.checkpoint, args.allow, args.seed_index)
    if args.rlbot:
        folder = Path(args.file or f"{name}_rlbot")
        save_rlbot(folder, policy)
        print(f"{folder}: {policy.name} after {policy.update} updates, as a bot for RLBot v5")
        print(f"python -m pip install -r {folder / 'requirements.txt'}, and add the folder in RLBot's window")
        return 0
    path = args.file or f"{name}{'.py' if args.numpy else '.onnx'}"
    (save_numpy if args.numpy else save_onnx)(path, policy)
    told, size = layers_of(policy).settings, Path(path).stat().st_size
    print(f"{path}: {policy.name} after {policy.update} updates, {size / 1e6:.1f} MB")
    print(f"reads {told['features']} features of {told['game']}, as encoded, and the mask of {told['actions']} actions")
    if policy.config.network.compute_dtype != "float32":
        print("the policy was trained with bfloat16 and is written in float32: values differ by some thousandths")
    return 0
