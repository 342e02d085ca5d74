"""Attacks on the server by what lies in its folders: table files, pipes, links and names."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket as sockets
import sys
import urllib.request
from urllib.parse import quote

import pytest

from tests.attacks.kinds import table
from tests.support.serving import HIGH_CARD, serve_process, serving

ID = "0123456789ab"
BAD = {
    "ffffffffffff": table(made=math.inf),
    "aaaaaaaaaaa0": table("aaaaaaaaaaa0", names=[]),
    "aaaaaaaaaaa1": table("../../escaped"),
    "aaaaaaaaaaa2": table("aaaaaaaaaaa2", beside="javascript:alert(1)"),
    "aaaaaaaaaaa3": table("aaaaaaaaaaa3", made=math.nan),
    "aaaaaaaaaaa4": table("aaaaaaaaaaa4", keys=["key", "key", ""]),
    "aaaaaaaaaaa5": table("aaaaaaaaaaa5", record=table()["record"] | {"options": {"x": math.nan}}),
    "aaaaaaaaaaa6": table("aaaaaaaaaaa6", record=table()["record"] | {"game": "evil_game:Evil"}),
    "aaaaaaaaaaa7": table("aaaaaaaaaaa7", record=table()["record"] | {"game": "no_such_game"}),
    "x\x1b[2J<b>": table("x"),
}


def test_a_bad_table_file_is_listed_as_bad_and_harms_no_other(tmp_path, monkeypatch):
    """Also pipes, links, folders and sockets: the server starts, nothing that a file names is imported, and nothing is
    written outside of its folder."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "evil_game.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    folder = tmp_path / "inner" / "tables"
    folder.mkdir(parents=True)
    for name, each in BAD.items():
        (folder / f"{name}.table").write_text(json.dumps(each))
    for name in ("bbbbbbbbbbb0.table", "ratings.json"):
        os.mkfifo(folder / name)
    (tmp_path / "elsewhere").write_text(json.dumps(table("bbbbbbbbbbb1")))
    (folder / "bbbbbbbbbbb1.table").symlink_to(tmp_path / "elsewhere")
    (folder / "bbbbbbbbbbb2.table").mkdir()
    (folder / f"{ID}.table").write_text(json.dumps(table()))
    with sockets.socket(sockets.AF_UNIX) as pipe:
        pipe.bind(str(folder / "bbbbbbbbbbb3.table"))
        with serving(folder) as client:
            status, text = client.request("/api/tables")
            assert status == 200
            found = json.loads(text)
            assert [each["id"] for each in found if "bad" not in each] == [ID] and "evil_game" not in sys.modules
            bad = {each["id"]: each["bad"] for each in found if "bad" in each}
            assert len(bad) == len(BAD) + 4 and all("\x1b" not in why for why in bad.values())
            assert "--allow evil_game" in bad["aaaaaaaaaaa6.table"] and "no_such_game" in bad["aaaaaaaaaaa7"]
            assert "\\x1b" in next(name for name in bad if name.startswith("x"))
            with client.sit(ID, "key") as anna:
                assert anna.play_on()["over"]
    assert {path.name for path in tmp_path.iterdir()} == {"inner", "elsewhere", "modules"}
    assert {path.name for path in (tmp_path / "inner").iterdir()} == {"tables"}
    assert json.loads((folder / f"{ID}.table").read_text())["rated"], "it was saved where it was read"


# ---- names in addresses ---------------------------------------------------------------------------------------------

NAMES = """.. . %00 a%00b %1b[2J a%0ab %ff%fe %ed%a0%80 ..%2f..%2fetc ~ % - %2e%2e%5c zoo:""".split()
NAMES += ["x" * 5000, "9" * 5000, "ä" * 200, "é" * 5000, "a/" * 2000, "zoo:" + "x" * 5000, "%F0%9F%98%80" * 500]
PATHS = """/runs/of/{} /runs/of/{}/curves?tags=x /runs/of/{}/events /runs/view/{} /runs/jobs?about={} /table/{} /{}
 /replays/open?file=0/{}.replay /replays/open?file={}&game=0 /replays/open?file=0/{} /replays/open/{}/head
 /replays/open/x/{} /replays/open/x/judged?by={} /replays/open?file=0/a.replay&game={} /api/tables/{}/replay
 /static/{} /static/{}.js /runs/of/mine/curves?tags={} /runs/of/mine/curves?after={} /replays/view?file={}
 POST/runs/of/{}/stop POST/runs/of/{}/evaluate POST/replays/bring?name={}.replay POST/replays/bring?name={}
 POST/api/tables/{}/keep""".split()
BODIES = [
    ("/api/tables", "game", {"seats": ["person"] * 3}),
    ("/api/players", "game", {}),
    ("/api/drive", "game", {}),
    ("/api/drive", "match", {"game": HIGH_CARD}),
    ("/runs/verdict", "before", {}),
    *(("/runs/of/mine/evaluate", key, {}) for key in ("opponents", "checkpoint", "deals")),
]


def test_names_of_any_length_are_answered_with_a_sentence(tmp_path, caplog):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("env: {id: skull_king}")
    with serving(tmp_path, replays=(tmp_path / "runs",)) as client:
        for name in NAMES:
            for path in PATHS:
                asked = quote(path.removeprefix("POST").format(name), safe="/?&=%")
                status, _ = client.request(asked, {} if path.startswith("POST") else None)
                assert status in {200, 202, 400, 404}, (status, path, name[:30])
            for path, key, body in BODIES:
                status, text = client.request(path, body | {key: name})
                assert status == 400 and json.loads(text)["error"].endswith("."), (path, key, name[:30])
                assert len(text) < 400, (path, key, text[:200])
        status, text = client.request(f"/runs/of/{'x' * 5000}")
        assert status == 400 and json.loads(text)["error"] == "there is no such run."
        status, text = client.request(f"/replays/open?file=0/{quote('x' * 5000)}.replay")
        assert status == 400 and json.loads(text)["error"] == "there is no such recording."
    assert "Traceback" not in caplog.text and not [each for each in caplog.records if each.exc_info]
    print(f"{len(NAMES) * (len(PATHS) + len(BODIES))} requests with names that no file has")


@pytest.mark.parametrize("host", ["127.0.0.2", "0:0:0:0:0:0:0:1"])
def test_the_printed_address_works(tmp_path, host):
    with contextlib.suppress(AssertionError), serve_process(tmp_path, "--host", host) as (_, address):
        assert urllib.request.urlopen(address, timeout=30).status == 200
        return
    assert "cannot listen on" in (tmp_path / "server.log").read_text(), "where there is no IPv6"
    assert ":" in host
