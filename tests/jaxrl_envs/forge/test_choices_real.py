"""Every choice that decides is asked, on a real engine: needs FORGE_HOME, and is skipped without it. Minutes."""

from __future__ import annotations

import collections
import json
import shutil

import pytest

from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import record_ai
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.conversations import OWN
from tests.support.forge.fixtures import SECONDS, RandomPlayer
from tests.support.forge.hidden import leaks
from tests.support.forge.play import forge_home

GAMES = 14
HELP = ("Exile with delve", "Tap for convoke", "Tap for improvise")  # questions in the midst of a payment
PAYMENT = "payment"  # with which sources of mana is left to the engine, and not counted


@pytest.mark.slow
def test_games_of_decks_with_all_that_is_rare(tmp_path):
    """No errors, nothing hidden is told, the same lines in another launch, and hardly a choice is left to the AI.

    The decks have what is rare: modes, X, split second, copies, morphs, delve, convoke, costs that sacrifice, votes,
    players who control each other.
    """
    for path in (*OWN.glob("*.dck"), *DECKS.glob("*.dck")):
        shutil.copy(path, tmp_path)
    names = sorted(path.stem for path in OWN.glob("*.dck"))
    launches = []
    for _ in range(2):
        given = Deployment(home=forge_home(), daemons=1, decks=str(tmp_path), heap_mb=600, start_timeout=600.0)
        with Fleet(given) as fleet:
            launches.append([game_of(fleet, names, number) for number in range(GAMES)])
    for game, again in zip(*launches, strict=True):
        assert leaks(game) == []
        assert not [line for line in game.lines if line.startswith((b"< ERROR", b"< GAME_ERROR", b"< GAME_TIMEOUT"))]
        assert game.lines[:-1] == again.lines[:-1], "the last one has the time"
    said = [line for game in launches[0] for line in game.lines if line.startswith((b"< DECISION:", b"< INFO:"))]
    lines = [json.loads(line.partition(b":")[2]) for line in said]
    left = [line for line in lines if line.get("info_type") == "left"]
    choices = sum((collections.Counter(line["choices"]) for line in left), collections.Counter())
    asked = sum(line["asked"] for line in left)
    assert asked > 1000 and choices.total() - choices[PAYMENT] < 0.01 * asked, choices
    assert any("for" in line for line in lines) and any(line.get("message") in HELP for line in lines)


def game_of(fleet, names, number):
    """A game of random players: each deck against itself first, then against the next one."""
    first, second = names[number % len(names)], names[(number + number // len(names)) % len(names)]
    seed = 1000 + number
    return record_ai.play(fleet, f"NEWGAME {first} {second} -i -a -q -s {seed}", SECONDS, RandomPlayer(seed))
