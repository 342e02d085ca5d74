"""Hidden information: no line to a seat tells of a card in the other hand or in a library."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.conversations import RECORDED
from tests.support.forge.fixtures import RandomPlayer, converse, without_texts
from tests.support.forge.hidden import hand_around, leaks, lines_of

BOTH = ("both_seats", "every_pass", "mulligans", "handed_over", "refused")
GAMES = [
    pytest.param(game, id=f"{name}-{number}")
    for name in BOTH
    for number, game in enumerate(recording.read(RECORDED / f"{name}.forge.gz"))
]


@pytest.mark.parametrize("game", GAMES)
def test_recorded_games_hide_what_is_hidden(game):
    assert leaks(game) == []


@pytest.mark.parametrize("name", ["against_ai", "observed"])
def test_views_of_one_seat_show_no_other_hand(name):
    for game in recording.read(RECORDED / f"{name}.forge.gz"):
        lines = [line for line in lines_of(game) if line.state]
        assert lines
        for line in lines:
            you, other = sorted(line.state["players"], key=lambda player: player["seat"] != line.seat)
            assert "hand" in you and "hand" not in other and line.state["you"] == line.seat
            assert "library" not in you and "library" not in other
            assert len(you["hand"]) == you["hand_size"]


def test_rules_texts_stay_out_of_the_repository():
    for path in recording.find([RECORDED]):
        for game in recording.read(path):
            for line in lines_of(game):
                assert without_texts(line.fields) == line.fields


# ---- the check finds what it should ---------------------------------------------------------------------------------


def changed(game: Conversation, change: Callable[[Any, dict[int, str]], bool]) -> Conversation:
    """A conversation in which the first decision that `change` can be made to was changed."""
    lines = lines_of(game)
    for place, line in enumerate(lines):
        if line.asks and change(line.fields, hand_around(lines, place, 1 - line.seat)):
            text = line.text[: line.text.index(":") + 1] + json.dumps(line.fields, separators=(",", ":"))
            return game._replace(
                lines=[*game.lines[: line.number], b"< " + text.encode(), *game.lines[line.number + 1 :]]
            )
    raise AssertionError("nothing to change")


def shows_a_hand(fields, hidden):
    other = fields["game_state"]["players"][1 - fields["seat"]]
    other["hand"] = []
    return True


def shows_a_library(fields, hidden):
    fields["game_state"]["players"][fields["seat"]]["library"] = [1, 2]
    return True


def attaches_a_hidden_card(fields, hidden):
    for player in fields["game_state"]["players"]:
        if player["battlefield"] and hidden:
            player["battlefield"][0]["attachments"].append(min(hidden))
            return True
    return False


def knows_a_card_that_it_was_not_shown(fields, hidden):
    for card, name in hidden.items():
        known = {"id": card, "name": name, "zone": "Hand", "owner": 1 - fields["seat"]}
        fields["game_state"]["known"] = [known]
        return True
    return False


def targets_a_card_of_the_library(fields, hidden):
    if fields["decision_type"] != "choose_targets":
        return False
    fields["options"].append({"index": 9, "kind": "card", "id": 117, "name": "Shock"})
    return fields["decision_id"] < 30


def names_a_hidden_card(fields, hidden):
    for name in hidden.values():
        if name not in json.dumps(fields):
            fields["actions"] = [{"index": 0, "description": f"Counter {name}.", "card_id": -1}]
            return True
    return False


@pytest.mark.parametrize(
    "change",
    [
        shows_a_hand,
        shows_a_library,
        attaches_a_hidden_card,
        knows_a_card_that_it_was_not_shown,
        targets_a_card_of_the_library,
        names_a_hidden_card,
    ],
)
def test_the_check_finds_a_leak(change):
    game = next(recording.read(RECORDED / "both_seats.forge.gz"))
    assert leaks(changed(game, change))


# ---- a real engine --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set: there is no Forge to play with")
def test_real_games_hide_what_is_hidden():
    """With all texts, which the recorded conversations lack; mulligans are asked, so that every hand is shown."""
    with Fleet(Deployment(daemons=1)) as fleet:
        for seed, (a, b) in enumerate((("aggro", "counterspells"), ("walkers", "tokens"), ("xcosts", "creatures"))):
            game = converse(fleet, f"NEWGAME {a} {b} -i -a -m -s {seed}", RandomPlayer(seed), strip=False)
            assert leaks(game) == []
