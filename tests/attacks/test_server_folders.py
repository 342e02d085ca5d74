"""Pipes, devices, links and folders in the place of every file that is read: nothing waits, nothing else is raised."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl.config import presets
from jaxrl.diagnose.machine_report import load_report
from jaxrl.matches.recording import replays
from jaxrl.matches.tournaments import rating_scale
from jaxrl.matches.tournaments.published_matrix import load_matrix
from jaxrl.players.export import load_policy
from jaxrl.runs import metric_log, status
from jaxrl.runs.directory import RunDirectory, read_json_list
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.car_soccer import golden as car_golden
from jaxrl_envs.car_soccer.physics.field import mesh
from jaxrl_envs.car_soccer.setters import load_states
from jaxrl_envs.forge.deckbuilding.deck import read_deck
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from tests.serve.test_runs import make_run
from tests.support.forge.recorded_engine import read_all

SECONDS = 10.0  # for one reading
KINDS = ["pipe", "endless", "loop", "folder", "socket", "closed"]


def put(path: Path, kind: str) -> None:
    """Puts something in the place of a file."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "closed":
        path.symlink_to("/proc/1/environ" if os.getuid() else "/dev/tty")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))


def in_time(what: str, read: Callable[[], object]) -> None:
    """Reads in a thread that may raise a sentence and must end."""
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            read()
        except (UserError, OSError):
            pass
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), f"{what} does not end"
    assert not wrong, f"{what}: {wrong}"


RUN = """config.yaml metrics.jsonl evaluation.json best.json process.json log.txt log.jsonl imitation.json .lock
 exploitability.json checkpoints best replays checkpoints/3 replays/00000003/highest_return.replay
 checkpoints/3/record.json""".split()


def readings_of(run: Path) -> dict[str, Callable[[], object]]:
    """Everything that lists runs or looks at one without restoring it."""
    pytest.importorskip("starlette", reason="the extra web is not installed")
    from jaxrl.serve.player_catalog import PlayerCatalog
    from jaxrl.serve.replays.library import RecordingLibrary
    from jaxrl.serve.runs.run_watcher import RunWatcher, trainer_of

    watcher, library = RunWatcher(run.parent), RecordingLibrary([run.parent])
    catalog = PlayerCatalog([], run.parent, ())
    jsons = [run / name for name in RUN if name.endswith(".json")]
    return {
        "found": lambda: status.found_in(run.parent),
        "brief": lambda: status.brief(run),
        "glance": lambda: status.glance(run),
        "whole": lambda: status.whole(run),
        "config": lambda: RunDirectory(run).config(),
        "rows": lambda: metric_log.read_rows(run / "metrics.jsonl"),
        "lists": lambda: [in_time(str(each), lambda each=each: read_json_list(each)) for each in jsons],
        "watched": lambda: (watcher.listed(), watcher.state(run), watcher.details(run), watcher.curves(run, ["x"], -1)),
        "trainer": lambda: trainer_of(run),
        "recordings": lambda: [library.find(each["file"]) for each in library.listed()["files"]],
        "players": lambda: (catalog.known(), catalog.newest(f"run:{run.name}")),
        "runs": lambda: cli.main(["runs", str(run.parent)]),
        "status": lambda: cli.main(["status", str(run)]),
    }


@pytest.mark.parametrize("kind", [KINDS[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in KINDS[1:])])
def test_of_a_run(tmp_path, monkeypatch, kind, capsys):
    monkeypatch.chdir(tmp_path)
    tries = 0
    for name in RUN:
        run = make_run(tmp_path / name.replace("/", "_") / "mine")
        put(run / name, kind)
        for what, read in readings_of(run).items():
            in_time(f"{what} with {kind} {name}", read)
            tries += 1
    assert "Traceback" not in capsys.readouterr().err
    print(f"{tries} readings of runs with a {kind}")


FILES: dict[str, Callable[[Path], object]] = {
    "a.yaml": lambda path: (files.read(path), presets.read(path)),
    "a.json": lambda path: (load_report(str(path)), load_matrix(path)),
    "a.jaxrl": lambda path: load_policy(path),
    "a.replay": lambda path: (replays.is_replay(str(path)), replays.read(str(path))),
    "a": lambda path: replays.is_replay(str(path)),
    "a.dck": lambda path: read_deck(path),
    "a.forge.gz": lambda path: read_all(recording.find([path.parent])),
    "scale.yaml": lambda path: rating_scale.read(path),
    "roster.yaml": lambda path: load_roster(path),
    "map.yaml": lambda path: load_map(path),
    "states.npz": lambda path: load_states(str(path), None),
    "a.cmf": lambda path: mesh.read_folder(path.parent),
    "cars.json": lambda path: car_golden.read(path),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_of_a_file(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "inner" / name, kind)
    readings = {
        "read": lambda: FILES[name](tmp_path / "inner" / name),
        "verify": lambda: cli.main(["verify", "skull_king", f"inner/{name}"]),
        "evaluate": lambda: cli.main(["evaluate", f"inner/{name}"]),
        "film": lambda: cli.main(["film", f"inner/{name}"]),
    }
    for what, read in readings.items():
        in_time(f"{what} of {kind} {name}", read)
