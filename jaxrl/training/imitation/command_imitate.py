"""`jaxrl imitate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ActionsContainer
from pathlib import Path

from jaxrl import config as configs
from jaxrl.config import command_line as arguments
from jaxrl.config import presets
from jaxrl.players import names
from jaxrl.search import command_search
from jaxrl.search.settings import SearchRequest
from jaxrl_envs.shared.errors import UserError

# Options that say how one learns, with what is taken by default: from games, and from what a search finds.
OF_GAMES = {
    "games": 2000,
    "epochs": 30,
    "minibatch": 256,
    "learning_rate": 1e-3,
    "data": [],
    "held_out_data": [],
    "dagger": 0,
    "expert": "",
    "deals": None,
    "patience": 4,
    "check": 0.15,
}
OF_A_SEARCH = {
    "games": 256,
    "epochs": 2,
    "minibatch": 512,
    "learning_rate": 3e-4,
    "iterations": 20,
    "opponents": (),
    "checkpoint": "newest",
}


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl imitate`, without defaults: those differ by what is learnt from."""
    help = "a YAML file or the name of a shipped configuration; with --search the run whose network searches and learns"
    arguments.run(parser, help, dest="config", metavar="CONFIG|RUN")
    arguments.allow(parser)
    help = "name of the new run (default: that of the configuration, with -imitated behind)"
    parser.add_argument("--name", type=arguments.run_name, help=help)
    arguments.overrides(parser, "configuration keys to change; with --search not the game, not the network")
    _add_of_games(parser.add_argument_group("learning from games that others have played"))
    group = parser.add_argument_group("learning from a search", "its policies and returns, in turns (--search SIMS)")
    group.add_argument("--opponents", type=arguments.names, metavar="A,B", help="bots, or self (evaluate.opponents)")
    group.add_argument("--checkpoint", help="newest, best, or a number of updates (newest)")
    group.add_argument("--iterations", type=arguments.whole, help="turns of playing and learning (20)")
    command_search.add_options(group)
    group = parser.add_argument_group("learning", "in brackets what is taken by default, by games and by search")
    help = "of bots, and of the learner in each round or turn (2000, 256)"
    group.add_argument("--games", type=arguments.whole, help=help)
    group.add_argument("--epochs", type=arguments.whole, help="most passes over the games (30, 2)")
    unit = "decisions per step; a network that remembers learns whole games, as many as have that many moves (256, 512)"
    group.add_argument("--minibatch", type=arguments.whole, help=unit)
    group.add_argument("--learning-rate", type=arguments.real, help="of Adam (1e-3, 3e-4)")
    group.add_argument("--value-coef", type=arguments.real, default=0.5, help="weight of the value loss (0.5)")
    group.add_argument("--seed", type=arguments.seed, default=0, help="of all randomness (0)")


def _add_of_games(group: _ActionsContainer) -> None:
    """Adds the options of learning from recorded games."""
    help = (
        "recorded games: files or folders, of which PATH@500 takes 500 games and PATH@x0.5 counts each half; "
        "bot:NAME: games that this bot plays (several: against each other)"
    )
    group.add_argument("--data", nargs="+", action="extend", metavar="PATH", help=help)
    help = "games to report on alone"
    group.add_argument("--held-out-data", nargs="+", action="extend", metavar="PATH", help=help)
    help = "rounds in which it plays and learns what an expert would have done (0)"
    group.add_argument("--dagger", type=arguments.whole, metavar="ROUNDS", help=help)
    help = "who knows (the game's own player, else its reference bot)"
    group.add_argument("--expert", metavar="BOT", help=help)
    help = "deals of the games at the end against evaluate.opponents; 0: none (evaluate.deals)"
    group.add_argument("--deals", type=arguments.whole, help=help)
    group.add_argument("--patience", type=arguments.whole, help="passes without progress before the end (4)")
    group.add_argument("--check", type=arguments.real, help="share of the games to check with (0.15)")


def main(args: Namespace) -> int:
    """Runs `jaxrl imitate`."""
    search = command_search.search_of(args)
    own, other = (OF_GAMES, OF_A_SEARCH) if search is None else (OF_A_SEARCH, OF_GAMES)
    for name in other.keys() - own.keys():
        if getattr(args, name) is not None:
            without = "of a search: give its --search SIMS too" if search is None else "not of a search: leave one out"
            raise UserError(f"--{name.replace('_', '-')} is {without}.")
    for name, value in own.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return _imitate_games(args) if search is None else _imitate_search(args, search)


def _imitate_search(args: Namespace, search: SearchRequest) -> int:
    """Teaches a run's network what a search finds."""
    names.run(args.config)
    if args.name is None:
        raise UserError("give the new run a --name: it will lie beside the run that searches.")
    from jaxrl.training.imitation.distillation import DistillationSettings, distill

    settings = DistillationSettings(**{name: getattr(args, name) for name in DistillationSettings._fields})
    of = {"opponents": args.opponents, "checkpoint_name": args.checkpoint}
    distill(args.config, args.name, search, settings, **of, overrides=args.overrides, allow=args.allow)
    return 0


def _imitate_games(args: Namespace) -> int:
    """Teaches the network of a configuration to play as in recorded games."""
    arguments.existing_config(args.config)
    if not args.data:
        raise UserError("say what to learn from: --data PATH or bot:NAME, or --search SIMS.")
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
