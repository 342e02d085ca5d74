"""The folder of a run: finding it, and the command that continues with it. No jax."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Collection
from pathlib import Path

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.config import presets, trust
from jaxrl.zoo import hub
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest


def find_folder(name: str | os.PathLike, directory: str = "runs", others: Collection[str] = ()) -> Path:
    """Returns the folder of the run at a path, or of the run with that name in `directory`.

    Args:
      name: the run.
      directory: directory of runs.
      others: other things that could have been named, for the message.

    Raises:
      UserError: there is no such run (the message has the nearest name), or the name has a checkpoint, which belongs
        to a run that the message names with its checkpoints.
    """
    if (path := _known(name, directory)) is not None:
        return path
    run, at, checkpoint = str(name).rpartition("@")
    if at and (path := _known(run, directory)) is not None:
        saved = sorted({*files.numbered(path / "checkpoints"), *files.numbered(path / "best")})
        raise UserError(
            f"{str(name)!r} names the checkpoint {checkpoint!r}, where a run alone is meant: leave '@{checkpoint}' "
            f"out, or begin a new run at one of its checkpoints ({', '.join(map(str, saved)) or 'none yet'}) by "
            f"train.from_run={run}@UPDATE."
        )
    if str(name).startswith((zoo.PREFIX, hub.PREFIX)):
        raise UserError(f"{name} is a policy, not a run: a new run begins with it by train.from_run={name}.")
    if str(name).endswith((".jaxrl", ".replay")):
        raise UserError(f"there is no file {str(name)!r}: give the path of one, or the name of a run.")
    known = [*(path.parent.name for path in Path(directory).expanduser().glob("*/config.yaml")), *others]
    hint = nearest(Path(name).name, known) if known else f"{directory} has none; `jaxrl train` begins one."
    raise UserError(f"there is no run {str(name)!r}: {hint}")


def _known(name: str | os.PathLike, directory: str) -> Path | None:
    """Returns the folder of a run that exists."""
    for path in (Path(name).expanduser(), Path(directory).expanduser() / name):
        if os.path.isfile(path / "config.yaml"):
            return path
    return None


def next_command(name: str, run: Path, *more: str) -> str:
    """Returns `jaxrl NAME RUN ...`, or a new training from RUN ("train"), with the `--allow` that it needs."""
    words, flags, file = [shlex.quote(str(run))], "", run / "config.yaml"
    if name == "train":
        words = ["--config", shlex.quote(str(file)), "--name", "NAME", f"train.from_run={shlex.quote(str(run))}"]
    with contextlib.suppress(UserError):  # the command will say what is wrong
        config = configs.from_dict(presets.read(file))  # which runs nothing that it names
        flags = trust.flags(config if name in ("train", "resume") else dataclasses.replace(config, callbacks=()))
    return " ".join(["jaxrl", name, *words, *more, *([flags] if flags else [])])
