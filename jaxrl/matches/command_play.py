"""`jaxrl play`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import names


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl play`."""
    who = "a run, a policy file, zoo:NAME (or NAME alone, if no run is called so), or a bot as bot:NAME"
    names.add_table(parser, "your seat", who, names.player_or_zoo)
    parser.add_argument("--seed", type=arguments.seed, help="seed of the deal (default: a new one, printed)")


def main(args: Namespace) -> int:
    """Runs `jaxrl play`."""
    names.check_opponents(args.opponents or (), args.candidate)
    from jaxrl.matches.play import play
    from jaxrl.policies.find import Lookup

    lookup = Lookup(args.config, args.overrides, args.checkpoint, args.sampled, args.allow)
    play(args.candidate, lookup, seat=args.seat, opponents=args.opponents, seed=args.seed)
    return 0
