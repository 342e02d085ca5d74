"""What a seat gets to see, with the engine itself: what cards do, by their names. For those who have it: set FORGE_HOME."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from jaxrl.envs.forge.fleet.fleet import Fleet
from jaxrl.envs.forge.people.recording import Conversation
from jaxrl.envs.forge.settings import Deployment
from tests.forge.fixtures import RandomPlayer, converse

pytestmark = pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def fleet():
    with Fleet(Deployment(daemons=1, start_timeout=300.0)) as found:
        yield found


def told(game: Conversation) -> list[Json]:
    """All that the daemon said in JSON."""
    heads = (b"< DECISION:", b"< INFO:")
    return [json.loads(line.partition(b":")[2]) for line in game.lines if line.startswith(heads)]


def names_in(value: Any) -> Iterator[str]:
    """The names of cards in a line."""
    if isinstance(value, dict):
        is_player = "life" in value or value.get("kind") in ("player", "color")
        for key, each in value.items():
            if key in ("name", "card") and isinstance(each, str) and not is_player:
                yield each
            elif key != "defender":
                yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


def test_what_a_card_does_is_told_once_and_before_it_is_named(fleet):
    facts: dict[str, Json] = {}
    for options, (a, b) in (("-i -a", ("walkers", "counterspells")), ("-o -a", ("xcosts", "tokens"))):
        lines, introduced = told(converse(fleet, f"NEWGAME {a} {b} {options} -s 3", RandomPlayer(3), strip=False)), set()
        for place, line in enumerate(lines):
            if line.get("info_type") == "facts":
                assert line["card"] not in introduced
                introduced.add(line["card"])
                assert facts.setdefault(line["card"], line["facts"]) == line["facts"]  # whatever the game
                following = next(each for each in lines[place:] if each.get("info_type") != "facts")
                assert line["card"] in json.dumps(following, ensure_ascii=False)
            elif line.get("info_type") != "left":
                unknown = {name for name in names_in(line) if name} - introduced
                unknown -= {line["player"], line["name"]} if line.get("decision_type") == "announce_value" else set()
                assert not unknown, (unknown, line)
    assert len(facts) > 40
    for name, each in facts.items():
        assert each["parts"] or not each["pips"], name  # a spell does something
        assert each.keys() == {"pips", "cmc", "produces", "parts"}


def test_actions_say_which_part_of_the_card_they_use(fleet):
    lines = told(converse(fleet, "NEWGAME walkers xcosts -i -a -s 5", RandomPlayer(5), strip=False))
    facts = {line["card"]: line["facts"]["parts"] for line in lines if line.get("info_type") == "facts"}
    actions = [each for line in lines for each in line.get("actions", ())]
    for action in actions:
        assert (action["part"] == -1) == action["is_land"], action
        if action["part"] >= 0:
            part = facts[action["card"]][action["part"]]
            assert part["kind"] == {"spell": "spell", "ability": "activated"}[action["kind"]] and not part.get("after")
    assert {facts[each["card"]][each["part"]]["api"] for each in actions if each["part"] >= 0} > {"PermanentCreature"}
