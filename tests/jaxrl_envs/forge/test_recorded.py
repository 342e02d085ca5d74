"""A real daemon says what was recorded, byte by byte but for times and texts, with its short cuts and without them.

Needs FORGE_HOME.
"""

from __future__ import annotations

import os
import re

import pytest

from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.conversations import RECORDED
from tests.support.forge.fixtures import converse

NAMES = ("both_seats", "against_ai", "handed_over", "mulligans", "observed", "refused")


@pytest.fixture(scope="module", params=[False, True], ids=["short cuts", "stock"])
def fleet(request):
    if not os.environ.get("FORGE_HOME"):
        pytest.skip("FORGE_HOME is not set: there is no Forge to play with")
    with Fleet(Deployment(daemons=1, stock=request.param)) as fleet:
        yield fleet


def timeless(conversation):
    """The lines, without the time that the game took."""
    return [re.sub(rb" in \d+ms$", b"", line) for line in conversation.lines]


@pytest.mark.parametrize("name", NAMES)
def test_the_daemon_says_what_was_recorded(fleet, name):
    for game in recording.read(RECORDED / f"{name}.forge.gz"):
        says_it_again(fleet, game)


def says_it_again(fleet, game):
    answers = iter([line[2:].decode() for line in game.lines[1:] if line.startswith(b"> ")])
    found = converse(fleet, game.lines[0][2:].decode(), lambda decision: next(answers, "ai"))
    if found.meta["forge"] != game.meta["forge"]:
        pytest.skip(f"recorded with Forge {game.meta['forge']}, this is {found.meta['forge']}")
    assert timeless(found) == timeless(game), "record again: python -m tests.support.forge.fixtures"
