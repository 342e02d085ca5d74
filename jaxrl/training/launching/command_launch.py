"""`jaxrl launch`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "train in several processes: `jaxrl launch -n 2 train …`"
DEVICES = "own"  # see `jaxrl.cli`
STARTS = ("train", "resume")  # commands that it starts: what begins with one of them is theirs


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl launch`."""
    parser.add_argument("-n", type=arguments.whole, required=True, dest="processes", help="how many processes")
    help = "start all of them again, from the newest checkpoint, up to N times after one has died (default: 3)"
    parser.add_argument("--restarts", type=arguments.whole, default=3, metavar="N", help=help)


def main(args: Namespace) -> int:
    """Runs `jaxrl launch`."""
    from jaxrl.training.launching.launch import launch

    return launch(args.words, args.processes, args.restarts)
