"""Driving by hand: real time, controls, refusals and ends over the socket; car soccer's frames add up to its steps."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from jaxrl import config as configs
from jaxrl.matches.interactive import Programs
from jaxrl.serve.driving import session
from jaxrl.serve.driving.routes import DrivingRoutes
from jaxrl.serve.server import Server, ServerSettings
from jaxrl_envs.shared.errors import UserError
from tests.support.driven import driving
from tests.support.serving import HIGH_CARD, Person, serving
from tests.support.waiting import wait_until

SLEDGES, MATCH = "tests.support.driven.driving:Sledges", "a race"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("driving"), games=(SLEDGES, HIGH_CARD)) as client:
        yield client


def begin(client, *seats, match=MATCH):
    asked = {"game": SLEDGES, "match": match, "seats": list(seats) or ["person", "bot:on"]}
    return client.post("/api/drive", asked)["id"]


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("drive-")]


class Wheel(Person):
    """A browser at a match; the newest frame is f32[3 + 8 * 3 + 2] after its number."""

    def __init__(self, client, id):
        origin = f"http://{client.host}"
        self._opening = connect(f"ws://{client.host}/api/drive/{id}", origin=origin, max_size=None)
        self.status, self.frames = {}, []

    def __enter__(self):
        self.socket = self._opening.__enter__()
        self.socket.send("{}")
        self.head = json.loads(self.socket.recv(60))
        return self

    def __exit__(self, *error):
        self._opening.__exit__(*error)

    def hear(self, seconds=60.0):
        """The next message: a frame, or a dictionary."""
        said = self.socket.recv(seconds)
        if isinstance(said, str):
            message = json.loads(said)
            self.status = message if message["kind"] == "status" else self.status
            return message
        self.frames.append(np.frombuffer(said, np.float32))
        return self.frames[-1]

    def until(self, wanted, seconds=60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted(said := self.hear(seconds)):
                return said
        raise TimeoutError

    def drive(self, seconds, throttle=1.0, enough=10**6):
        """Steers for `seconds` or `enough` frames, with a message whenever ten are over, also of those that it missed:
        the server waits for a browser that does not say what it has."""
        end, first, told = time.monotonic() + seconds, len(self.frames), -10
        while time.monotonic() < end and len(self.frames) < first + enough:
            seen = int(self.frames[-1][0]) if self.frames else 0
            if seen - told >= 10:
                self.send(controls=[throttle, 0], seen=seen)
                told = seen
            try:
                self.until(lambda said: not isinstance(said, dict), end - time.monotonic() + 0.01)
            except TimeoutError:
                break
        return self.frames[first:]

    def farewell(self, seconds=60.0):
        """Code and sentence with which the server ends it."""
        with pytest.raises(ConnectionClosed) as ended:
            self.until(lambda said: False, seconds)
        return ended.value.rcvd.code, ended.value.rcvd.reason


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(session, "KICKOFF", 0.1)
    monkeypatch.setattr(session, "LEFT", 2.0)
    yield
    end = time.monotonic() + 60
    while threads() and time.monotonic() < end:
        time.sleep(0.02)
    assert not threads()  # every match ends when no driver is there


def test_a_person_drives_in_real_time_beside_an_agent(client, quick):
    offers = json.loads(client.request("/api/drive")[1])
    assert [(offer["match"], len(offer["players"])) for offer in offers] == [(MATCH, 2), ("a sprint", 2)]
    with Wheel(client, begin(client, "bot:on", "person")) as wheel:
        assert wheel.head["seat"] == 1 and wheel.head["names"] == ["On bot", "You"] and wheel.head["countdown"] == 0.1
        wheel.until(lambda said: not isinstance(said, dict))
        wheel.drive(0.3)
        began = time.monotonic()
        frames = wheel.drive(2.0, 0.5)
        took = time.monotonic() - began
    numbers, seconds = frames[-1][:2] - frames[0][:2]
    assert 0.4 * took < seconds < 1.1 * took + 0.1  # slower where the machine is busy, never faster
    assert numbers == pytest.approx(60 * seconds, abs=1) and len(frames) > 20
    agent, person = (frames[-1] - frames[20])[[4 + 8, 4 + 16]] / (frames[-1] - frames[20])[0]
    assert agent == pytest.approx(0.1, rel=1e-3) and person == pytest.approx(0.05, rel=1e-3)


NUMBERS = ("[]", "[0]", "[0, 0, 0]", "[1.1, 0]", "[0, 0.5]", "[0, true]", '["1", 0]', "[null, 0]", "[[0], 0]")
LONG = f"[1{400 * '0'}, 0]"  # no float holds it
BAD = [
    *("[]", "{", '"controls"', "{}", '{"pause": 1}', '{"again": false}', '{"again": true, "pause": true}'),
    *(f'{{"controls": {each}, "seen": 0}}' for each in (*NUMBERS, "[NaN, 0]", "[1e999, 0]", LONG, "1", '{"0": 1}')),
    *(f'{{"controls": [1, 0], "seen": {each}}}' for each in ("-1", "1e9", "true", "99999999", "null")),
    *('{"controls": [1, 0]}', '{"controls": [1, 0], "seen": 0, "more": 1}'),
]


def test_what_does_not_steer_is_refused_and_the_match_goes_on(client, quick):
    one = "person"
    for seats in ([one], [one, one], ["bot:on", "bot:on"], [one, "bot:none"], one, [one, 1]):
        asked = {"game": SLEDGES, "match": MATCH, "seats": seats}
        assert client.request("/api/drive", asked)[0] == 400
    assert client.request("/api/drive", {"game": HIGH_CARD, "match": MATCH, "seats": ["person", "bot:on"]})[0] == 400
    assert client.request("/api/drive", {"game": SLEDGES, "match": "another", "seats": []})[0] == 400
    with Wheel(client, begin(client, "person", "bot:still")) as wheel:
        wheel.until(lambda said: not isinstance(said, dict))
        for text in BAD:
            wheel.socket.send(text)
            wheel.until(lambda said: isinstance(said, dict) and said["kind"] == "error")
        assert wheel.drive(0.5)[-1][4 + 8] > 0  # and none of them has moved it before
        assert wheel.frames[0][4 + 8] == 0
        wheel.send(pause=True)
        wheel.until(lambda said: isinstance(said, dict) and said.get("paused"))
        stands = wheel.drive(0.5)
        assert len({frame[0] for frame in stands}) <= 3
        wheel.send(again=True)
        wheel.until(lambda said: not isinstance(said, dict) and said[1] == np.float32(1 / 60))
        wheel.socket.send("x" * (1 << 15))
        with pytest.raises(ConnectionClosed):
            wheel.drive(20.0)


def test_a_slow_reader_misses_frames_and_the_newcomer_drives(client, quick, monkeypatch):
    monkeypatch.setattr(session, "QUIET", 60.0)
    monkeypatch.setattr(session, "BEHIND", 0.2)
    made, make = [], session.DrivingSession
    monkeypatch.setattr(
        "jaxrl.serve.driving.routes.DrivingSession", lambda *given: made.append(make(*given)) or made[0]
    )
    id = begin(client)
    with Wheel(client, id) as wheel:
        wheel.until(lambda said: not isinstance(said, dict))
        assert wait_until(lambda: made[0]._serial > 60)  # reads nothing, tells nothing: the match goes on
        wheel.send(controls=[0, 0], seen=made[0]._sent)  # all that was sent, also where the server itself missed frames
        wheel.until(lambda said: not isinstance(said, dict) and said[0] > 60)
        numbers = [frame[0] for frame in wheel.frames]
        assert len(numbers) <= 0.2 * 60 + 3 and max(np.diff(numbers)) > 20, "what waits for it is bounded"
        with Wheel(client, id) as other:
            assert len(other.drive(30.0, enough=20)) == 20  # more than may be under way to who says nothing
            assert wheel.farewell() == (session.TAKEN, "another driver has taken over")
    with pytest.raises(ConnectionClosed), Wheel(client, "unknown"):
        pass


def test_after_a_goal_play_waits_for_its_replay(client, quick, monkeypatch):
    monkeypatch.setattr(session, "REPLAY", 0.5)
    monkeypatch.setitem(driving.MATCHES, "a relay", {"length": 98.0})
    frame = driving.DrivenSledges.frame

    def scored(self, state, controls):
        after, row = frame(self, state, controls)
        return after, row.at[1].set(after.frames > 9)

    monkeypatch.setattr(driving.DrivenSledges, "frame", scored)
    with Wheel(client, begin(client, match="a relay")) as wheel:
        assert wheel.until(lambda said: isinstance(said, dict) and said.get("ready"))["goal"] is False
        wheel.send(controls=[1, 0], seen=0)
        kickoff = wheel.until(lambda said: not isinstance(said, dict) and said[2] == 1)
        began = time.monotonic()
        wheel.until(lambda said: not isinstance(said, dict) and said[1] > kickoff[1])
        assert time.monotonic() - began > 0.4 and wheel.status["goal"] is True and wheel.head["replay"] == 0.5


def test_matches_are_bounded_and_one_that_is_over_stands_until_another_is_wanted(client, quick, monkeypatch):
    monkeypatch.setattr("jaxrl.serve.driving.routes.MOST", 1)
    with Wheel(client, client.post("/api/drive", {"game": SLEDGES, "match": "a sprint"})["id"]) as wheel:
        assert wheel.head["seat"] == 0 and wheel.head["names"] == ["You", "On bot"], "the usual opponent"
        asked = {"game": SLEDGES, "match": MATCH, "seats": ["person", "bot:on"]}
        status, text = client.request("/api/drive", asked)
        assert status == 400 and b"already" in text
        wheel.until(lambda said: isinstance(said, dict) and said.get("over"))
        stands = wheel.drive(0.5)[1:]  # the last frame may come after the news
        assert stands == [] and wheel.frames[-1][3] == 1 and wheel.status["text"] == "1"
        wheel.send(again=True)
        wheel.until(lambda said: isinstance(said, dict) and not said.get("over"))
        assert wheel.drive(0.3)[0][3] == 0


def test_the_end_of_a_match_is_told_and_compiling_is_no_silence(client, quick, monkeypatch):
    monkeypatch.setattr(session, "IDLE", 0.6)
    monkeypatch.setitem(driving.MATCHES, "a crawl", {"length": 99.0})  # which is compiled here
    frame, headline = driving.DrivenSledges.frame, driving.DrivenSledges.headline
    monkeypatch.setattr(driving.DrivenSledges, "frame", lambda *given: time.sleep(1.0) or frame(*given))
    with Wheel(client, begin(client, match="a crawl")) as wheel:
        wheel.until(lambda said: not isinstance(said, dict))
        assert wheel.farewell() == (session.GONE, "the match has ended: the driver was gone for too long")
    monkeypatch.setattr(driving.DrivenSledges, "headline", lambda self, state: headline(self, None))
    with Wheel(client, begin(client)) as wheel:
        assert wheel.farewell() == (session.GONE, "this match has broken down: the server's log says why")


def test_a_match_that_cannot_be_made_is_left_out(client, monkeypatch):
    monkeypatch.setitem(driving.MATCHES, "a crash", {"unknown": 1})
    assert "a crash" not in {offer["match"] for offer in json.loads(client.request("/api/drive")[1])}


def test_matches_are_named_before_a_game_is_made_and_the_first_is_compiled_once_its_players_are_asked_for(
    tmp_path, monkeypatch
):
    compiled = threading.Event()
    with serving(tmp_path, games=(SLEDGES, HIGH_CARD)) as client:
        with monkeypatch.context() as patch:
            patch.setattr("jaxrl.serve.driving.routes.make_context", None)
            status, text = client.request("/api/drive/names")
            assert status == 200 and json.loads(text)[0] == {"game": SLEDGES, "match": MATCH}
        seen = []
        monkeypatch.setattr(
            "jaxrl.serve.driving.routes.compile_ahead", lambda *each: (seen.append(each), compiled.set())
        )
        for _ in range(2):
            assert client.request("/api/drive")[0] == 200
        assert compiled.wait(60) and len(seen) == 1
        session.compile_ahead(*seen[0])  # what a match needs, as it is


@pytest.mark.slow
def test_frames_of_car_soccer_add_up_to_its_steps():
    import jax

    from jaxrl_envs.car_soccer.actions import IDLE
    from jaxrl_envs.car_soccer.display import driving
    from jaxrl_envs.contract import registry

    env = registry.make("car_soccer", **driving.MATCHES["1 against 1"])
    driven = driving.drive(env)
    state = before = jax.jit(env.init)(jax.random.key(3))
    step, programs = jax.jit(env.step), Programs(env, quick=True)
    frame, asked = programs(driven.frame), programs(driven.asked)
    for number in range(20):
        actions = np.random.default_rng(number).integers(0, 24, env.num_players).astype(np.int32)
        legal = np.take_along_axis(np.asarray(state.legal_action_mask), actions[:, None], 1)[:, 0]
        actions = np.where(legal, actions, IDLE)
        state = step(state, actions, jax.random.key(0))
        for _ in range(driven.every):
            before, row = frame(before, driven.controls(actions))
        before = asked(before)
        for one, other in zip(
            jax.tree.leaves((state.game.arena, state.observation, state.legal_action_mask)),
            jax.tree.leaves((before.game.arena, before.observation, before.legal_action_mask)),
            strict=True,
        ):
            np.testing.assert_allclose(np.float64(one), np.float64(other), rtol=1e-3, atol=0.05)
    assert row[0] == pytest.approx(int(state.game.arena.tick) / 120)
    bodies = np.asarray(row[3 : 3 + 8 * (1 + env.num_players)]).reshape(-1, 8)
    np.testing.assert_allclose(bodies[0, :3], state.game.arena.ball.position.array, atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(bodies[:, 3:7], axis=1), 1, atol=1e-5)
    scene = driven.scene()
    assert len(row) == 3 + bodies.size + env.num_players + len(scene["spots"]) and len(scene["bodies"]) == len(bodies)


@pytest.mark.thorough
def test_who_sees_otherwise_drives_in_a_match_of_its_view(tmp_path):
    """As the preset `car_soccer_duel` does; with other policies of another view it is refused."""
    for name, preset in (("duel", "car_soccer_duel"), ("plain", "car_soccer")):
        (tmp_path / name / "checkpoints" / "1").mkdir(parents=True)
        configs.save(configs.load(preset), tmp_path / name / "config.yaml")
    room = DrivingRoutes(Server(ServerSettings(games=("car_soccer",), runs=tmp_path, folder=tmp_path / "tables")))
    found = {offer["match"]: [spec for spec, _ in offer["players"] if ":" in spec] for offer in room._offers()}
    bots = [f"bot:{name}" for name in ("striker", "rotation", "rule_policy", "keeper", "chase", "still", "random")]
    assert found == {
        "1 against 1": ["zoo:car_soccer", "zoo:car_soccer_duel", "run:plain", "run:duel", *bots],  # runs newest first
        "2 against 2": ["zoo:car_soccer_2v2", *bots],
    }
    view = room._catalog.view("car_soccer", "run:duel")
    assert room._context("car_soccer", "1 against 1", view).context.env.teams.of.tolist() == [0, 1]
    usual = {match: room.usual(room._context("car_soccer", match).context, match) for match in found}
    assert usual == {"1 against 1": "zoo:car_soccer", "2 against 2": "zoo:car_soccer_2v2"}
    assert room._catalog._described("car_soccer")["opponent"] == "zoo:car_soccer"
    with pytest.raises(UserError, match="in different ways"):
        seats = ["person", "run:duel", "run:plain", bots[0]]
        room._seated({"game": "car_soccer", "match": "2 against 2", "seats": seats})
