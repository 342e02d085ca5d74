"""Options that several commands have, and the types of their values; nothing here imports jax."""

from __future__ import annotations

import contextlib
import math
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jaxrl.config import Config, presets
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import all_paths


def whole(text: str, most: int = 2**31 - 1) -> int:
    """Returns the type of an option that is a whole number of at least 0."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := int(text)) <= most:
            return value
    raise ArgumentTypeError(f"must be a whole number from 0 to {most}, got {text!r}")


def deals(text: str) -> int:
    """Returns the type of an option that is a number of deals: at least the 2 that an interval needs."""
    most = 2**31 - 1
    with contextlib.suppress(ValueError):
        if 2 <= (value := int(text)) <= most:
            return value
    raise UserError(f"--deals must be at least 2 and at most {most}, got {text!r}.")


def seed(text: str) -> int:
    """Returns the type of an option that is a seed."""
    return whole(text, 2**32 - 1)


def port(text: str) -> int:
    """Returns the type of an option that is a port; 0: one that is free."""
    return whole(text, 2**16 - 1)


def real(text: str) -> float:
    """Returns the type of an option that is a finite number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise ArgumentTypeError(f"must be a number, got {text!r}")


def names(text: str) -> list[str]:
    """Returns the type of an option that is several names, A,B."""
    return text.split(",") if text else []


def run_name(text: str) -> str:
    """Returns the type of an option that names a new run."""
    if not text:
        raise ArgumentTypeError("is empty: give the run a name, or leave the option out")
    return text


def new_file(text: str) -> str:
    """Returns the type of an option that is a file to write: its folder must exist."""
    if text and (Path(text).is_dir() or not Path(text).absolute().parent.is_dir()):
        raise UserError(f"cannot write {text}: give a file in a folder that exists.")
    return text


def new_folder(text: str) -> str:
    """Returns the type of an option that is a folder to write to, which may exist."""
    files.check_folder(text)
    return text


def existing_config(text: str) -> str:
    """Returns the type of an option that names a configuration; a key to change may stand in its place."""
    if "=" not in text:
        presets.find(text)
    return text


def completed(action: Action, names: Callable[[], Iterable[str]]) -> None:
    """Lets the shell complete what is written for `action` with these names."""
    action.completer = lambda **_: list(names())  # type: ignore[attr-defined]  # argcomplete's


def run(parser: ArgumentParser, help: str = "a run directory, or the name of a run in runs/", **more: Any) -> None:
    """Adds the argument that names a run."""
    action = parser.add_argument(more.pop("dest", "run"), metavar=more.pop("metavar", "RUN"), help=help, **more)
    completed(action, run_names)


def run_names() -> list[str]:
    """Returns the runs in runs/, without names that a shell could not show."""
    return [path.parent.name for path in Path("runs").glob("*/config.yaml") if path.parent.name.isprintable()]


def config(parser: ArgumentParser, help: str, name: str = "--config", **more: Any) -> None:
    """Adds the option that names a configuration."""
    completed(parser.add_argument(name, help=help, type=existing_config, **more), presets.shipped)


def overrides(parser: ArgumentParser, help: str = "configuration keys to change", metavar: str = "a.b=v") -> None:
    """Adds the argument for configuration keys to change."""
    action = parser.add_argument("overrides", nargs="*", default=[], metavar=metavar, help=help)
    completed(action, lambda: (f"{path}=" for path in all_paths(Config)))


def checkpoint(parser: ArgumentParser) -> None:
    """Adds the option that names a checkpoint of a run."""
    parser.add_argument("--checkpoint", default="newest", help="newest, best, or a number of updates")


def allow(parser: ArgumentParser) -> None:
    """Adds the option for what a file may name, see `jaxrl.config.trust`."""
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="MODULE",
        help="what a file may name to run or fill: a module, a package, a path; repeatable (JAXRL_ALLOW=A,B: always)",
    )


def devices(parser: ArgumentParser) -> None:
    """Adds two options that are short for configuration keys."""
    parser.add_argument("--devices", metavar="N", help="devices to use (on a CPU: virtual ones, as threads)")
    parser.add_argument("--deterministic", action="store_true", help="the same bits every time on a GPU too; slower")


def training(parser: ArgumentParser) -> None:
    """Adds what `configs.for_training` reads, and `--devices`."""
    devices(parser)
    config(parser, "a YAML file or the name of a shipped configuration (default: the defaults, for env.id=GAME)")
    allow(parser)
    help = "name of the run (default: run.name, else that of the configuration or game)"
    parser.add_argument("--name", type=run_name, help=help)
    overrides(parser, "configuration keys to change; a first word without = is the configuration, as for --config")


def distributed(parser: ArgumentParser) -> None:
    """Adds the options of several processes that train together, see `jaxrl.runs.distributed`."""
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="train together with other processes, all started alike: jax finds them under Slurm, Open MPI and "
        "Kubernetes; elsewhere say who they are (docs/operations/many_machines.md)",
    )
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 listens for the others")
    help = "their number; without --distributed: start that many on this machine, and watch them"
    parser.add_argument("--processes", type=whole, metavar="N", help=help)
    parser.add_argument("--rank", type=whole, metavar="R", help="the number of this one, from 0")
    help = "of --processes alone: start all again, from the newest checkpoint, up to N times after one died (3)"
    parser.add_argument("--restarts", type=whole, default=3, metavar="N", help=help)


def starts_processes(args: Namespace) -> bool:
    """Returns whether a command shall start processes of its own: --processes, and nothing of `--distributed`."""
    return args.processes is not None and not (args.distributed or args.coordinator or args.rank is not None)
