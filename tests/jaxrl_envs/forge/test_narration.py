"""Recorded games in words: every kind of decision, and what changed between two of them."""

from __future__ import annotations

import argparse
import json

import pytest

from jaxrl_envs.forge.display import narration, terminal
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.recordings.recording import Conversation, Writer
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.conversations import made_up

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
        ("choose_action", {"actions": ACTIONS}, "2", "activates Elf: add G"),
        ("choose_action", {"actions": ACTIONS}, "ai", "leaves it to Forge (choose_action)"),
        ("choose_action", {}, "ai! Reckless", "is played by Forge from here on (Reckless)"),
        ("choose_targets", {"options": NAMED, "source": {"name": "Bolt"}}, "0,1", "targets Bear, draw for Bolt"),
        ("choose_mode", {"options": NAMED}, "1,1", "chooses draw, draw"),
        ("declare_attackers", {"attackers": ATTACKERS}, "0:1", "attacks with Bear at Jace"),
        ("declare_blockers", {"attackers": ATTACKERS, "blockers": [{"name": "Wall"}]}, "0:0", "blocks Bear with Wall"),
        ("confirm_action", {"message": "Draw?"}, "y", "says yes (Draw?)"),
        ("order", {"options": NAMED}, "1,0", "orders draw, Bear"),
        ("scry", {"options": NAMED, "bottom": "graveyard"}, "0", "looks at 2 cards and puts 1 into the graveyard"),
        ("mulligan", {"hand_size": 6}, "y", "takes a mulligan with 6 cards"),
        ("choose_wisely", {}, "x", "answers 'x' (choose_wisely)"),
    ],
)
def test_decisions_in_words(kind, fields, answer, expected):
    assert narration.action_text({"decision_type": kind, **fields}, answer) == expected


FIGHT = {
    "attackers": [{"index": 0, "card_id": 1, "name": "Bear", "min_blockers": 1, "max_blockers": 0} | ATTACKERS[0]],
    "blockers": [{"index": 0, "card_id": 2, "name": "Wall", "can_block": [0]}],
}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("choose_action", {"actions": ACTIONS}, ["passes", "plays Forest", "casts Bear", "activates Elf: add G"]),
        ("confirm_action", {"message": "Draw?", "source": {"name": "Elf"}}, ["says no", "says yes"]),
        ("choose_targets", {"options": NAMED, "min": 0, "max": 1}, ["chooses no more", "targets Bear", "targets draw"]),
        ("order", {"options": NAMED}, ["orders Bear", "orders draw"]),
        ("declare_attackers", FIGHT, ["keeps Bear back", "attacks with Bear", "attacks with Bear at Jace"]),
        ("declare_blockers", FIGHT, ["does not block with Wall", "blocks Bear with Wall"]),
    ],
)
def test_the_actions_of_a_question_in_words(kind, fields, expected):
    """Without what stands above them in the question."""
    decision = {"decision_type": kind, "seat": 0, "game_state": {}, **fields}
    question = ForgeDecision(json.dumps(decision))
    assert [terminal.label(question, action) for action in question.legal] == expected


BEAR = {"id": 7, "name": "Bear", "types": "Creature", "power": 2, "toughness": 2}
BOLT = {"id": 3, "name": "Bolt", "types": "Instant"}


def seen(seat, turn=1, hand=(), battlefield=(), life=20, stack=(), graveyard=(), size=7, library=50):
    """A decision of a seat; zones are those of seat 0, life, hand and library those of seat 1."""
    own = {"seat": 0, "name": "Agent(1)-a", "life": 20, "battlefield": list(battlefield), "graveyard": list(graveyard)}
    other = {"seat": 1, "name": "Agent(2)-b", "life": life, "battlefield": [], "graveyard": []}
    players = [own | {"hand_size": 7, "library_size": 50}, other | {"hand_size": size, "library_size": library}]
    players = [each | {"exile": []} for each in players]
    players[seat]["hand"] = list(hand)
    state = {"turn": turn, "active": 0, "players": players, "stack": list(stack), "combat": []}
    actions = [{"index": 0, "card": "Bolt", "card_id": 3, "kind": "spell", "mana_cost": "{R}", "is_land": False}]
    fields = {"decision_type": "choose_action", "seat": seat, "player": players[seat]["name"], "phase": "MAIN1"}
    return fields | {"actions": actions, "game_state": state}


def told(*lines, players=None):
    """The story of decisions with their answers, without its first and last line."""
    recorded = [b"> NEWGAME a b -i"]
    for line, answer in lines:
        recorded += [b"< DECISION:" + json.dumps(line, separators=(",", ":")).encode(), b"> " + answer]
    game = Conversation({"decks": ["a", "b"]} | ({"players": players} if players else {}), recorded, False)
    return list(narration.told(game))[1:-1]


def test_a_spell_is_told_when_it_is_cast_and_by_its_effects():
    """Its targets are chosen before it is on the stack; a card that was seen in public is not drawn."""
    target = {"index": 0, "kind": "player", "id": 1, "name": "Agent(2)-b"}
    aim = seen(0, battlefield=[BEAR], hand=[BOLT]) | {"decision_type": "choose_targets", "options": [target]}
    aim |= {"source": {"card_id": 3, "name": "Bolt"}}
    bolt = {"card_id": 3, "name": "Bolt", "controller": 0, "targets": [target], "kind": "spell"}
    on_stack = seen(0, battlefield=[BEAR], stack=[bolt])
    after = seen(0, 3, hand=[BEAR], life=17, graveyard=[BOLT])
    lines = [(seen(0, battlefield=[BEAR], hand=[BOLT]), b"0"), (aim, b"0"), (on_stack, b"-1"), (after, b"-1")]
    assert told(*lines, players=["learner", "random"]) == [
        "Turn 1, learner: life 20-20, hand 7-7, lands 0-0",
        "  MAIN1  learner casts Bolt for {R}",
        "  MAIN1  learner targets random for Bolt",
        "         random: life 20 -> 17",
        "         Bolt goes to the graveyard (learner)",
        "         Bear leaves the battlefield",
        "Turn 3, learner: life 20-17, hand 7-7, lands 0-0",
    ]


def test_what_is_drawn_and_put_on_the_stack():
    trigger = {"card_id": 7, "name": "Bear", "controller": 0, "description": "draw", "kind": "trigger", "targets": []}
    bolt = {"card_id": 3, "name": "Bolt", "controller": 1, "targets": [{"kind": "player", "id": 0}], "kind": "spell"}
    lines = [
        (seen(0, hand=[BOLT]), b"-1"),
        (seen(0, hand=[BOLT, BEAR], stack=[bolt, trigger], size=8, library=49), b"-1"),
    ]
    assert told(*lines, players=["main", "Forge"])[1:] == [
        "         main draws Bear",
        "         Forge draws 1 card",
        "         main has a trigger of Bear: draw",
        "         Forge casts Bolt -> main",
    ]
    unseen = told((seen(0, hand=[BOLT]), b"-1"), (seen(1, hand=[BEAR], size=8, library=49), b"-1"))
    assert unseen[1:] == ["         Agent(2)-b draws 1 card"], "the hand of another seat was not shown before"


def test_the_command(tmp_path, capsys):
    with Writer(tmp_path / "games.forge.gz") as writer:
        for seed in (1, 2, 3):
            writer.copy(made_up(seed=seed))
    assert narration.main(argparse.Namespace(paths=[tmp_path], game=2)) == 0
    said = capsys.readouterr().out
    assert said.startswith("a vs b, seed 2, Forge 1.0\n") and "seed 1," not in said
    with pytest.raises(UserError, match="there are 3 games"):
        narration.main(argparse.Namespace(paths=[tmp_path], game=4))
    (tmp_path / "empty.forge.gz").write_bytes(b"")
    with pytest.raises(UserError, match="there is no game in .*empty"):
        narration.main(argparse.Namespace(paths=[tmp_path / "empty.forge.gz"], game=None))
