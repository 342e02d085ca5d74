"""What the battle engine remembers of a position (distances, who can fire, objectives, shares) after every change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.battle.settings import settings_from_tree

MOVE, FALL_BACK, SHOOT, CHARGE, FIGHT, SNAP, PROTECT, COUNTER = range(8)


@pytest.mark.parametrize("board", ["standard", "walled", "small"])
def test_nothing_is_stale_after_a_step(board):
    """Whole battles, with everything cached before every step: whatever it changes, nothing is stale after it."""
    rosters = [load_roster(name) for name in ("line", "horde", "walkers")]
    pairs = [(a, b) for a in rosters for b in rosters]
    settings = settings_from_tree({"zone": 10 if board == "small" else 15})
    rules = Rules([load_map(board)], pairs, settings)
    seen: set[tuple[int, str]] = set()
    for episode in range(4 * len(pairs)):
        battle = Battle(rules, seed=11, episode=episode)
        while not battle.over:
            battle.check_caches()
            kind, before = battle.kind, battle.state()[4]
            battle.step(battle.bot((2, episode % 6)[battle.side]))  # an aggressor; random and all styles in turn
            battle.check_caches()
            seen |= {(kind, change) for change in changes(before, battle.state()[4])}
    assert seen >= {(MOVE, "moved"), (FALL_BACK, "moved"), (CHARGE, "moved"), (COUNTER, "moved")}
    assert seen >= {(kind, change) for kind in (SHOOT, PROTECT, SNAP, FIGHT) for change in ("hurt", "fewer", "gone")}
    assert {change for _, change in seen} == {"moved", "hurt", "fewer", "gone", "healed", "more"}


def changes(before: list, after: list) -> Iterator[str]:
    """What happened to the units of both sides."""
    for old, new in zip(before[0] + before[1], after[0] + after[1], strict=True):
        if new[0] and new[3][0] != old[3][0]:
            yield "moved"
        if new[0] != old[0]:
            yield "gone" if not new[0] else "fewer" if new[0] < old[0] else "more"
        elif new[1] != old[1]:
            yield "hurt" if new[1] < old[1] else "healed"
