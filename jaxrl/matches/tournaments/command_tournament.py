"""`jaxrl tournament`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import command_players
from jaxrl.players.spec import AGENT, BOT, parse, policy_file
from jaxrl_envs.shared.errors import UserError

HELP = "play a round robin: win matrix, ratings, heat map"
DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl tournament`."""
    command_players.add_player(
        parser,
        "players",
        nargs="+",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "bots (all of the game); a.b=v changes a configuration key, of the game too if only bots play",
    )
    arguments.config(parser, "if only bots play: the configuration that names the game")
    arguments.allow(parser)
    parser.add_argument(
        "--deals",
        type=arguments.deals,
        default=1000,
        help="deals per pair, each from every side (default: 1000)",
    )
    parser.add_argument("--seed", type=arguments.seed, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--self", action="store_true", dest="self_pairs", help="players also meet themselves")
    parser.add_argument("--anchor", metavar="PLAYER", help="whose rating is fixed (default: bot:random, or the first)")
    parser.add_argument(
        "--anchor-rating", type=arguments.real, default=0.0, metavar="R", help="that rating (default: 0)"
    )
    help = "write matrix.json, table.md and heatmap.png there"
    parser.add_argument("--out", type=arguments.new_folder, metavar="FOLDER", help=help)
    parser.add_argument("--no-picture", action="store_true", help="leave heatmap.png out (it needs matplotlib)")
    parser.add_argument("--reference", metavar="FILE", help="a matrix to agree with, as matrix.json; else exit code 1")


def main(args: Namespace) -> int:
    """Runs `jaxrl tournament`."""
    specs = [parse(text) for text in args.players if "=" not in text]
    if len(specs) == 1 and not args.self_pairs and (specs[0].kind in (BOT, AGENT) or policy_file(specs[0])):
        raise UserError("a tournament needs two players, got 1.")
    from jaxrl.matches.tournaments.round_robin_report import report_round_robin
    from jaxrl.players.find import find_players
    from jaxrl.runs.logs.console import waiting

    with waiting("reading the players, whose game is compiled first ...", again=True):
        players = find_players(args.players, args.config, sampled=args.sampled, allow=args.allow)
    agrees = report_round_robin(
        players,
        deals=args.deals,
        seed=args.seed,
        self_pairs=args.self_pairs,
        anchor=args.anchor,
        anchor_rating=args.anchor_rating,
        out=args.out,
        picture=not args.no_picture,
        reference=args.reference,
    )
    return 0 if agrees else 1
