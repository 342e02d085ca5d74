"""The story of a recorded game: every kind of decision in words, and what changed between two decisions."""

from __future__ import annotations

import argparse
import json

import pytest

from jaxrl.envs.errors import UserError
from jaxrl.envs.forge.people import story
from jaxrl.envs.forge.people.recording import Conversation, Writer
from tests.forge.conversations import made_up

NAMED = [{"index": 0, "kind": "card", "id": 7, "name": "Bear"}, {"index": 1, "kind": "text", "description": "draw"}]
ACTIONS = [
    {"index": 0, "card": "Forest", "is_land": True, "kind": "land"},
    {"index": 1, "card": "Bear", "kind": "spell"},
    {"index": 2, "card": "Elf", "kind": "ability", "description": "add G"},
]
ATTACKERS = [{"name": "Bear", "defenders": [{"kind": "player", "name": "B"}, {"kind": "card", "name": "Jace"}]}]


@pytest.mark.parametrize(
    ("kind", "fields", "answer", "expected"),
    [
        ("choose_action", {"actions": ACTIONS}, "-1", ""),
        ("choose_action", {"actions": ACTIONS}, "0", "plays Forest"),
        ("choose_action", {"actions": ACTIONS}, "1", "casts Bear"),
        ("choose_action", {"actions": ACTIONS}, "2", "activates Elf: add G"),
        ("choose_action", {"actions": ACTIONS}, "9", "answers '9' (choose_action)"),
        ("choose_action", {"actions": ACTIONS}, "ai", "leaves it to Forge (choose_action)"),
        ("choose_action", {}, "ai! Reckless", "is played by Forge from here on (Reckless)"),
        ("choose_action", {}, "ai!", "is played by Forge from here on (default)"),
        ("choose_targets", {"options": NAMED, "source": {"name": "Bolt"}}, "0,1", "targets Bear, draw for Bolt"),
        ("choose_targets", {"options": NAMED}, "", "targets nothing"),
        ("choose_mode", {"options": NAMED}, "1,1", "chooses draw, draw"),
        ("declare_attackers", {"attackers": ATTACKERS}, "", ""),
        ("declare_attackers", {"attackers": ATTACKERS}, "0", "attacks with Bear"),
        ("declare_attackers", {"attackers": ATTACKERS}, "0:1", "attacks with Bear at Jace"),
        ("declare_blockers", {"attackers": ATTACKERS, "blockers": [{"name": "Wall"}]}, "0:0", "blocks Bear with Wall"),
        ("choose_entity", {"options": NAMED}, "-1", "chooses nothing"),
        ("confirm_action", {"message": "Draw?"}, "y", "says yes (Draw?)"),
        ("play_trigger", {"source": {"name": "Elf"}}, "n", "says no for Elf"),
        ("announce_value", {"name": "X"}, "3", "chooses X = 3"),
        ("order", {"options": NAMED}, "1,0", "orders draw, Bear"),
        ("scry", {"options": NAMED, "bottom": "graveyard"}, "0", "looks at 2 cards and puts 1 into the graveyard"),
        ("mulligan", {"hand_size": 6}, "y", "takes a mulligan with 6 cards"),
        ("choose_wisely", {}, "x", "answers 'x' (choose_wisely)"),
        ("confirm_action", {}, None, "decides something (confirm_action)"),
    ],
)
def test_decisions_in_words(kind, fields, answer, expected):
    assert story.deed({"decision_type": kind, **fields}, answer) == expected


def state(turn, life, battlefield=(), graveyard=()):
    def cards(names):
        return [{"id": hash(name) % 1000, "name": name, "types": "Creature"} for name in names]

    player = {"hand_size": 7, "exile": []}
    zones = {"battlefield": cards(battlefield), "graveyard": cards(graveyard)}
    players = [
        {"seat": 0, "name": "A", "life": 20} | zones | player,
        {"seat": 1, "name": "B", "life": life, "battlefield": [], "graveyard": []} | player,
    ]
    return {"turn": turn, "active": turn % 2, "players": players, "stack": []}


def test_what_changed_between_decisions():
    fields = {"decision_type": "choose_action", "player": "A", "phase": "MAIN1", "actions": ACTIONS}
    states = [state(1, 20), state(1, 20, ["Bear"]), state(3, 18, ["Bear"]), state(3, 18, [], ["Bear"])]
    lines = [b"> NEWGAME a b -i"]
    for each, answer in zip(states, [b"1", b"-1", b"-1", b"-1"], strict=True):
        lines += [b"< DECISION:" + json.dumps(fields | {"game_state": each}).encode(), b"> " + answer]
    game = Conversation({"decks": ["a", "x/b.dck"], "seed": 5}, [*lines, b"< GAME_RESULT: A won in 1ms"], True)
    assert list(story.story(game)) == [
        "a vs b, seed 5",
        "Turn 1, B: life 20-20, hand 7-7, lands 0-0",
        "  MAIN1  A casts Bear",
        "         Bear enters the battlefield (A)",
        "         B: life 20 -> 18",
        "Turn 3, B: life 20-18, hand 7-7, lands 0-0",
        "         Bear goes to the graveyard (A)",
        "Result: A won in 1ms",
    ]
    assert sum("passes" in line for line in story.story(game, passes=True)) == 3


def test_the_command(tmp_path, capsys):
    with Writer(tmp_path / "games.forge.gz") as writer:
        for seed in (1, 2, 3):
            writer.copy(made_up(seed=seed))
    arguments = argparse.Namespace(paths=[tmp_path], game=2, passes=False)
    assert story.main(arguments) == 0
    assert capsys.readouterr().out.startswith("a vs b, seed 2, Forge 1.0\n")
    arguments.game = 4
    with pytest.raises(UserError, match="there are 3 games"):
        story.main(arguments)
    (tmp_path / "empty.forge.gz").write_bytes(b"")
    with pytest.raises(UserError, match="there is no game in .*empty"):
        story.main(argparse.Namespace(paths=[tmp_path / "empty.forge.gz"], game=None, passes=False))
