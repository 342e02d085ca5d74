"""Pairs of tables that look the same to a seat, in all parts of a game: whatever is asked, answers are the same."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jaxrl.serve.guard import COOKIE
from jaxrl.serve.tables import timed_search
from jaxrl.serve.tables.game import GameRecord, TableGame
from jaxrl.serve.tables.invite_tokens import InviteTokens
from jaxrl.serve.tables.record import TableRecord
from jaxrl_envs.shared import prng
from tests.serve.test_secrets import GAMES, exchanged, played, programs_of, same
from tests.support.serving import Client, Person, serving
from tests.support.waiting import wait_until

OWNER = {"Cookie": f"{COOKIE}=secret"}
PATHS = """/table/{} /api/tables/{}/replay /api/tables/{}/keep /api/tables
 /replays/list /runs/of/.tables /replays/open?file=0/.tables/{}.table
 /replays/open?file=0/{}.table /static/../{}.table /{}.table /.tables/{}.table
 /.tables/.key /static/../.key /replays/open?file=0/.key POST/api/tables/{}/keep
 POST/replays/bring?name={}.table""".split()
VIEWED = ("pause", "go", "one", "pace")  # which are answered by a view
HINTS = [{"do": "hint", "by": by} for by in ("policy", "search")]
ASKED = [*HINTS, {"do": "undo"}, *({"do": each, "seconds": 0} for each in VIEWED), {"do": "watch"}, {"do": "state"}]
ASKED += [{"do": "play", "action": -1, "at": 0}, {"do": "play"}, HINTS[0] | {"seat": 1}, {"do": "moment", "seat": None}]


def heard(client: Client, id: str, headers: dict[str, str], key: str) -> set[str]:
    """All that a browser is told at a table: of a person, if it has a key. How often is a matter of time, as is what it
    sees while the table opens or a search compiles."""
    with client.socket(id, additional_headers=headers) as socket:
        socket.send(json.dumps({"key": key}))
        person = Person(socket)
        view = person.until(lambda m: m["kind"] == "view" and not m["opening"])
        assert view.get("hidden", False) != bool(key)
        for asked in ASKED:
            socket.send(json.dumps(asked))
            viewed = bool(key) and asked["do"] in VIEWED
            person.until(lambda m, viewed=viewed: viewed or m["kind"] not in ("view", "doing"))
    assert wait_until(lambda: not any(each["here"] for each in json.loads(client.request("/api/tables", **OWNER)[1])))
    return {json.dumps(each) for each in person.messages if each["kind"] != "doing" and not each.get("opening")}


def seen(env, programs, state, seat: int) -> list[np.ndarray]:
    """What a seat knows of a position."""
    own = state.legal_action_mask if int(state.current_player) == seat else ()
    told = programs(env.observe)(state, np.int32(seat)), state.current_player, state.rewards, state.terminated, own
    return [np.asarray(leaf) for leaf in jax.tree.leaves(told)]


def alike(env, programs, states, actions, at: int, seat: int) -> int:
    """Until when a game in which hidden things were exchanged at a time looks to a seat as the game itself; -1: nothing
    was hidden."""
    state = exchanged(env, programs, states[at], seat, at)
    if same(states[at], state):
        return -1
    for time in range(at, len(states) - 1):
        one, other = (seen(env, programs, each, seat) for each in (states[time], state))
        if not all(map(np.array_equal, one, other)):
            return time - 1
        if not bool(np.asarray(state.legal_action_mask)[actions[time]]):
            return time
        state = programs(env.step)(state, np.int32(actions[time]), prng.fast_key(0))
    return len(states) - 2


def pairs(game: str, options: str, count: int) -> list[tuple[list[int], list[int], list[int]]]:
    """(words of the deal, [time of the exchange, seat], actions), spread over games and their times."""
    env, programs = programs_of(game, options)
    found, rng = [], np.random.default_rng(count)
    for seed in itertools.count():
        table, states = played(game, options, seed)
        actions = table.record.actions
        for at in np.linspace(0, len(states) - 2, 10).astype(int).tolist()[seed % 2 :: 2]:
            seat = seed // 2 % env.num_players if seed % 2 else int(states[at].current_player)
            if (end := alike(env, programs, states, actions, at, seat)) >= at:
                turns = [time for time in range(at, end + 1) if int(states[time].current_player) == seat]
                time = int(rng.choice(turns or [end]))
                found.append((table.record.deal, [at, seat], actions[:time]))
        if len(found) >= count:
            return found[:count]
    raise AssertionError


def twin_tables(monkeypatch) -> None:
    """Makes tables whose step words are (time, 2 seat + 1) exchange, at that time, what the seat cannot see, once it is
    told the story so far; and the clock of searches a count, so that all are equally long."""
    whole_open = TableGame.open

    def open(self):
        (at, mark), actions = self.record.step, self.record.actions
        self.record = dataclasses.replace(self.record, actions=actions[:at])
        whole_open(self)
        self.moment(mark // 2)
        now = self._game.save()
        if mark % 2:
            now = now._replace(state=exchanged(self.env, self._programs, self.state, mark // 2, at))
            self._game.restore(now)
        self._past = [self._past[-1]._replace(saved=now)]
        for action in actions[at:]:
            assert self.is_legal(action)
            self._step(action)

    monkeypatch.setattr(TableGame, "open", open)
    clock = itertools.count(0.0, 0.25)
    monkeypatch.setattr(timed_search, "time", SimpleNamespace(perf_counter=lambda: next(clock)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "game, options, count",
    [(*each, 3) for each in GAMES[:2]] + [pytest.param(*each, 12, marks=pytest.mark.slow) for each in GAMES],
)
def test_no_endpoint_depends_on_what_is_hidden(tmp_path, monkeypatch, game, options, count):
    seats, made = programs_of(game, json.dumps(options))[0].num_players, pairs(game, json.dumps(options), count)
    for number, (deal, (at, seat), actions) in enumerate(made):
        for letter, mark in (("a", 2 * seat), ("b", 2 * seat + 1)):
            id, record = f"{letter}{number:011x}", GameRecord(game, options, deal, [at, mark], actions)
            keys = [f"key{each}" for each in range(seats)]
            kept = TableRecord(id, record, ["person"] * seats, ["p"] * seats, keys, [""] * seats, 1.0, 0.0)
            (tmp_path / f"{id}.table").write_text(json.dumps(dataclasses.asdict(kept)))
    twin_tables(monkeypatch)
    guests, tries, hints, unequal = InviteTokens(tmp_path), 0, 0, []
    with serving(tmp_path, games=[game], token="secret", names=frozenset(), replays=(tmp_path,)) as client:
        for number, (_, (at, seat), actions) in enumerate(made):
            found = []
            for letter in "ab":
                id = f"{letter}{number:011x}"
                guest = {"Cookie": f"{COOKIE}{id}={guests.token(id)}"}
                answers = [
                    f"{bool(key)} {each}"
                    for key in (f"key{seat}", "")
                    for who in (OWNER, guest)
                    for each in heard(client, id, who, key)
                ]
                for path in PATHS:
                    asked, body = path.removeprefix("POST").format(id), b"x" if path.startswith("POST") else None
                    answers += [f"{path} {client.request(asked, body, **who)}" for who in (OWNER, guest)]
                found.append(sorted(re.sub("[ab][0-9a-f]{11}|[0-9a-f]{8}-", "ID", each) for each in answers))
            tries, hints = tries + len(found[0]), hints + sum('"kind": "hint"' in each for each in found[0])
            unequal += [(at, len(actions), seat, each) for each in sorted(set(found[0]) ^ set(found[1]))]
    assert hints > count, "most positions are ones in which the seat is asked"
    assert unequal == []
    print(f"{game}: {tries} answers, {hints} of them hints, of {count} pairs of tables that differ in what is hidden")
