"""`jaxrl serve`: tables are played, survive, and are kept as replays; strangers and other sites are refused."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket as sockets
import string
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from jaxrl import cli
from jaxrl.matches.interactive import Programs
from jaxrl.matches.recording import replays
from jaxrl.matches.tournaments.known_ratings import of_game
from jaxrl.serve import command
from jaxrl.serve.guard import COOKIE
from jaxrl.serve.player_catalog import PlayerCatalog
from jaxrl.serve.tables.game import GameRecord, TableGame
from jaxrl.serve.tables.ratings import PeopleRatings
from jaxrl.serve.tables.timed_search import TimedSearch
from jaxrl_envs.contract.env import PartScores
from tests.support.games import HighCard, OneLoser, Signals
from tests.support.serving import HIGH_CARD, KUHN, SIMULTANEOUS, TIC_TAC_TOE, Client, serving

SCORED, TALL = "tests.serve.test_tables:Scored", "tests.serve.test_tables:Tall"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("tables")) as client:
        yield client


# ---- playing --------------------------------------------------------------------------------------------------------


def test_two_people_and_an_agent_play_a_game_that_becomes_a_replay(client, tmp_path):
    table = client.open_table(HIGH_CARD, "person", "bot:highest", "person")
    assert [bool(key) for key in table["keys"]] == [True, False, True]
    keys = table["keys"]
    with client.sit(table["id"], keys[0], name="Anna") as anna, client.sit(table["id"], keys[2]) as ben:
        other = threading.Thread(target=ben.play_on)
        other.start()
        last = anna.play_on()
        other.join()
        assert last["you"] == 0 and last["seats"][0]["name"] == "Anna" and sum(last["figures"]["tricks"]) == 3
        assert ben.messages[-1]["returns"] == last["returns"] and ben.messages[-1]["you"] == 2
        lines = [line for message in anna.messages if "story" in message for line in message["story"]["lines"]]
        assert anna.messages[-1].get("rules") is None and any("rules" in message for message in anna.messages)
        assert sorted(last["won"]) in ([-1, -1, 1], [-1, 0, 0], [0, 0, 0])
        assert len(lines) == 9 and sum(line.startswith("you:") for line in lines) == 3
        status, packed = client.request(f"/api/tables/{table['id']}/replay")
    assert status == 200
    file = tmp_path / "game.replay"
    file.write_bytes(packed)
    opened = replays.read(str(file), allow=["tests"])
    states, actions = opened.play()
    assert len(actions) == 9 and opened.replay.players == ["Anna", "highest", "Person"]
    np.testing.assert_allclose(sum(np.asarray(state.rewards) for state in states[1:]), last["returns"], atol=1e-5)


def test_a_table_at_once_seats_the_usual_players(client):
    """A person against the strongest bot, or agents alone where all seats are asked at once."""
    for game, specs in ((HIGH_CARD, ["person"] + ["bot:highest"] * 2), (SIMULTANEOUS, ["bot:random"] * 2)):
        table = client.post("/api/tables", {"game": game})
        with client.sit(table["id"], next(filter(None, table["keys"]), "")) as person:
            assert [seat["spec"] for seat in person.until(lambda m: "seats" in m)["seats"]] == specs


def test_the_usual_opponent_of_an_own_game_is_its_newest_run(tmp_path, monkeypatch):
    catalog = PlayerCatalog((HIGH_CARD,), tmp_path, ())
    for age, name in enumerate(("new", "old", "empty", "other")):
        (tmp_path / name / "checkpoints" / "1").mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text("")
        os.utime(tmp_path / name / "checkpoints", (1e9 - age, 1e9 - age))
    (tmp_path / "empty" / "checkpoints" / "1").rmdir()
    monkeypatch.setattr(catalog, "_game_fits", lambda context, spec: spec.text in ("run:old", "run:new", "run:empty"))
    assert catalog.usual(catalog.context(HIGH_CARD, {})) == "run:new"


def test_games_are_described_for_their_cards(tmp_path, monkeypatch):
    """With title, sentence, picture and opponent: of the zoo where it has a policy, and of games without a cover."""
    monkeypatch.delenv("FORGE_HOME", raising=False)
    catalog = PlayerCatalog(("beasty_bar", "car_soccer", "forge", HIGH_CARD), tmp_path, ())
    found = {each["id"]: each for each in catalog.describe()}
    assert [each["title"] for each in found.values()] == ["Beasty Bar", "Car soccer", "High Card"], "no Forge, no Magic"
    assert [each["opponent"] for each in found.values()] == ["zoo:beasty_bar", "zoo:car_soccer", "bot:highest"]
    rungs = found["beasty_bar"]["ladder"]
    assert [spec for spec, _ in rungs[-2:]] == ["zoo:beasty_bar", "search:3"], "the strongest kinds last"
    ratings = [int(re.search(r"(\d+) Elo", words)[1]) for _, words in rungs[:-1]]
    assert len(ratings) > 9 and ratings == sorted(ratings)
    with monkeypatch.context() as patch:  # cards are there before any network is made
        patch.setattr("jaxrl.policies.export.make_algorithm", None)
        assert PlayerCatalog(("skull_king",), tmp_path, ()).describe()[0]["opponent"] == "zoo:skull_king"
    assert found["beasty_bar"]["picture"].startswith("<svg") and found[HIGH_CARD]["picture"] == ""
    monkeypatch.setattr("jaxrl_envs.forge.display.cover.find_forge", lambda: None)
    magic = next(each for each in catalog.describe() if each["id"] == "forge")
    assert magic["title"] == "Magic" and magic["picture"].startswith("<svg") and not magic["seats"]
    assert found["car_soccer"]["matches"][0] == "1 against 1" and all(each["about"] for each in found.values())


def test_one_policy_of_the_zoo_sits_at_every_table_of_skull_king(tmp_path):
    catalog = PlayerCatalog(("skull_king",), tmp_path, ())
    for players in range(2, 9):
        context = catalog.context("skull_king", {"players": players, "expansion": players % 2 == 0, "abilities": False})
        fit = ["zoo:skull_king", "zoo:skull_king_any", "zoo:skull_king_selfplay"]
        assert catalog.trained(context) == (fit if players == 4 else fit[1:2])
        assert catalog.usual(context) == ("zoo:skull_king" if players == 4 else "zoo:skull_king_any")
    agent = catalog.agent(context, "zoo:skull_king_any")
    state = context.env.init(jax.random.key(0))
    action, _ = agent.player.act(agent.player.params, (), state, jax.random.key(1))
    assert state.legal_action_mask[action]


def test_replays_of_games_that_the_command_line_names_are_trusted(tmp_path):
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    args = parser.parse_args(["--runs", str(tmp_path), "--game", HIGH_CARD, "--allow", "mine"])
    assert command.settings_of(args)[1].allow == ("mine", "tests.support.games")


def test_what_cannot_be_done_is_refused_and_the_game_goes_on(client):
    table = client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:lowest")
    with client.sit(table["id"], table["keys"][0]) as anna, client.sit(table["id"]) as watcher:
        view = anna.turn()
        legal = {action for action, _, _ in view["legal"]}
        illegal = next(action for action in range(12) if action not in legal)
        for action in (illegal, -1, 12, 10**30, True, 1.0, "0", None, [0]):
            anna.send(do="play", action=action, at=view["time"])
            assert "cannot be played" in anna.until(lambda m: m["kind"] == "error")["text"]
        anna.send(do="play", action=min(legal), at=view["time"] + 1)
        assert "gone on" in anna.until(lambda m: m["kind"] == "error")["text"]
        for wish in ("play", "hint", "undo", "pause", "one"):
            watcher.send(do=wish, action=min(legal), at=view["time"])
            assert "you look on" in watcher.until(lambda m: m["kind"] == "error")["text"]
        assert anna.play_on(view)["over"]
        shown = watcher.until(lambda m: m.get("over", False) and not m.get("hidden"))
        before = [m for m in watcher.messages[:-1] if m["kind"] == "view"]
        assert shown["returns"] and not any("board" in m or "text" in m for m in before)


def test_a_wrong_key_and_an_unknown_table_are_refused(client):
    table = client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:lowest")
    for id, key, code in ((table["id"], "wrong", 1008), ("nothing", "", 4404)):
        with pytest.raises(ConnectionClosed) as closed, client.sit(id, key) as refused:
            refused.until(lambda m: False, 5)
        assert closed.value.rcvd.code == code


def test_hints_undo_and_search(client):
    table = client.open_table(TIC_TAC_TOE, "person", "bot:lowest")
    with client.sit(table["id"], table["keys"][0]) as anna:
        view = anna.turn()
        anna.send(do="hint", by="search")
        hint = anna.until(lambda m: m["kind"] == "hint")
        assert hint["name"] and len(hint["results"]) > 1 and abs(sum(share for _, share in hint["likely"]) - 1) < 0.5
        anna.send(do="hint", by="policy")
        assert anna.until(lambda m: m["kind"] == "hint")["by"]
        anna.play(view)
        after = anna.until(lambda m: m["kind"] == "view" and m.get("time", 0) == view["time"] + 2)
        anna.send(do="undo")
        back = anna.until(lambda m: m["kind"] == "view" and m.get("time") == view["time"])
        assert back["legal"] == view["legal"] and back["text"] == view["text"] != after["text"]
        anna.play(back)
        again = anna.until(lambda m: m["kind"] == "view" and m.get("time", 0) == view["time"] + 2)
        assert again["text"] == after["text"], "the same answers, the same game"


def test_a_move_is_played_at_once_while_a_search_compiles_and_cancels_it(tmp_path, monkeypatch):
    compiling, let_go, whole = threading.Event(), threading.Event(), TimedSearch.compile

    def compile_slowly(*args):
        compiling.set()
        assert let_go.wait(60)
        whole(*args)

    monkeypatch.setattr(TimedSearch, "compile", compile_slowly)
    with serving(tmp_path) as client:
        table = client.open_table(TIC_TAC_TOE, "person", "bot:lowest")
        with client.sit(table["id"], table["keys"][0]) as anna:
            view = anna.turn()
            anna.send(do="hint", by="search")
            assert anna.until(lambda m: m["kind"] == "doing")["text"] == "searching (compiling first) …"
            assert compiling.wait(60)
            anna.play(view)
            again = anna.until(lambda m: m["kind"] == "view" and m["time"] == view["time"] + 2)
            let_go.set()
            anna.send(do="hint", by="search")
            hint = anna.until(lambda m: m["kind"] == "hint")
        told = [m for m in anna.messages if m["kind"] in ("hint", "error")]
        assert told == [hint] and hint["at"] == again["time"], "the hint for the earlier position is not given"
        searching = client.open_table(TIC_TAC_TOE, "search:0.1", "search:0.1")
        with client.sit(searching["id"]) as watcher:
            assert watcher.until(lambda m: m.get("over", False))["trouble"] == ""


class Scored(HighCard):
    """High card with a score sheet: each trick is a part."""

    def part_scores(self, before, action, after):
        gained = np.asarray(after.won) - np.asarray(before.won)
        notes = tuple("won" if each else "" for each in gained)
        return PartScores(f"trick {int(after.won.sum())}", tuple(gained.tolist()), notes) if gained.any() else None


def test_the_scores_of_each_part_are_shown_and_taken_back(tmp_path):
    with serving(tmp_path, games=(SCORED,)) as client:
        table = client.open_table(SCORED, "person", "bot:lowest", "bot:lowest")
        with client.sit(table["id"], table["keys"][0]) as anna:
            anna.play_on(anna.turn())
            sheets = [m["scores"] for m in anna.messages if "scores" in m]
            assert [len(sheet) for sheet in sheets] == [0, 1, 2, 3], "sent where it changes"
            assert [each["part"] for each in sheets[-1]] == ["trick 1", "trick 2", "trick 3"]
            points = np.sum([each["points"] for each in sheets[-1]], axis=0).tolist()
            assert points == anna.messages[-1]["figures"]["tricks"]
    game = TableGame(Scored(), Programs(Scored()), GameRecord(SCORED, {}, [1, 2], [3, 4], []), [None] * 3, {})
    game.open()
    while not game.over:
        game.take(int(np.argmax(game.state.legal_action_mask)))
    whole = game.scores()
    assert len(whole) == 3 and game.undo(game._askers[-4])
    assert game.scores() == whole[: game.time // 3] != whole


class Tall(HighCard):
    """High card with a drawing of each form."""

    form = "wide"

    def render_svg(self, state, seat=None):
        return f"<svg>{self.form}</svg>"

    @property
    def upright(self):
        other = Tall()
        other.form = "tall"
        return other


def test_each_screen_gets_the_drawing_of_its_form(tmp_path):
    with serving(tmp_path, games=(TALL,)) as client:
        table = client.open_table(TALL, "person", "bot:lowest", "bot:lowest")
        with (
            client.sit(table["id"], table["keys"][0], upright=True) as phone,
            client.sit(table["id"], table["keys"][0]) as desk,
        ):
            for person, form in ((phone, "tall"), (desk, "wide")):
                assert person.until(lambda m: m.get("board"))["board"] == f"<svg>{form}</svg>"
            phone.send(do="turn", upright=False)
            turned = phone.until(lambda m: m.get("board", "<svg>tall</svg>") != "<svg>tall</svg>")
            assert turned["board"] == "<svg>wide</svg>" and turned["time"] == 0


def test_agents_are_watched_step_by_step_and_side_by_side(client):
    table = client.open_table(KUHN, "bot:random", "search:0.1", beside=True)
    with client.sit(table["id"]) as watcher:
        watcher.send(do="pause")
        watcher.until(lambda m: m["paused"])
        watcher.send(do="one")
        watcher.send(do="go")
        last = watcher.until(lambda m: m.get("over", False))
        decisions = [m["decision"] for m in watcher.messages if "decision" in m]
        assert any(each["results"] and each["value"] is not None for each in decisions)
    with client.sit(table["beside"]) as watcher:
        other = watcher.until(lambda m: m.get("over", False))
    assert [seat["spec"] for seat in other["seats"]] == [seat["spec"] for seat in last["seats"]][::-1]


def test_all_seats_at_once_can_be_watched_but_not_played(client):
    status, text = client.request("/api/tables", {"game": SIMULTANEOUS, "seats": ["person", "bot:random"]})
    assert status == 400 and "all seats at once" in json.loads(text)["error"]
    table = client.open_table(SIMULTANEOUS, "bot:random", "bot:random")
    with client.sit(table["id"]) as watcher:
        assert len(watcher.until(lambda m: m.get("over", False))["returns"]) == 2


def test_tables_survive_a_restart(tmp_path):
    with serving(tmp_path) as client:
        table = client.open_table(HIGH_CARD, "person", "bot:random", "bot:random")
        with client.sit(table["id"], table["keys"][0]) as anna:
            first = anna.turn()
            anna.play(first)
            view = anna.until(lambda m: m.get("time", 0) > first["time"] and (bool(m["legal"]) or m["over"]))
            lines = [line for m in anna.messages if "story" in m for line in m["story"]["lines"]]
    with serving(tmp_path) as client:
        assert [each["id"] for each in json.loads(client.request("/api/tables")[1])] == [table["id"]]
        with client.sit(table["id"], table["keys"][0]) as anna:
            again = anna.turn()
            assert (again["text"], again["legal"], again["time"]) == (view["text"], view["legal"], view["time"])
            assert again["story"] == {"from": 0, "lines": lines}
            assert anna.play_on(again)["over"]
    (tmp_path / f"{table['id']}.table").write_text("{")
    with serving(tmp_path) as client:
        (bad,) = json.loads(client.request("/api/tables")[1])
        assert bad["id"] == f"{table['id']}.table" and "not valid JSON" in bad["bad"]


def test_an_agent_of_about_the_own_strength(tmp_path):
    game, ratings = "skull_king", PeopleRatings(tmp_path / "ratings.json")
    assert "hard" in of_game(game), "the shipped scale of a game"
    before = ratings.of("anna", game)
    assert ratings.nearest("anna", game) in of_game(game)
    for _ in range(200):
        ratings.add("anna", game, [("hard", 1.0), ("unknown", 0.0)])
    after = PeopleRatings(tmp_path / "ratings.json").of("anna", game)
    assert after > of_game(game)["hard"] > before and ratings.nearest("anna", game) == "hard"
    ratings.add("anna", game, [("random", 0.0)])
    assert ratings.of("anna", game) < after - 30, "against an unexpected winner"


@pytest.mark.parametrize(
    ("env", "returns", "points"),
    [
        (Signals(), [0.5, -0.5, 0.5, -0.5], [{1: 1, 3: 1}, {0: 0, 2: 0}, {1: 1, 3: 1}, {0: 0, 2: 0}]),
        (OneLoser(), [2, 1, -3], [{1: 0.5, 2: 1}, {0: 0.5, 2: 1}, {0: 0, 1: 0}]),
        (HighCard(), [2, 1, -3], [{1: 1, 2: 1}, {0: 0, 2: 1}, {0: 0, 1: 0}]),
    ],
)
def test_points_are_against_other_sides_and_of_outcomes(env, returns, points):
    game = SimpleNamespace(env=env, returns=lambda: np.float32(returns))
    game.outcome = lambda: TableGame.outcome(game)
    assert [TableGame.points(game, seat) for seat in range(env.num_players)] == points


# ---- who is let in --------------------------------------------------------------------------------------------------


def test_other_sites_are_refused(client):
    page = f"http://{client.host}"
    assert client.request("/")[0] == 200 and client.request("/", Origin=page)[0] == 200
    assert client.request("/", Host="evil.example")[0] == 421
    assert client.request("/", Host=f"localhost:{client.port}")[0] == 200
    body = {"game": HIGH_CARD, "seats": ["bot:lowest"] * 3}
    for origin in ("", "null", "http://evil.example", f"http://127.0.0.1:{client.port + 1}"):
        assert client.request("/api/tables", body, Origin=origin)[0] == 403, origin
    assert client.request("/api/tables", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403
    assert client.request("/", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200, "a link"
    frame = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert client.request("/", **frame)[0] == 403
    table = client.open_table(HIGH_CARD, "bot:lowest", "bot:lowest", "bot:lowest")
    for origin in (None, "http://evil.example"):
        with pytest.raises(InvalidStatus) as refused, client.socket(table["id"], origin=origin):
            pass
        assert refused.value.response.status_code == 403


def test_elsewhere_a_token_is_asked_for(tmp_path):
    with serving(tmp_path, token="secret", names=frozenset()) as client:
        assert client.request("/")[0] == client.request("/?token=wrong")[0] == 401
        assert client.request("/", Cookie=f"{COOKIE}=wrong")[0] == 401
        assert client.request("/", Cookie=f"{COOKIE}=secret")[0] == 200
        wanted = {"game": HIGH_CARD, "seats": ["person"] * 3}
        table = json.loads(client.request("/api/tables", wanted, Cookie=f"{COOKIE}=secret")[1])
        for asked, token, where, cookie in (
            ("//evil.example/x?a=1&", "secret", "/evil.example/x?a=1", COOKIE),
            (f"/table/{table['id']}?", table["guest"], f"/table/{table['id']}", f"{COOKIE}{table['id']}"),
        ):
            with sockets.create_connection(("127.0.0.1", client.port)) as raw:
                raw.sendall(f"GET {asked}token={token} HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode())
                answer = raw.recv(4096).decode()
            assert answer.startswith("HTTP/1.1 303") and f"location: {where}\r\n" in answer
            assert f"set-cookie: {cookie}={token}; HttpOnly; " in answer and "SameSite=lax" in answer


WRONG = [
    ({"game": "os:system", "seats": []}, "does not offer"),
    ({"game": HIGH_CARD, "seats": ["person"]}, "3 seats"),
    ({"game": HIGH_CARD, "seats": ["run:../../etc", "person", "person"]}, "no player"),
    ({"game": HIGH_CARD, "seats": ["/etc/passwd", "person", "person"]}, "no player"),
    ({"game": HIGH_CARD, "seats": ["bot:absent", "person", "person"]}, "absent"),
    ({"game": TIC_TAC_TOE, "seats": ["bot:searcher-100000", "person"]}, "no bot"),
    ({"game": HIGH_CARD, "seats": ["search:1e9", "person", "person"]}, "seconds"),
    ({"game": HIGH_CARD, "seats": ["near", "person", "person"]}, "no agent of"),
    ({"game": HIGH_CARD, "seats": ["person"] * 3, "options": {"x": 1}}, "no option"),
    ({"game": HIGH_CARD, "seats": ["person"] * 3, "pace": 1e9}, "pace"),
    ({"game": HIGH_CARD, "seats": ["person"] * 3, "beside": True}, "side by side"),
    (b"[" * 50_000, "nested"),
    (b"x", "JSON"),
]


@pytest.mark.parametrize("body, words", WRONG)
def test_wrong_requests_are_answered_with_a_sentence(client, body, words):
    status, text = client.request("/api/tables", body)
    assert status == 400 and words in json.loads(text)["error"]


def test_there_is_an_end_to_everything(tmp_path):
    with serving(tmp_path, tables=2, connections=3) as client:
        assert client.request("/api/tables", b"x" * 70_000)[0] == 413
        tables = [client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:lowest") for _ in range(2)]
        with client.sit(tables[0]["id"]) as one, client.sit(tables[1]["id"]) as two:
            for person in (one, two):
                person.until(lambda m: m["kind"] == "view")
            status, text = client.request("/api/tables", {"game": HIGH_CARD, "seats": ["person"] * 3})
            assert status == 400 and "no room" in json.loads(text)["error"]
            with client.sit(tables[0]["id"]) as three:
                three.until(lambda m: m["kind"] == "view")
                assert client.request("/")[0] == 503
        status, text = client.request("/api/tables", {"game": HIGH_CARD, "seats": ["person"] * 3})
        assert status == 400 and "no room" in json.loads(text)["error"], "games that are not finished stay"
    with serving(tmp_path, tables=3) as client:
        watched = client.open_table(HIGH_CARD, "bot:lowest", "bot:lowest", "bot:lowest")
        wanted = {"game": HIGH_CARD, "seats": ["bot:lowest"] * 3, "beside": True}
        assert client.request("/api/tables", wanted)[0] == 400, "there is room for one, not for both"
        here = {each["id"] for each in json.loads(client.request("/api/tables")[1])}
        assert here == {watched["id"], *(table["id"] for table in tables)}, "after a restart as before"
        old = time.time() - 8 * 86400
        os.utime(tmp_path / f"{tables[0]['id']}.table", (old, old))
    with serving(tmp_path, tables=3) as client:
        for _ in range(2):  # the one of agents, then what was not used for long
            wanted = client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:lowest")
        here = {each["id"] for each in json.loads(client.request("/api/tables")[1])}
        assert len(here) == 3 and {wanted["id"], tables[1]["id"]} < here


def test_the_command_says_what_is_wrong(capsys, tmp_path):
    with sockets.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
        assert cli.main(["serve", "--runs", str(tmp_path), "--port", port]) == cli.USER_ERROR
    assert "cannot listen on 127.0.0.1, port" in capsys.readouterr().err
    (tmp_path / "file").touch()
    for words, said in (
        (["--host", "192.0.2.1"], f"cannot listen on 192.0.2.1, port {port}"),
        (["--folder", str(tmp_path / "file")], "cannot write to the folder"),
        (["--game", "typo"], "unknown game 'typo'"),
        (["--host", "nowhere.example"], "--host must be an address"),
        (["--port", "70000"], "70000"),
    ):
        assert cli.main(["serve", "--runs", str(tmp_path), "--port", port, *words]) == cli.USER_ERROR
        assert said in capsys.readouterr().err


# ---- what comes in --------------------------------------------------------------------------------------------------


def noise(random_: random.Random) -> str | bytes:
    """A message that no page sends."""
    kinds = ["play", "hint", "undo", "pace", "pause", "go", "one", "", "__init__", "答"]
    junk = [None, True, -1, 2**70, 1e308, "x" * 100, [], {}, [[[]]], "\ud83d", {"a": {"b": None}}]
    kind = random_.randrange(5)
    if kind == 0:
        return random_.randbytes(random_.randrange(200))
    if kind == 1:
        return "".join(random_.choices(string.printable, k=random_.randrange(200)))
    if kind == 2:
        return random_.choice(["", "null", "[]", "1", '"x"', "{", "[" * 5000, '{"do":' * 900, "NaN"])
    keys = ["do", "action", "at", "by", "seconds", "key", "name"]
    message = {key: random_.choice(junk) for key in random_.sample(keys, 4)} | {"do": random_.choice(kinds)}
    return json.dumps(message)


def pester(client: Client, id: str, key: str, count: int) -> None:
    random_ = random.Random(key)
    with client.socket(id) as socket:
        socket.send(json.dumps({"key": key}))
        for _ in range(count):
            socket.send(noise(random_))


@pytest.mark.thorough
@pytest.mark.parametrize("messages", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_noise_and_giants_do_not_disturb_a_table(client, messages):
    """How long others wait among crowds is measured in tests/attacks/test_server.py."""
    table = client.open_table(HIGH_CARD, "person", "person", "bot:lowest")
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(pester, client, table["id"], key, messages) for key in table["keys"]]:
            done.result()
    with pytest.raises(ConnectionClosed) as closed, client.sit(table["id"], table["keys"][1]) as giant:
        giant.socket.send("x" * 100_000)
        giant.until(lambda m: False, 10)
    assert closed.value.rcvd.code == 1009
    with client.sit(table["id"], table["keys"][0]) as anna:
        assert anna.until(lambda m: "seats" in m and not m.get("opening"))["trouble"] == ""
