"""`jaxrl film`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jaxrl.config import command_line as arguments
from jaxrl.matches.recording import video
from jaxrl.players import names
from jaxrl_envs.shared.errors import UserError

SLOWEST, FASTEST = 0.1, 20.0  # pace


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl film`."""
    who = "a run, a policy file, zoo:NAME, bot:NAME, or a file of RUN/replays"
    names.add_table(parser, "the seat of RUN", who)
    parser.add_argument("--seed", type=arguments.seed, default=0, help="seed of the game (default: 0)")
    help = "where to write it: .svg, .gif or .mp4 (default: film.svg)"
    parser.add_argument("--out", type=arguments.new_file, metavar="FILE", default="film.svg", help=help)
    help = "also draw what each component of the rewards brought, there"
    parser.add_argument("--rewards", type=arguments.new_file, metavar="FILE", default="", help=help)
    parser.add_argument(
        "--pace", type=arguments.real, default=1.0, help=f"2 is twice as fast, up to {FASTEST:g} (default: 1)"
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl film`. Raises UserError: the pace is out of range, or a file has the wrong name."""
    if not SLOWEST <= args.pace <= FASTEST:
        raise UserError(f"--pace must be from {SLOWEST:g} to {FASTEST:g}, got {args.pace:g}.")
    video.check_name(args.out)
    if args.rewards and Path(args.rewards).absolute() == Path(args.out).absolute():
        raise UserError(f"--out and --rewards are both {args.out}: give two files.")
    names.check_opponents(args.opponents or (), args.candidate)
    from jaxrl.matches.recording.film import film
    from jaxrl.policies.find import Lookup

    film(
        args.candidate,
        Lookup(args.config, args.overrides, args.checkpoint, args.sampled, args.allow),
        seat=args.seat,
        opponents=args.opponents or (),
        seed=args.seed,
        file=args.out,
        rewards=args.rewards,
        pace=args.pace,
    )
    return 0
