"""`jaxrl imitate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jaxrl import config as configs
from jaxrl.config import command_line as arguments
from jaxrl.config import presets
from jaxrl_envs.shared.errors import UserError

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
    help = "name of the run (default: that of the configuration, with -imitated behind)"
    parser.add_argument("--name", type=arguments.run_name, help=help)
    unit = "decisions per step; a network that remembers learns whole games, as many as fit"
    arguments.learning(parser, 30, "most passes over the games", 256, unit, 1e-3, "")
    parser.add_argument(
        "--patience", type=arguments.whole, default=4, help="passes without progress before the end (default: 4)"
    )
    parser.add_argument(
        "--check", type=arguments.real, default=0.15, help="share of the games to check with (default: 0.15)"
    )
    arguments.overrides(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl imitate`."""
    if args.deals is not None and args.deals < 2 and args.deals != 0:
        raise UserError(f"--deals must be 0 or at least 2, got {args.deals}.")
    # A list of paths takes whatever follows it: keys to change are known by their "=".
    keys = [text for text in args.data + args.held_out_data if "=" in text and not Path(text).exists()]
    data, held_out = ([text for text in part if text not in keys] for part in (args.data, args.held_out_data))
    overrides = [*args.overrides, *keys]
    config = configs.load(args.config, overrides, args.allow)
    name = config.run.name or presets.default_name(args.config, config.env.id, overrides)
    config = configs.named(config, args.name or f"{name}-imitated")

    from jaxrl.matches.evaluate_policy import evaluate
    from jaxrl.policies.find import Lookup
    from jaxrl.training.imitation.cloning import CloningSettings
    from jaxrl.training.imitation.imitate import ImitationSettings, imitate

    cloning = CloningSettings(**{name: getattr(args, name) for name in CloningSettings._fields})
    settings = ImitationSettings(data, held_out, args.games, args.dagger, args.expert, args.check, cloning)
    run, stopped = imitate(config, settings)
    if args.deals != 0 and not stopped:
        evaluate(str(run.path), Lookup(allow=args.allow), deals=args.deals)
    return 0
