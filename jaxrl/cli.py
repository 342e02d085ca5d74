"""The command line: `jaxrl <command> …`.

Each command lives in the module that does the work, as `add_arguments(parser)` and `main(args) -> int`, and is imported
only when it is asked for. Mistakes of the user (`UserError`) end in one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import jaxrl
from envs import registry
from envs.errors import UserError, nearest
from jaxrl import xla

USER_ERROR = 2
INTERRUPTED = 130  # the shell's code for Ctrl-C


class Command(NamedTuple):
    """One subcommand."""

    module: str  # empty: the module `commands` beside the game of that name
    function: str
    help: str
    devices: bool = False  # runs the training program: wants all devices


COMMANDS = {
    "train": Command("jaxrl.training.trainer", "train", "train an agent: `jaxrl train --config skull_king_cpu`", True),
    "resume": Command("jaxrl.training.trainer", "resume", "continue a run exactly where it stopped", True),
    "evaluate": Command("jaxrl.commands.evaluate", "", "play a run against every bot, or against another run"),
    "tournament": Command("jaxrl.commands.tournament", "", "play a round robin: win matrix, ratings, heat map"),
    "exploit": Command("jaxrl.commands.exploit", "", "train best responses to a run: approximate exploitability", True),
    "distill": Command("jaxrl.commands.distill", "", "teach a run's network what a search finds"),
    "imitate": Command("jaxrl.commands.imitate", "", "teach a network to play as in recorded games"),
    "play": Command("jaxrl.commands.play", "", "sit at the table with a trained agent"),
    "film": Command("jaxrl.commands.film", "", "write a game as an animated picture"),
    "export": Command("jaxrl.export", "", "write a policy file for inference"),
    "check": Command("envs.conformance", "", "test whether a game keeps the contract"),
    "verify": Command("envs.golden", "", "replay recorded games against the rules"),
    "compare": Command("jaxrl.commands.compare", "", "quality gate: is run B faster than run A, and as strong?"),
    "diagnose": Command("jaxrl.commands.diagnose", "", "report where the time goes on this machine", True),
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
    if command.devices:
        _prepare_devices(name, rest)
    elif command.module and name != "config":
        # Evaluation and tournaments spread their games over all cores; the others play one game.
        devices = xla.cores() if name in ("evaluate", "tournament") else 1
        xla.set_flags(devices, deterministic=False, fusion=_fusion(_game(name, rest)))
    parser = Parser(prog=f"jaxrl {name}", description=command.help, allow_abbrev=False)
    if command.devices and name != "resume":
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


def _prepare_devices(name: str, rest: list[str]) -> None:
    """Reads just enough of the configuration to set XLA's flags; the command itself checks all of it later."""
    from jaxrl import config as configs

    early = Parser(prog=f"jaxrl {name}", add_help=False, allow_abbrev=False)
    early.add_argument("--config")
    early.add_argument("--devices", type=int)
    early.add_argument("--deterministic", action="store_true")
    args, others = early.parse_known_args(rest)
    if args.devices is not None and args.devices < 0:
        raise UserError(f"--devices must be at least 0, got {args.devices}.")
    overrides = [text for text in others if "=" in text and not text.startswith("-")]
    path = args.config or (_saved_config(others) if name == "resume" else None)
    if path is None and name != "train":
        xla.set_flags(args.devices or xla.cores(), args.deterministic, _fusion(_game(name, rest)))
        return
    if args.devices is not None:
        overrides.append(f"run.devices={args.devices}")
    config = configs.load(path, overrides, check_env=False)
    wanted = config.run.devices or configs.device_count(config, xla.cores())
    xla.set_flags(wanted, args.deterministic or config.run.deterministic, _fusion(config.env.id))


def _game(name: str, arguments: list[str]) -> str | None:
    """The id of the game that a command is about, before the command itself reads its arguments."""
    if name in ("check", "verify"):
        return next((text for text in arguments if not text.startswith("-")), None)
    from jaxrl import config as configs

    early = Parser(prog=f"jaxrl {name}", add_help=False, allow_abbrev=False)
    early.add_argument("--config")  # also as --config=FILE
    path = early.parse_known_args(arguments)[0].config or _saved_config(arguments)
    overrides = [text for text in arguments if text.startswith("env.id=")]
    try:
        return configs.load(path, overrides, check_env=False).env.id
    except UserError:
        return None  # the command will say what is wrong


def _fusion(game: str | None) -> bool:
    """Whether a game asks for multi-output fusion; jax reads its flags when it starts, not when it is imported."""
    try:
        return game is not None and bool(getattr(registry.game_class(game), "multi_output_fusion", False))
    except UserError:
        return False


def _saved_config(arguments: list[str]) -> str | None:
    """The configuration file of the run that the arguments name, if there is one."""
    for text in (argument.partition("@")[0] for argument in arguments):  # RUN@UPDATE in a tournament
        for folder in (Path(text), Path("runs") / text):
            if os.path.isfile(folder / "config.yaml"):  # False, too, for a name that is too long
                return str(folder / "config.yaml")
    return None


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
