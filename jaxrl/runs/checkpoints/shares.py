"""The shares of a checkpoint: each process's part of the leaves that are sharded over processes.

Those leaves have an `axis` in their record; all others are in `state/`.

    share-1.npz    of process 1: the bytes of every such leaf by its path

The record holds the SHA-256 of each file and the CRC-32 of each leaf in it. Reading gives whole leaves, in any
number of processes.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.leaves import Arrays, Leaves, checksum
from jaxrl.runs.checkpoints.record import SHARES, Damaged, check_share, digest_of

_HEADER = 128  # bytes that `np.save` writes before those of an array


def write_share(place: Path, arrays: Arrays, leaves: Leaves) -> dict[str, Any]:
    """Writes this process's share of a checkpoint, of results of `pack` those leaves that have an `axis`, and reads it
    back; returns for the record: its file, SHA-256, CRC-32 by leaf."""
    own = {name: arrays[name] for name, record in leaves.items() if "axis" in record}
    file = place / f"share-{distributed.rank()}.npz"
    of_bytes: dict[str, Any] = {name: array.reshape(-1).view(np.uint8) for name, array in own.items()}
    with file.open("wb") as stream:
        np.savez(stream, **of_bytes)
        stream.flush()
        os.fsync(stream.fileno())
    share = {"file": file.name, "sha256": digest_of(file), "crc32": {name: checksum(own[name]) for name in own}}
    _bytes_of(place, share, {name: array.nbytes for name, array in own.items()})
    return share


def read_shares(place: Path, meta: dict[str, Any], *, whole: bool) -> Arrays:
    """Reads the leaves that are sharded over processes.

    Args:
      place: the directory of the checkpoint.
      meta: its record.
      whole: all of them; else only what this process needs is read, and the rest is 0.

    Raises:
      Damaged: something is missing or has been changed.
    """
    shares = meta.get(SHARES, [])
    spread = {name: record for name, record in meta["leaves"].items() if "axis" in record}
    arrays = {name: np.zeros(record["shape"], record["dtype"]) for name, record in spread.items()}
    for number, share in enumerate(shares):
        if not whole and not _overlap(number, len(shares)):
            continue
        parts = {
            name: np.array_split(arrays[name], len(shares), axis=record["axis"])[number]
            for name, record in spread.items()
        }
        found = _bytes_of(place, share, {name: part.nbytes for name, part in parts.items()})
        for name, part in parts.items():
            part[...] = found[name].view(part.dtype).reshape(part.shape)
    return arrays


def _overlap(number: int, shares: int) -> bool:
    """Returns whether share `number` holds something of this process's own."""
    rank, count = distributed.rank(), distributed.count()
    return number * count < (rank + 1) * shares and (number + 1) * count > rank * shares


def _bytes_of(place: Path, share: dict[str, Any], sizes: dict[str, int]) -> Arrays:
    """Returns u8[N] by leaf; `sizes` gives N, and no more than that is read, whatever the file claims."""
    found = {}
    with zipfile.ZipFile(check_share(place, share)) as archive:
        for name, size in sizes.items():
            with archive.open(f"{name}.npy") as stream:
                data = np.frombuffer(stream.read(size + _HEADER), np.uint8)
            found[name] = data[len(data) - size :] if len(data) >= size else data
            if checksum(found[name]) != share["crc32"][name]:
                raise Damaged(f"the checksum of {name} in {share['file']} is wrong")
    return found
