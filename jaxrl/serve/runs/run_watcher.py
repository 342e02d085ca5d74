"""The state of runs from their files: read once, then only what has changed.

Nothing is written, and nothing that files name is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from jaxrl.config import presets
from jaxrl.runs import presence, status
from jaxrl.runs.directory import read_json_list
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.runs.follow import Rows
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, printable

FRESH = 1.0  # seconds for which what was looked at counts as so
MOST = 2_000  # runs that are listed
FOLLOWED, CELLS = 64, 1 << 25  # runs whose rows are kept, and numbers in all of them; the newest in any case
SEEN = ("config.yaml", "metrics.jsonl", "process.json", "evaluation.json", "best.json", "checkpoints", "imitation.json")
MORE = ("best", "exploitability.json")
LOGS = ("log.txt", "log.jsonl")
EVALUATIONS = 40  # the newest that are shown


class RunWatcher:
    """The runs in a folder. Its methods may be called from several threads."""

    def __init__(self, folder: Path):
        """Reads nothing yet."""
        self.folder = folder
        self._lock = threading.Lock()
        self._briefs: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._rows: OrderedDict[str, Rows] = OrderedDict()
        self._looked = 0.0
        self._states: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._details: dict[str, tuple[Any, dict[str, Any]]] = {}

    def find(self, name: str) -> Path:
        """Returns the folder of a run. Raises UserError: no run has that name."""
        plain = name not in (".", "..") and files.is_name(name)
        if not plain or not (self.folder / name / "config.yaml").is_file():
            raise UserError("there is no such run.")
        return self.folder / name

    def listed(self) -> list[dict[str, Any]]:
        """Returns a brief `Status` of every run as mappings, the last written first."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                self._look()
                self._looked = time.monotonic()
            found = [brief for _, brief in self._briefs.values()]
        return sorted(found, key=lambda brief: brief["written"], reverse=True)

    def _look(self) -> None:
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())[:MOST]
        except OSError:
            names = []
        names = [name for name in names if name.isprintable() and (self.folder / name / "config.yaml").is_file()]
        for gone in self._briefs.keys() - set(names):
            del self._briefs[gone]
            self._states.pop(gone, None)
            self._details.pop(gone, None)
        for name in names:
            run = self.folder / name
            sign = signature(run)
            if name not in self._briefs or self._briefs[name][0] != sign:
                self._briefs[name] = sign, told(status.brief, run) | {"written": written(run)}

    def _followed(self, run: Path) -> Rows:
        rows = self._rows.setdefault(run.name, Rows(run / "metrics.jsonl"))
        self._rows.move_to_end(run.name)
        while rows.follow():
            pass
        while len(self._rows) > FOLLOWED or len(self._rows) > 1 and sum(r.cells for r in self._rows.values()) > CELLS:
            self._rows.popitem(last=False)
        return rows

    def state(self, run: Path) -> dict[str, Any]:
        """Returns the live data of a run: "epoch", "read", "latest", "tags", "seeds" of `Rows`, and "status"."""
        sign = signature(run)
        with self._lock:
            if self._states.get(run.name, (None,))[0] == sign:
                return self._states[run.name][1]
            rows = self._followed(run)
            found = {"epoch": rows.epoch, "read": rows.read, "latest": rows.latest, "tags": rows.tags}
            found |= {"seeds": rows.seeds, "status": told(status.glance, run)}
            self._states[run.name] = sign, found
            return found

    def curves(self, run: Path, tags: list[str], after: float) -> dict[str, Any]:
        """Returns curves of a run, see `Rows.curves`, with "epoch"."""
        with self._lock:
            rows = self._followed(run)
            return {"epoch": rows.epoch, **rows.curves(tags, after)}

    def details(self, run: Path) -> dict[str, Any]:
        """Returns what seldom changes: "config" as text and as a tree, "checkpoints", "evaluations",
        "exploitability"; and "damaged", a sentence for each of them that cannot be told."""
        sign = tuple(_stat(run / name) for name in ("config.yaml", *SEEN[3:], *MORE))
        with self._lock:
            if self._details.get(run.name, (None,))[0] == sign:
                return self._details[run.name][1]
        parts: dict[str, tuple[Callable[[], Any], Any]] = {  # and what stands for one that is damaged
            "config": (lambda: files.contents(run / "config.yaml", files.BY_HAND).decode(errors="replace"), ""),
            "tree": (lambda: presets.read(run / "config.yaml"), {}),
            "checkpoints": (lambda: checkpoints(run), []),
            "evaluations": (lambda: read_json_list(run / "evaluation.json")[-EVALUATIONS:], []),
            "exploitability": (lambda: read_json_list(run / "exploitability.json")[-EVALUATIONS:], []),
        }
        found: dict[str, Any] = {"damaged": []}
        for name, (look, otherwise) in parts.items():
            try:
                found[name] = look()
                orjson.dumps(found[name], option=orjson.OPT_NON_STR_KEYS)
            except Exception as error:  # the other parts are shown all the same
                found[name] = otherwise
                found["damaged"].append(printable(str(error)))
        with self._lock:
            self._details[run.name] = sign, found
        return found


def signature(run: Path) -> tuple[Any, ...]:
    """Returns a value that differs whenever a run has changed: sizes and times of its files, whether it is locked."""
    return (files.is_locked(run / ".lock"), *(_stat(run / name) for name in (*SEEN, *MORE, *LOGS)))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def written(run: Path) -> float:
    """Returns the time of the last write to a run, in seconds since 1970."""
    return max((entry[0] / 1e9 for entry in signature(run)[1:] if entry), default=0.0)


def checkpoints(run: Path) -> list[dict[str, Any]]:
    """Returns the checkpoints of a run, oldest first: "update", "best", "bytes", "time"; reads no contents."""
    found = []
    for store in ("checkpoints", "best"):
        for path in (run / store).glob("[0-9]*"):
            with contextlib.suppress(OSError):  # a newer one takes its place
                if (update := files.number(path.name)) is None or not path.is_dir():
                    continue
                sizes = [each.stat().st_size for each in path.rglob("*") if each.is_file()]
                entry = {"update": update, "best": store == "best", "bytes": sum(sizes)}
                found.append(entry | {"time": path.stat().st_mtime})
    return sorted(found, key=lambda entry: (entry["update"], entry["best"]))


def told(look: Callable[[Path], status.Status], run: Path) -> dict[str, Any]:
    """Returns the status of a run as a mapping for JSON; a run that cannot be read does not hide the others."""
    try:
        found = dataclasses.asdict(look(run))
        orjson.dumps(found)
        return found
    except Exception as error:  # of a game's own code, for instance: its configuration is checked by it
        LOG.exception("run %s", run)
        why = printable(f"{type(error).__name__}: {error}")
        return dataclasses.asdict(status.Status(run.name, printable(str(run)), why=why))


def trainer_of(run: Path) -> int:
    """Returns the process that trains a run on this machine.

    Raises:
      UserError: no process trains it, or one on another machine does.
    """
    who = presence.read_presence(run)
    if who is None or who.ended or not files.is_locked(run / ".lock"):
        raise UserError(f"{run.name} is not being trained now.")
    if who.host != os.uname().nodename:
        raise UserError(f"{run.name} is trained on {who.host}: stop it there.")
    with contextlib.suppress(OSError):  # its number may have passed to another process, not to be signalled
        if any(os.path.samefile(entry.path, run / ".lock") for entry in os.scandir(f"/proc/{who.pid}/fd")):
            return who.pid
    raise UserError(f"{run.name} is trained by a process that cannot be told from here: stop it where you began it.")
