"""`jaxrl displays`, a command for tests: the displays of the real ones in a second, without jax.

displays work    a training, games within it and a status, with messages from all sides
displays wait    a status until Ctrl-C
displays train   a progress line until Ctrl-C
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import time
import warnings
from argparse import ArgumentParser, Namespace

from jaxrl.runs.logs.console import REDRAWN, ProgressLine, Screen, console, waiting

DEVICES = "none"
START = """
import sys
from jaxrl import cli
from tests.support import displays
sys.modules["jaxrl.displays"], cli.COMMANDS["displays"] = displays, ("play", "displays", "")
sys.exit(cli.main())
"""
COMPILING = "compiling the training (the next start takes it from run.cache_dir) ..."  # longer than 40 columns
HOSTILE = "a \x1bc\x9b2J name"  # which would clear the screen
BAR = "[####      ]  40.0 % | 4M/10M steps | 123k steps/s | 1.2k games/s | return 0.25 | win rate 0.5 | turn {}"
MESSAGES = (*(f"{where} speaks" for where in ("screen", "log", "stderr", "stdout")), "UserWarning: a warning speaks")


def add_options(parser: ArgumentParser) -> None:
    """Adds what is shown."""
    parser.add_argument("what", choices=("work", "wait", "train"))


def main(args: Namespace) -> int:
    """Shows it."""
    {"work": work, "wait": wait, "train": train}[args.what]()
    return 0


def work() -> None:
    """Shows a training with a line kept at its end, and what stands below it for a while."""
    with waiting(COMPILING):
        speak()
    with contextlib.closing(ProgressLine(kept=True)) as training:
        for turn in range(4):
            training.show(lambda _, turn=turn: BAR.format(turn), last=turn == 3)
            with contextlib.closing(ProgressLine()) as games:
                games.show(lambda _: f"games against {HOSTILE}")
                time.sleep(1.5 * REDRAWN)
            if turn == 1:
                speak()
    with waiting("Anne thinks", again=True, screen=Screen(markup=False)):  # as `jaxrl play` does, on standard output
        print(f"{HOSTILE} is in the pot")
        time.sleep(1.5 * REDRAWN)


def speak() -> None:
    """Says something in all ways that there are."""
    console().print(MESSAGES[0])
    logging.getLogger("other").warning(MESSAGES[1])
    print(MESSAGES[2], file=sys.stderr)
    print(MESSAGES[3], flush=True)
    warnings.warn(MESSAGES[4].partition(": ")[2], stacklevel=1)
    time.sleep(1.5 * REDRAWN)


def wait() -> None:
    """Shows a status."""
    with waiting(COMPILING):
        while True:
            time.sleep(REDRAWN)


def train() -> None:
    """Shows a progress line."""
    with contextlib.closing(ProgressLine(kept=True)) as line:
        for turn in itertools.count():
            line.show(lambda _, turn=turn: BAR.format(turn))
            time.sleep(REDRAWN)
