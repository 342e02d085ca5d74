"""Temporary folders of killed processes are removed by the next one, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from jaxrl_envs.forge.fleet import scratch
from jaxrl_envs.forge.fleet.scratch import Scratch
from tests.support.paths import ROOT

OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from jaxrl_envs.forge.fleet.scratch import Scratch
mine = Scratch()
(mine.path / "daemon-0").mkdir()
print(mine.path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_owner(place):
    mine = Scratch()
    (mine.path / "file").write_text("something")
    assert list(place.iterdir()) == [mine.path]
    mine.close()
    assert not list(place.iterdir())
    mine.close()


def test_what_a_killed_process_left_is_removed_by_the_next_one(place):
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", OWNER, str(place)], **pipes, cwd=ROOT, text=True) as owner:
        theirs = place / owner.stdout.readline().strip()
        Scratch().close()
        assert (theirs / "daemon-0").is_dir()  # its owner lives
        owner.kill()
    Scratch().close()
    assert not list(place.iterdir())


def test_what_others_put_there_is_neither_waited_for_nor_followed(place, tmp_path_factory):
    """A pipe and links, each in the place of a lock, and a link to a folder."""
    theirs = tmp_path_factory.mktemp("theirs")
    (theirs / scratch.LOCK).touch()
    for kind in ("pipe", "link"):
        (place / f"{scratch.PREFIX}{kind}").mkdir()
    os.mkfifo(place / f"{scratch.PREFIX}pipe" / scratch.LOCK)
    (place / f"{scratch.PREFIX}link" / scratch.LOCK).symlink_to(theirs / scratch.LOCK)
    (place / f"{scratch.PREFIX}folder").symlink_to(theirs)
    Scratch().close()
    assert len(list(place.iterdir())) == 3 and (theirs / scratch.LOCK).exists()


def test_folders_that_are_not_known_to_be_abandoned_stay(place):
    """One that is being made, and one with another name."""
    (place / f"{scratch.PREFIX}new").mkdir()
    (place / f"{scratch.PREFIX}new" / f"{scratch.LOCK}.part").touch()
    (place / "other").mkdir()
    (place / "other" / scratch.LOCK).touch()
    Scratch().close()
    assert {path.name for path in place.iterdir()} == {f"{scratch.PREFIX}new", "other"}
