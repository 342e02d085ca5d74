"""Open recordings: each is rendered by a process of its own (`jaxrl.serve.replays.render_recording`) into a
temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.serve.jobs import WorkQueue, child
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

KEPT, AT_ONCE, WAITING = 32, 2, 16  # games on disk; processes; games that wait for one
PATIENCE = 400.0  # seconds for one of them
GONE = "the process that opened {name} has ended without a word: it needed more than it may use."


class Opening:
    """A recorded game that is open or being opened."""

    def __init__(self, key: str, path: Path, game: int, folder: Path):
        """Makes a recording whose rendering has not started."""
        self.key, self.path, self.game, self.folder = key, path, game, folder
        self.state = "waiting"  # working, open, failed
        self.why = ""
        self.judged: dict[tuple[str, int], asyncio.Task[bytes]] = {}  # annotations by player and its checkpoint

    def file(self, name: str) -> Path | None:
        """Returns the gzip file of that name that the process has written, or None if it has not yet."""
        found = self.folder / name
        return found if name.isalnum() and files.is_name(name) and found.is_file() else None


class OpenRecordings:
    """A bounded cache of open recordings; the oldest are dropped."""

    def __init__(self, allow: Sequence[str], cache_dir: str):
        """Makes an empty cache.

        Args:
          allow: modules and paths that recordings may name, see `jaxrl.config.trust`.
          cache_dir: folder of compiled programs.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="jaxrl-replays-")
        self._options = [f"--allow={each}" for each in allow] + [f"--cache={cache_dir}"]
        self._open: OrderedDict[str, Opening] = OrderedDict()
        self._queue = WorkQueue(AT_ONCE, WAITING)

    def open(self, path: Path, game: int) -> Opening:
        """Starts opening a game of a file, or returns it if it is open.

        Raises:
          UserError: the file is gone, or too many wait.
        """
        key = _key(path, game)
        if key not in self._open:
            found = Opening(key, path, game, Path(self._folder.name) / key)
            self._queue.begin(self._render, found)
            self._open[key] = found
            self._forget()
        self._open.move_to_end(key)
        return self._open[key]

    async def glances(self, paths: Sequence[Path]) -> list[Any]:
        """Returns results and last positions of replays; one process reads those that were not asked for before.

        Raises:
          UserError: a file is gone, or too many wait.
        """
        kept = [Path(self._folder.name) / _key(path, -1) for path in paths]
        fresh = {file: path for file, path in zip(kept, paths, strict=True) if not file.is_file()}
        if fresh:
            await asyncio.shield(self._queue.begin(self._glance, fresh))
        return [json.loads(gzip.decompress(file.read_bytes())) if file.is_file() else {} for file in kept]

    def get(self, key: str) -> Opening:
        """Returns an open recording by its key. Raises UserError: it is not open, or not any more."""
        if key not in self._open:
            raise UserError("this game is not open any more: open it again.")
        return self._open[key]

    async def close(self) -> None:
        """Stops the processes and removes their files."""
        await self._queue.close()
        self._folder.cleanup()

    def _forget(self) -> None:
        for key in list(self._open)[: max(0, len(self._open) - KEPT)]:
            if self._open[key].state in ("open", "failed"):
                shutil.rmtree(self._open.pop(key).folder, ignore_errors=True)

    async def _render(self, found: Opening) -> None:
        found.state, code = "working", -1
        with contextlib.suppress(OSError, TimeoutError):  # a full disk, for instance
            found.folder.mkdir()
            code = await self._read(found.folder, [found.path], f"--game={found.game}")
        failed = code != 0 or found.file("head") is None
        found.state = "failed" if failed else "open"
        if failed and found.file("head") is None:
            found.why = GONE.format(name=found.path.name)

    async def _glance(self, fresh: Mapping[Path, Path]) -> None:
        with contextlib.suppress(OSError, TimeoutError), tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            await self._read(Path(folder), list(fresh.values()))
            for number, file in enumerate(fresh):
                with contextlib.suppress(FileNotFoundError):  # the process has ended before
                    Path(folder, str(number)).replace(file)

    async def _read(self, folder: Path, paths: Sequence[Path], *options: str) -> int:
        words = ["-W", "ignore", "-m", "jaxrl.serve.replays.render_recording", *self._options, *options]
        async with child(*words, "--", str(folder), *map(str, paths), environment={"JAX_PLATFORMS": "cpu"}) as process:
            return await asyncio.wait_for(process.wait(), PATIENCE)


def _key(path: Path, game: int) -> str:
    try:
        stat = path.stat()
    except OSError as error:
        raise UserError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    name = f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}\0{game}"
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
