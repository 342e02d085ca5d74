"""`jaxrl check`: a game against the contract, recordings against its rules, or a policy against its training."""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import time
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from jaxrl import xla
from jaxrl.config import command_line as arguments
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl check`."""
    help = "a registered game, LIBRARY:NAME, or your own package.module:Class; with --train a policy, e.g. zoo:NAME"
    parser.add_argument("env", help=help)
    help = "options of the game, for its contract; or recorded games, against its rules: JSON lines, plain or .gz"
    parser.add_argument("given", nargs="*", metavar="option=value|FILE", help=help)
    help = "train the policy again from its file, and compare the parameters bit by bit"
    parser.add_argument("--train", action="store_true", help=help)
    arguments.allow(parser)
    parser.add_argument("--games", type=arguments.whole, default=16, help="random games to play (default %(default)s)")
    parser.add_argument(
        "--seed", type=arguments.seed, default=0, help="of all randomness in the checks (default %(default)s)"
    )
    parser.add_argument(
        "--max-steps", type=arguments.whole, default=5000, help="limit of a random game (default %(default)s)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check alone; repeatable")


def main(args: argparse.Namespace) -> int:
    """Prints the report; 0 if everything agrees, else 1. Raises UserError for a bad request."""
    if args.train:
        from jaxrl.training.launching.reproduce import reproduce

        return reproduce(args.env, args.allow)
    xla.set_devices(1)
    with contextlib.suppress(UserError):  # what is wrong is said below
        xla.prepare_game(args.env)
    files = [word for word in args.given if "=" not in word]
    return _check_recordings(args.env, files) if files else _check_contract(args)


def _check_contract(args: argparse.Namespace) -> int:
    """Tests whether the game keeps the contract."""
    from jaxrl_envs.conformance import CHECKS, CheckResult, check

    if args.games < 1 or args.max_steps < 1:
        raise UserError("--games and --max-steps must be at least 1")
    env = registry.make(args.env, **parse_options(args.given))
    width = max(map(len, CHECKS))

    def show(result: CheckResult) -> None:
        line = f"{result.status}  {result.name:<{width}}  {result.seconds:5.1f} s  {result.note}"
        print(line.rstrip(), flush=True)

    report = check(env, games=args.games, seed=args.seed, max_steps=args.max_steps, only=args.only, on_result=show)
    print(str(report).splitlines()[-1])
    return 0 if report.ok else 1


def _check_recordings(game: str, files: Iterable[str]) -> int:
    """Plays recorded games again, by the rules of theirs. Raises UserError if the game has no rules to compare with, or
    a file cannot be read."""
    from jaxrl_envs.shared.golden import verify

    golden = registry.find_module(game, "golden")
    if golden is None:
        known = ", ".join(registry.games_with("golden"))
        raise UserError(
            f"{game} has no rules here to verify, {known} have; for an option of the game write option=value."
        )
    # A game whose recordings are measured, not matched figure by figure, has a `verify` of its own.
    check = getattr(golden, "verify", None) or functools.partial(verify, kinds=golden.KINDS)
    failed = False
    for path in files:
        began = time.perf_counter()
        found = check(path)
        print(f"{path}: {found} ({time.perf_counter() - began:.1f} s)", flush=True)
        if found.first:
            print(f"first disagreement: {found.first}", flush=True)
        failed = failed or found.disagreements > 0
    return int(failed)


def parse_options(assignments: Iterable[str]) -> dict[str, Any]:
    """Parses ["num_players=3", "expansion=false"] to {"num_players": 3, "expansion": False}; others are strings."""
    words = {"true": True, "false": False, "null": None, "none": None}
    options: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{assignment!r} is not an option: write option=value, e.g. num_players=3")
        try:
            options[name] = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[name] = text
    return options
