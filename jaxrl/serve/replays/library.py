"""The recordings that a server knows: files in its folders, and uploads."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

COMMON = {
    ".replay": "a recorded game",
    ".jsonl.gz": "recorded games",
    ".jsonl": "recorded games",
    ".json.gz": "recorded episodes",
    ".svg": "a film",
}
OTHERS = re.compile(r"metrics\.jsonl|log(\.\d+)?\.jsonl|traces?\.json\.gz")  # of runs, and no games
STATES = ("checkpoints", "best", "tensorboard")  # folders of a run without games
MOST, LOOKED_AT, DEPTH = 2_000, 50_000, 8  # files that are listed; entries that are looked at for them; folders deep
BROUGHT, LARGEST = 32, 1 << 24  # files that people have brought; bytes of one
UPLOADS = "brought"


@functools.cache
def kinds() -> dict[str, str]:
    """Returns kinds of recordings by file suffix; games may add their own."""
    own = [registry.game_module(game, "playback") for game in registry.games_with("playback")]
    return {suffix: kind for module in own for suffix, kind in getattr(module, "SUFFIXES", {}).items()} | COMMON


def kind_of(name: str) -> str:
    """Returns the kind of a recording by its file name, or "" if it is not one."""
    if OTHERS.fullmatch(name):
        return ""
    return next((kind for suffix, kind in kinds().items() if name.endswith(suffix)), "")


class RecordingLibrary:
    """Recordings by names such as "0/best/final/highest_return.replay": a folder's number and the path below it."""

    def __init__(self, folders: Sequence[Path]):
        """Makes a library of these folders, some of which may not exist yet."""
        self._brought = tempfile.TemporaryDirectory(prefix="jaxrl-brought-")
        self._roots = {str(number): folder.expanduser().absolute() for number, folder in enumerate(folders)}
        self._roots[UPLOADS] = Path(self._brought.name)

    def listed(self) -> dict[str, Any]:
        """Returns {"files": [{"file", "name", "kind", "time"}], "left_off": whether there are more}."""
        found, budget = [], [LOOKED_AT]
        for number, folder in self._roots.items():
            for entry in _walk(str(folder), 0, budget):
                with contextlib.suppress(OSError, UnicodeError):  # it has vanished, or its name cannot be told
                    entry.path.encode()
                    found.append(_entry(number, folder, entry))
        found.sort(key=lambda each: -each["time"])
        return {"files": found[:MOST], "left_off": len(found) > MOST or budget[0] <= 0}

    def find(self, name: str) -> Path:
        """Returns the path of the recording with that name.

        Raises:
          UserError: there is no such file, or it lies elsewhere, by a link for instance.
        """
        number, _, way = name.partition("/")
        try:
            root = self._roots[number].resolve()
            path = (root / way).resolve()
            if path.is_relative_to(root) and path.is_file() and kind_of(path.name):
                return path
        except (KeyError, ValueError, OSError):  # no such folder; no name, or one too long for the disk
            pass
        raise UserError("there is no such recording.")

    def bring(self, name: str, data: bytes) -> str:
        """Keeps an uploaded recording while the server runs; the oldest make room. Returns its name.

        Raises:
          UserError: the name is not that of a recording, or the file is too large.
        """
        plain = re.sub(r"[^\w.() -]", "_", Path(name).name, flags=re.ASCII)[-80:]
        if not kind_of(plain):
            what = plain or "a file without a name"
            raise UserError(f"{what} is no recording: their names end in {', '.join(kinds())}.")
        if len(data) > LARGEST:
            raise UserError(f"{plain} has more than {LARGEST >> 20} MB: put it into a folder of the server.")
        folder = self._roots[UPLOADS]
        old = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in old[: max(0, len(old) - BROUGHT + 1)]:
            path.unlink(missing_ok=True)
        kept = f"{secrets.token_hex(4)}-{plain.lstrip('.-')}"
        (folder / kept).write_bytes(data)
        return f"{UPLOADS}/{kept}"

    def close(self) -> None:
        """Removes the uploads."""
        self._brought.cleanup()


def _walk(folder: str, depth: int, budget: list[int]) -> Iterator[os.DirEntry]:
    """Yields the files in a folder that are recordings by their names; links to folders are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        budget[0] -= 1
        if budget[0] < 0:
            return
        if entry.is_dir(follow_symlinks=False) and depth < DEPTH and (not depth or entry.name not in STATES):
            yield from _walk(entry.path, depth + 1, budget)
        elif kind_of(entry.name) and entry.is_file(follow_symlinks=False):
            yield entry


def _entry(number: str, folder: Path, entry: os.DirEntry) -> dict[str, Any]:
    stat, way = entry.stat(follow_symlinks=False), os.path.relpath(entry.path, folder)
    name = way.partition("-")[2] if number == UPLOADS else way
    return {"file": f"{number}/{way}", "name": name, "kind": kind_of(entry.name), "time": stat.st_mtime}
