"""Changes checkpoints as a stranger may, with checksums that are right afterwards."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

ZSTD_MAGIC = 0xFD2FB528


def reseal(place: Path, change: Callable[[dict], None] = lambda record: None) -> None:
    """Changes the record of a checkpoint and makes its checksums right again."""
    record = json.loads((place / "record.json").read_bytes().partition(b"\n")[2])
    change(record)
    files = [path for path in (place / "state").rglob("*") if path.is_file()]
    record["files"] = {
        path.relative_to(place / "state").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    text = json.dumps(record).encode()
    (place / "record.json").write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def database(place: Path, **options: Any) -> tensorstore.KvStore:
    """Returns the OCDBT database in `state/`, to be read and written."""
    base = {"driver": "file", "path": f"{place / 'state'}/"}
    return tensorstore.KvStore.open({"driver": "ocdbt", "base": base, **options}).result()


def set_metadata(place: Path, leaf: str, **changes: Any) -> None:
    """Changes the `.zarray` of a leaf."""
    store = database(place)
    metadata = json.loads(store.read(f"{leaf}/.zarray").result().value)
    store.write(f"{leaf}/.zarray", json.dumps(metadata | changes).encode()).result()


def claim(place: Path, leaf: str, shape: list[int]) -> None:
    """Makes a leaf, which may be new, an f32 array of that shape in its record and where it is stored, with a chunk
    that is far too short."""
    store = database(place)
    some = next(key for key in store.list().result() if key.endswith(b".zarray"))
    metadata = json.loads(store.read(some).result().value) | {"dtype": "<f4", "shape": shape, "chunks": shape}
    store.write(f"{leaf}/.zarray", json.dumps(metadata).encode()).result()
    store.write(f"{leaf}/{'.'.join('0' * len(shape))}", zeros(64)).result()
    reseal(place, lambda record: record["leaves"].update({leaf: {"shape": shape, "dtype": "float32", "crc32": 0}}))


def zeros(size: int) -> bytes:
    """Returns a zstd frame of `size` zeros, in blocks of one repeated byte: a small file that grows 32,768 times."""
    blocks, left = [], size
    while left > 0:
        count = min(left, 1 << 17)
        left -= count
        blocks.append((int(left <= 0) | 1 << 1 | count << 3).to_bytes(3, "little") + b"\0")
    return ZSTD_MAGIC.to_bytes(4, "little") + bytes([0, 0x50]) + b"".join(blocks)


def rebuild(place: Path, prefix: str) -> None:
    """Writes the database of a checkpoint once more, uncompressed, its files in a folder called `prefix`."""
    old = database(place)
    content = {key: old.read(key).result().value for key in old.list().result()}
    shutil.rmtree(place / "state")
    kinds = ("value", "btree_node", "version_tree_node")
    new = database(
        place,
        config={"compression": None, "max_inline_value_bytes": 0},
        **{f"{kind}_data_prefix": prefix for kind in kinds},
    )
    for key, value in content.items():
        new.write(key, value).result()


def point_elsewhere(place: Path, old: str, new: str) -> int:
    """Replaces a path of the same length in the manifest and the nodes; returns the number of files that had it."""
    changed = 0
    assert len(old) == len(new)
    for file in (place / "state").rglob("*"):
        if file.is_file() and old.encode() in (data := file.read_bytes()):
            file.write_bytes(_with_checksums(data.replace(old.encode(), new.encode())))
            changed += 1
    return changed


def _with_checksums(data: bytes) -> bytes:
    """Makes the CRC-32C at the end of a manifest or of every node in a file of OCDBT right."""
    found, at = bytearray(data), 0
    while (at := found.find(b"\x0c\xdb", at)) >= 0:
        size = int.from_bytes(found[at + 4 : at + 12], "little")
        if found[at + 2 : at + 4] in (b":*", b" \xde") and at + size <= len(found):
            found[at + size - 4 : at + size] = crc32c(bytes(found[at : at + size - 4])).to_bytes(4, "little")
        at += 2
    return bytes(found)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), as OCDBT ends its files."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc ^ 0xFFFFFFFF
