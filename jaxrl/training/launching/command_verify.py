"""`jaxrl verify`: recorded games against the rules, and policies against a second training."""

from __future__ import annotations

import argparse
import contextlib
import functools
import time
from argparse import ArgumentParser

from jaxrl import xla
from jaxrl.config import command_line as arguments
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.golden import verify

HELP = "replay recorded games against the rules, or train a policy again and compare its bits"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl verify`."""
    parser.add_argument(
        "game", nargs="?", help="a registered game, e.g. skull_king; with --train a policy, e.g. zoo:NAME"
    )
    parser.add_argument("file", nargs="*", help="its recordings: JSON lines, plain or .gz")
    help = "train the policy again from its file, and compare the parameters bit by bit"
    parser.add_argument("--train", action="store_true", help=help)
    arguments.allow(parser)


def main(args: argparse.Namespace) -> int:
    """Prints one report for each file; 0 = everything agrees, 1 = something does not. Raises UserError if there is no
    such game, it has no recordings, or a file cannot be read."""
    if args.game is None:
        raise UserError(f"verify needs a game first: {', '.join(registry.games_with('golden'))}.")
    if args.train:
        from jaxrl.training.launching.reproduce import reproduce

        return reproduce(args.game, args.allow)
    xla.set_devices(1)
    with contextlib.suppress(UserError):  # what is wrong is said below
        xla.prepare_game(args.game)
    golden = registry.find_module(args.game, "golden")
    if golden is None:
        raise UserError(f"{args.game} has no rules here to verify; {', '.join(registry.games_with('golden'))} have.")
    # A game whose recordings are measured, not matched figure by figure, has a `verify` of its own.
    check = getattr(golden, "verify", None) or functools.partial(verify, kinds=golden.KINDS)
    failed = False
    if not args.file:
        kinds = " or ".join(kind.name for kind in getattr(golden, "KINDS", ())) or "recorded episodes"
        raise UserError(f"verify needs recordings: files of {kinds}.")
    for path in args.file:
        began = time.perf_counter()
        found = check(path)
        print(f"{path}: {found} ({time.perf_counter() - began:.1f} s)", flush=True)
        if found.first:
            print(f"first disagreement: {found.first}", flush=True)
        failed = failed or found.disagreements > 0
    return int(failed)
