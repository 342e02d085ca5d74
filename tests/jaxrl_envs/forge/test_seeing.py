"""What a seat gets to see, with the engine itself: what cards do, hidden cards that it knows, advice.

For those who have it: set FORGE_HOME.
"""

from __future__ import annotations

import collections
import json
import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.conversations import OWN
from tests.support.forge.fixtures import RandomPlayer, converse
from tests.support.forge.hidden import leaks

pytestmark = pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decks")
    for path in (*DECKS.glob("*.dck"), *OWN.glob("*.dck")):
        shutil.copy(path, folder)
    with Fleet(Deployment(daemons=1, start_timeout=300.0, decks=str(folder))) as found:
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
    games = ("-i -a", ("walkers", "counterspells")), ("-o -a", ("xcosts", "tokens")), ("-i -a", ("hybrids", "hybrids"))
    for options, (a, b) in games:
        lines, introduced = (
            told(converse(fleet, f"NEWGAME {a} {b} {options} -s 3", RandomPlayer(3), strip=False)),
            set(),
        )
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
    least = {"Dismember": 1, "Gut Shot": 0, "Kitchen Finks": 3, "Fire // Ice": 2, "Bonecrusher Giant": 2}
    met = least.keys() & facts.keys()
    assert len(met) > 3 and {name: facts[name].get("least") for name in met} == {name: least[name] for name in met}
    for name, each in facts.items():
        assert each["parts"] or not each["pips"], name  # a spell does something
        assert each.keys() - {"least"} == {"pips", "cmc", "produces", "parts"}


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


# ---- hidden cards that are known ------------------------------------------------------------------------------------


class Looker(RandomPlayer):
    """Casts what looks at cards whenever it can, otherwise anything."""

    LOOKS = ("Peek", "Duress", "Opt", "Preordain", "Temporal Spring", "Unsummon", "Diabolic Tutor")

    def choose_action(self, decision: Json) -> str:
        found = [
            each["index"] for each in decision["actions"] if each["card"] in self.LOOKS and self.draw.random() < 0.7
        ]
        return str(self.draw.choice(found)) if found else super().choose_action(decision)


def followed(lines: list[Json]) -> collections.Counter[str]:
    """What is known of where, over all questions; that it is true is looked at by `leaks`."""
    seen: collections.Counter[str] = collections.Counter()
    for line in lines:
        for card in line.get("game_state", {}).get("known", ()):
            assert card["name"] and card["types"] and card["id"] < 1_000_000
            own, library = card["owner"] == line["seat"], card["zone"] == "Library"
            assert library or (not own and "position" not in card)
            size = line["game_state"]["players"][card["owner"]]["library_size"]
            assert not library or -size <= card.get("position", 0) < size
            seen[f"{card['zone']} of {'its own' if own else 'the other'}"] += 1
    return seen


def test_a_hand_that_was_looked_at_is_known_until_it_changes(fleet):
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(6):
        game = converse(fleet, f"NEWGAME looks returns -i -a -m -s {seed}", Looker(seed), strip=False)
        lines = told(game)
        seen += followed(lines)
        assert leaks(game) == []
        seen += looks(lines)
    assert seen["Hand of the other"] > 50, seen
    assert seen["Library of its own"] > 5 and seen["looked at a hand"] > 2 and seen["shuffled"] > 0, seen


def looks(lines: list[Json]) -> collections.Counter[str]:
    """A hand that is revealed is known at the next question; after a search nothing is known of the library."""
    seen: collections.Counter[str] = collections.Counter()
    for place, line in enumerate(lines):
        following = next((each for each in lines[place + 1 :] if "game_state" in each), {})
        if not following or line.get("seat") != following["seat"]:
            continue
        known = {card["id"]: card for card in following["game_state"]["known"]}
        players = following["game_state"]["players"]
        if line.get("info_type") == "reveal" and line["zone"] == "Hand" and line["owner"] != line["seat"]:
            if players[line["owner"]]["hand_size"] >= len(line["cards"]):  # else one is discarded, or played
                assert {card["id"] for card in line["cards"]} <= known.keys(), line
                seen["looked at a hand"] += 1
        if line.get("source", {}).get("name") == "Diabolic Tutor":
            assert not [each for each in known.values() if each["zone"] == "Library" and each["owner"] == line["seat"]]
            seen["shuffled"] += 1
    return seen


# ---- advice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [("aggro", "returns"), ("modal", "looks")])
def test_advice_changes_nothing(fleet, a, b):
    """The same game with and without, line by line; and what is advised can be answered."""
    games = [
        converse(fleet, f"NEWGAME {a} {b} -i -a {option} -s 11", RandomPlayer(11), strip=False) for option in ("", "-v")
    ]
    plain, advised = ([line for line in game.lines[1:] if b"GAME_RESULT" not in line] for game in games)
    cut = re.compile(rb',"advice":(null|"[^"]*")}$')
    assert [cut.sub(b"}", line) for line in advised] == plain
    advice = [line["advice"] for line in told(games[1]) if "decision_id" in line]
    assert sum(each is None for each in advice) < 0.1 * len(advice)
    obeyed = converse(fleet, f"NEWGAME {a} {b} -i -a -v -s 11", Obedient(11), strip=False)
    assert not [line for line in obeyed.lines if line.startswith(b"< ERROR:")]


class Obedient(RandomPlayer):
    """Does as it is advised."""

    def __call__(self, decision: Json) -> str:
        return super().__call__(decision) if decision["advice"] is None else decision["advice"]
