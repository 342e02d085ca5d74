"""`jaxrl imitate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "teach a network to play as in recorded games"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl imitate`."""
    arguments.config(parser, "a YAML file or the name of a shipped configuration", "config", metavar="CONFIG")
    arguments.allow(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        action="extend",
        required=True,
        metavar="PATH",
        help="recorded games: files or folders, of which PATH@500 takes 500 games and PATH@x0.5 counts each half; "
        "bot:NAME: games that this bot plays (several: against each other)",
    )
    parser.add_argument(
        "--held-out-data", nargs="+", action="extend", default=[], metavar="PATH", help="games to report on alone"
    )
    help = "games that bots play, and the learner in each round (default: 2000)"
    parser.add_argument("--games", type=arguments.whole, default=2000, help=help)
    help = "rounds in which it plays and learns what an expert would have done (default: 0)"
    parser.add_argument("--dagger", type=arguments.whole, default=0, metavar="ROUNDS", help=help)
    parser.add_argument(
        "--expert", default="", metavar="BOT", help="who knows (default: the game's own player, else its reference bot)"
    )
    help = "deals of the games at the end against evaluate.opponents; 0: none (default: evaluate.deals)"
    parser.add_argument("--deals", type=arguments.whole, help=help)
    parser.add_argument("--name", help="name of the run (default: that of the configuration, with -imitated behind)")
    unit = "decisions per step; a network that remembers learns whole games, as many as fit"
    arguments.learning(parser, 30, "most passes over the games", 256, unit, 1e-3, "")
    parser.add_argument(
        "--patience",
        type=arguments.whole,
        default=4,
        help="passes without progress before the end (default: 4)",
    )
    parser.add_argument(
        "--check", type=arguments.real, default=0.15, help="share of the games to check with (default: 0.15)"
    )
    arguments.overrides(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl imitate`."""
    from jaxrl.matches import command_evaluate
    from jaxrl.training.imitation.imitate import imitate

    if (run := imitate(args)) is not None:
        parser = ArgumentParser()
        command_evaluate.add_options(parser)
        deals = [] if args.deals is None else ["--deals", str(args.deals)]
        command_evaluate.main(parser.parse_args([str(run.path), *deals, *(f"--allow={name}" for name in args.allow)]))
    return 0
