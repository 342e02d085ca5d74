"""What goes through everything outside the JVM, measured with recorded games."""

from __future__ import annotations

import pytest

from envs.forge.replay_speed import measure
from tests.forge_conversations import GOLDEN


@pytest.mark.parametrize("games", [1, 16])
def test_a_measurement(games):
    found = measure([GOLDEN / "both_seats.forge.gz"], games=games, seconds=0.5)
    assert set(found) == {"decisions", "questions", "mb", "cpu_us", "server_us"}
    assert 50 < found["decisions"] < 3 * found["questions"] and found["questions"] < 3 * found["decisions"]
    assert 3e3 < found["mb"] * 1e6 / found["decisions"] < 2e4  # bytes of a decision
    assert found["cpu_us"] > 0
