"""`jaxrl tournament`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.players.spec import AGENT, BOT, parse, policy_file
from jaxrl_envs.shared.errors import UserError

DEVICES = "cores"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl tournament`."""
    names.add_player(
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
        "--deals", type=arguments.deals, default=1000, help="deals per pair, each from every side (default: 1000)"
    )
    parser.add_argument("--seed", type=arguments.seed, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument(
        "--anchor",
        metavar="PLAYER|FILE",
        help="who is rated 0 (default: bot:random, or the first), or a file of known ratings, which stay as they are: "
        "ratings.yaml of another tournament, or ratings/skull_king.yaml, ratings/beasty_bar.yaml, "
        "ratings/car_soccer.yaml, which come with the project",
    )
    help = "write matrix.json, table.md and ratings.yaml there"
    parser.add_argument("--out", type=arguments.new_folder, metavar="FOLDER", help=help)


def main(args: Namespace) -> int:
    """Runs `jaxrl tournament`."""
    specs = [parse(text) for text in args.players if "=" not in text]
    if len(specs) == 1 and (specs[0].kind in (BOT, AGENT) or policy_file(specs[0])):
        raise UserError("a tournament needs two players, got 1.")
    from jaxrl.matches.tournaments.round_robin_report import report_round_robin
    from jaxrl.policies.find import find_players
    from jaxrl.runs.logs.console import waiting

    with waiting("reading the players, whose game is compiled first ...", again=True):
        players = find_players(args.players, args.config, sampled=args.sampled, allow=args.allow)
    report_round_robin(players, deals=args.deals, seed=args.seed, anchor=args.anchor, out=args.out)
    return 0
