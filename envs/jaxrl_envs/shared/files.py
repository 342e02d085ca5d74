"""Reads YAML, JSON and text files, writes files atomically, and locks files between processes."""

from __future__ import annotations

import contextlib
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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml

from jaxrl_envs.shared.errors import UserError

LIMIT, BY_HAND = 1 << 24, 1 << 22  # bytes of a JSON file; of a YAML file, which takes a hundred times as long
SUFFIXES = (".yaml", ".yml", ".json")
MOST, MOST_BY_HAND = 1_000_000, 50_000  # values of a JSON file (or lines of any), of a YAML file
LONGEST = 255  # bytes of a file's name
SMALLEST, LARGEST = -(1 << 63), 1 << 64  # whole numbers lie from the first to below the second, as JSON is written
DEEPEST = 64  # mappings and lists within each other
_LONE = re.compile("[\ud800-\udfff]")  # surrogates


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 3e-4 as a number (YAML 1.2) and plain values alone; refuses tags, merge keys, a key that is
    written twice, and more values than are written by hand."""

    depth = nodes = 0
    yaml_implicit_resolvers = {  # without dates, merge keys and default values: they are texts
        first: [each for each in known if not each[0].endswith((":timestamp", ":merge", ":value"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth, self.nodes = self.depth + 1, self.nodes + 1
        if self.depth > DEEPEST:
            raise RecursionError
        if self.nodes > MOST_BY_HAND:
            raise ValueError(f"it holds more than {MOST_BY_HAND:,} values")
        event = self.peek_event()
        if getattr(event, "tag", None) not in (None, "!"):
            raise yaml.constructor.ConstructorError(None, None, f"the tag {event.tag!r} is not read", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if (inner := isinstance(key, (list, dict))) or key == "<<" or key in seen:
                problem = "a key must be plain text" if inner else f"key {key!r} appears twice"
                problem = "merge keys (<<) are not read: write out what they stand for" if key == "<<" else problem
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
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
    """Returns a JSON object in which no key may be repeated."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} appears twice")
        found[key] = value
    return found


def _check(value: Any, most: int) -> None:
    """Raises ValueError for what JSON cannot say again (whole numbers of more than 64 bits, lone surrogates), for more
    than `most` values or one that contains itself (YAML's anchors allow both), and RecursionError for more than
    `DEEPEST` mappings and lists within each other."""
    rest, count = [(value, 0)], 0
    while rest:
        (value, depth), count = rest.pop(), count + 1
        if count > most:
            raise ValueError(f"it holds more than {most:,} values, or a value within itself")
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(value, int) and not SMALLEST <= value < LARGEST:
            raise ValueError("it holds a whole number of more than 64 bits")
        if isinstance(value, str) and not value.isascii() and _LONE.search(value):
            raise ValueError("it holds half of a character (a lone surrogate)")
        inner = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
        rest += [(each, depth + 1) for each in inner]


def json_value(text: str | bytes, most: int = MOST) -> Any:
    """Parses JSON, whatever it says, of at most some `most` values: a bound of their number is known before memory is
    taken for them. Raises ValueError or RecursionError."""
    text = text if isinstance(text, str) else text.decode()
    if text.count(",") + text.count("[") + text.count("{") > most:
        raise ValueError(f"it holds more than {most:,} values")
    return json.loads(text, object_pairs_hook=_once)


def is_path(text: str) -> bool:
    """Returns whether a name given by a user is a path: it ends as YAML or JSON, or contains a slash."""
    return text.lower().endswith(SUFFIXES) or "/" in text or "\\" in text


def is_name(text: str) -> bool:
    """Returns whether a file could have this name: no path, no control character, not too long for the disk."""
    return bool(text) and text.isprintable() and not set(text) & {"/", "\\"} and len(text.encode()) <= LONGEST


def number(text: str) -> int | None:
    """Returns the whole number of at most 18 digits that a text such as a checkpoint's name says, or None."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def numbered(folder: Path) -> list[int]:
    """Returns the numbers that name entries of a folder, ascending; `[]` without a folder."""
    found = (number(name) for name in (os.listdir(folder) if folder.is_dir() else ()))
    return sorted(each for each in found if each is not None)


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


def contents(path: str | os.PathLike, limit: int = LIMIT, *, follow: bool = True) -> bytes:
    """Reads a regular file as a whole.

    Raises:
      OSError: as `opened`, or the file has more than `limit` bytes.
    """
    with opened(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit else file.read(size + 1)
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit >> 20} MB", os.fspath(path))
    return data


def read(path: str | Path) -> Any:
    """Reads a YAML file, or a JSON file if its name ends in .json, into plain values that JSON can say.

    Raises:
      UserError: the file does not exist, cannot be read or is not valid; the message names the line.
    """
    path = Path(path)
    json_text = path.suffix.lower() == ".json"
    try:
        text = contents(path, LIMIT if json_text else BY_HAND).decode()
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: check the path.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not text in UTF-8.") from None
    return parse(text, str(path), json_text=json_text)


def unpacked(path: str | Path, limit: int) -> str:
    """Reads a text file that a program wrote, plain or gzip.

    Args:
      path: path of the file.
      limit: the largest allowed size in bytes, unpacked.

    Raises:
      UserError: it cannot be read, is damaged, or is larger.
    """
    with _unpacking(path, limit) as file:
        raw = file.read(limit + 1)
        if len(raw) > limit:
            raise OSError(errno.EFBIG, _more(limit))
        return raw.decode()


def lines(path: str | Path, limit: int, longest: int) -> Iterator[tuple[int, str]]:
    """Yields the lines of such a file with their numbers, from 1 on, without the empty ones.

    Args:
      path: path of the file.
      limit: limit as for `unpacked`.
      longest: the largest allowed size of a line in bytes.

    Raises:
      UserError: as `unpacked`, when the damage is reached; or there are more than `MOST` lines.
    """
    size = 0
    with _unpacking(path, limit) as file:
        for number in range(1, MOST + 2):
            if not (line := file.readline(longest + 1)):
                return
            size += len(line)
            if size > limit or number > MOST:
                raise OSError(errno.EFBIG, _more(limit) if size > limit else f"it has more than {MOST:,} lines")
            if len(line) > longest:
                raise UserError(f"{path}, line {number}: it has more than {longest >> 20} MB.")
            if line.strip():
                yield number, line.decode()


def _more(limit: int) -> str:
    return f"it has more than {limit >> 20} MB (unpacked): split it"


@contextlib.contextmanager
def _unpacking(path: str | Path, limit: int) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """Opens a file, plain or gzip; what goes wrong while it is read becomes a UserError."""
    try:
        with opened(path) as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise OSError(errno.EFBIG, _more(limit))
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield gzip.open(file) if packed else file
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: the file is damaged ({error}).") from None


def parse(text: str, label: str, *, json_text: bool = False, most: int = MOST) -> Any:
    """Parses a YAML or JSON text into plain values that JSON can say.

    Args:
      text: text of the file.
      label: names it in messages.
      json_text: whether it is JSON.
      most: values that it may hold.

    Raises:
      UserError: it is not valid; the message names `label` and the line.
    """
    try:
        found = json_value(text, most) if json_text else yaml.load(text, Loader=_Loader)
        _check(found, most)
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
    except (ValueError, ArithmeticError) as error:  # a key twice in JSON, a number of base 60 in YAML
        raise UserError(f"{label} cannot be read: {error}.") from None


def dump(tree: Any, **style: Any) -> str:
    """Returns a plain tree as YAML that `parse` reads back; `style` is as for `yaml.dump`."""
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
    """Returns whether a process holds the lock of the file at `path`."""
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
