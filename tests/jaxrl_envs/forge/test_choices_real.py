"""Every choice that decides is asked, on a real engine: needs FORGE_HOME, and is skipped without it. Minutes."""

from __future__ import annotations

import pytest

from tests.support.forge.play import forge_home
from tests.support.forge.soak import OWN, soak


@pytest.mark.slow
def test_games_of_decks_with_all_that_is_rare():
    """No errors, nothing hidden is told, the same lines in another launch, and hardly a choice is left to the AI."""
    found = soak(forge_home(), 14, seed=1000, names=sorted(path.stem for path in OWN.glob("*.dck")))
    assert not found.problems, found.problems
    assert found.asked > 1000 and found.share < 0.01, found
    assert found.kinds["for another player"] > 0 and found.kinds["help to pay"] > 0
