"""Reads YAML and JSON files, writes files atomically, and locks files between processes."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import json
import os
import re
import stat
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO, Any

import yaml

from jaxrl_envs.shared.errors import UserError

LIMIT = 1 << 24  # bytes of a YAML or JSON file written by hand
SUFFIXES = (".yaml", ".yml", ".json")
MOST = 1_000_000  # values of a file
LONGEST = 255  # bytes of a file's name
LARGEST = 1 << 64  # whole numbers are below
DEEPEST = 64  # mappings and lists within each other


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 3e-4 as a number (YAML 1.2) and refuses a key that is written twice."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads: a text like 3e4 in quotes."""


for _each in (_Loader, _Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$"),
        list("-+.0123456789"),
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no key may be repeated."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} appears twice")
        found[key] = value
    return found


def _check_size(value: Any) -> None:
    """Raises ValueError for more than `MOST` values, for one that contains itself (YAML's anchors allow both) or for a
    number beyond `LARGEST`, and RecursionError for more than `DEEPEST` mappings and lists within each other."""
    rest, count = [(value, 0)], 0
    while rest:
        (value, depth), count = rest.pop(), count + 1
        if count > MOST:
            raise ValueError(f"it holds more than {MOST:,} values, or a value within itself")
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise ValueError("it holds a whole number of more than 64 bits")
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        rest += [(each, depth + 1) for each in inner]


def is_path(text: str) -> bool:
    """Whether a name given by a user is a path: it ends as YAML or JSON, or contains a slash."""
    return text.lower().endswith(SUFFIXES) or "/" in text or "\\" in text


def is_name(text: str) -> bool:
    """Whether a file of a folder could be called so: no path, no control character, not too long for the disk."""
    return bool(text) and text.isprintable() and not set(text) & {"/", "\\"} and len(text.encode()) <= LONGEST


def opened(path: str | os.PathLike, *, follow: bool = True) -> io.BufferedReader:
    """Opens a regular file for reading; `follow` says whether a link to one counts.

    Raises:
      OSError: it cannot be opened, or it is not a regular file (a pipe would block, a device may never end).
    """
    more = os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | more))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no plain file", os.fspath(path))
    return file


def contents(path: str | os.PathLike, limit: int = 1 << 28) -> bytes:
    """Reads a regular file as a whole.

    Raises:
      OSError: as `opened`, or the file has more than `limit` bytes.
    """
    with opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit >> 20} MB", os.fspath(path))
    return data


def read(path: str | Path) -> Any:
    """Reads a YAML file, or a JSON file if its name ends in .json, into plain values.

    Raises:
      UserError: the file does not exist, cannot be read or is not valid; the message names the line.
    """
    path = Path(path)
    try:
        with opened(path) as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise UserError(
                f"cannot read {path}: it has more than {LIMIT >> 20} MB, too large for a file written by hand."
            )
        text = data.decode()
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: check the path.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not text in UTF-8.") from None
    return parse(text, str(path), json_text=path.suffix.lower() == ".json")


def unpacked(path: str | Path, limit: int) -> str:
    """Reads a text file that a program wrote, plain or gzip.

    Args:
      path: of the file.
      limit: the largest allowed size in bytes, unpacked.

    Raises:
      UserError: it cannot be read, is damaged, or is larger.
    """
    try:
        with opened(path) as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            raw = (gzip.open(file) if packed else file).read(limit + 1)
        if len(raw) > limit:
            raise UserError(f"cannot read {path}: it has more than {limit >> 20} MB (unpacked): split it.")
        return raw.decode()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: the file is damaged ({error}).") from None


def parse(text: str, label: str, *, json_text: bool = False) -> Any:
    """Parses a YAML or JSON text into plain values.

    Raises:
      UserError: it is not valid; the message names `label` and the line.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once) if json_text else yaml.load(text, Loader=_Loader)
        _check_size(found)
        return found
    except RecursionError:
        raise UserError(f"{label} cannot be read: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{label}, line {error.lineno} is not valid JSON: {error.msg}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or "broken").split())
        raise UserError(f"{label}{place} is not valid YAML: {problem}.") from None
    except ValueError as error:  # a key twice in JSON, a date that does not exist in YAML
        raise UserError(f"{label} cannot be read: {error}.") from None


def dump(tree: Any, **style: Any) -> str:
    """A plain tree as YAML that `parse` reads back; `style` is as for `yaml.dump`."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, **style)


def write(path: str | os.PathLike, data: bytes) -> None:
    """Writes a file atomically: after a full disk or a killed process the previous file is still there.

    An existing temporary file (PATH.part), even a link or a pipe, is removed and never written to.

    Raises:
      OSError: it cannot be written; its `filename` says which.
    """
    part = Path(f"{os.fspath(path)}.part")
    try:
        part.unlink(missing_ok=True)
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not set it
        if not part.is_dir():
            part.unlink(missing_ok=True)
        raise


def check_folder(path: str | os.PathLike) -> None:
    """Raises UserError if a folder cannot be made, or no file can be written into it; leaves nothing behind."""
    whole = Path(path).absolute()
    there = next(each for each in (whole, *whole.parents) if os.path.exists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UserError(f"cannot write to the folder {path}: {error.strerror}; name another.") from None


def open_lock(path: str | os.PathLike) -> IO[bytes]:
    """Opens a lock file, and creates it if it does not exist; does not follow links or block on pipes.

    Raises:
      OSError: it cannot be opened.
      UserError: it is not a regular file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise UserError(f"{os.fspath(path)} must be a plain file, it is a lock: remove what lies there.")
    return open(path, "r+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o666))


def lock(handle: IO[bytes], seconds: float = 0.2) -> None:
    """Locks an open file for this process; retries for `seconds`, because `is_locked` holds locks for an instant.

    Raises:
      BlockingIOError: another process holds its lock.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
        time.sleep(0.005)


def is_locked(path: str | os.PathLike) -> bool:
    """Whether a process holds the lock of the file at `path`."""
    if not os.path.isfile(path):
        return False
    try:
        with opened(path) as handle:  # read-only: another user may own it
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # unknown
        return False
    return False
