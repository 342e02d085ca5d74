"""`jaxrl rate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "add runs to the rating scale of their game, or print it"
DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl rate`."""
    action = parser.add_argument(
        "players",
        nargs="*",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "or bots, who are the scale itself; without a player the scale is printed; a.b=v changes a configuration key, "
        "of the game too if only bots play",
    )
    arguments.completed(action, arguments.trained_names)
    arguments.config(parser, "if only bots play: the configuration that names the game")
    arguments.allow(parser)
    parser.add_argument("--file", metavar="FILE", help="the scale (default: ratings/GAME.yaml)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--anchors", metavar="A,B", help="of a new scale: the bots that define it (default: all)")
    parser.add_argument(
        "--deals", type=arguments.whole, help="with every anchor, each from all sides (default: as the scale)"
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl rate`."""
    from jaxrl.matches.tournaments import rate

    return rate.main(args)
