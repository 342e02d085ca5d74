"""The plain-Python battle referee against the golden battles, and the compiled engine against the referee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle as EngineBattle
from jaxrl_envs.battle.golden import KINDS, differences, rules_of
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.golden import verify
from tests.jaxrl_envs.battle.referee import battle_generate as generate
from tests.jaxrl_envs.battle.referee.battle import Battle
from tests.jaxrl_envs.battle.referee.battle_dice import Dice, battle_key, mix
from tests.jaxrl_envs.battle.referee.battle_observe import observation, planes
from tests.jaxrl_envs.battle.referee.battle_script import STYLES, choices
from tests.support.generate import read, write
from tests.support.paths import GOLDEN

FILE = GOLDEN / "battle" / "battles.jsonl.gz"


@pytest.fixture(scope="module")
def golden() -> list[dict]:
    return read(FILE)


def test_random_numbers() -> None:
    assert mix(1) == 0x5692161D100B05E5
    key = battle_key(7, 3, 2)
    assert key == 0xEF49A6940769B17D
    dice = Dice(key)
    assert [dice.roll(6) for _ in range(10)] == [4, 5, 1, 3, 1, 4, 3, 5, 4, 1]


def replay(battle: Battle, record: dict) -> None:
    """Plays a record's actions and compares decisions, dice, states and result."""
    assert (battle.map_index, battle.left, battle.first) == tuple(record[k] for k in ("map_index", "left", "first"))
    assert battle.state == record["start"]
    for i, row in enumerate(record["decisions"]):
        assert [*battle.decision, row[7], len(battle.dice.results)] == row, (record["id"], i)
        battle.step(row[7])
    assert battle.decision is None
    assert battle.half_turns == record["half_turns"] and battle.result == record["result"]
    assert (battle.dice.faces, battle.dice.results) == (record["faces"], record["dice"])


@pytest.mark.thorough
def test_referee_on_golden_battles(golden: list[dict]) -> None:
    assert len(golden) == 60
    for record in golden:
        replay(Battle(record["config"], record["rosters"], key=int(record["key"], 16)), record)
        replay(Battle(record["config"], record["rosters"], tape=record["dice"]), record)
        assert battle_key(*(record[name] for name in ("seed", "slot", "episode"))) == int(record["key"], 16)


def test_referee_sees_and_chooses_as_recorded(golden: list[dict]) -> None:
    """Observations, the five scripts and the random player; a third of the battles, all of them if slow tests run."""
    for record in golden[::3]:
        battle = Battle(record["config"], record["rosters"], key=int(record["key"], 16))
        observed: dict[int, list] = {}
        for decision, side, values in record["obs"]:
            observed.setdefault(decision, []).append((side, values))
        for i, row in enumerate(record["decisions"]):
            assert choices(battle) == record["scripts"][i], (record["id"], i)
            for side, values in observed.get(i, []):
                expected = np.zeros(1051)
                expected[[index for index, _ in values]] = [value for _, value in values]
                np.testing.assert_allclose(observation(battle, side), expected, atol=1e-6, err_msg=record["id"])
            player = record["players"][row[0]]
            if player == "random":
                assert battle.random() == row[7]
            elif player in STYLES:
                assert record["scripts"][i][STYLES.index(player)] == row[7]
            battle.step(row[7])


# ---- engine against referee -----------------------------------------------------------------------------------------


def test_generated_battles_agree() -> None:
    kinds: Counter = Counter()
    ends: Counter = Counter()
    sizes = set()
    for record in generate.records(7, 60, watched=0.2):
        assert list(differences(record)) == [], record["id"]
        kinds.update(row[1] for row in record["decisions"])
        ends[record["result"]["end"]] += 1
        sizes |= {(len(roster["units"]), unit["models"]) for roster in record["rosters"] for unit in roster["units"]}
    assert set(kinds) == set(range(11)) and set(ends) == {1, 2, 3}
    assert (8, 20) in sizes and (1, 1) in {(1, models) for _, models in sizes}


def side_by_side(number: int) -> Iterator[tuple[Battle, EngineBattle]]:
    """A generated battle of random players in referee and engine, at every decision and at the end."""
    record = generate.record(11, number, watched=0.0)
    boards, rosters, settings = rules_of(record)
    identity = {name: record[name] for name in ("seed", "slot", "episode")}
    engine = EngineBattle(Rules(boards, [rosters], settings), **identity)
    battle = Battle(record["config"], record["rosters"], **identity)
    weight = record["config"].get("reward_vp", 0)
    ahead = 0
    while True:
        yield battle, engine
        if battle.decision is None:
            return
        action = battle.random()
        assert engine.random() == action
        battle.step(action)
        engine.step(action)
        before, ahead = ahead, battle.vp[0] - battle.vp[1]
        outcome = 0 if battle.decision else {0: 1, 1: -1, None: 0}[battle.winner]
        assert engine.reward == pytest.approx(weight * (ahead - before) + outcome, abs=1e-6)


@pytest.mark.parametrize("number", range(10))
def test_everything_agrees_at_every_decision(number: int) -> None:
    """States, dice, observations and planes of both sides, the five styles and the mixed player, rewards."""
    for battle, engine in side_by_side(number):
        assert (engine.state(), engine.faces, engine.results) == (battle.state, battle.dice.faces, battle.dice.results)
        assert engine.over == (battle.decision is None)
        for side in range(2):
            np.testing.assert_allclose(engine.observe(side), observation(battle, side), atol=1e-6, rtol=0)
            seen = engine.planes(side)
            for name, expected in planes(battle, side).items():
                assert seen[name].dtype == np.uint8
                np.testing.assert_array_equal(seen[name], expected, err_msg=name)
        if battle.decision is not None:
            scripts = choices(battle)
            assert engine.legal == battle.decision.legal
            assert [engine.script(style) for style in range(5)] == scripts
            assert engine.bot(6) == scripts[battle.mixed_style(battle.decision.side)]
    assert engine.half_turns == battle.half_turns and engine.result() == battle.result


def test_no_room_to_deploy_is_no_room_in_both() -> None:
    """Crowded boards, on which the dice decide whether all units find a place."""
    outcomes: Counter = Counter()
    boards, rosters, settings = [{"rows": 16, "cols": 24}], [crowd(11), crowd(10)], {"zone": 4}
    plain = {"config": {"maps": boards, **settings}, "rosters": rosters}
    maps, pair, parsed = rules_of(plain)
    rules = Rules(maps, [pair], parsed)
    for seed in range(60):
        try:
            state = Battle(plain["config"], rosters, seed=seed).state
        except ValueError as error:
            assert "no legal deployment" in str(error)
            with pytest.raises(UserError, match="no legal deployment"):
                EngineBattle(rules, seed=seed)
            outcomes["none"] += 1
        else:
            assert EngineBattle(rules, seed=seed).state() == state
            outcomes["found"] += 1
    assert min(outcomes["none"], outcomes["found"]) > 5, outcomes


def crowd(models: int) -> dict:
    unit = {"name": "crowd", "models": models, "M": 6, "T": 4, "Sv": 4, "W": 1, "Ld": 7, "OC": 1}
    return {"name": "crowd", "units": [unit] * 5}


@pytest.mark.slow
def test_a_thousand_generated_battles_agree(tmp_path: Path) -> None:
    path = tmp_path / "battles.jsonl.gz"
    write(path, generate.records(1, 1_000))
    report = verify(str(path), KINDS)
    assert (report.counts["battles from key and tape"], report.disagreements) == (1_000, 0), report.first


@pytest.mark.slow
def test_referee_sees_and_chooses_as_recorded_everywhere(golden: list[dict]) -> None:
    for start in (1, 2):
        test_referee_sees_and_chooses_as_recorded(golden[start:])
