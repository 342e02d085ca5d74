"""The engine's players against the reference figures of section 15 of the rules.

The reference played 100 battles of most pairings, so its figures have errors of their own; here more are played, and a
figure must lie within three standard errors of the difference, with the spread taken from our battles.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from jaxrl_envs.battle.engine.players import BOT_NAMES
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.battle.settings import settings_from_tree

OURS = 900  # battles of a pairing
ROSTERS = ("line", "horde", "walkers")
ALL = tuple((a, b) for a in ROSTERS for b in ROSTERS)
SAME = tuple((name, name) for name in ROSTERS)
STYLES = BOT_NAMES[1:6]


class Played(NamedTuple):
    """Figures of many battles, [battles] each."""

    winner: np.ndarray  # 0, 1, 2 = draw
    end: np.ndarray  # reason
    vp: np.ndarray  # [battles, 2]
    rounds: np.ndarray
    decisions: np.ndarray
    dice: np.ndarray
    first: np.ndarray  # side with the first turn
    left: np.ndarray  # side that deploys left

    @property
    def shares(self) -> list[float]:
        """Win, draw and loss of side 0."""
        return [float(np.mean(self.winner == outcome)) for outcome in (0, 2, 1)]


@cache
def play(a: str, b: str, pairs: tuple = ALL, board: str = "standard", mission: str = "hold") -> Played:
    """Battles of player a (side 0) against b, the pairs of rosters in turn."""
    settings = settings_from_tree({"mission": mission, "zone": 10 if board == "small" else 15})
    rules = Rules([load_map(board)], [(load_roster(x), load_roster(y)) for x, y in pairs], settings)
    bots = BOT_NAMES.index(a), BOT_NAMES.index(b)
    rows = []
    for slot in range(OURS):
        battle = Battle(rules, seed=15, slot=slot)
        while not battle.over:
            battle.step(battle.bot(bots[battle.side]))
        result = battle.result()
        winner = 2 if result["winner"] is None else result["winner"]
        head = (winner, result["end"], result["vp"], result["round"])
        rows.append((*head, result["decisions"], battle.dice, battle.first, battle.left))
    return Played(*(np.asarray(column) for column in zip(*rows, strict=True)))


def near_share(ours: float, reference: float, theirs: int, count: int = OURS) -> None:
    """A share of `count` battles here against one of `theirs` battles there."""
    pooled = (ours * count + reference * theirs + 1) / (count + theirs + 2)
    error = np.sqrt(pooled * (1 - pooled) * (1 / count + 1 / theirs))
    assert abs(ours - reference) <= 3 * error + 0.005, (ours, reference, error)  # two decimals are given


def near_mean(values: np.ndarray, reference: float, theirs: int, digit: float) -> None:
    """A mean here against one of `theirs` battles there, given to a `digit`."""
    error = np.std(values) * np.sqrt(1 / len(values) + 1 / theirs)
    assert abs(np.mean(values) - reference) <= 3 * error + digit / 2, (np.mean(values), reference, error)


@pytest.mark.parametrize(
    ("player", "mission", "shares", "vp", "decisions"),
    [
        ("random", "hold", (0.25, 0.57, 0.18), (2.5, 1.9), 67),
        ("balanced", "hold", (1.00, 0, 0), (40.6, 1.3), 88),
        ("aggressor", "hold", (0.99, 0.01, 0), (23.5, 0.9), 101),
        ("gunline", "hold", (0.99, 0.01, 0), (31.8, 1.7), 89),
        ("objective", "hold", (1.00, 0, 0), (42.1, 1.4), 84),
        ("turtle", "hold", (0.99, 0.01, 0), (36.5, 1.7), 77),
        ("balanced", "annihilation", (0.90, 0, 0.10), (3.3, 0.6), 100),
    ],
)
def test_against_random(player: str, mission: str, shares: tuple, vp: tuple, decisions: int) -> None:
    played = play(player, "random", mission=mission)
    for ours, reference in zip(played.shares, shares, strict=True):
        near_share(ours, reference, 100)
    for side in range(2):
        near_mean(played.vp[:, side], vp[side], 100, 0.1)
    near_mean(played.decisions, decisions, 100, 1)


@pytest.mark.parametrize(
    ("a", "b", "shares"),
    [
        ("balanced", "aggressor", (0.53, 0.10, 0.37)),
        ("balanced", "gunline", (0.64, 0.10, 0.26)),
        ("balanced", "objective", (0.44, 0.14, 0.42)),
        ("balanced", "turtle", (0.59, 0.14, 0.27)),
        ("aggressor", "gunline", (0.50, 0.20, 0.30)),
        ("aggressor", "objective", (0.33, 0.10, 0.57)),
        ("aggressor", "turtle", (0.43, 0.17, 0.40)),
        ("gunline", "objective", (0.21, 0.18, 0.61)),
        ("gunline", "turtle", (0.39, 0.17, 0.44)),
        ("objective", "turtle", (0.63, 0.14, 0.23)),
    ],
)
def test_style_against_style(a: str, b: str, shares: tuple) -> None:
    played = play(a, b, SAME)
    for ours, reference in zip(played.shares, shares, strict=True):
        near_share(ours, reference, 100)


def test_balanced_against_itself() -> None:
    played = play("balanced", "balanced", SAME)
    for ours, reference in zip(played.shares, (0.48, 0.13, 0.39), strict=True):
        near_share(ours, reference, 200)
    for side, reference in enumerate((29.8, 28.4)):
        near_mean(played.vp[:, side], reference, 200, 0.1)
    near_mean(played.decisions, 106, 200, 1)
    near_mean(played.dice, 661, 200, 1)
    near_share(float(np.mean(played.end != 3)), 0.10, 200)


@pytest.mark.parametrize(
    ("pair", "shares"),
    [
        (("line", "horde"), (0.62, 0.08, 0.30)),
        (("line", "walkers"), (0.58, 0.15, 0.27)),
        (("horde", "walkers"), (0.18, 0.14, 0.68)),
    ],
)
def test_rosters_of_equal_players(pair: tuple, shares: tuple) -> None:
    played = play("balanced", "balanced", (pair,))
    for ours, reference in zip(played.shares, shares, strict=True):
        near_share(ours, reference, 100)


@pytest.mark.parametrize(
    ("board", "theirs", "shares", "wiped_out", "rounds", "decisions"),
    [
        ("centre", 100, (0.40, 0.10, 0.50), 0.53, 4.8, 102),
        ("walled", 100, (0.43, 0.23, 0.34), None, None, 112),
        ("small", 600, (0.49, 0.04, 0.46), 0.72, 4.4, 89),
    ],
)
def test_other_maps(board: str, theirs: int, shares: tuple, wiped_out, rounds, decisions: int) -> None:
    played = play("balanced", "balanced", SAME, board)
    for ours, reference in zip(played.shares, shares, strict=True):
        near_share(ours, reference, theirs)
    near_mean(played.decisions, decisions, theirs, 1)
    if wiped_out is not None:
        near_share(float(np.mean(played.end != 3)), wiped_out, theirs)
        near_mean(played.rounds, rounds, theirs, 0.1)
    if board == "small":
        near_mean(played.vp[:, 0] - played.vp[:, 1], 0.0, theirs, 0.1)
        decided = played.winner != 2
        near_share(float(np.mean((played.winner == played.first)[decided])), 321 / 573, 573, int(decided.sum()))
        near_share(float(np.mean((played.winner == played.left)[decided])), 267 / 573, 573, int(decided.sum()))


def test_first_turn() -> None:
    """How often the side with the first turn won a decided battle: of the ten pairings of styles, and of equal ones."""

    def wins(games: list[Played]) -> tuple[float, int]:
        winner, first = (np.concatenate([getattr(played, name) for played in games]) for name in ("winner", "first"))
        decided = winner != 2
        return float(np.mean((winner == first)[decided])), int(decided.sum())

    pairings = [play(a, b, SAME) for i, a in enumerate(STYLES) for b in STYLES[i + 1 :]]
    assert len(pairings) == 10
    share, count = wins(pairings)
    near_share(share, 474 / 856, 856, count)
    share, count = wins([play("balanced", "balanced", SAME)])
    near_share(share, 90 / 174, 174, count)
    share, count = wins([play("balanced", "balanced", SAME, mission="annihilation")])
    near_share(share, 42 / 100, 100, count)
    for played in pairings:
        assert 90 <= np.mean(played.decisions) <= 115 and 520 <= np.mean(played.dice) <= 790
        assert np.mean(played.rounds) == pytest.approx(5.0, abs=0.15)
