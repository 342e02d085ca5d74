"""Decisions of Forge as small questions and as numbers: the engine against its slow referee, bit for bit."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.encoding import vocabulary
from jaxrl_envs.forge.encoding.facts import Facts
from jaxrl_envs.forge.encoding.observation import observe
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.env import ForgeEnv
from jaxrl_envs.forge.recordings import recording
from tests.jaxrl_envs.forge.referee.forge import Referee, overview
from tests.jaxrl_envs.forge.referee.forge_facts import Told
from tests.support.forge.conversations import RECORDED
from tests.support.forge.decisions import KINDS, NAMES, Maker

RECORDINGS = sorted(path for path in RECORDED.iterdir() if path.name.endswith(recording.SUFFIXES))
# A decision with every kind of thing that an observation tells, and nothing by chance.
SMALL = json.loads("""
{"decision_type": "choose_action", "decision_id": 1, "player": "Agent(1)-a", "seat": 0, "turn": 3, "phase": "MAIN1",
 "actions": [
  {"index": 0, "description": "", "card": "Forest", "card_id": 1, "mana_cost": "", "is_land": true, "kind": "land"},
  {"index": 1, "card": "Elf", "card_id": 2, "mana_cost": "{1}{G}", "is_land": false, "kind": "spell"},
  {"index": 2, "description": "Add (2)", "card": "Rock", "card_id": 3, "mana_cost": "", "kind": "ability"}],
 "game_state": {"turn": 3, "phase": "MAIN1", "active": 0, "priority": 0, "you": 0, "players": [
  {"seat": 0, "name": "Agent(1)-a", "life": 18, "hand_size": 2, "library_size": 30, "graveyard": [],
   "exile": [], "mana_pool": "GG",
   "hand": [{"id": 1, "name": "Forest", "types": "Basic Land Forest", "cmc": 0, "owner": 0, "colors": ""},
    {"id": 2, "name": "Elf", "types": "Creature Elf", "power": 2, "toughness": 1, "cmc": 2, "colors": "G"}],
   "battlefield": [{"id": 3, "name": "Rock", "types": "Artifact", "tapped": true, "counters": {"P1P1": 2}}]},
  {"seat": 1, "name": "Agent(2)-b", "life": 5, "hand_size": 7, "library_size": 45, "exile": [],
   "battlefield": [{"id": 8, "name": "Island", "types": "Basic Land Island"},
    {"id": 9, "name": "Bird", "types": "Creature", "power": 1, "toughness": 3, "damage": 2, "keywords": ["Flying"]}],
   "graveyard": [{"id": 10, "name": "Old"}, {"id": 11, "name": "New"}]}],
  "stack": [{"card_id": 50, "name": "Bolt", "controller": 1, "targets": [{"kind": "player", "id": 0}]}], "combat": []}}
""")


def encoded(decision, ascii=True):
    return json.dumps(decision, ensure_ascii=ascii, separators=(",", ":")).encode()


TABLES = (
    ("entity", at.ENTITIES_AT, at.ENTITIES, at.ENTITY),
    ("option", at.OPTIONS_AT, at.OPTIONS, at.OPTION),
    ("kind", at.KINDS_AT, at.KINDS, at.KIND),
    ("part", at.PARTS_AT, at.PARTS, at.PART),
)


def tables(observation):
    """Globals, entities, options, kinds and parts of an observation."""
    rest = [observation[at_ : at_ + rows * columns].reshape(rows, columns) for _, at_, rows, columns in TABLES]
    return observation[: at.GLOBALS], *rest


def where(place):
    """The name of a place of an observation, for messages."""
    for name, begin, _, columns in reversed(TABLES):
        if place >= begin:
            return "{} {} column {}".format(name, *divmod(place - begin, columns))
    return f"global {place}"


def assert_same(mine, slow):
    different = np.flatnonzero(mine.view(np.uint32) != slow.view(np.uint32))
    different = [place for place in different if mine[place] != 0.0 or slow[place] != 0.0]  # 0 and -0 are the same
    assert not different, [(where(int(k)), float(mine[k]), float(slow[k])) for k in different[:8]]


def compare(line, seed, looks=4, facts=None, told=None):
    """Takes both through all questions of a decision, with random answers; returns the answer."""
    decision, draw = json.loads(line), random.Random(seed)
    told = told or Told()
    mine, slow = ForgeDecision(line, facts), Referee(decision, told)
    assert mine.seat == decision["seat"] and mine.type == ("" if slow.unknown else slow.type)
    assert_same(observe(mine.view), overview(decision, told))
    steps = 0
    while True:
        assert (mine.answer, mine.legal, mine.cut) == (slow.answer, slow.legal(), slow.cut)
        if slow.answer is not None:
            return mine.answer
        if steps < looks:
            assert_same(mine.observe(), slow.observe())
        action = draw.choice(slow.legal())
        mine.step(action)
        slow.step(action)
        steps += 1


# ---- numbers that stand in two places -------------------------------------------------------------------------------


def test_the_layout_was_written_for_cython():
    """setup.py writes it; that it was compiled as it stands here is seen by all that follows."""
    written = Path(at.__file__).with_suffix(".pxd").read_text()
    told = {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)$", written, re.MULTILINE)}
    numbers = {name: value for name, value in vars(at).items() if isinstance(value, int | float)}
    assert len(numbers) > 100 and numbers.items() <= told.items()
    assert told["NUM_TYPES"] == len(at.TYPES) and told["TYPE_MULLIGAN"] == at.TYPES.index("mulligan")
    assert told["KEYWORD_FIRST_STRIKE"] == 1 and told["ZONE_LIBRARY"] == len(at.ZONES) - 1


def test_the_layout_has_no_gaps_and_no_overlaps():
    assert at.FIRST_PARTNER + at.PARTNERS == at.ZONE and at.KEYWORD_BITS + 1 == at.FIRST_PLAIN == at.COUNT
    assert at.TRIGGER + 1 == at.ENTITY and at.THEM + 1 == at.OPTION and at.MOST_TARGETS + 1 == at.PART
    assert at.FIRST_PIP + len(at.COLORS) == at.TOLD and at.IS_TEXT + 1 == at.KIND
    assert at.FIRST_PHASE + len(at.PHASES) == at.ASKED and at.FIRST_TYPE + len(at.TYPES) == at.CHOSEN
    assert at.FIRST_PLAYER + 2 * at.PLAYER == at.STACK_SIZE and at.I_ATTACK + 1 == at.GLOBALS
    assert at.MANA + 6 == at.PLAYER and TABLES[-1][1] + at.PARTS * at.PART == at.FEATURES
    for (_, begin, rows, columns), (_, after, *_) in zip(TABLES, TABLES[1:], strict=False):
        assert begin + rows * columns == after


def test_numbers_of_names():
    known = {b"": 0x811C9DC5, b"a": 0xE40C292C, b"foobar": 0xBF9CF968}
    assert {text: vocabulary.fnv1a(text) for text in known} == known
    assert vocabulary.name_id("") == 0 and 1 <= vocabulary.name_id("Forest") < at.VOCABULARY
    assert vocabulary.text_id("Bears (31) deal (2) (x) damage") == vocabulary.name_id("Bears  deal  (x) damage")
    assert vocabulary.text_id("(31)") == 0
    names = [f"name {i}" for i in range(2000)]
    assert len({vocabulary.name_id(name) for name in names}) > 1500


# ---- against the referee --------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*KINDS, "choose_wisely"])
def test_made_up_decisions(kind):
    answers = set()
    for seed in range(40):
        decision = Maker(1000 * seed + len(kind)).decision(kind=kind)
        answers.add(compare(encoded(decision, ascii=seed % 2 == 0), seed))
    assert len(answers) >= (1 if kind == "choose_wisely" else 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_game_of_made_up_decisions(seed):
    """Facts are told on the way, and what a seat has seen before stays what it is."""
    maker, facts, told = Maker(seed), Facts(), Told()
    for number in range(12):
        for name in maker.draw.sample(NAMES[:-1], 2):
            line = maker.facts(name)
            facts.hear(b"INFO:" + encoded(line))
            told.facts[name] = line["facts"]
        compare(encoded(maker.decision(kind=maker.draw.choice(KINDS))), number, 2, facts, told)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_recorded_decisions(path):
    """Every fifth line of every game, and one more of each type; with the facts that were told before."""
    seen = set()
    for conversation in recording.read(path):
        facts, told = Facts(), Told()
        for number, line in enumerate(conversation.lines):
            if not line.startswith((b"< DECISION:", b"< INFO:")):
                continue
            kind = line[:60].partition(b'"decision_type":"')[2].split(b'"')[0]
            if b"decision_type" in line[:200] and (number % 5 < 2 or kind not in seen):
                seen.add(kind)
                compare(line[2:].split(b":", 1)[1], number, 2, facts, told)
            elif b'"info_type":"facts"' in line[:64]:
                facts.hear(line[2:])
                fields = json.loads(line.partition(b":")[2])
                told.facts[fields["card"]] = fields["facts"]
        assert told.facts
    assert seen


def test_all_types_are_recorded():
    """What the fixtures do not show is tested with made-up decisions only; say so here when they change."""
    text = b"".join(b"".join(c.lines) for path in RECORDINGS for c in recording.read(path))
    missing = {kind for kind in KINDS if f'"decision_type":"{kind}"'.encode() not in text}
    assert missing <= {"choose_color"}


# ---- what it means --------------------------------------------------------------------------------------------------


def test_a_position_in_numbers():
    question = ForgeDecision(encoded(SMALL))
    out, entities, options, kinds, _ = tables(question.observe())
    assert question.legal == [0, 1, 2, 3]
    me, them = out[at.FIRST_PLAYER :], out[at.FIRST_PLAYER + at.PLAYER :]
    assert out[at.TURN] == np.float32(3 / 20) and out[at.MY_TURN] == out[at.MY_PRIORITY] == 1
    assert out[at.FIRST_PHASE + at.PHASES.index("MAIN1")] == 1 and out[at.ASKED] == 1
    assert me[at.LIFE] == np.float32(0.9) and them[at.LIFE] == 0.25 and them[at.HAND] == 1
    assert me[at.MANA + 4] == 0.5 and them[at.FREE_LANDS] == 0.125 and them[at.FREE_COLORS + 1] == 0.25
    assert them[at.FLYING_POWER] == 1 / 16 and me[at.OTHERS] == 0.25
    assert out[at.TOP_IS_THEIRS] == 1 and out[at.CHOICES] == 0.25 and out[at.CAN_STOP] == 1

    def called(row):
        return kinds[int(row[0]) - 1, at.KIND_ID]  # the first column of entities and of options

    _, bolt, forest, elf, rock, bird, island, new, old = entities[:9]  # lands stand last, the newest of a grave first
    assert not entities[9:].any() and called(bolt) == vocabulary.name_id("Bolt")
    assert called(elf) == vocabulary.name_id("Elf") and elf[at.POWER] == 0.25 and elf[at.MINE] == 1
    assert elf[at.COLOR_BITS] == 16 and elf[at.OFFERED] == 1 and rock[at.TAPPED] == 1 and rock[at.PLUS] == 0.5
    assert elf[at.CASTABLE] == 1 and forest[at.CASTABLE] == 0  # GG in the pool; lands are not cast
    assert bird[at.TOUGHNESS] == 0.125 and bird[at.DAMAGE] == 0.25 and bird[at.KEYWORD_BITS] == 1 and bird[at.MINE] == 0
    assert island[at.COLOR_BITS] == 2 and island[at.CARD_TYPE_BITS] == 2 and island[at.ZONE] == 2
    assert called(new) == vocabulary.name_id("New") and called(old) == vocabulary.name_id("Old")
    assert bolt[at.AIMS_AT_ME] == 0.5 and bolt[at.AIMS_AT_THEM] == 0 and bolt[at.ZONE] == 3

    sorts = [at.SORTS[int(row[at.SORT]) - 1] for row in options[:4]]
    assert sorts == ["stop", "land", "cast", "ability"] and not options[4:].any()
    assert options[2, at.COST] == 0.25 and options[2, at.OPTION_ENTITY] == 1 + 3
    assert called(options[3]) == vocabulary.text_id("Add (2)")
    controlled = tables(ForgeDecision(encoded(SMALL | {"for": 1 - SMALL["seat"]})).observe())
    assert controlled[0][at.ASKED] == 2
    quiet = tables(observe(question.view))
    assert not quiet[0][at.ASKED : at.FIRST_PLAYER].any() and not quiet[2].any()


def test_picks_are_seen_and_answered():
    cards = [{"index": i, "kind": "card", "id": i + 1, "name": "", "zone": "Void"} for i in range(3)]
    decision = SMALL | {"decision_type": "choose_cards", "min": 1, "max": 2, "message": "Discard", "options": cards}
    question = ForgeDecision(encoded(decision))
    assert question.legal == [1, 2, 3] and question.answer is None
    question.step(2)
    assert question.legal == [0, 3] and question.picks == [1]
    out, entities, options, kinds, _ = tables(question.observe())
    assert out[at.CHOSEN] == 0.125 and out[at.CAN_STOP] == 1 and options[2, at.TAKEN] == 0.5
    assert entities[3, at.PICKED] == 0.5
    row = int(entities[at.SUBJECT_ROW, at.ENTITY_KIND]) - 1
    assert kinds[row, at.KIND_ID] == vocabulary.text_id("Discard")
    question.step(0)
    assert question.answer == "1" and question.answered and question.legal == []
    with pytest.raises(ValueError, match="not legal"):
        question.step(0)


def test_blockers_that_are_too_few_stay_at_home():
    fields = {
        "decision_type": "declare_blockers",
        "attackers": [{"index": 0, "card_id": 9, "name": "Bird", "min_blockers": 2, "max_blockers": 0}],
        "blockers": [{"index": i, "card_id": i, "name": "", "can_block": [0], "must": False} for i in range(3)],
    }
    for actions, answer in (((1, 0, 0), ""), ((1, 0, 1), "0:0,2:0"), ((0, 0, 0), "")):
        question = ForgeDecision(encoded(SMALL | fields))
        for action in actions:
            question.step(action)
        assert question.answer == answer


def test_more_options_than_actions():
    def searching(count, kinds, zone="Library", **more):
        options = [{"index": i, "kind": "card", "name": f"card {i % kinds}", "zone": zone} for i in range(count)]
        fields = {"decision_type": "choose_entity", "optional": False, "options": options}
        return ForgeDecision(encoded(SMALL | fields | more))

    merged, most = searching(120, 7), at.NUM_ACTIONS - 1
    assert (merged.legal, merged.cut) == (list(range(1, 8)), 0)
    assert searching(120, 120, zone="Graveyard").cut == 120 - most
    assert searching(120, 110).cut == 110 - most and len(searching(95, 3).legal) == 3
    assert searching(120, 120, decision_type="order").answer == "ai"
    assert searching(120, 120, decision_type="choose_cards", min=100, max=120).answer == "ai"
    three = searching(120, 2, decision_type="choose_cards", min=3, max=3)
    for action in (1, 2):  # the third follows
        three.step(action)
    assert three.answer == "0,1,3"


def test_equal_options_are_one_and_any_of_them_leads_there():
    hand = [{"id": i, "name": "Mountain", "types": "Basic Land Mountain"} for i in range(20, 24)]
    actions = [{"index": i, "card": "Mountain", "card_id": 20 + i, "kind": "land", "part": -1} for i in range(4)]
    decision = SMALL | {"actions": actions, "game_state": SMALL["game_state"] | {"stack": []}}
    decision["game_state"] = decision["game_state"] | {
        "players": [decision["game_state"]["players"][0] | {"hand": hand}, decision["game_state"]["players"][1]]
    }
    question = ForgeDecision(encoded(decision))
    _, entities, options, *_ = tables(question.observe())
    assert question.legal == [0, 1] and entities[1, at.COUNT] == options[1, at.OPTION_COUNT] == 1
    for choice in range(4):
        question = ForgeDecision(encoded(decision))
        assert question.aim(str(choice)) and question.wanted() == 1
    hand[2] = hand[2] | {"summoning_sick": True}  # not like the others any more
    question = ForgeDecision(encoded(decision))
    assert question.legal == [0, 1, 2] and question.aim("2") and question.wanted() == 2
    question.step(2)
    assert question.answer == "2"
    options = [{"index": i, "kind": "card", "id": 20 + i, "name": "Mountain", "zone": "Hand"} for i in range(4)]
    fields = {"decision_type": "choose_cards", "min": 3, "max": 3, "options": options}
    for choice in ("0,1,3", "1,2,3", "2,3,0"):
        question = ForgeDecision(encoded(decision | fields))
        assert question.aim(choice)
        while not question.answered:
            question.step(question.wanted())
        mine, theirs = ([number == "2" for number in each.split(",")] for each in (question.answer, choice))
        assert sum(mine) == sum(theirs) and len(set(question.answer.split(","))) == 3


@pytest.mark.parametrize(
    ("choice", "kind", "more"),
    [
        ("1", "choose_action", {}),
        ("-1", "choose_action", {}),
        ("2,0", "choose_cards", {"min": 2, "max": 3}),
        ("", "choose_targets", {"min": 0, "max": 2}),
        ("2,0,1", "order", {}),
        ("y", "confirm_action", {}),
        ("2", "choose_color", {}),
    ],
)
def test_the_way_to_a_choice(choice, kind, more):
    options = [{"index": i, "kind": "text", "description": f"option {i}"} for i in range(3)]
    question = ForgeDecision(encoded(SMALL | {"decision_type": kind, "options": options} | more))
    assert question.aim(choice)
    while not question.answered:
        question.step(question.wanted())
    assert sorted(question.answer.split(",")) == sorted(choice.split(","))


def test_choices_that_cannot_be_said():
    question = ForgeDecision(encoded(SMALL))
    assert not any(question.aim(choice) for choice in (None, "ai", "7", "nonsense", "ai! Reckless"))


def test_recorded_choices_can_be_said():
    reached = total = 0
    for path in RECORDINGS:
        for conversation in recording.read(path):
            for line, answer in zip(conversation.lines, conversation.lines[1:], strict=False):
                if line.startswith(b"< DECISION:") and answer.startswith(b"> ") and not answer.startswith(b"> ai"):
                    question = ForgeDecision(line[2:])
                    total += 1
                    if question.aim(answer[2:].decode()):
                        while not question.answered and (action := question.wanted()) >= 0:
                            question.step(action)
                        reached += question.answered
    assert total > 500 and reached > 0.97 * total


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b'{"decision_type":"choose_action","seat":0,"game_state":{}}',
        b'{"decision_type":"choose_action","seat":2,"actions":[],"game_state":{}}',
        b'{"decision_type":"declare_blockers","seat":0,"blockers":[],"game_state":{}}',
        b'{"decision_type":7,"seat":0,"game_state":{}}',
    ],
)
def test_what_is_no_decision(line):
    with pytest.raises(ValueError, match="no decision"):
        ForgeDecision(line)


def test_anything_that_is_json_is_read_without_harm():
    """Values of wrong types in any place: an answer comes out all the same, or it is no decision."""
    draw = random.Random(1)
    others = [None, True, -1, 1.5, "text", [], {}, [1, 2], {"id": 3}, 10**30]

    def spoil(value):
        if draw.random() < 0.01:
            return draw.choice(others)
        if isinstance(value, dict):
            return {key: spoil(each) for key, each in value.items()}
        return [spoil(each) for each in value] if isinstance(value, list) else value

    answered = 0
    for seed in range(400):
        try:
            question = ForgeDecision(encoded(spoil(Maker(seed).decision(size=3))))
        except ValueError:
            continue
        while not question.answered:
            assert np.isfinite(question.observe()).all()
            question.step(draw.choice(question.legal))
        answered += question.answer is not None
    assert answered > 200


def test_the_view_of_networks():
    env = ForgeEnv()
    view = jax.jit(env.candidates)(ForgeDecision(encoded(SMALL)).observe())
    ids = np.asarray(view.kind_ids)
    assert ids[view.entity_ids[3] - 1] == vocabulary.name_id("Elf") and view.option_entity[2] == 3
    assert view.option_entity[0] == -1 and view.entity_mask.sum() == 1 + 2 + 1 + 2 + 2 and view.option_mask.sum() == 4
    assert np.array_equal(view.zones.sum(axis=1) > 0, view.entity_mask) and view.zones.sum(axis=0).max() == 2
    told = (view.context, view.entities, view.options, view.kinds, view.parts)
    assert env.num_features == sum(part.size for part in told) and env.vocabulary == at.VOCABULARY
    assert np.abs(jax.jit(env.features)(ForgeDecision(encoded(SMALL)).observe())).max() <= 4
