"""`python -m scripts.benchmark.exact`: what OpenSpiel says of our policies is what our own judge of Kuhn poker says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import kuhn

pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: pip install 'jaxrl[openspiel]'")

from scripts.benchmark import exact  # noqa: E402

SMALL = ["train.num_envs=8", "network.hidden=[8]", "train.updates_per_call=4", "ppo.epochs=1"]


@pytest.mark.thorough
def test_the_exploitability_of_a_trained_policy_by_two_judges() -> None:
    game = pyspiel.load_game("kuhn_poker")
    (average, far, policy), (_, _, last) = exact.ours("kuhn_poker", game, 0.0, 0, SMALL)
    assert "average" in average and far == f"{4 * 8 * 16:,} decisions"  # one call, then the time is up
    found = []
    for each in (policy, last):
        words = [f"{card}{history}" for card in range(kuhn.CARDS) for history in ("", "p", "b", "pb")]
        odds = [dict(each.get_state_policy(word)) for word in words]
        assert all(sum(one.values()) == pytest.approx(1.0) and set(one) == {0, 1} for one in odds)
        bets = np.array([one[1] for one in odds]).reshape(kuhn.CARDS, kuhn.HISTORIES)
        found.append(kuhn.exploitability(bets))
        assert pyspiel.nash_conv(game, each) / 2 == pytest.approx(found[-1], abs=1e-6)
    assert found[0] != found[1]


def test_the_solvers_of_openspiel_come_near_an_equilibrium() -> None:
    game = pyspiel.load_game("kuhn_poker")
    found = {what: pyspiel.nash_conv(game, policy) / 2 for what, _, policy in exact.theirs(game, 0.5)}
    assert len(found) == 3 and max(found.values()) < 0.2 and min(found.values()) < 0.01  # uniform play: 0.458
    assert len(list(exact.theirs(pyspiel.load_game("kuhn_poker(players=3)"), 0.1))) == 2  # MMD is for two players


@pytest.mark.thorough
def test_a_best_response_finds_a_part_of_the_exact_value(capsys: pytest.CaptureFixture[str]) -> None:
    small = [*SMALL, "train.num_envs=64", "exploit.seeds=1", "exploit.start=scratch", "exploit.learning_rate=1e-2"]
    assert "share" in exact.exploiters("kuhn_poker", 0.0, [48], small)
    words = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("kuhn_poker ")).split()
    exactly, found = float(words[2]), float(words[5])
    assert 0.3 * exactly < found <= exactly
    uniform = pyspiel.UniformRandomPolicy(game := pyspiel.load_game("kuhn_poker"))
    assert exact.expected_return(game, uniform, uniform) == pytest.approx(0.0)
