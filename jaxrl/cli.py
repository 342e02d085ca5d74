"""The command line: `jaxrl <command> …`.

A command is a module in the room of what it does (`Command`), and a line in `COMMANDS`. Help and completion start no
jax. Mistakes of the user (`UserError`) end in one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import importlib.abc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, cast

import jaxrl
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError, nearest, printable

USER_ERROR = 2
INTERRUPTED = 130  # the shell's code for Ctrl-C
_PLACE = "ENOSPC EDQUOT EFBIG EACCES EPERM EROFS EEXIST EISDIR ENOTDIR ENAMETOOLONG ELOOP EMFILE ENFILE EIO"
NO_FILE: set[int] = {getattr(errno, name) for name in _PLACE.split()}  # a place is wrong, not the program
OUT_OF_MEMORY = (
    "there is not enough memory: lower train.num_envs, train.num_steps, the network's size or the replay buffer of DQN "
    "(evaluations: --deals), or close other programs; what was saved is intact."
)
LONGEST = 4_000  # letters of a message: names in it may come from a file

ONE = "one"  # plays one game at a time, on one device
CORES = "cores"  # spreads its games over all cores
OWN = "own"  # the module chooses (`xla.prepare_training`)
NONE = "none"  # starts no jax

COMMANDS = {  # name -> its group in the overview, its module in `jaxrl` (see `Command`), what it does in a line
    "train": ("train", "training.launching.command_train", "train an agent: `jaxrl train --config skull_king_cpu`"),
    "resume": ("train", "training.launching.command_resume", "continue a run exactly where it stopped"),
    "imitate": ("train", "training.imitation.command_imitate", "learn from recorded games, a bot or a search"),
    "sweep": ("train", "experiments.command_sweep", "search for hyper-parameters: trials by Optuna, weak ones pruned"),
    "bench": ("train", "experiments.command_bench", "compare configurations, or a training without each reward"),
    "evaluate": ("measure", "matches.command_evaluate", "play a run against every bot, or against another run"),
    "tournament": ("measure", "matches.tournaments.command_tournament", "play a round robin: win matrix and ratings"),
    "exploit": ("measure", "training.exploit.command_exploit", "train best responses: approximate exploitability"),
    "compare": ("measure", "experiments.command_compare", "quality gate: is run B faster than run A, and as strong?"),
    "diagnose": ("measure", "diagnose.command_diagnose", "report where the time goes, or what a training will cost"),
    "check": ("measure", "training.launching.command_check", "test a game, its recordings, or a policy's training"),
    "play": ("play", "matches.command_play", "sit at the table with a trained agent"),
    "serve": ("play", "serve.command", "open a web page to play, watch, and look at runs and replays; or write one"),
    "film": ("play", "matches.recording.command_film", "write a game as an animated picture"),
    "export": ("play", "policies.command_export", "write a policy file for inference"),
    "zoo": ("play", "policies.command_zoo", "list and get trained policies: ours, or of the Hugging Face hub"),
    "games": ("inspect", "games.command_games", "list the games, and say how others are named"),
    "runs": ("inspect", "runs.command_runs", "list the runs, or say what one is doing or how it ended"),
    "config": ("inspect", "games.command_config", "explain every configuration key, or print a configuration"),
}
OTHERS = "inspect"  # where commands of games stand
MOVED = {  # names of earlier versions
    "ablate": "bench --without",
    "distill": "imitate --search",
    "launch": "train --processes",
    "plan": "diagnose --plan",
    "rate": "tournament",
    "site": "serve --site",
    "status": "runs",
    "verify": "check",
}


class Command(Protocol):
    """A module that is a command of `jaxrl`, in the room of what it does; importing it starts no jax.

    Attributes:
      DEVICES: ONE (by default), CORES, OWN or NONE.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the command."""

    def main(self, args: argparse.Namespace) -> int:
        """Runs the command; returns the exit code."""
        ...


def find_command(name: str) -> Command:
    """Returns the module of a command of ours."""
    return cast(Command, importlib.import_module(f"jaxrl.{COMMANDS[name][1]}"))


def commands() -> dict[str, str]:
    """Returns the help lines of all commands: ours, and those of games that have some, called as the game."""
    ours = {name: help for name, (_, _, help) in COMMANDS.items()}
    return ours | {id: registry.game_module(id, "commands").HELP for id in registry.games_with("commands")}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence like all others."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.color = False  # Python 3.14 would write codes that `_Plain` escapes

    def error(self, message: str) -> NoReturn:
        """Raises UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{self.prog} --help`)")

    def answer(self, words: Sequence[str]) -> None:
        """Answers an option of another trainer, or a key as an option, before its value is taken for a run."""
        options = [word.partition("=")[0] for word in words if word.startswith("--")]
        unknown = [word for word in options if word not in self._option_string_actions]
        if not unknown:
            return
        from jaxrl.config import Config, foreign_words  # here and below, because help needs none of it
        from jaxrl_envs.shared.options import all_paths

        keys = all_paths(Config) if any(each.dest == "overrides" for each in self._actions) else ()
        for word in unknown:
            name = word[2:].replace("-", "_")
            key = next((key for key in keys if key.rpartition(".")[2] == name), None)
            told = foreign_words.answer(word) or (key and f"there is no {word!r} here: write {key}=VALUE")
            if told:
                self.error(told)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could be written next
        complete()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] not in (["-h"], ["--help"]):
        from jaxrl import xla

        xla.prepare_platform()
    if "jax" not in sys.modules and "--distributed" not in words:  # which only the first process would have to say
        sys.meta_path.insert(0, _Announced())
    with contextlib.redirect_stdout(_Plain.of(sys.stdout)), contextlib.redirect_stderr(_Plain.of(sys.stderr)):
        if "--distributed" not in words:
            return guarded(lambda: _run(words))
        from jaxrl.runs import distributed  # here, because it imports jax

        return distributed.exit_together(lambda: guarded(lambda: _run(words)))


class _Announced(importlib.abc.MetaPathFinder):
    """Says that jax is being imported, when that begins: on a busy machine it takes a minute."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "jax":
            sys.meta_path.remove(self)
            print("loading jax ...", file=sys.stderr, flush=True)


class _Plain:
    """A stream to a terminal on which files have no say: names from them reach it without control characters.

    `rich`, which draws with such characters, asks for `rich_proxied_file`; it is given names that are `printable`.
    """

    def __init__(self, stream: Any):
        self.rich_proxied_file = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        """Returns a plain stream; None if there is no stream (`jaxrl … >&-`)."""
        return stream if stream is None or isinstance(stream, cls) else cls(stream)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guarded(run: Callable[[], int]) -> int:
    """Returns the exit code of `run`; user mistakes, a full disk and too little memory end in a sentence on stderr."""
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
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _complain(f"{os.strerror(error.errno).lower()}: raise the limit (ulimit -n) and try again.")
        place = f" ({error.filename})" if error.filename else ""
        return _complain(
            f"cannot read or write{place}: {os.strerror(error.errno)}; free or choose another place and try again."
        )
    except MemoryError:
        return _complain(OUT_OF_MEMORY)
    except Exception as error:
        full = isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)  # says XLA
        return _complain(OUT_OF_MEMORY) if full else _not_ours(error)
    finally:
        _drop_output()


def _not_ours(error: Exception) -> int:
    """Prints one sentence for a mistake in the user's own game, network, ...; ours are raised, and so are all of them
    under `python -X dev`."""
    told = user_code.fault(error)
    if told is None or sys.flags.dev_mode:
        raise error
    return _complain(f"{told} (`python -X dev -m jaxrl …` shows what led to it)")


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
    known = [*COMMANDS, *registry.games_with("commands")]
    if name in MOVED:
        raise UserError(f"`jaxrl {name}` is `jaxrl {MOVED[name]}` now.")
    if name not in known:
        raise UserError(f"there is no command {name!r}: {nearest(name, known)}")
    parser = Parser(prog=f"jaxrl {name}", allow_abbrev=False)
    command = _prepare(parser, name, rest)
    parser.answer(rest)
    try:
        args = parser.parse_intermixed_args(rest)  # a.b=value may stand before and after options
    except SystemExit as error:  # --help
        return int(error.code or 0)
    args.words = argv
    _merge_overrides(args)
    devices = getattr(command, "DEVICES", ONE)
    from jaxrl import xla

    if devices != NONE:
        xla.check_limits()
    if devices in (ONE, CORES):
        xla.set_devices(xla.cores() if devices == CORES else 1)
    return int(command.main(args) or 0)


def _prepare(parser: Parser, name: str, rest: list[str]) -> Command:
    """Returns the command that the words name, its options added to the parser."""
    if name in COMMANDS:
        command = find_command(name)
        parser.description = COMMANDS[name][2]
    else:
        group = registry.game_module(name, "commands")
        parser.description = group.HELP
        parser.add_argument("command", help="what to do")
        command = group.module(rest[0] if rest else "")
    command.add_options(parser)
    return command


def complete() -> None:
    """Answers the shell with what could be written next, and ends the process."""
    import argcomplete

    parser = Parser(prog="jaxrl", allow_abbrev=False)
    each = parser.add_subparsers()
    for name, help in commands().items():
        inner = each.add_parser(name, help=help)
        if name in COMMANDS:
            find_command(name).add_options(inner)
            continue
        module, words = registry.game_module(name, "commands"), inner.add_subparsers()
        for word in module.COMMANDS:
            module.module(word).add_options(words.add_parser(word))
    argcomplete.autocomplete(parser)


def _merge_overrides(args: argparse.Namespace) -> None:
    """Adds the keys for which --devices and --deterministic are short."""
    overrides = getattr(args, "overrides", None)
    if overrides is None:
        return
    if getattr(args, "devices", None) is not None:
        overrides.append(f"run.devices={args.devices}")
    if getattr(args, "deterministic", False):
        overrides.append("run.deterministic=true")


def _overview() -> str:
    known, groups = commands(), {name: group for name, (group, *_) in COMMANDS.items()}
    width = max(map(len, known))
    lines = ["usage: jaxrl COMMAND …   (jaxrl COMMAND --help)"]
    for title in dict.fromkeys(groups.values()):
        names = [name for name in known if groups.get(name, OTHERS) == title]
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {known[name]}" for name in names)]
    return "\n".join(lines)


def _complain(message: str) -> int:
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    with contextlib.suppress(OSError):  # stderr may be closed
        print("jaxrl: " + message.replace("\n", "\\n"), file=sys.stderr)  # one sentence, whatever is in it
    return USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
