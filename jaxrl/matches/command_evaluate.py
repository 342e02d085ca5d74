"""`jaxrl evaluate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.players import names
from jaxrl.search import command_search
from jaxrl_envs.shared.errors import UserError

DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl evaluate`."""
    names.add_candidate(parser)
    help = "another run, file, zoo:NAME or bot:NAME: paired on the same deals"
    names.add_player(parser, "--against", metavar="RUN2", help=help)
    help = "bots, searcher-200, zoo:NAME or policy files at the other seats (default: evaluate.opponents)"
    parser.add_argument("--opponents", type=arguments.names, metavar="A,B", help=help)
    help = "against all bots, searcher-200 and the policies of the zoo, with the median"
    parser.add_argument("--panel", action="store_true", help=help)
    parser.add_argument("--deals", type=arguments.deals, help="deals per opponent (default: evaluate.deals)")
    help = f"seed of the deals (default: {EVALUATION_SEED})"
    parser.add_argument("--seed", type=arguments.seed, default=EVALUATION_SEED, help=help)
    parser.add_argument(
        "--simulator",
        default="",
        metavar="NAME",
        help="another program that plays the game: the same deals there too, side by side",
    )
    command_search.add_options(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl evaluate`."""
    search = command_search.search_of(args)
    for option in ("sampled", "simulator"):
        if search is not None and getattr(args, option):
            raise UserError(f"--{option} is of a policy that does not search: leave it or --search out.")
    if args.panel and args.opponents:
        raise UserError("--panel names the opponents: leave --opponents out.")
    names.check_opponents(args.opponents or (), args.candidate)
    from jaxrl.matches.evaluate_policy import evaluate
    from jaxrl.policies.find import Lookup

    evaluate(
        args.candidate,
        Lookup(args.config, args.overrides, args.checkpoint, args.sampled, args.allow),
        opponents=args.opponents,
        panel=args.panel,
        against=args.against,
        deals=args.deals,
        seed=args.seed,
        simulator=args.simulator,
        search=search,
    )
    return 0
