"""`jaxrl evaluate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.search import command_search

HELP = "play a run against every bot, or against another run"
DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl evaluate`."""
    arguments.entrant(parser)
    help = "another run, file, zoo:NAME or bot:NAME: paired on the same deals"
    arguments.completed(parser.add_argument("--against", metavar="RUN2", help=help), arguments.trained_names)
    help = "bots, searcher-200, zoo:NAME or policy files at the other seats (default: evaluate.opponents)"
    parser.add_argument("--opponents", metavar="A,B", help=help)
    parser.add_argument("--deals", type=arguments.whole, help="deals per opponent (default: evaluate.deals)")
    parser.add_argument("--seed", type=arguments.seed, help=f"seed of the deals (default: {EVALUATION_SEED})")
    parser.add_argument(
        "--simulator",
        metavar="NAME",
        help="another program that plays the game: the same deals there too, side by side",
    )
    command_search.add_options(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl evaluate`."""
    from jaxrl.matches import evaluate_policy

    return evaluate_policy.main(args)
