"""Damaged checkpoints: whatever happens to the newest one, it is told, and the one before is taken."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Damaged, Snapshot, take
from jaxrl_envs.shared.errors import UserError
from tests.runs.test_checkpoint import STAMP, a_state, store_with
from tests.support.hostile_checkpoints import reseal


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> CheckpointStore:
    """Checkpoints 1 and 2; tests copy them and leave these unchanged."""
    store = store_with(tmp_path_factory.mktemp("pristine"), 1.0, 2.0)
    store.close()
    return store


@pytest.fixture
def store(pristine, tmp_path) -> CheckpointStore:
    """A copy to be damaged."""
    shutil.copytree(pristine.directory, tmp_path / "checkpoints")
    return CheckpointStore(tmp_path / "checkpoints")


def same(first: Snapshot, second: Snapshot) -> bool:
    return first.meta == second.meta and all(
        array.tobytes() == second.arrays[name].tobytes() for name, array in first.arrays.items()
    )


@pytest.mark.parametrize("what", ["record of another", "arrays of another", "another", "folder", "state"])
def test_parts_of_another_checkpoint_are_noticed(store, what):
    """What happens to single files is tried in `tests/attacks/test_files.py`."""
    first, newest = store.directory / "1", store.directory / "2"
    if what == "record of another":
        shutil.copy(first / "record.json", newest)
    else:
        part = "state" if what in ("arrays of another", "state") else ""
        shutil.rmtree(newest / part)
        if what.endswith("another"):
            shutil.copytree(first / part, newest / part)
    assert store.newest().step == 1


def test_every_bit_of_the_record_is_covered(pristine, store):
    file = store.directory / "2" / "record.json"
    data = bytearray(file.read_bytes())
    with file.open("r+b", buffering=0) as open_file:
        for place in range(len(data)):
            for bit in range(8):
                os.pwrite(open_file.fileno(), bytes([data[place] ^ (1 << bit)]), place)
                with pytest.raises(Damaged):
                    store.record(2)
            os.pwrite(open_file.fileno(), data[place : place + 1], place)
    assert same(store.newest(), pristine.read(2))


def test_what_the_library_reads_is_compared_too(store):
    """Arrays of another checkpoint under checksums of files that are right: those of the leaves notice."""
    shutil.rmtree(store.directory / "2" / "state")
    shutil.copytree(store.directory / "1" / "state", store.directory / "2" / "state")
    reseal(store.directory / "2", lambda record: None)
    with pytest.raises(Damaged, match="checksum of learner.params"):
        store.read(2)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 1},
        {"step": "2"},
        {"leaves": {"count": 7}},
        {"leaves": {"none": {"shape": [2], "dtype": "int32", "crc32": 0}}},
        {"leaves": {"count": {"shape": [10**12], "dtype": "int32", "crc32": 0}}},
        {"game": {"id": "high_card"}},
        {"host": None},
        {"format": "two"},
        {"leaves": {"empty": {"shape": [0], "dtype": "os:abort", "crc32": 0}}},
    ],
)
def test_a_record_that_makes_no_sense_is_damage(store, change):
    reseal(store.directory / "2", lambda record: record.update(change))
    with pytest.raises(Damaged):
        store.read(2)
    assert store.newest().step == 1


def test_a_newer_format_is_told(store):
    reseal(store.directory / "2", lambda record: record.update(format=4))
    with pytest.raises(UserError, match="has the format 4, this jaxrl reads up to 3"):
        store.newest()


# ---- between two checkpoints ----------------------------------------------------------------------------------------


def test_the_only_one_goes_when_the_next_can_be_read(tmp_path, monkeypatch):
    store = store_with(tmp_path, 1.0, keep=1)

    def unreadable(place: Path, meta: dict, *, whole: bool) -> None:
        assert store.steps() == [1]  # the next has no name yet
        raise Damaged("a disk that forgets")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "read_arrays", unreadable)
        store.save(take(2, a_state(2.0), STAMP))
        with pytest.raises(UserError, match="checkpoint .*2 cannot be read back .*a disk that forgets"):
            store.wait()
    assert store.steps() == [1]
    store.save(take(2, a_state(3.0), STAMP))  # the same one again
    store.close()
    assert store.steps() == [2] and same(
        store.newest(), Snapshot(2, take(2, a_state(3.0), STAMP).arrays, store.record(2))
    )


def test_reading_while_the_only_checkpoint_is_replaced_gives_the_next(tmp_path, monkeypatch, caplog):
    store, read = store_with(tmp_path, 1.0, keep=1), checkpoint.read_record

    def late(place: Path, step: int) -> dict:
        if step == 1:
            monkeypatch.setattr(checkpoint, "read_record", read)
            store.save(take(2, a_state(2.0), STAMP))
            store.close()
        return read(place, step)

    monkeypatch.setattr(checkpoint, "read_record", late)
    with caplog.at_level(logging.WARNING, logger="jaxrl"):
        assert CheckpointStore(store.directory).newest().step == 2
    assert not caplog.records


def test_what_was_left_half_done_is_removed_and_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints" / ".removed" / "9").mkdir(parents=True)
    (tmp_path / "checkpoints" / "1.orbax-checkpoint-tmp").symlink_to(tmp_path / "elsewhere")
    store_with(tmp_path, 1.0).close()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["1"]
    assert not list((tmp_path / "elsewhere").iterdir())
