"""`jaxrl check`: whether a game keeps the contract."""

from __future__ import annotations

import argparse
import ast
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from jaxrl.config import command_line as arguments
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

HELP = "test whether a game keeps the contract"
GAME = "env"  # the argument that names its game


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl check`."""
    parser.add_argument("env", help="a registered game, LIBRARY:NAME, or your own package.module:Class")
    parser.add_argument("options", nargs="*", metavar="option=value", help="options of the game")
    parser.add_argument("--games", type=arguments.whole, default=16, help="random games to play (default %(default)s)")
    parser.add_argument(
        "--seed", type=arguments.seed, default=0, help="of all randomness in the checks (default %(default)s)"
    )
    parser.add_argument(
        "--max-steps", type=arguments.whole, default=5000, help="limit of a random game (default %(default)s)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check alone; repeatable")


def main(args: argparse.Namespace) -> int:
    """Prints the report; 0 if the game fulfils the contract, else 1. Raises UserError for a bad request."""
    from jaxrl_envs.conformance import CHECKS, CheckResult, check

    if args.games < 1 or args.max_steps < 1:
        raise UserError("--games and --max-steps must be at least 1")
    env = registry.make(args.env, **parse_options(args.options))
    width = max(map(len, CHECKS))

    def show(result: CheckResult) -> None:
        line = f"{result.status}  {result.name:<{width}}  {result.seconds:5.1f} s  {result.note}"
        print(line.rstrip(), flush=True)

    report = check(env, games=args.games, seed=args.seed, max_steps=args.max_steps, only=args.only, on_result=show)
    print(str(report).splitlines()[-1])
    return 0 if report.ok else 1


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
