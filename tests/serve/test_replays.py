"""Recorded games in a browser: every format opens; damaged and hostile files do no harm, and nothing in them is run."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from jaxrl.matches.recording import replays
from jaxrl.players.player import bot_player
from jaxrl.serve.replays import library, render_recording
from jaxrl.serve.replays.library import RecordingLibrary
from jaxrl_envs.car_soccer.display import playback as cars
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from tests.matches.test_replays import recorded
from tests.support.games import HighCard
from tests.support.paths import GOLDEN
from tests.support.serving import serving

FILES = {
    "beasty_bar/games.jsonl.gz": "pictures",
    "battle/battles.jsonl.gz": "pictures",
    "forge/observed.forge.gz": "text",
    "car_soccer/trajectories.json.gz": "space",
}


def opened(path, game=0):
    found = list(render_recording.opened(path, game, []))
    assert [done for _, done in found][-1]
    return found[-1][0]


def check(playback):
    """That it is whole: frames, moments in order of time, curves of all frames, JSON."""
    assert playback.frames > 1 and playback.title and playback.moments
    places = [moment.at for moment in playback.moments]
    assert places == sorted(places) and 0 <= places[0] and places[-1] < playback.frames
    assert all(len(values) == playback.frames for values in playback.curves.values())
    json.dumps(playback.record(), allow_nan=False)


@pytest.mark.parametrize(("name", "view"), FILES.items())
def test_recordings_of_every_game_are_opened(name, view):
    playback = opened(GOLDEN / name, 1)
    check(playback)
    assert playback.view == view
    if view == "pictures":
        for frame in (0, playback.frames - 1):
            assert ElementTree.fromstring(playback.picture(frame)).tag.endswith("svg")
        assert playback.picture(0) != playback.picture(playback.frames - 1)
    if view == "text":
        assert "life 20" in playback.picture(0)


@pytest.mark.slow
def test_a_recorded_game_of_skull_king_ends_with_its_recorded_points():
    record = json.loads(gzip.open(GOLDEN / "skull_king" / "games.jsonl.gz").readline())
    playback = opened(GOLDEN / "skull_king" / "games.jsonl.gz")
    check(playback)
    assert playback.curves["points"][-1] == record["final"]
    assert [moment.mark for moment in playback.moments if moment.mark] == [f"round {number}" for number in range(2, 11)]


def test_a_battle_has_the_points_that_were_recorded():
    record = json.loads(gzip.open(GOLDEN / "battle" / "battles.jsonl.gz").readline())
    playback = opened(GOLDEN / "battle" / "battles.jsonl.gz")
    assert playback.curves["victory points"][-1] == record["result"]["vp"]
    assert playback.frames == len(record["decisions"]) + 1


def test_bodies_are_turned_as_they_were_recorded():
    turns = Rotation.random(20, 5)
    ways = turns.as_matrix()  # columns: forward, left, up
    np.testing.assert_allclose(cars.quaternions(ways[..., 0], ways[..., 2]), turns.as_quat(canonical=True), atol=1e-6)


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """A file of a game that must be allowed."""
    env = HighCard()
    _, found = recorded(env, "tests.support.games:HighCard", bot_player(env, "random"), [bot_player(env, "lowest")])
    path = tmp_path_factory.mktemp("replays") / "highest_return.replay"
    found[0].write(path)
    return path


def test_a_replay_is_played_again_if_its_game_is_allowed_and_runs_nothing_else(replay, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXRL_ALLOW", "")
    playback = list(render_recording.opened(replay, 0, ["tests"]))[-1][0]
    check(playback)
    assert playback.view == "text" and playback.picture(0) == render_recording.STORY  # it has no drawings
    assert len(playback.seats) == 3
    told = render_recording.glance(replay, ["tests"])
    assert told["players"] == playback.seats and told["board"] == "" and set(told["won"]) <= {1, 0, -1}
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    record = json.loads(gzip.open(replay).read()) | {"game": "evil:Game"}
    found = replays.Replay(**{key: value for key, value in record.items() if key not in ("replay", "sha256")})
    found.write(tmp_path / "evil.replay")
    for path in (replay, tmp_path / "evil.replay"):
        with pytest.raises(UserError, match="allow"):
            opened(path)
    assert not (tmp_path / "done").exists()


# ---- films ----------------------------------------------------------------------------------------------------------


def test_a_film_is_as_long_as_its_longest_movement(tmp_path):
    path = tmp_path / "film.svg"
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg"><set dur="x"/><circle><set dur="12.5s"/></circle></svg>')
    playback = render_recording.film(path)
    assert playback.picture(0) == path.read_text() and playback.frames == 125 and playback.seconds == 0.1
    path.write_text("<!DOCTYPE svg [<!ENTITY a 'b'>]><svg>&a;</svg>")
    with pytest.raises(UserError, match="declares entities"):
        render_recording.film(path)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_are_found_below_the_folders_alone(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "run" / "replays" / "final", inside / "run" / "best" / "3", outside):
        folder.mkdir(parents=True)
        (folder / "a.replay").write_text("x")
    (inside / "run" / "metrics.jsonl").write_text("x")
    (inside / "notes.txt").write_text("x")
    (inside / "link.replay").symlink_to(outside / "a.replay")
    (inside / "links").symlink_to(outside)
    found = RecordingLibrary([inside, tmp_path / "nowhere"])
    assert [each["file"] for each in found.listed()["files"]] == ["0/run/replays/final/a.replay"]
    assert found.find("0/run/replays/final/a.replay").is_file()
    ways = "0/link.replay 0/links/a.replay 0/../outside/a.replay 0//etc/passwd 0/notes.txt 0/run 1/x 2/a.replay".split()
    for way in [*ways, "", "0", "0/\0", f"0/{outside}/a.replay", "brought/../x.replay"]:
        with pytest.raises(UserError, match="no such recording"):
            found.find(way)
    found.close()


def test_what_people_bring_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "BROUGHT", 3)
    monkeypatch.setattr(library, "LARGEST", 1000)
    found = RecordingLibrary([])
    names = []
    for number in range(5):
        names.append(found.bring(f"../../g{number}.replay", b"x" * number))
        time.sleep(0.01)
    assert [each["name"] for each in found.listed()["files"]] == ["g4.replay", "g3.replay", "g2.replay"]
    assert found.find(names[-1]).read_bytes() == b"xxxx"
    with pytest.raises(UserError, match="no recording"):
        found.bring("page.html", b"x")
    with pytest.raises(UserError, match="more than"):
        found.bring("g.replay", b"x" * 1001)
    found.close()


# ---- the server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, replays=(GOLDEN, GOLDEN.parent.parent / "docs" / "games" / "assets")) as client:
        yield client


def open_game(client, file, game=0, seconds=120):
    end = time.monotonic() + seconds
    while True:
        status, text = client.request(f"/replays/open?file={quote(file)}&game={game}")
        assert status == 200, text
        found = json.loads(text)
        if found["state"] in ("open", "failed"):
            return found
        assert time.monotonic() < end
        time.sleep(0.2)


def part(client, id, name):
    status, text = client.request(f"/replays/open/{id}/{name}")
    return status, json.loads(gzip.decompress(text)) if status == 200 else text


def test_a_game_is_opened_by_a_process_of_its_own(client, recwarn):
    jax.devices()  # from now on a fork of this process is unsafe
    found = open_game(client, "0/forge/observed.forge.gz", 1)
    status, head = part(client, found["id"], "head")
    assert status == 200 and head["view"] == "text" and head["done"]
    assert not [each for each in recwarn if "fork" in str(each.message)]
    assert len(part(client, found["id"], "games")[1]) == 2
    status, text = client.request(f"/replays/open/{found['id']}/0?as=text")
    assert status == 200 and b"life 20" in gzip.decompress(text)
    assert client.request(f"/replays/open/{found['id']}/{head['frames']}")[0] == 404
    for name in ("..", ".head", "%2e%2e%2fhead", "head%00"):
        assert client.request(f"/replays/open/{found['id']}/{name}")[0] in (202, 400, 404)
    assert open_game(client, "0/forge/observed.forge.gz", 1)["id"] == found["id"]


@pytest.mark.parametrize("kind", ["film", "pictures"])
def test_a_film_is_served_so_that_nothing_in_it_can_run(client, kind):
    found = open_game(client, "1/battle_film.svg")
    with urllib.request.urlopen(f"http://{client.host}/replays/open/{found['id']}/0?as={kind}") as answer:
        policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy and "allow-scripts" not in policy and "default-src 'none'" in policy


def test_results_and_last_positions_are_told_by_one_process(tmp_path, replay):
    env = registry.make("beasty_bar")
    _, found = recorded(env, "beasty_bar", bot_player(env, "random"), [bot_player(env, "heuristic")])
    found[0].write(tmp_path / "a.replay")
    (tmp_path / "b.replay").write_bytes(replay.read_bytes()[:-9])
    with serving(tmp_path, replays=(tmp_path,)) as client:
        for _ in range(2):  # the second time from what is kept
            good, bad = client.post("/replays/glances", {"files": ["0/a.replay", "0/b.replay"]})
            assert sorted(good["won"]) == [-1, 1] and "points" in good["figures"] and good["board"].startswith("<svg")
            assert "error" in bad
        for names in ([], ["0/../a.replay"], ["0/a.replay"] * 51, "0/a.replay"):
            assert client.request("/replays/glances", {"files": names})[0] == 400


def test_what_cannot_be_opened_says_why(client):
    found = open_game(client, "0/skull_king/tricks.jsonl.gz")
    assert found["state"] == "failed"
    assert "no recording that can be shown" in part(client, found["id"], "head")[1]["error"]
    status, text = client.request("/replays/open?file=0/../secret.replay")
    assert status == 400 and b"no such recording" in text
    assert client.request("/replays/open?file=0/forge/observed.forge.gz&game=x")[0] == 400


def test_a_file_is_uploaded(client):
    data = (GOLDEN / "forge" / "refused.forge.gz").read_bytes()
    status, text = client.request("/replays/bring?name=mine.forge.gz", data)
    file = json.loads(text)["file"]
    assert status == 200 and open_game(client, file)["state"] == "open"
    announced = {"Content-Length": str(library.LARGEST + 1)}
    assert client.request("/replays/bring?name=x.replay", b"x", **announced)[0] == 413


def test_a_process_may_use_so_much_and_no_more(tmp_path):
    """A file that unpacks to gigabytes, and limits that are in place."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(160):
            file.write(b" " * (1 << 20))
    command = [sys.executable, "-m", "jaxrl.serve.replays.render_recording", "--game=0", str(tmp_path), str(path)]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, timeout=120, check=False)
    assert done.returncode == 1
    assert "no recording" in json.loads(gzip.decompress((tmp_path / "head").read_bytes()))["error"]
    script = "from jaxrl.serve.replays import render_recording; import resource; render_recording._limit();"
    script += "print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert int(told) == render_recording.SECONDS
