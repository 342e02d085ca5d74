"""The command that comes next, as it is printed."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from pathlib import Path

from jaxrl import config as configs
from jaxrl.config import presets, trust
from jaxrl_envs.shared.errors import UserError


def next_command(name: str, run: Path, *more: str) -> str:
    """`jaxrl NAME RUN ...`, or a new training from RUN ("train"), with the `--allow` that its configuration needs."""
    words, flags, file = [shlex.quote(str(run))], "", run / "config.yaml"
    if name == "train":
        words = ["--config", shlex.quote(str(file)), "--name", "NAME", f"train.from_run={shlex.quote(str(run))}"]
    with contextlib.suppress(UserError):  # the command will say what is wrong
        config = configs.from_dict(presets.read(file))  # which runs nothing that it names
        flags = trust.flags(config if name in ("train", "resume") else dataclasses.replace(config, callbacks=()))
    return " ".join(["jaxrl", name, *words, *more, *([flags] if flags else [])])
