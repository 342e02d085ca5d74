"""`jaxrl compare`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl.players import names

MIN_GAIN, MAX_DROP = 10.0, 3.0  # per cent of throughput, points of win rate


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl compare`."""
    before = "the run that is compared with: a path, or a name in runs/"
    arguments.run(parser, before, type=names.run, dest="before", metavar="A")
    after = "the run that should be faster and play as well"
    arguments.run(parser, after, type=names.run, dest="after", metavar="B")
    parser.add_argument(
        "--min-gain", type=arguments.real, default=MIN_GAIN, help="throughput that B must gain (default: 10 %%)"
    )
    parser.add_argument(
        "--max-drop", type=arguments.real, default=MAX_DROP, help="win rate that B may lose (default: 3 points)"
    )
    help = "write the comparison there too, as JSON"
    parser.add_argument("--out", type=arguments.new_file, metavar="FILE", help=help)


def main(args: Namespace) -> int:
    """Runs `jaxrl compare`."""
    from jaxrl.experiments.compare import compare

    limits = {"min_gain": args.min_gain, "max_drop": args.max_drop}
    return 0 if compare(args.before, args.after, **limits, json_file=args.out) else 1
