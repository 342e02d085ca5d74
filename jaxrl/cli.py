"""The command line: `jaxrl <command> …`.

Each command lives in the module that does the work, as `add_arguments(parser)` and `main(args) -> int`, and is imported
only when it is asked for. Mistakes of the user (`UserError`) end in one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import jaxrl
from envs import registry
from envs.errors import UserError, nearest
from jaxrl import xla

USER_ERROR = 2
INTERRUPTED = 130  # the shell's code for Ctrl-C


ONE = "one"  # plays one game at a time, on one device
CORES = "cores"  # spreads its games over all cores
OWN = "own"  # the module chooses (`xla.prepare_training`)


class Command(NamedTuple):
    """One subcommand."""

    module: str  # empty: the module `commands` beside the game of that name
    function: str
    help: str
    devices: str = ONE
    game: str = ""  # the argument that names its game, where no configuration does


COMMANDS = {
    "train": Command("jaxrl.training.trainer", "train", "train an agent: `jaxrl train --config skull_king_cpu`", OWN),
    "resume": Command("jaxrl.training.trainer", "resume", "continue a run exactly where it stopped", OWN),
    "evaluate": Command("jaxrl.commands.evaluate", "", "play a run against every bot, or against another run", CORES),
    "tournament": Command("jaxrl.commands.tournament", "", "play a round robin: win matrix, ratings, heat map", CORES),
    "exploit": Command("jaxrl.commands.exploit", "", "train best responses to a run: approximate exploitability", OWN),
    "distill": Command("jaxrl.commands.distill", "", "teach a run's network what a search finds"),
    "imitate": Command("jaxrl.commands.imitate", "", "teach a network to play as in recorded games"),
    "play": Command("jaxrl.commands.play", "", "sit at the table with a trained agent"),
    "film": Command("jaxrl.commands.film", "", "write a game as an animated picture"),
    "export": Command("jaxrl.export", "", "write a policy file for inference"),
    "check": Command("envs.conformance", "", "test whether a game keeps the contract", game="env"),
    "verify": Command("envs.golden", "", "replay recorded games against the rules", game="game"),
    "compare": Command("jaxrl.commands.compare", "", "quality gate: is run B faster than run A, and as strong?"),
    "diagnose": Command("jaxrl.commands.diagnose", "", "report where the time goes on this machine", OWN),
    "config": Command(
        "jaxrl.commands.config", "", "explain every configuration key, or print a resolved configuration"
    ),
}


def commands() -> dict[str, Command]:
    """All commands: ours, and those of games that have some, called as the game."""
    found = registry.games_with("commands")
    return COMMANDS | {id: Command("", "", registry.game_module(id, "commands").HELP) for id in found}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence like all others."""

    def error(self, message: str) -> NoReturn:
        """Raises UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    return guarded(lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def guarded(run: Callable[[], int]) -> int:
    """The exit code of `run`; mistakes of the user and a full disk end in one sentence on stderr."""
    try:
        return run()
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # `jaxrl config | head`
        sys.stdout = open(os.devnull, "w")
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        place = f" ({error.filename})" if error.filename else ""
        return _complain(
            f"cannot write{place}: {os.strerror(error.errno)}; free or choose another place and try again."
        )


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_overview())
        return 0 if argv else USER_ERROR
    if argv[0] == "--version":
        print(f"jaxrl {jaxrl.__version__}")
        return 0
    name, rest = argv[0], argv[1:]
    known = commands()
    if name not in known:
        raise UserError(f"there is no command {name!r}: {nearest(name, known)}")
    command = known[name]
    parser = Parser(prog=f"jaxrl {name}", description=command.help, allow_abbrev=False)
    if command.devices == OWN and name != "resume":
        parser.add_argument(
            "--devices", type=int, metavar="N", help="devices to use (on a CPU: virtual ones, as threads)"
        )
        parser.add_argument(
            "--deterministic", action="store_true", help="the same bits every time on a GPU too; slower"
        )
    module = _module(name, command, rest, parser)
    _function(module, command, "add_arguments")(parser)
    try:
        args = parser.parse_intermixed_args(rest)  # a.b=value may stand before and after options
    except SystemExit as error:  # --help
        return int(error.code or 0)
    _merge_overrides(args)
    if command.devices != OWN:
        xla.set_devices(xla.cores() if command.devices == CORES else 1)
    if game := vars(args).get(command.game):
        with contextlib.suppress(UserError):  # the command will say what is wrong
            xla.prepare_game(game)
    return int(_function(module, command, "main")(args) or 0)


def _module(name: str, command: Command, rest: list[str], parser: argparse.ArgumentParser):
    """The module of a command; those that belong to a game are found beside it."""
    if command.module:
        return importlib.import_module(command.module)
    parser.add_argument("command", help="what to do")
    return registry.game_module(name, "commands").module(rest[0] if rest else "")


def _function(module, command: Command, kind: str):
    """`main`, or `train_main` where one module serves two commands."""
    special = f"{command.function}_{kind}" if command.function else kind
    return getattr(module, special, None) or getattr(module, kind)


def _merge_overrides(args: argparse.Namespace) -> None:
    """--devices and --deterministic are short for two configuration keys."""
    overrides = getattr(args, "overrides", None)
    if overrides is None:
        return
    if getattr(args, "devices", None) is not None:
        overrides.append(f"run.devices={args.devices}")
    if getattr(args, "deterministic", False):
        overrides.append("run.deterministic=true")


def _overview() -> str:
    known = commands()
    width = max(map(len, known))
    lines = [f"  {name:<{width}}  {command.help}" for name, command in known.items()]
    return "\n".join(["usage: jaxrl COMMAND …   (jaxrl COMMAND --help)", "", *lines])


def _complain(message: str) -> int:
    print(f"jaxrl: {message}", file=sys.stderr)
    return USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
