"""`jaxrl rate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import command_players

HELP = "add runs to the rating scale of their game, or print it"
DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl rate`."""
    command_players.add_player(
        parser,
        "players",
        nargs="*",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "or bots, who are the scale itself; without a player the scale is printed; a.b=v changes a configuration key, "
        "of the game too if only bots play",
    )
    arguments.config(parser, "if only bots play: the configuration that names the game")
    arguments.allow(parser)
    parser.add_argument("--file", metavar="FILE", help="the scale (default: ratings/GAME.yaml)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument(
        "--anchors", type=arguments.names, metavar="A,B", help="the bots that define a new scale (default: all)"
    )
    parser.add_argument(
        "--deals", type=arguments.deals, help="with every anchor, each from all sides (default: as the scale)"
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl rate`."""
    from jaxrl.matches.tournaments.rate import rate_players, show_scales

    if not args.players:
        show_scales(args.file)
        return 0
    rate_players(
        args.players,
        args.config,
        sampled=args.sampled,
        allow=args.allow,
        file=args.file,
        anchors=args.anchors or (),
        deals=args.deals,
    )
    return 0
