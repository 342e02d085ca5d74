"""What others have laid into our folders: links, pipes, files cut short, states that are undone."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import threading
import time
from pathlib import Path

import jax
import pytest
from jax._src.compilation_cache import compress_executable

from jaxrl.config import Config
from jaxrl.runs import directory
from jaxrl.runs.checkpoints.checkpoint import take
from jaxrl.runs.config import RunConfig
from jaxrl.runs.directory import RunDirectory, begun_run
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from tests.runs.test_checkpoint import STAMP, a_state


@pytest.fixture
def theirs(tmp_path):
    """A file outside the folder, which every test must leave unchanged."""
    file = tmp_path / "theirs"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"


def no_file(path: Path, kind: str, target: Path) -> None:
    """Makes a "pipe" or a "folder" at `path`; for any other kind a link to `target`."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "unfinished"])
def test_unfinished_files_are_made_again(tmp_path, theirs, kind):
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
    no_file(tmp_path / ".lock", kind, theirs if kind == "link" else tmp_path / "missing")
    with pytest.raises(UserError, match="must be a plain file"):
        run.lock()
    assert not (tmp_path / "missing").exists()


def test_a_lock_that_another_process_inspects_is_waited_for(tmp_path):
    """`jaxrl runs` takes it for an instant."""
    looked, run = threading.Event(), RunDirectory(tmp_path)

    def look() -> None:
        with files.open_lock(tmp_path / ".lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)
            looked.set()
            time.sleep(0.05)

    thread = threading.Thread(target=look)
    thread.start()
    looked.wait()
    run.lock().close()
    thread.join()


def test_entries_of_the_compilation_cache_that_are_cut_short_are_removed(tmp_path):
    """jax would warn of them for ever, and never write them again."""
    entry = compress_executable(b"a program" * 100)
    for name, data in (("whole", entry), ("cut", entry[:-5]), ("empty", b"")):
        (tmp_path / f"{name}-cache").write_bytes(data)
    directory._drop_damaged(tmp_path)
    assert [path.name for path in tmp_path.glob("*-cache")] == ["whole-cache"]
    (tmp_path / "cut-cache").write_bytes(entry[:-5])
    (tmp_path / "old-cache").write_bytes(entry[:-5])
    os.utime(tmp_path / "old-cache", (0, 0))  # older than the last check, so it is not read again
    directory._drop_damaged(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["old-cache", "whole-cache"]
    os.utime(tmp_path / ".checked", (time.time() + 1e7,) * 2)  # the clock is set back: all of them are looked at
    directory._drop_damaged(tmp_path)
    assert [path.name for path in tmp_path.glob("*-cache")] == ["whole-cache"]


def test_a_start_that_is_killed_while_it_looks_leaves_the_rest_to_the_next(tmp_path, monkeypatch):
    def killed(path, limit):
        raise KeyboardInterrupt

    (tmp_path / "cut-cache").write_bytes(compress_executable(b"a program" * 100)[:-5])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(directory.files, "contents", killed)
        directory._drop_damaged(tmp_path)
    os.utime(tmp_path / "cut-cache", (time.time() - 60, time.time() - 60))
    (tmp_path / "gone-cache").symlink_to("nowhere")  # is passed over
    directory._drop_damaged(tmp_path)
    assert not (tmp_path / "cut-cache").exists()


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


def test_of_many_starts_of_one_name_the_first_trains_and_its_folder_stays(tmp_path, monkeypatch):
    config = Config(run=RunConfig(name="one", directory=str(tmp_path / "new" / "runs")))
    path, starts = tmp_path / "new" / "runs" / "one", 6
    together, lost, trained = threading.Barrier(starts), threading.Semaphore(0), []
    new_run = directory.new_run
    monkeypatch.setattr(directory, "new_run", lambda config: together.wait() < starts and new_run(config))

    def start() -> None:
        try:
            with begun_run(config) as run, run.lock():
                (path / "config.yaml").touch()
                trained.append(all([lost.acquire(timeout=5) for _ in range(starts - 1)]))
                trained.append((path / "config.yaml").exists())
        except UserError as error:
            assert "is being trained by another process" in str(error)
            lost.release()

    threads = [threading.Thread(target=start) for _ in range(starts)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert trained == [True, True] and path.exists()


def test_a_start_that_fails_leaves_a_folder_only_to_who_trains_in_it(tmp_path):
    config = Config(run=RunConfig(name="one", directory=str(tmp_path / "new" / "runs")))
    with pytest.raises(ZeroDivisionError), begun_run(config) as run:
        other = run.lock()
        raise ZeroDivisionError
    assert run.path.exists()
    other.close()
    with pytest.raises(ZeroDivisionError), begun_run(config):  # it was there before
        raise ZeroDivisionError
    assert run.path.exists()
    (run.path / ".lock").unlink()
    run.path.rmdir()
    with pytest.raises(ZeroDivisionError), begun_run(config):
        raise ZeroDivisionError
    assert run.path.parent.exists() and not run.path.exists()


def test_the_lock_of_a_folder_that_was_removed_is_none(tmp_path, monkeypatch):
    def late(path):
        handle = open_lock(path)
        os.unlink(path)
        return handle

    open_lock = files.open_lock
    monkeypatch.setattr(files, "open_lock", late)
    with pytest.raises(UserError, match="is being trained by another process"):
        RunDirectory(tmp_path).lock()


def test_the_cache_that_jax_is_told_of_wins_over_the_default(tmp_path, monkeypatch):
    """So the tests leave a user's own cache alone."""
    monkeypatch.setenv("HOME", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    directory.enable_compilation_cache(RunConfig.cache_dir)
    assert jax.config.jax_compilation_cache_dir == before and not list(tmp_path.iterdir())
