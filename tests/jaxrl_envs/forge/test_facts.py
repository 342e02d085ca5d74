"""Facts about cards in an observation: facts, names, ties between cards, what is known, what can be cast."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from jaxrl.networks.config import CandidatesConfig, NetworkConfig
from jaxrl.networks.factory import make_network
from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.encoding import vocabulary
from jaxrl_envs.forge.encoding.facts import Facts, NameKind, Names, api_number, mode_number
from jaxrl_envs.forge.encoding.observation import observe
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.engine.live_game import LiveGame, Terms
from jaxrl_envs.forge.env import ForgeEnv
from jaxrl_envs.forge.recordings import demonstrations, recording
from tests.jaxrl_envs.forge.test_encoder import SMALL, encoded, tables
from tests.support.forge.decisions import NAMES, Maker

BURN = {"kind": "spell", "api": "DealDamage", "amount": 2, "targets": ["creature", "player"]}
DRAW = {"kind": "spell", "api": "Draw", "amount": 2, "whose": "you"}
FACTS = {
    "Shock": {"pips": "R", "cmc": 1, "parts": [BURN]},
    "Divination": {"pips": "U", "cmc": 3, "parts": [DRAW]},
    "Volcano": {"pips": "", "cmc": 0, "produces": "UR", "parts": [{"kind": "activated", "api": "Mana", "tap": True}]},
}


def told(*names):
    """The facts of these."""
    facts = Facts()
    for name in names:
        facts.hear(b"INFO:" + encoded({"info_type": "facts", "card": name, "facts": FACTS[name]}))
    return facts


def situation(hand=(), mine=(), theirs=(), actions=(), **more):
    """A decision with these cards."""
    me, them = SMALL["game_state"]["players"]
    me = me | {"hand": list(hand), "battlefield": list(mine), "mana_pool": ""}
    them = them | {"battlefield": list(theirs), "graveyard": []}
    state = SMALL["game_state"] | {"stack": [], "players": [me, them]} | more
    return encoded(SMALL | {"actions": list(actions), "game_state": state})


def card(number, name, **more):
    return {"id": number, "name": name, "types": "Sorcery", "cmc": 1, "owner": 0} | more


def entities_of(line, facts=None):
    return tables(observe(ForgeDecision(line, facts).view))[1]


def rows_of(entities):
    """The rows that stand for cards, without the subject's."""
    return [row for row in entities[1:] if row[at.PRESENT]]


def test_unseen_cards_differ_by_what_they_do():
    """Both are printed alike and have names that were never seen: with facts a fresh network tells them apart."""
    hand = [card(1, "Shock"), card(2, "Divination")]
    actions = [
        {"index": i, "card": each["name"], "card_id": each["id"], "kind": "spell", "part": 0}
        for i, each in enumerate(hand)
    ]
    env, line = ForgeEnv(), situation(hand, actions=actions)
    network = make_network(NetworkConfig(kind="candidates", candidates=CandidatesConfig(dim=8, layers=1)), env)
    params, random = network.init(jax.random.key(0)), np.random.default_rng(1)
    params = {
        name: leaf if name == "kinds" else jax.tree.map(lambda x: x + 0.3 * random.standard_normal(x.shape), leaf)
        for name, leaf in params.items()
    }
    evaluate, found = jax.jit(network.evaluate), []
    for facts in (None, told("Shock", "Divination")):
        question = ForgeDecision(line, facts)
        found.append(np.asarray(evaluate(params, (), question.observe(), question.mask())[1])[1:3])
    assert found[0][0] == pytest.approx(found[0][1], abs=1e-5) and abs(found[1][0] - found[1][1]) > 1e-3


def test_a_part_in_numbers():
    line = situation([card(1, "Shock")], [card(2, "Volcano", types="Land")])
    _, entities, _, kinds, parts = tables(observe(ForgeDecision(line, told("Shock", "Volcano")).view))
    kind = kinds[int(rows_of(entities)[0][at.ENTITY_KIND]) - 1]
    assert kind[at.KIND_ID] == vocabulary.name_id("Shock") and kind[at.TOLD] == 1
    assert list(kind[at.FIRST_PIP : at.FIRST_PIP + 5]) == [0, 0, 0, 0.5, 0]
    burn, mana = parts[0], parts[1]
    assert burn[at.PART_KIND] == 1 and burn[at.PART_OF] == 1 and burn[at.PART_SORT] == 1 and burn[at.AMOUNT] == 0.5
    assert list(at.APIS)[int(burn[at.API]) - 1] == "damage" and burn[at.TARGET_BITS] == 3
    assert burn[at.MOST_TARGETS] == 0.5 and list(at.APIS)[int(mana[at.API]) - 1] == "mana"
    assert mana[at.PART_FLAG_BITS] == 2 ** at.PART_FLAGS.index("tap") and not parts[2:].any()
    assert kinds[int(mana[at.PART_KIND]) - 1, at.PRODUCED_BITS] == 2 + 8  # U and R


def test_names_of_forge_have_groups_and_others_have_the_last():
    assert [list(at.APIS)[api_number(api) - 1] for api in ("DestroyAll", "", "Fliparoo")] == [
        "destroy",
        "none",
        "other",
    ]
    modes = [list(at.MODES)[mode_number(mode) - 1] for mode in ("Attacks", "CantBlockBy", "MustAttack", "", "Sings")]
    assert modes == ["attack", "cant", "must", "none", "other"]
    everything = [name for groups in (at.APIS, at.MODES) for group in groups.values() for name in group.split()]
    assert len(at.APIS) + len(at.MODES) == 63 and len(set(everything)) > 200
    for groups in (at.APIS, at.MODES):
        names = [name for group in groups.values() for name in group.split()]
        assert len(names) == len(set(names))


def test_no_two_names_of_a_game_share_an_id_and_ids_do_not_tell_what_the_other_has_seen():
    by_id: dict[int, list[str]] = {}
    for number in range(400):
        by_id.setdefault(vocabulary.name_id(f"name {number}"), []).append(f"name {number}")
    one, other = next(names for names in by_id.values() if len(names) > 1)[:2]

    def identity(kind: NameKind | None) -> float:
        assert kind is not None
        return np.frombuffer(kind.numbers, np.float32)[at.KIND_ID]

    facts = Facts()
    mine, theirs = facts.seats
    assert identity(mine.kind(one)) == identity(theirs.kind(other)) == vocabulary.name_id(one)
    assert identity(mine.kind(other)) == identity(theirs.kind(one)) == vocabulary.name_id(one) + 1
    facts.hear(encoded({"info_type": "facts", "card": other, "facts": FACTS["Shock"]}))
    told_now = mine.kind(other)
    assert identity(told_now) == vocabulary.name_id(one) + 1 and told_now is not None and told_now.count == 1
    names = Names({})
    found = {identity(names.kind(f"name {number}")) for number in range(1000)}
    assert len(found) == 1000 and min(found) >= 1 and max(found) < at.VOCABULARY


@pytest.mark.parametrize("seed", range(6))
def test_facts_of_what_is_not_seen_change_nothing(seed):
    maker = Maker(seed)
    decision = maker.decision(size=3)
    line, names = encoded(decision), [name for name in NAMES if name]
    seen = [name for name in names if json.dumps(name, ensure_ascii=False) in json.dumps(decision, ensure_ascii=False)]
    lines = {name: b"INFO:" + encoded(maker.facts(name)) for name in [*names, "Hidden Horror", "Force of Will"]}
    some, everything = Facts(), Facts()
    for name, facts in lines.items():
        everything.hear(facts)
        if name in seen:
            some.hear(facts)
    questions = [ForgeDecision(line, facts) for facts in (some, everything)]
    assert np.array_equal(observe(questions[0].view), observe(questions[1].view))
    assert len(seen) < len(lines) and np.array_equal(questions[0].observe(), questions[1].observe())


def test_lines_that_are_no_facts_do_no_harm():
    facts = Facts()
    for line in (b"INFO:{}", b'INFO:{"info_type":"facts"', b'INFO:{"info_type":"facts","card":3,"facts":{}}'):
        facts.hear(line)
    odd = {"info_type": "facts", "card": "Odd", "facts": {"pips": 3, "cmc": "x", "parts": [7, {"amount": "many"}]}}
    facts.hear(b"INFO:" + encoded(odd))
    assert np.isfinite(entities_of(situation([card(1, "Odd")]), facts)).all()


@pytest.mark.parametrize(
    ("lands", "now", "later"),
    [
        ([], 0, 0),
        ([("Mountain", False)], 1, 1),
        ([("Mountain", True)], 0, 1),
        ([("Island", False)], 0, 0),  # enough, but not of that color
        ([("Volcano", False)], 1, 1),  # by its facts
    ],
)
def test_what_can_be_cast(lands, now, later):
    mine = [card(10 + i, name, types=f"Land {name}", tapped=tapped, cmc=0) for i, (name, tapped) in enumerate(lands)]
    (spell, *_) = rows_of(entities_of(situation([card(1, "Shock")], mine), told("Shock", "Volcano")))
    assert (spell[at.CASTABLE], spell[at.CASTABLE_NEXT]) == (now, later)
    hand = [card(1, "Shock"), card(2, "Mountain", types="Land Mountain", cmc=0)]
    (spell, *_) = rows_of(entities_of(situation(hand, mine), told("Shock", "Volcano")))
    assert (spell[at.CASTABLE], spell[at.CASTABLE_NEXT]) == (now, 1)  # with the land of the hand


@pytest.mark.parametrize(
    ("pips", "cmc", "least", "lands", "castable"),
    [
        ("W", 2, 1, ["Mountain"], 1),  # {2/W}: one white would do, colors are not counted
        ("W", 2, 1, [], 0),
        ("WU", 1, 1, ["Island"], 1),  # {W/U}
        ("WU", 3, 3, ["Island"] * 2, 0),  # {2}{W/U}
        ("WU", 3, 3, ["Island"] * 3, 1),
        ("R", 1, 0, [], 1),  # {R/P}: with life
        ("R", 4, 3, ["Island"] * 3, 1),  # {3}{R/P}
        ("WU", 1, None, ["Island"], 1),  # of an older daemon: told by the number of symbols
        ("WU", 3, None, ["Island"] * 3, 0),  # which does not tell it here
    ],
)
def test_costs_that_can_be_paid_in_several_ways(pips, cmc, least, lands, castable):
    facts = Facts()
    fields = {"pips": pips, "cmc": cmc, "parts": [BURN]} | ({} if least is None else {"least": least})
    facts.hear(b"INFO:" + encoded({"info_type": "facts", "card": "Odd", "facts": fields}))
    mine = [card(10 + i, name, types=f"Land {name}", cmc=0) for i, name in enumerate(lands)]
    (spell, *_) = rows_of(entities_of(situation([card(1, "Odd", cmc=cmc)], mine), facts))
    assert spell[at.CASTABLE] == castable


def test_who_blocks_enchants_and_targets_whom():
    mine = [card(1, "Bear", types="Creature", attachments=[3]), card(2, "Ogre", types="Creature")]
    theirs = [card(3, "Pacifism", types="Enchantment", attached_to=1), card(4, "Wall", types="Creature")]
    stack = [
        {"card_id": 9, "name": "Shock", "controller": 0, "part": 0, "from": "Graveyard", "kind": "spell"}
        | {"targets": [{"kind": "player", "id": 1}, {"kind": "card", "id": 4}, {"kind": "card", "id": 2}]}
    ]
    combat = [{"attacker": 2, "blockers": [4], "defender": {"kind": "player", "id": 1}}]
    found = entities_of(situation((), mine, theirs, stack=stack, combat=combat), told("Shock"))
    shock, bear, ogre, pacifism, wall = rows_of(found)
    assert pacifism[at.ATTACHED_TO] == 1 + 2 and wall[at.BLOCKS] == 1 + 3 and not bear[at.BLOCKS]
    assert list(shock[at.AIM : at.AIM + 2]) == [1 + 5, 1 + 3] and ogre[at.ATTACKING] == wall[at.BLOCKING] == 1
    assert shock[at.FROM] == 1 + at.ZONES.index("graveyard") and shock[at.ENTITY_PART] == 1 and not shock[at.ABILITY]


def test_what_is_known_has_a_row_and_can_be_pointed_at():
    known = [
        card(30, "Divination", zone="Library", position=0),
        card(31, "Shock", zone="Library", position=-1),
        card(32, "Shock", zone="Hand", owner=1),
    ]
    rows = rows_of(entities_of(situation(known=known), told("Shock", "Divination")))
    assert [row[at.KNOWN] for row in rows] == [1, 1, 1] and [row[at.MINE] for row in rows] == [1, 1, 0]
    assert [row[at.POSITION] for row in rows] == [1, -1, 0]
    options = [{"index": 0, "kind": "card", "id": 32, "name": "Shock", "zone": "Hand"}]
    fields = {"decision_type": "choose_cards", "min": 0, "max": 1, "options": options}
    question = ForgeDecision(encoded(json.loads(situation(known=known)) | fields))
    _, entities, options, *_ = tables(question.observe())
    row = entities[int(options[1, at.OPTION_ENTITY]) - 1]
    assert row[at.KNOWN] == row[at.OFFERED] == 1 and row[at.ZONE] == 1 and options[1, at.THEM] == 1


def test_who_gets_the_damage_is_seen():
    """A row of numbers, each for another receiver, would else be the same question again."""
    mine = [card(1, "Ogre", types="Creature"), card(2, "Bear", types="Creature")]
    line = json.loads(situation(mine=mine))
    line |= {"decision_type": "announce_value", "name": "damage", "min": 0, "max": 2}
    seen = []
    for about in ({"card_id": 1}, {"card_id": 2}, {"player": 1}):
        options = tables(ForgeDecision(encoded(line | {"about": about})).observe())[2]
        seen.append(options[:3, [at.OPTION_ENTITY, at.ME, at.THEM]])
    assert all((rows == rows[0]).all() for rows in seen)
    assert len({int(rows[0, 0]) for rows in seen}) == 3 and seen[2][0].tolist() == [0, 0, 1]


def test_the_hand_of_a_player_whom_one_controls_has_rows():
    line = json.loads(situation([card(1, "Shock")]))
    line["game_state"]["players"][1]["hand"] = [card(9, "Divination")]
    rows = rows_of(entities_of(encoded(line)))
    assert [(row[at.ZONE], row[at.MINE]) for row in rows[:2]] == [(1, 1), (1, 0)]


def test_a_name_whose_parts_have_no_room_is_not_told():
    """Else it would be a card that does nothing."""
    facts, names = Facts(), [f"Charm {i}" for i in range(25)]
    for name in names:
        told_of = {"pips": "", "cmc": 1, "parts": [BURN] * 4}
        facts.hear(b"INFO:" + encoded({"info_type": "facts", "card": name, "facts": told_of}))
    line = situation([card(i, name) for i, name in enumerate(names)])
    kinds = tables(observe(ForgeDecision(line, facts).view))[3]
    assert kinds[:, at.TOLD].sum() == at.PARTS // 4


def test_games_and_recordings_read_facts(tmp_path):
    action = {"index": 0, "card": "Shock", "card_id": 1, "kind": "spell", "part": 0}
    decision = situation([card(1, "Shock")], actions=[action])
    line = b"INFO:" + encoded({"info_type": "facts", "card": "Shock", "facts": FACTS["Shock"]})
    live = LiveGame(Terms())
    live.hear(line)
    live.hear(b"DECISION:" + decision)
    assert live.decision is not None and tables(live.decision.observe())[2][1, at.OPTION_PART] == 1
    with recording.Writer(tmp_path / "one.forge.gz") as writer:
        writer.begin(decks=["a", "a"])
        for received in (line, b"DECISION:" + decision):
            writer.received(received)
        writer.sent(b"0")
        writer.received(b"GAME_RESULT: Agent(1)-a won in 3ms")
        writer.end()
    (game,) = demonstrations.read(tmp_path / "one.forge.gz")
    assert np.array_equal(game.observation[0], live.decision.observe()) and game.action[0] == 1
    live.reset(1)
    live.hear(b"DECISION:" + decision)
    assert tables(live.decision.observe())[2][1, at.OPTION_PART] == 0  # another game has not been told
