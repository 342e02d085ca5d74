"""`jaxrl diagnose --plan`."""

from __future__ import annotations

import pytest

from jaxrl import cli

GAME = ["env.id=tests.support.games:TicTacToe", "--allow", "tests"]


def row_of(text: str) -> dict[str, str]:
    """The one row of the table."""
    lines = text.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("---"))
    return dict(zip(lines[rule - 1].split(), lines[rule + 1].split(), strict=True))


@pytest.mark.parametrize(("seeds", "hours", "cost"), [(1, "2", "1.00"), (3, "6", "3.00")])
def test_a_rate_measured_elsewhere(capsys, seeds, hours, cost):
    command = ["diagnose", "--plan", *GAME, f"run.seeds={seeds}", "train.total_steps=7_200_000", "--rate", "1000"]
    assert cli.main([*command, "--price", "0.5"]) == 0
    assert row_of(capsys.readouterr().out) == {"steps/s": "1,000", "hours": hours, "cost": cost}
    assert cli.main(command) == 0
    assert "cost" not in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("game", ["tests.support.games:TicTacToe", "tests.support.host_games:HostTicTacToe"])
def test_a_rate_measured_here(capsys, game):
    small = ["network.hidden=[8]", "train.num_envs=8", "train.num_steps=8", "ppo.minibatches=2", "sebulba.actors=1"]
    command = ["diagnose", "--plan", f"env.id={game}", "--allow", "tests", *small, "--seconds", "0.1", "--price", "3"]
    assert cli.main([*command, "train.total_steps=3.6e9"]) == 0
    row = row_of(capsys.readouterr().out)
    rate, hours = float(row["steps/s"].replace(",", "")), float(row["hours"])
    assert hours == pytest.approx(1e6 / rate, rel=0.02)
    assert float(row["cost"].replace(",", "")) == pytest.approx(3 * hours, rel=0.02)
    assert 0 < float(row["games/s"].replace(",", "")) < rate


@pytest.mark.parametrize("wrong", ["--price=-1", "--seconds=0", "--rate=0"])
def test_figures_out_of_range(capsys, wrong):
    assert cli.main(["diagnose", "--plan", *GAME, wrong]) == 2
    assert "must be" in capsys.readouterr().err
