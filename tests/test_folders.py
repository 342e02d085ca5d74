"""What others have laid into our folders: links, pipes, files cut short, states that are undone."""

from __future__ import annotations

import dataclasses
import os

import pytest
from jax._src.compilation_cache import compress_executable

from jaxrl.envs import files
from jaxrl.envs.errors import UserError
from jaxrl.runs import directory
from jaxrl.runs.checkpoint import take
from jaxrl.runs.directory import RunDirectory
from tests.test_checkpoint import STAMP, a_state


@pytest.fixture
def theirs(tmp_path):
    """A file that nobody may write to."""
    file = tmp_path / "theirs"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "unfinished"])
def test_unfinished_files_are_made_anew(tmp_path, theirs, kind):
    part = tmp_path / "a.json.part"
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "unfinished":
        part.write_text("{")
    else:
        part.symlink_to(theirs if kind == "link" else tmp_path / "missing")
    files.write(tmp_path / "a.json", b"whole")
    assert (tmp_path / "a.json").read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "theirs"]


def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.json").write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as error:
        files.write(tmp_path / "a.json", b"after")
    assert error.value.filename == str(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_a_lock_is_a_plain_file(tmp_path, theirs, kind):
    run = RunDirectory(tmp_path)
    lock = tmp_path / ".lock"
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(theirs if kind == "link" else tmp_path / "missing")
    with pytest.raises(UserError, match="must be a plain file"):
        run.lock()
    assert not (tmp_path / "missing").exists()


def test_entries_of_the_compilation_cache_that_are_cut_short_are_removed(tmp_path):
    """jax would warn of them for ever, and never write them again."""
    entry = compress_executable(b"a program" * 100)
    for name, data in (("whole", entry), ("cut", entry[:-5]), ("empty", b"")):
        (tmp_path / f"{name}-cache").write_bytes(data)
    directory._drop_damaged(tmp_path)
    assert [path.name for path in tmp_path.glob("*-cache")] == ["whole-cache"]
    (tmp_path / "cut-cache").write_bytes(entry[:-5])
    (tmp_path / "old-cache").write_bytes(entry[:-5])
    os.utime(tmp_path / "old-cache", (0, 0))  # a start that saw it whole: nobody waits for it again
    directory._drop_damaged(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["old-cache", "whole-cache"]


def test_the_best_state_stays_unless_it_is_of_a_future_that_will_not_be(tmp_path):
    run, best = RunDirectory(tmp_path), RunDirectory(tmp_path).best()
    best.save(take(6, a_state(), dataclasses.replace(STAMP, config_digest="as before")))
    best.close()
    run.best_file.write_text("{}")
    run.undo_best(4, "as before")  # a kill: update 6 is made again, bit by bit
    run.undo_best(8, "changed")  # update 6 was before the change
    assert run.best().steps() == [6] and run.best_file.exists()
    run.undo_best(4, "changed")
    assert run.best().steps() == [] and not run.best_file.exists()
    assert (tmp_path / "undone" / "best-6" / "record.json").exists()
