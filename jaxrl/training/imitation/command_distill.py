"""`jaxrl distill`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.search import command_search

HELP = "teach a run's network what a search finds"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl distill`."""
    arguments.run(parser, "the run whose network searches and learns", type=names.run)
    arguments.allow(parser)
    parser.add_argument("--name", type=arguments.run_name, required=True, help="name of the new run, beside RUN")
    help = "bots, or self (default: evaluate.opponents)"
    parser.add_argument("--opponents", type=arguments.names, metavar="A,B", default=(), help=help)
    arguments.checkpoint(parser)
    parser.add_argument(
        "--iterations", type=arguments.whole, default=20, help="turns of playing and learning (default: 20)"
    )
    parser.add_argument("--games", type=arguments.whole, default=256, help="games per turn (default: 256)")
    unit = (
        "searched decisions per step; a network that remembers learns whole games, as many as have that many moves of "
        "all seats"
    )
    values = "; values are learnt in the game as evaluated"
    arguments.learning(parser, 2, "passes over the games of a turn", 512, unit, 3e-4, values)
    command_search.add_options(parser, required=True)
    arguments.overrides(parser, "configuration keys to change in the new run; not the game, not the network")


def main(args: Namespace) -> int:
    """Runs `jaxrl distill`."""
    search = command_search.search_of(args)
    assert search is not None  # it is required
    from jaxrl.training.imitation.distillation import DistillationSettings, distill

    distill(
        args.run,
        args.name,
        search,
        DistillationSettings(**{name: getattr(args, name) for name in DistillationSettings._fields}),
        opponents=args.opponents,
        checkpoint_name=args.checkpoint,
        overrides=args.overrides,
        allow=args.allow,
    )
    return 0
