"""Scripts of benchmarks: both tables of a configuration, and ratios to peers."""

from __future__ import annotations

import pytest

from jaxrl.diagnose import hardware, host_play
from jaxrl.diagnose.timing import Contestant, Speed
from jaxrl_envs.host.game import HostGame
from scripts.benchmark import report, speed

SMALL = ["network.hidden=[8]", "train.num_envs=8", "train.num_steps=4", "train.updates_per_call=1", "run.devices=1"]


def a_speed(name: str, rate: float, cpu_rate: float, **info) -> Speed:
    return Speed(name, rate, rate, rate, cpu_rate, 1.0, 2.0, info)


def test_ratios_take_our_fastest(monkeypatch, capsys):
    found = [a_speed("a", 6.0, 3.0), a_speed("b", 4.0, 8.0, decisions_per_game=4.0), a_speed("peer", 2.0, 4.0)]
    monkeypatch.setattr(report, "race", lambda contestants, **_: found)
    ours = [Contestant(name, 1.0, lambda: None) for name in "ab"]
    assert report.compare("steps", ours, [Contestant("peer", 1.0, lambda: None)]) == found[:2]
    printed = capsys.readouterr().out
    assert hardware.cpu_model() in printed and "our fastest: 2.00 x peer by CPU time, 3.00 x by the clock" in printed
    [row] = [line for line in printed.splitlines() if line.startswith("b ")]
    assert row.split()[-1] == "2"  # games per CPU second


def test_reset_cost():
    """jumanji 297: what the reset costs is measured by leaving it out."""
    views = [("lean", 8, 50.0), ("lean", 16, 80.0), ("observed", 16, 10.0), ("endless", 16, 100.0)]
    speeds = [a_speed(view, rate, rate, view=view, batch=batch) for view, batch, rate in views]
    assert speed.reset_share(speeds) == pytest.approx(0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("game", ["games:TicTacToe", "host_games:HostTicTacToe"])
def test_environment_and_training_steps_are_apart(game, monkeypatch, capsys):
    """Env-only speed quoted as training speed: two tables, each with its unit, below the name of the machine."""
    monkeypatch.setattr(speed, "CPU_BATCHES", (4, 8, 16))
    monkeypatch.setattr(speed, "HOST_BATCH", 4)
    monkeypatch.setattr(host_play, "BLOCK", 100)
    monkeypatch.setattr(report, "race", lambda contestants, **_: [once(each) for each in contestants])
    assert speed.main([f"env.id=tests.support.{game}", *SMALL, "ppo.minibatches=2", "--quick"]) == 0
    played, trained = capsys.readouterr().out.split("training steps")
    assert "environment steps" in played and hardware.cpu_model() in played and "random bot, observed" in played
    assert "\ntraining " in trained and "of the training's time" in trained
    assert ("equations" in played) == game.startswith("games")


def once(contestant: Contestant) -> Speed:
    contestant.block()
    return a_speed(contestant.name, contestant.units, contestant.units, **contestant.info)


def test_what_cannot_be_measured_like_this_is_said(monkeypatch, capsys):
    monkeypatch.setattr(HostGame, "remote", True)
    assert speed.main(["env.id=tests.support.host_games:HostTicTacToe"]) == 2
    assert "is another program" in capsys.readouterr().err
    assert speed.main(["env.id=skul_king"]) == 2 and "skull_king" in capsys.readouterr().err
