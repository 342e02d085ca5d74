"""Recordings of strangers for `jaxrl check`: counted, or one sentence, whatever stands in them."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl_envs.car_soccer import golden as car_soccer
from tests.attacks import kinds


@pytest.fixture(scope="module")
def episodes() -> dict[str, dict]:
    return kinds.episodes()


@pytest.fixture(autouse=True)
def still(monkeypatch, tmp_path):
    """Nothing moves in our physics, so that nothing is compiled."""
    monkeypatch.setattr(car_soccer, "play", kinds.still)
    monkeypatch.chdir(tmp_path)


def verified(capsys, records: object) -> tuple[int, str, str]:
    """`jaxrl check car_soccer` of these records: code, output, message."""
    Path("recording.json").write_text(json.dumps(records))
    code = cli.main(["check", "car_soccer", "recording.json"])
    out, err = capsys.readouterr()
    assert (code == 2) == (err.startswith("jaxrl: ") and err.count("\n") == 1) and "\x1b" not in out + err
    return code, out, err


def test_a_scenario_that_begins_on_a_ramp_is_counted(capsys, episodes):
    """Nothing in it is flat, so there is nothing that must be exact."""
    record = copy.deepcopy(episodes["ball_side_ramp"])
    record["meta"]["flat_until_tick"] = 0
    code, out, _ = verified(capsys, {"on_a_ramp": record})
    assert code == 0 and "1 episodes" in out and "on_a_ramp" in out and "no bound" in out
    record["meta"]["flat_until_tick"] = -3
    assert verified(capsys, {"on_a_ramp": record})[0] == 0


def test_states_recorded_at_odd_times_are_counted(capsys, episodes):
    """The table has rows for whole seconds: a recording without states there has an empty one."""
    record = copy.deepcopy(episodes["air_none"])
    record |= {"T": 400, "ticks": [0, 61, 400], "states": record["states"][:3]}
    record["meta"]["suite"] = "play1"
    code, out, _ = verified(capsys, {"odd": record})
    assert code == 0 and "1 episodes" in out and " s " not in out.split("seconds of play")[1].split("(")[0]
    del record["meta"]["suite"]
    record |= {"ticks": [0, 300, 400]}  # the first state comes after all that must be exact
    record["meta"] |= {"flat_until_tick": 0, "touches_mesh": True}
    assert verified(capsys, {"late": record})[0] == 0
    balls = copy.deepcopy(episodes["ball_side_ramp"]) | {"T": 60, "ticks": [0, 60]}
    balls["states"], balls["meta"]["suite"] = balls["states"][:2], "mixed"
    cars = copy.deepcopy(record) | {"T": 60, "ticks": [0, 60], "states": record["states"][:2]}
    cars["meta"]["suite"] = "mixed"
    for first, second in ((balls, cars), (cars, balls)):  # a suite of which only some have cars
        assert "mixed        2 car   0.5 s 0.000" in verified(capsys, {"a": first, "b": second})[1]


WRONG = {
    "no ticks": lambda record: record.update(ticks=[], states=[]),
    "one tick": lambda record: record.update(ticks=[0], states=record["states"][:1]),
    "an hour": lambda record: record.update(T=10**6),
    "for ever": lambda record: record.update(T=10**30),
    "not a number": lambda record: record["states"][0]["ball"].update(pos=[float("nan"), 0, 0]),
    "infinite": lambda record: record["states"][2]["ball"].update(pos=[float("inf"), 0, 0]),
    "huge": lambda record: record["states"][0]["ball"].update(vel=[10**400, 0, 0]),
    "far": lambda record: record["states"][0]["ball"].update(pos=[1e30, 0, 0]),
    "text": lambda record: record["states"][0]["ball"].update(pos=["0", "0", "0"]),
    "flat": lambda record: record["states"][0]["ball"].update(pos=[[0, 0, 0]]),
    "seven cars": lambda record: record["meta"].update(teams=[0] * 7),
    "a team": lambda record: record["meta"].update(teams=[2]),
    "an arena": lambda record: record["meta"].update(arena=["SOCCAR"]),
    "a suite": lambda record: record["meta"].update(suite={"play1": 1}),
    "a suite's name": lambda record: record["meta"].update(suite="\x1b[2J"),
    "a car": lambda record: record["meta"].update(car=3),
    "back": lambda record: record.update(controls_rle=[[-5, []]]),
    "a state": lambda record: record["states"].append(None),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_episode_is_one_sentence(capsys, episodes, what):
    record = copy.deepcopy(episodes["ball_side_ramp"])
    WRONG[what](record)
    code, _, err = verified(capsys, {"wrong": record})
    assert code == 2 and ("wrong: not a recorded episode (" in err or "64 bits" in err)


def test_names_and_numbers_of_episodes_are_bounded(capsys, episodes, monkeypatch):
    ball = episodes["ball_side_ramp"]
    for name in ("\x1b[2J", "a\nb", "x" * 1000):
        assert "its name must be" in verified(capsys, {name: ball})[2]
    monkeypatch.setattr(car_soccer, "NUMBERS", 500)
    assert "too many at once: split the file" in verified(capsys, {str(n): ball for n in range(3)})[2]
    monkeypatch.setattr(car_soccer, "GROUPS", 2)
    assert "3 kinds of arenas and teams, at most 2" in verified(capsys, episodes)[2]
