"""The engine as a program: random numbers, independence of threads and batches, saving, and refusing what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl_envs.battle.engine.players import BOT_NAMES
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.game import BattleGame
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.battle.settings import settings_from_tree
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import EngineError, make_buffers

STEPS = 150


@pytest.fixture(scope="module")
def rules() -> Rules:
    sides = load_roster("line"), load_roster("horde")
    return Rules([load_map("walled"), load_map("standard")], [sides], settings_from_tree({}))


def random_battle(rules: Rules, **identity: int) -> Battle:
    battle = Battle(rules, **identity)
    while not battle.over:
        battle.step(battle.random())
    return battle


def test_the_stream_of_the_specification(rules):
    """Section 3: the key of seed 7, slot 3, episode 2, and its first dice (read as D6)."""
    battle = Battle(rules, seed=7, slot=3, episode=2)
    assert battle.key == 0xEF49A6940769B17D
    sixes = [result for faces, result in zip(battle.faces, battle.results, strict=True) if faces == 6]
    single = Rules([load_map("standard")], [(load_roster("line"), load_roster("line"))], settings_from_tree({}))
    assert Battle(single, seed=7, slot=3, episode=2).results[:2] == [4, 5]  # the roll-off comes first there
    assert sixes and battle.results[0] in (1, 2)  # and the map die here


def play(game: BattleGame, games: int, threads: int, groups: int = 1, first_slot: int = 0) -> dict[str, np.ndarray]:
    """Random play of both seats through the bridge; every row of every step."""
    buffers = make_buffers(game, games)
    seen: dict[str, list[np.ndarray]] = {"observation": [], "mask": [], "rewards": [], "info": []}
    actions = np.full(games // groups, -1, np.int32)
    with HostPool(game.engine(games, 5, first_slot=first_slot), threads=threads, groups=groups) as pool:
        pool.start(buffers)
        parts = [buffers.rows(slice(g * games // groups, (g + 1) * games // groups)) for g in range(groups)]
        for _ in range(STEPS):
            for group, part in enumerate(parts):
                pool.send(actions, part, group)
            for group in range(groups):
                pool.recv(group)
            seen["observation"].append(buffers.observation.sum(axis=1))
            seen["mask"].append(buffers.legal_action_mask.copy())
            seen["rewards"].append(buffers.rewards.copy())
            seen["info"].append(buffers.info.copy())
    return {name: np.stack(each, axis=1) for name, each in seen.items()}


def test_threads_batches_and_groups_change_nothing():
    game = BattleGame(rosters=("line", "walkers"), reward_vp=0.02)
    reference = play(game, 256, threads=1)
    assert (reference["info"][:, -1, -1] > 0).mean() > 0.5, "most slots are in their second battle or later"
    for threads, groups in ((2, 1), (8, 2), (8, 4)):
        found = play(game, 256, threads, groups)
        for name, value in reference.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name}, {threads} threads, {groups} groups")
    for games, first in ((7, 0), (1, 3)):
        found = play(game, games, threads=2, first_slot=first)
        for name, value in reference.items():
            np.testing.assert_array_equal(found[name], value[first : first + games], err_msg=f"{name}, {games} games")


def test_a_saved_battle_continues_as_if_nothing_had_happened(rules):
    battle, other = Battle(rules, seed=3), Battle(rules, seed=4)
    for _ in range(40):
        battle.step(battle.bot(BOT_NAMES.index("mixed")))
    other.load(battle.save())
    assert other.save() == battle.save() and other.legal == battle.legal
    while not battle.over:
        action = battle.random()
        assert other.random() == action
        battle.step(action)
        other.step(action)
        other.check_caches()
    assert other.state() == battle.state() and other.result() == battle.result()


def test_equal_battles_have_equal_bytes(rules):
    assert random_battle(rules, seed=9).save() == random_battle(rules, seed=9).save()
    assert random_battle(rules, seed=9).save() != random_battle(rules, seed=10).save()


def test_damaged_bytes_are_refused(rules):
    """Whatever a file holds, nothing that a battle could not be is played on."""
    data = Battle(rules, seed=1).save()
    battle = Battle(rules, seed=2)
    before = battle.save()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(ValueError, match="damaged"):
            battle.load(bytes(damaged))
    for wrong in (bytes(len(data)), b"\xff" * len(data)):
        with pytest.raises(ValueError, match="damaged"):
            battle.load(wrong)
    with pytest.raises(ValueError, match="bytes"):
        battle.load(data[:-1])
    assert battle.save() == before


@pytest.mark.parametrize("changes", [{"rosters": ("line", "walkers")}, {"maps": ("centre",)}, {"rounds": 3}])
def test_a_battle_of_other_rules_is_refused(changes):
    game, other = BattleGame(), BattleGame(**changes)
    with HostPool(game.engine(2, 0), threads=1) as pool, HostPool(other.engine(2, 0), threads=1) as wrong:
        pool.start(make_buffers(game, 2))
        wrong.start(make_buffers(other, 2))
        with pytest.raises(EngineError, match="game 0: the saved battle is damaged, or belongs to other maps, rosters"):
            wrong.load(pool.save(), np.full((2, 2), -1), make_buffers(other, 2))
    shaped = BattleGame(reward_vp=0.5)  # rewards may change from one run to the next
    Battle(shaped.rules).load(Battle(game.rules, seed=8).save())


def test_mistakes_of_callers(rules):
    battle = Battle(rules, seed=1)
    for wrong in (-1, 69, 1000, next(i for i in range(69) if i not in battle.legal)):
        with pytest.raises(ValueError, match="not legal"):
            battle.step(wrong)
    for call in (lambda: battle.observe(2), lambda: battle.planes(-1), lambda: battle.script(5), lambda: battle.bot(7)):
        with pytest.raises(ValueError):
            call()
    finished = random_battle(rules, seed=1)
    with pytest.raises(ValueError, match="over"):
        finished.step(0)
    with pytest.raises(ValueError, match="over"):
        finished.script(0)


def test_a_tape_that_ends_or_does_not_fit(rules):
    recorded = random_battle(rules, seed=6)
    exact = Battle(rules, tape=recorded.results)
    assert exact.tape_left == len(recorded.results) - exact.dice
    with pytest.raises(ValueError, match="tape has ended"):
        Battle(rules, tape=recorded.results[:5])
    with pytest.raises(ValueError, match="does not have"):
        Battle(rules, tape=[3, *recorded.results[1:]])  # a map die with two faces
