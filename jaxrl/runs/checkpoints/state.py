"""The arrays in `state/` of a checkpoint: every shape, dtype and size is known before one of them is read. No jax.

Orbax stores a leaf as a zarr array of one zstd chunk in an OCDBT database, which names its files relative to its own
folder. Orbax would read them as the files themselves say (driver, path and type of each leaf), so they are read by
tensorstore alone, with a specification in which nothing comes from a file but the bytes.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from jaxrl.runs.checkpoints.record import (
    SHARES,
    STATE,
    Damaged,
    check_share,
    digests,
    read_record,
    unreadable_is_damaged,
)
from jaxrl_envs.shared import resources
from jaxrl_envs.shared.errors import UserError

_ZSTD, _BLOCK = 0xFD2FB528, 1 << 17  # the magic number of a zstd frame; the most bytes that a block unpacks to
_OVERHEAD = 1 << 20  # bytes of the files of a leaf beside its numbers, at most
_SPARE = 16  # a block may hold less than the most, but as a rule not less than this part of it


class TooLarge(UserError):
    """The arrays of a checkpoint need more memory than is free."""


def check_files(place: Path, step: int) -> dict[str, Any]:
    """Reads the record of a checkpoint, and checks all files and the sizes of its arrays against it; reads no array.

    Raises:
      Damaged, UserError: as `record.read_record`.
      TooLarge: its arrays need more memory than is free.
    """
    record = read_record(place, step)
    with unreadable_is_damaged():
        check_state(place, record)
        open_leaves(place, record["leaves"])
        check_memory(place, record["leaves"])
        for share in record.get(SHARES, []):
            check_share(place, share)
    return record


def check_state(place: Path, record: dict[str, Any]) -> None:
    """Raises Damaged unless the files below `state/` are those of its record, and not larger than its arrays need."""
    size = sum(path.lstat().st_size for path in (place / STATE).rglob("*"))
    if size > 2 * sum(map(bytes_of, record["leaves"].values())) + _OVERHEAD * (1 + len(record["leaves"])):
        raise Damaged(f"{STATE}/ is larger than the arrays of its record")
    if changed := record["files"].items() ^ digests(place / STATE).items():
        raise Damaged(f"the checksum of {STATE}/{min(changed)[0]} is wrong")


def check_memory(place: Path, leaves: dict[str, dict[str, Any]]) -> None:
    """Raises TooLarge if the arrays of a checkpoint need more memory than is free."""
    needed, free = sum(map(bytes_of, leaves.values())), resources.free_bytes()
    if free is not None and needed > free:
        raise TooLarge(f"checkpoint {place} needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:.1f} GB are free.")


def bytes_of(record: dict[str, Any]) -> int:
    """Returns the bytes of a leaf. Raises ValueError or TypeError for a record that describes no array of numbers."""
    shape, kind = record["shape"], re.fullmatch(r"bool|(?:u?int|b?float|complex)(\d+)(?:_\w+)?", record["dtype"])
    if kind is None or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{record} is no array of numbers")
    return math.prod(shape) * max(1, int(kind[1] or 8) // 8)


def open_leaves(place: Path, leaves: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Opens the arrays in `state/` without reading one.

    Args:
      place: the folder of a checkpoint, whose files have the recorded checksums.
      leaves: leaf path -> its record.

    Returns:
      Leaf path -> `tensorstore.TensorStore` of the recorded shape and dtype; without empty leaves and those of shares.

    Raises:
      Damaged: a leaf is missing, or it is stored with another shape, dtype or size than its record says.
    """
    import tensorstore  # here: `jaxrl runs --help` needs no arrays

    base = {"driver": "ocdbt", "base": {"driver": "file", "path": f"{(place / STATE).absolute()}/"}}
    database, found = tensorstore.KvStore.open(base).result(), {}
    for name, record in leaves.items():
        if "axis" in record or not (size := bytes_of(record)):
            continue
        header, chunk = (
            database.read(f"{name}/{key}") for key in (".zarray", ".".join("0" * len(record["shape"])) or "0")
        )
        metadata = _metadata(record)
        if json.loads(header.result().value or b"{}") != metadata:
            raise Damaged(f"{name} is missing or stored as something else")
        if unpacked_bound(chunk.result().value) > _SPARE * size + _BLOCK:
            raise Damaged(f"{name} would unpack to more than its {size:,} bytes")
        spec = {"driver": "zarr", "kvstore": base | {"path": f"{name}/"}, "metadata": metadata}
        found[name] = tensorstore.open(spec, open=True, read=True).result()
    return found


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the `.zarray` that orbax writes for a leaf."""
    shape, dtype, size = record["shape"], record["dtype"], bytes_of(record) // math.prod(record["shape"])
    plain = re.fullmatch(r"(b)ool|(f)loat(?:16|32|64)|(u)?(i)nt(?:8|16|32|64)|(c)omplex(?:64|128)", dtype)
    letter = plain and next(filter(None, plain.groups()))
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": shape,
        "dtype": f"{'<' if size > 1 else '|'}{letter}{size}" if letter else dtype,
        "compressor": {"id": "zstd", "level": 1},
        "filters": None,
        "fill_value": None,
        "order": "C",
        "dimension_separator": ".",
    }


def unpacked_bound(packed: bytes) -> int:
    """Returns a bound of the size of a zstd frame's content, from the headers of its blocks (RFC 8878); nothing is
    unpacked.

    Raises:
      ValueError, IndexError: it is not exactly one frame.
    """
    if int.from_bytes(packed[:4], "little") != _ZSTD:
        raise ValueError("it is no zstd frame")
    flags = packed[4]
    single = flags >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    bound, last = 0, 0
    while not last:
        header = int.from_bytes(packed[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == 1 else size)  # 1: one byte, repeated
        bound += _BLOCK if kind == 2 else size  # 2: compressed
        if at > len(packed):
            raise ValueError("it is cut short")
    if at + 4 * (flags >> 2 & 1) != len(packed):
        raise ValueError("it is not one frame alone")
    return bound
