"""`jaxrl compare`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "quality gate: is run B faster than run A, and as strong?"
MIN_GAIN, MAX_DROP = 10.0, 3.0  # per cent of throughput, points of win rate


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl compare`."""
    arguments.run(parser, "the run that is compared with: a path, or a name in runs/", dest="before", metavar="A")
    arguments.run(parser, "the run that should be faster and play as well", dest="after", metavar="B")
    arguments.allow(parser)
    parser.add_argument(
        "--min-gain", type=arguments.real, default=MIN_GAIN, help="throughput that B must gain (default: 10 %%)"
    )
    parser.add_argument(
        "--max-drop", type=arguments.real, default=MAX_DROP, help="win rate that B may lose (default: 3 points)"
    )
    parser.add_argument("--out", metavar="FILE", help="write the comparison there too, as JSON")


def main(args: Namespace) -> int:
    """Runs `jaxrl compare`."""
    from jaxrl.diagnose.compare import compare

    limits = {"min_gain": args.min_gain, "max_drop": args.max_drop}
    return 0 if compare(args.before, args.after, **limits, json_file=args.out, allow=args.allow) else 1
