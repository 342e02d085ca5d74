"""The bound of what can be won: scripts/beasty_bar_bound.py."""

from __future__ import annotations

import jax
import pytest

from scripts import beasty_bar_bound


@pytest.mark.thorough
def test_who_knows_the_deal_and_the_bot_finds_a_win(monkeypatch):
    monkeypatch.setattr(beasty_bar_bound, "BATCH", 512)
    lost, needed = beasty_bar_bound.Lines(["distilled"]).lost(0, 4, 4096, jax.random.key(0))
    assert lost == 0 and 128 <= needed <= 4096
