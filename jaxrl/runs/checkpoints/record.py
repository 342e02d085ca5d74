"""The record of a checkpoint, and checks of its files against it. No jax; parses nothing but JSON.

record.json holds its own SHA-256 in the first line, then JSON: format, step, game (id, version, options), a digest of
the config, a hash of the parameters, shape, dtype and CRC-32 of every leaf, what the host remembers, and the SHA-256 of
every file in state/ and of every share: no library ever opens a damaged one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FORMAT = 3
STATE = "state"
SHARES = "shares"  # in a record: by process, what `shares.write_share` returned
_RECORD = "record.json"
_FIELDS = {"format": int, "step": int, "game": dict, "params_hash": str, "leaves": dict, "host": dict}


class Damaged(Exception):
    """A checkpoint cannot be read back as it was written."""


def mark(folder: Path) -> Path:
    """The file that says that a folder has had a checkpoint."""
    return folder.with_name(f".{folder.name}-saved")


def write_record(place: Path, meta: dict[str, Any]) -> None:
    """The record of a checkpoint whose other files are there; `format` and `files` are added to `meta`."""
    text = json.dumps(meta | {"format": FORMAT, "files": _digests(place / STATE)}).encode()
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


def check_state(place: Path, record: dict[str, Any]) -> None:
    """Raises Damaged unless every file below `state/` is as its record says."""
    if changed := record.get("files", {}).items() - _digests(place / STATE).items():
        raise Damaged(f"the checksum of {STATE}/{min(changed)[0]} is wrong")


def check_share(place: Path, share: dict[str, Any]) -> Path:
    """The file of a share of a checkpoint; raises Damaged unless it is as the record says."""
    file = place / share["file"]
    if not file.is_file() or digest_of(file) != share["sha256"]:
        raise Damaged(f"the checksum of {share['file']} is wrong")
    return file


def check_files(place: Path, step: int) -> dict[str, Any]:
    """Reads the record of a checkpoint and checks all files against it. Errors as of `read_record`."""
    record = read_record(place, step)
    with unreadable_is_damaged():
        check_state(place, record)
        for share in record.get(SHARES, []):
            check_share(place, share)
    return record


def digest_of(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {path.relative_to(folder).as_posix(): digest_of(path) for path in folder.rglob("*") if path.is_file()}


@contextlib.contextmanager
def unreadable_is_damaged() -> Iterator[None]:
    """Turns any error while files are read into Damaged."""
    try:
        yield
    except (Damaged, UserError, MemoryError, PermissionError):  # the last two say nothing about the files
        raise
    except Exception as error:  # tensorstore, JSON and records of a wrong shape raise many types
        raise Damaged(f"{type(error).__name__} while reading it") from error
