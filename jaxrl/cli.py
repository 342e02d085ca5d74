"""The command line: `jaxrl <command> …`.

Options of a command stand in `jaxrl.config.command_options`; the module that runs it is imported only when it runs, so
that help and completion start no jax. Mistakes of the user (`UserError`) end in one
sentence on stderr and exit code 2.
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
from jaxrl import xla
from jaxrl.config import command_options
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError, nearest, printable

USER_ERROR = 2
INTERRUPTED = 130  # the shell's code for Ctrl-C
NO_FILE = {  # what is wrong with a place, not with the program
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
    *(
        errno.EEXIST,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENAMETOOLONG,
        errno.ELOOP,
        errno.EMFILE,
        errno.ENFILE,
        errno.EIO,
    ),
}
OUT_OF_MEMORY = (
    "there is not enough memory: lower train.num_envs, train.num_steps, the network's size or the replay memory of DQN "
    "(evaluations: --deals), or close other programs; what was saved is intact."
)


ONE = "one"  # plays one game at a time, on one device
CORES = "cores"  # spreads its games over all cores
OWN = "own"  # the module chooses (`xla.prepare_training`)


class Command(NamedTuple):
    """One subcommand."""

    module: str  # with its `main`, imported when the command runs
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    devices: str = ONE
    game: str = ""  # the argument that names its game, where no configuration does
    starts: tuple[str, ...] = ()  # other commands that it starts: what begins with one of them is theirs


COMMANDS = {
    "train": Command(
        "jaxrl.training.command_train",
        "train an agent: `jaxrl train --config skull_king_cpu`",
        command_options.train,
        OWN,
    ),
    "launch": Command(
        "jaxrl.training.command_launch",
        "train in several processes: `jaxrl launch -n 2 train …`",
        command_options.launch,
        OWN,
        starts=("train", "resume"),
    ),
    "resume": Command(
        "jaxrl.training.command_resume", "continue a run exactly where it stopped", command_options.resume, OWN
    ),
    "evaluate": Command(
        "jaxrl.matches.command_evaluate",
        "play a run against every bot, or against another run",
        command_options.evaluate,
        CORES,
    ),
    "tournament": Command(
        "jaxrl.matches.tournaments.command_tournament",
        "play a round robin: win matrix, ratings, heat map",
        command_options.tournament,
        CORES,
    ),
    "rate": Command(
        "jaxrl.matches.tournaments.command_rate",
        "add runs to the rating scale of their game, or print it",
        command_options.rate,
        CORES,
    ),
    "exploit": Command(
        "jaxrl.training.command_exploit",
        "train best responses to a run: approximate exploitability",
        command_options.exploit,
        OWN,
    ),
    "distill": Command(
        "jaxrl.training.imitation.command_distill", "teach a run's network what a search finds", command_options.distill
    ),
    "imitate": Command(
        "jaxrl.training.imitation.command_imitate",
        "teach a network to play as in recorded games",
        command_options.imitate,
    ),
    "play": Command("jaxrl.matches.command_play", "sit at the table with a trained agent", command_options.play),
    "serve": Command(
        "jaxrl.serve.command", "open a web page to play, watch, and look at runs and replays", command_options.serve
    ),
    "film": Command(
        "jaxrl.matches.recording.command_film", "write a game as an animated picture", command_options.film
    ),
    "export": Command("jaxrl.players.command_export", "write a policy file for inference", command_options.export),
    "check": Command(
        "jaxrl.config.command_check", "test whether a game keeps the contract", command_options.check, game="env"
    ),
    "verify": Command(
        "jaxrl.config.command_verify", "replay recorded games against the rules", command_options.verify, game="game"
    ),
    "ablate": Command(
        "jaxrl.training.command_ablate",
        "train without each part of a reward: what it is worth",
        command_options.ablate,
        OWN,
    ),
    "compare": Command(
        "jaxrl.diagnose.command_compare",
        "quality gate: is run B faster than run A, and as strong?",
        command_options.compare,
    ),
    "diagnose": Command(
        "jaxrl.diagnose.command_diagnose", "report where the time goes on this machine", command_options.diagnose, OWN
    ),
    "plan": Command(
        "jaxrl.diagnose.command_plan",
        "predict hours and cost, of a fleet of workers or on a graphics card",
        command_options.plan,
        OWN,
    ),
    "zoo": Command("jaxrl.zoo.command", "list and get the trained policies that come with jaxrl", command_options.zoo),
    "games": Command(
        "jaxrl.config.command_games", "list the games, and say how others are named", command_options.games
    ),
    "runs": Command(
        "jaxrl.runs.command_runs", "list the runs: how far they are, how well they play", command_options.runs
    ),
    "status": Command(
        "jaxrl.runs.command_status",
        "say what a run is doing or how it ended, or list all of them",
        command_options.status,
    ),
    "config": Command(
        "jaxrl.config.command_config",
        "explain every configuration key, or print a resolved configuration",
        command_options.config,
    ),
}


def commands() -> dict[str, str]:
    """What all commands do: ours, and those of games that have some, called as the game."""
    found = {name: command.help for name, command in COMMANDS.items()}
    return found | {id: registry.game_module(id, "commands").HELP for id in registry.games_with("commands")}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence like all others."""

    def error(self, message: str) -> NoReturn:
        """Raises UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could be written next
        complete()
    words = list(sys.argv[1:] if argv is None else argv)
    if "--distributed" not in words:
        return guarded(lambda: _run(words))
    from jaxrl.runs import distributed  # here, because it imports jax

    return distributed.exit_together(lambda: guarded(lambda: _run(words)))


def guarded(run: Callable[[], int]) -> int:
    """The exit code of `run`; mistakes of the user, a full disk and too little memory end in one sentence on stderr."""
    code = 0
    try:
        code = run()
        _flush()
        return code
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # `jaxrl config | head`
        return code
    except OSError as error:
        if error.errno not in NO_FILE:
            return _not_ours(error)
        place = f" ({error.filename})" if error.filename else ""
        return _complain(
            f"cannot read or write{place}: {os.strerror(error.errno)}; free or choose another place and try again."
        )
    except Exception as error:
        return _complain(OUT_OF_MEMORY) if is_out_of_memory(error) else _not_ours(error)
    finally:
        _drop_output()


def _not_ours(error: Exception) -> int:
    """One sentence for a mistake in a game, a network, ... of the user's own; ours are raised, and so are all of them
    under `python -X dev`."""
    told = user_code.fault(error)
    if told is None or sys.flags.dev_mode:
        raise error
    return _complain(f"{told} (`python -X dev -m jaxrl …` shows what led to it)")


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy or XLA says that there is no memory left."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error))


def _flush() -> None:
    if sys.stdout is not None:  # `jaxrl … >&-`
        sys.stdout.flush()


def _drop_output() -> None:
    """Drops what a closed pipe or a full disk does not take: Python would complain about it once more at its end."""
    try:
        _flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    parser = Parser(prog=f"jaxrl {name}", description=known[name], allow_abbrev=False)
    work = _prepare(parser, name, rest)
    starts = COMMANDS[name].starts if name in COMMANDS else ()
    own = next((number for number, word in enumerate(rest) if word in starts), len(rest))
    try:
        args = parser.parse_intermixed_args(rest[:own])  # a.b=value may stand before and after options
    except SystemExit as error:  # --help
        return int(error.code or 0)
    args.words = rest[own:]
    _merge_overrides(args)
    command = COMMANDS.get(name)
    devices = command.devices if command else ONE
    if devices != OWN:
        xla.set_devices(xla.cores() if devices == CORES else 1)
    if command and (game := vars(args).get(command.game)):
        with contextlib.suppress(UserError):  # the command will say what is wrong
            xla.prepare_game(game)
    return int(work(args) or 0)


def _prepare(parser: Parser, name: str, rest: list[str]) -> Callable[[argparse.Namespace], int | None]:
    """Adds the options of a command to its parser; returns what it does."""
    if name in COMMANDS:
        COMMANDS[name].add_options(parser)
        return lambda args: importlib.import_module(COMMANDS[name].module).main(args)
    parser.add_argument("command", help="what to do")
    module = registry.game_module(name, "commands").module(rest[0] if rest else "")
    module.add_arguments(parser)
    return lambda args: module.main(args)


def complete() -> None:
    """Answers the shell with what could be written next, and ends the process."""
    import argcomplete

    parser = Parser(prog="jaxrl", allow_abbrev=False)
    each = parser.add_subparsers()
    for name, help in commands().items():
        inner = each.add_parser(name, help=help)
        if name in COMMANDS:
            COMMANDS[name].add_options(inner)
            continue
        module, words = registry.game_module(name, "commands"), inner.add_subparsers()
        for word in module.COMMANDS:
            module.module(word).add_arguments(words.add_parser(word))
    argcomplete.autocomplete(parser)


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
    lines = [f"  {name:<{width}}  {help}" for name, help in known.items()]
    return "\n".join(["usage: jaxrl COMMAND …   (jaxrl COMMAND --help)", "", *lines])


def _complain(message: str) -> int:
    with contextlib.suppress(OSError):  # nobody reads it
        print(f"jaxrl: {printable(message)}", file=sys.stderr)
    return USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
