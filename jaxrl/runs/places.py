"""Where a run is. No jax."""

from __future__ import annotations

import os
from pathlib import Path

from jaxrl_envs.shared.errors import UserError, nearest


def find_folder(name: str | os.PathLike, directory: str = "runs") -> Path:
    """The folder of the run at a path, or of the run of that name in `directory`.

    Raises:
      UserError: there is none, with the nearest name.
    """
    for path in (Path(name).expanduser(), Path(directory).expanduser() / name):
        if os.path.isfile(path / "config.yaml"):
            return path
    known = [path.parent.name for path in Path(directory).expanduser().glob("*/config.yaml")]
    raise UserError(f"there is no run {str(name)!r}: {nearest(Path(name).name, known)}")
