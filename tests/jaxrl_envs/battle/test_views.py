"""What networks read of the battle: the table as entities, the actions by what they would do; and drawn battles."""

from __future__ import annotations

import hashlib
import json

import jax
import numpy as np
import pytest

from jaxrl.networks.config import CandidatesConfig, NetworkConfig, TransformerConfig
from jaxrl.networks.factory import make_network
from jaxrl_envs.battle import actions, observe, random_setups, rosters
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.game import BattleGame
from jaxrl_envs.battle.maps import load_map
from jaxrl_envs.battle.rosters import load_roster
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

NETWORKS = {
    "transformer": NetworkConfig(kind="transformer", transformer=TransformerConfig(dim=8, heads=2, layers=1)),
    "candidates": NetworkConfig(kind="candidates", candidates=CandidatesConfig(dim=8, layers=1, attention=1)),
}


@pytest.fixture(scope="module")
def env():
    return registry.make("battle", rosters=("line", "horde"))


@pytest.fixture(scope="module")
def asked(env):
    """Every question of a battle of scripts: (the battle's position, side, kind, unit, subject, observation, legal)."""
    battle, found = Battle(env.game.rules, seed=4), []
    while not battle.over:
        position = env.game.position(np.frombuffer(battle.save(), np.uint8))
        found.append((position, battle.observe(battle.side), battle.legal))
        battle.step(battle.bot(1))
    return found


def home(position, side: int, cell: tuple[float, float]) -> tuple[float, float]:
    """A place in the frame of a side: columns from its own edge."""
    row, col = cell
    return row, col if position.left == side else position.ground.cols - 1 - col


def test_entities_are_where_the_units_and_objectives_are(asked):
    for position, observation, _ in asked[::7]:
        parts = observe.read_parts(observation)
        side = position.question.side
        squads = [*position.squads[side], *[None] * (8 - len(position.squads[side])), *position.squads[1 - side]]
        for row, squad in enumerate(squads):
            assert bool(parts.there[row]) == (squad is not None and squad.alive)
            if parts.there[row]:
                np.testing.assert_allclose(parts.places[row], home(position, side, squad.cells[0]), atol=1e-3)
        for row, marker in enumerate(position.markers):
            np.testing.assert_allclose(parts.places[16 + row], home(position, side, marker[:2]), atol=1e-3)
        assert int(parts.there[16:].sum()) == len(position.markers)


def test_moves_end_where_the_engine_lets_them_end_on_open_ground(env):
    """Of the moves of a battle four in five meet nothing on their way; those end in the very cell foretold."""
    battle, near, exact, count = Battle(env.game.rules, seed=2), 0, 0, 0
    ends_of = jax.jit(lambda seen: observe._ends(observe.read_parts(seen)))
    for _ in range(60):
        moves = [action for action in battle.legal if actions.FIRST_MOVE <= action < actions.FIRST_MOVE + 16]
        moving = battle.kind == 0 and bool(moves)  # half or full: an advance adds a die
        action = moves[-1] if moving else battle.bot(1)
        side, unit, foretold = battle.side, battle.unit, ends_of(battle.observe(battle.side))
        battle.step(action)
        if moving:
            position = env.game.position(np.frombuffer(battle.save(), np.uint8))
            away = np.abs(np.subtract(home(position, side, position.squads[side][unit].cells[0]), foretold[action]))
            near, exact, count = near + (away.max() < 4), exact + (away.max() < 0.01), count + 1
    assert count >= 10 and exact / count > 0.6 and near / count > 0.8, (exact, near, count)


def test_options_name_the_units_that_their_actions_name(asked):
    for _, observation, legal in asked[::5]:
        view = observe.as_candidates(observation)
        for action in legal:
            row = int(view.option_entity[action])
            named = actions.action_name(action).rpartition("unit ")[2]
            assert (row < 0) == (not named.isdigit())
            if row >= 0:
                ours = actions.FIRST_SNAP <= action < actions.REROLL
                assert row == int(named) - 1 + (0 if ours else 8) and bool(view.entity_mask[row])


def test_nearness_tells_distances_and_ranges(asked):
    _, observation, _ = next(each for each in asked if each[0].question.kind == "move")
    parts = observe.read_parts(observation)
    near = np.asarray(observe.as_candidates(observation).nearness)
    knots = len(observe.KNOTS)
    here = np.asarray(parts.there)
    np.testing.assert_allclose(near[:, here, :knots].sum(axis=2), 1.0, atol=1e-5)
    assert not near[:, ~here].any()
    away = np.linalg.norm(np.asarray(parts.places - parts.place), axis=1)
    inside = here & (away > observe.KNOTS[0]) & (away < observe.KNOTS[-1])
    np.testing.assert_allclose((near[0, :, :knots] @ np.array(observe.KNOTS))[inside], away[inside], rtol=1e-4)
    reach = 48 * np.asarray(parts.asked)[observe.REACH]
    np.testing.assert_array_equal(near[0, here, knots] > 0, away[here] <= reach)


@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_over_units_play_rosters_and_maps_of_any_size(kind, asked):
    """One set of parameters, whatever is on the table: every logit and value is finite, and units matter."""
    networks = {}
    for options in ({"rosters": ("line", "horde")}, {"rosters": ("random:3", "walkers"), "maps": ("random:5",)}):
        env = registry.make("battle", **options)
        network = networks.setdefault(kind, make_network(NETWORKS[kind], env))
        params = network.init(jax.random.key(0))
        state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(1), 8))
        run = jax.jit(jax.vmap(network.evaluate, in_axes=(None, None, 0, 0)))
        _, logits, value = run(params, (), state.observation, state.legal_action_mask)
        assert np.isfinite(logits).all() and np.isfinite(value).all() and np.ptp(value) > 0
        gone = state.observation.at[:, 480:540].set(0.0)  # the enemy's first unit
        assert (np.asarray(run(params, (), gone, state.legal_action_mask)[2]) != np.asarray(value)).all()


# ---- drawn battles ---------------------------------------------------------------------------------------------------


def test_drawn_rosters_and_maps_are_the_same_for_ever_and_playable():
    assert random_setups.expanded(["line", "random:3-5", "random:9"]) == [
        "line",
        *(f"random:{n}" for n in (3, 4, 5, 9)),
    ]
    assert load_roster("random:7") == load_roster("random:7") != load_roster("random:8")
    sizes = {len(load_roster(f"random:{number}").units) for number in range(24)}
    assert sizes <= set(range(3, 9)) and len(sizes) > 3
    found = []
    for draw in (rosters._drawn, random_setups.draw_map):
        files = json.dumps([draw(name) for name in random_setups.expanded(["random:0-31"])], sort_keys=True)
        found.append(hashlib.sha256(files.encode()).hexdigest()[:16])
    assert found == ["23a8e619cb541b5f", "189959fd29724949"], "policies and tables of earlier releases speak of others"
    boards = [load_map(f"random:{number}") for number in range(24)]
    assert len({(len(board.objectives), len(board.walls)) for board in boards}) > 5
    for board in boards:
        last = board.cols - 1
        assert {(r, last - c, q) for r, c, q in board.objectives} == set(board.objectives)
    game = BattleGame(maps=("random:0-11",), rosters=("line", "random:0-5"), pairings="all")
    assert game.varieties == 49 and len(game.maps) == 12
    battle = Battle(game.rules, seed=1, slot=30)
    while not battle.over:
        battle.step(battle.bot(1))
    assert battle.result()["decisions"] > 20


def test_hundreds_of_rosters_are_matched_and_all_pairs_of_them_refused():
    game = BattleGame(maps=("random:0-3",), rosters=("random:100-299",), pairings="matched")
    names = [(one.name, other.name) for one, other in game.pairs]
    again = BattleGame(rosters=("random:100-299",), pairings="matched")
    assert names == [(one.name, other.name) for one, other in again.pairs]
    everyone = sorted(f"random:{number}" for number in range(100, 300))
    assert sorted(one for one, _ in names) == sorted(everyone * 2) == sorted(other for _, other in names)
    assert all(one != other for one, other in names) and set(names) == {(other, one) for one, other in names}
    assert (
        BattleGame(rosters=("line",), pairings="matched").pairs
        == BattleGame(rosters=("line",), pairings="all").pairs * 2
    )
    with pytest.raises(UserError, match="at most 64, or set pairings to matched"):
        BattleGame(rosters=("random:0-64",), pairings="all")


@pytest.mark.parametrize("name", ["random:", "random:x", "random:5-3", "random:0-1024", "random:-1"])
def test_wrong_numbers_of_drawn_rosters_are_one_sentence(name):
    with pytest.raises(UserError, match="random:NUMBER or random:FIRST-LAST, up to 1024"):
        BattleGame(rosters=(name,))
