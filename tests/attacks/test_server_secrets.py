"""Two tables that look the same to a seat: whatever is asked there, until the end of the game, answers are the same."""

# ruff: noqa: E402
from __future__ import annotations

import dataclasses
import json
import re

import pytest

for package in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(package, reason="the extra web is not installed")

from jaxrl.serve.guard import COOKIE
from jaxrl.serve.tables.game import GameRecord
from jaxrl.serve.tables.invite_tokens import InviteTokens
from jaxrl.serve.tables.record import TableRecord
from tests.serve.test_secrets import _twins, programs_of
from tests.support.serving import HIGH_CARD, Client, Person, serving

IDS = ("a" * 12, "b" * 12)
OWNER = {"Cookie": f"{COOKIE}=secret"}
PATHS = """/table/{} /api/tables/{}/replay /api/tables/{}/keep /api/tables
 /runs/list /replays/list /runs/of/.tables
 /replays/open?file=0/.tables/{}.table /replays/open?file=0/{}.table /static/../{}.table /{}.table /.tables/{}.table
 /.tables/.key /static/../.key /replays/open?file=0/.key POST/api/tables/{}/keep
 POST/replays/bring?name={}.table""".split()
POLICY = {"do": "hint", "by": "policy"}
VIEWED = ("pause", "go", "one", "pace")  # which are answered by a view
ASKED = [POLICY, {"do": "undo"}, *({"do": each, "seconds": 0} for each in VIEWED), {"do": "watch"}, {"do": "state"}]
ASKED += [{"do": "play", "action": -1, "at": 0}, {"do": "play"}, POLICY | {"seat": 1}, {"do": "moment", "seat": None}]


def heard(client: Client, id: str, headers: dict[str, str], key: str) -> set[str]:
    """All that a browser is told at a table, however often: of a person, if it has a key."""
    with client.socket(id, additional_headers=headers) as socket:
        socket.send(json.dumps({"key": key}))
        person = Person(socket)
        view = person.until(lambda m: m["kind"] == "view" and not m["opening"])
        assert view.get("hidden", False) != bool(key)
        for asked in ASKED:
            socket.send(json.dumps(asked))
            viewed = bool(key) and asked["do"] in VIEWED
            person.until(lambda m, viewed=viewed: viewed or m["kind"] not in ("view", "doing"))
        return {json.dumps(each) for each in person.messages}


def test_no_endpoint_depends_on_what_is_hidden(tmp_path):
    env, programs = programs_of(HIGH_CARD, "{}")
    for id, words in zip(IDS, _twins(env, programs), strict=True):
        game = GameRecord(HIGH_CARD, {}, words, [5, 6], [])
        names, keys = ["p", "x", "y"], ["key", "", ""]
        kept = TableRecord(id, game, ["person"] + ["bot:lowest"] * 2, names, keys, ["", "", ""], 1.0, 0.0)
        (tmp_path / f"{id}.table").write_text(json.dumps(dataclasses.asdict(kept)))
    guests, tries = InviteTokens(tmp_path), 0
    with serving(tmp_path, token="secret", names=frozenset(), replays=(tmp_path,)) as client:
        found: list[list[str]] = []
        for id in IDS:
            guest = {"Cookie": f"{COOKIE}{id}={guests.token(id)}"}
            told = [heard(client, id, who, key) for key in ("key", "") for who in (OWNER, guest)]
            answers = sorted(set.union(*told))
            for path in PATHS:
                asked, body = path.removeprefix("POST").format(id), b"x" if path.startswith("POST") else None
                answers += [f"{path} {client.request(asked, body, **who)}" for who in (OWNER, guest)]
            found.append([re.sub(f"{'|'.join(IDS)}|[0-9a-f]{{8}}-", "ID", each) for each in answers])
            tries += len(answers)
    assert sorted(found[0]) == sorted(found[1]), set(found[0]) ^ set(found[1])
    print(f"{tries} answers of two tables that differ in what is hidden")
