"""The record of a checkpoint, and the checksums of its files. No jax; parses nothing but JSON.

record.json holds its own SHA-256 in the first line, then JSON: format, step, game (id, version, options), a digest of
the config, a hash of the parameters, shape, dtype and CRC-32 of every leaf, what the host remembers, and the SHA-256 of
every file in state/ and of every share: no library ever opens a damaged one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FORMAT = 3
STATE = "state"
SHARES = "shares"  # in a record: by process, what `shares.write_share` returned
_RECORD = "record.json"
_FIELDS = {"format": int, "step": int, "game": dict, "params_hash": str, "leaves": dict, "host": dict, "files": dict}


class Damaged(Exception):
    """A checkpoint cannot be read back as it was written."""


def mark(folder: Path) -> Path:
    """Returns the marker file of a folder that has had a checkpoint."""
    return folder.with_name(f".{folder.name}-saved")


def write_record(place: Path, meta: dict[str, Any]) -> None:
    """Writes the record of a checkpoint whose other files are there; `format` and `files` are added to `meta`."""
    text = json.dumps(meta | {"format": FORMAT, "files": digests(place / STATE)}).encode()
    files.write(place / _RECORD, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def read_record(place: Path, step: int) -> dict[str, Any]:
    """Reads the record of a checkpoint and checks it; `files` is still to be compared with the files.

    Raises:
      Damaged: it is not as it was written, or not that of this step.
      UserError: a newer jaxrl has written it.
    """
    with unreadable_is_damaged():
        return _checked_record(place, step)


def _checked_record(place: Path, step: int) -> dict[str, Any]:
    if link := next((path.name for path in (place / _RECORD, place / STATE) if path.is_symlink()), ""):
        raise Damaged(f"{link} is a link")
    digest, _, text = files.contents(place / _RECORD).partition(b"\n")
    if digest != hashlib.sha256(text).hexdigest().encode():
        raise Damaged("the checksum of its record is wrong")
    record = json.loads(text)
    if record["format"] > FORMAT:
        raise UserError(
            f"checkpoint {place} has the format {record['format']}, this jaxrl reads up to {FORMAT}: use the newer "
            "version that has written it."
        )
    wrong = [field for field, kind in _FIELDS.items() if not isinstance(record.get(field), kind)]
    if wrong or record["step"] != step or not {"id", "version", "options"} <= record["game"].keys():
        raise Damaged("its record is of another one" if record.get("step") != step else "its record lacks something")
    return record


def check_share(place: Path, share: dict[str, Any]) -> Path:
    """Returns the file of a share of a checkpoint; raises Damaged unless it is as the record says."""
    if not re.fullmatch(r"share-[0-9]+\.npz", share["file"]):
        raise Damaged(f"{share['file']} is no file of a share")
    file = place / share["file"]
    if file.is_symlink() or digest_of(file) != share["sha256"]:
        raise Damaged(f"the checksum of {share['file']} is wrong")
    with zipfile.ZipFile(file) as archive:  # as `numpy.savez` writes it: what is not packed cannot grow
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise Damaged(f"{share['file']} is packed in a way that is not ours")
    return file


def digest_of(file: Path) -> str:
    """Returns the SHA-256 of a file."""
    with files.opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Returns SHA-256 of every file below a folder. Raises Damaged if there are links, pipes or devices."""
    found = {}
    for path in folder.rglob("*"):
        name, kind = path.relative_to(folder).as_posix(), path.lstat().st_mode
        if stat.S_ISREG(kind):
            found[name] = digest_of(path)
        elif not stat.S_ISDIR(kind):
            raise Damaged(f"{name} is no plain file")
    return found


@contextlib.contextmanager
def unreadable_is_damaged() -> Iterator[None]:
    """Turns any error while files are read into Damaged."""
    try:
        yield
    except (Damaged, UserError, MemoryError, PermissionError):  # the last two say nothing about the files
        raise
    except Exception as error:  # tensorstore, JSON and records of a wrong shape raise many types
        raise Damaged(f"{type(error).__name__} while reading it") from error
