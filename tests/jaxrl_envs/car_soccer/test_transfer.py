"""Car soccer in RocketSim, where that is installed (pip install 'jaxrl[rlgym]'), and as users of RLGym know it."""

from __future__ import annotations

import functools
import gzip
import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import rlgym_loop
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.simulators import rocketsim
from jaxrl_envs.car_soccer.simulators.agents import RLGymAgent
from jaxrl_envs.car_soccer.simulators.rlgym import RLGym
from jaxrl_envs.car_soccer.simulators.rocketsim import ArenaView, Pitch, packed, unpacked
from jaxrl_envs.shared.errors import UserError
from scripts import car_soccer_recordings
from tests.support.car_soccer_states import crowds, engine, random_controls

TEAMS = (0, 1, 1)
NO_ROCKETSIM = "pip install 'jaxrl[rlgym]'"


@functools.cache
def moments(count: int = 8):
    """Arenas of three cars in the middle of play; leaves [count, ...]."""
    rng, shape = np.random.default_rng(5), (count, len(TEAMS))
    arenas = crowds(rng, count, TEAMS)
    flags = ("is_jumping", "has_jumped", "has_double_jumped", "has_flipped", "is_flipping", "jump_held")
    times = ("jump_time", "flip_time", "air_time", "air_time_since_jump", "boosting_time", "handbrake")
    bumped = rng.integers(-1, len(TEAMS), shape, np.int32)
    changed = {name: rng.random(shape) < 0.5 for name in flags}
    changed |= {name: rng.random(shape).astype(np.float32) for name in times}
    changed |= {"bumped_car": bumped, "bump_cooldown": np.float32(0.1 * (bumped >= 0)), "hit_tick": bumped + 5}
    cars = arenas.cars.replace(**changed)
    wheels = cars.wheels.replace(touching=rng.random((*shape, 4)) < 0.5)
    on_ground = wheels.touching.sum(axis=-1) >= 3
    cars = cars.replace(is_boosting=cars.boosting_time > 0, wheels=wheels, on_ground=on_ground)
    cooldown = np.where(rng.random((count, 34)) < 0.5, rng.uniform(0, 4, (count, 34)), 0).astype(np.float32)
    lock = rng.integers(-1, len(TEAMS), (count, 34), np.int32)
    return arenas.replace(cars=cars, pads=arenas.pads.replace(cooldown=cooldown, lock=lock))


def same(first, second, but=()):
    """Whether all leaves are equal, except for those whose path ends so."""
    for (path, leaf), other in zip(jax.tree_util.tree_leaves_with_path(first), jax.tree.leaves(second), strict=True):
        if not jax.tree_util.keystr(path).endswith(but):
            np.testing.assert_array_equal(leaf, other, err_msg=jax.tree_util.keystr(path))


def test_cars_become_rows_and_cars_again():
    cars = moments().cars
    blank = jax.tree.map(jnp.zeros_like, cars)
    rows = jax.vmap(packed)(cars)
    assert rows.shape[:2] == (8, 3) and rows.dtype == jnp.float32
    same(cars, jax.vmap(unpacked)(blank, rows), but=("steer", "engine", "brake", "lateral", "longitudinal", "pushback"))


def test_a_missing_package_is_named(monkeypatch):
    simulators = CarSoccer().simulators
    monkeypatch.setitem(sys.modules, "RocketSim", None)
    monkeypatch.setitem(sys.modules, "rlgym", None)
    with pytest.raises(UserError, match=r"rocketsim needs the package 'RocketSim': pip install 'jaxrl\[rlgym\]'"):
        simulators["rocketsim"]()
    with pytest.raises(UserError, match=r"pip install --no-deps rlgym-rocket-league"):
        simulators["rlgym"]()


def test_an_arena_that_something_else_has_read_is_told(monkeypatch):
    def init(folder):
        raise RuntimeError("Already inited")

    monkeypatch.setitem(sys.modules, "RocketSim", types.SimpleNamespace(init=init))
    monkeypatch.setattr(rocketsim, "_READ", [])
    with pytest.raises(UserError, match=r"something else has let it read one \(Already inited\): let jaxrl begin it"):
        CarSoccer().simulators["rocketsim"]()
    assert not rocketsim._READ


# ---- with RocketSim -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulator():
    pytest.importorskip("RocketSim", reason=NO_ROCKETSIM)
    return rocketsim.started()


def views(arenas):
    """What goes over, of each arena."""
    balls = np.concatenate([leaf.array for leaf in vars(arenas.ball).values()], axis=-1)
    counts = np.stack(jax.tree.leaves(arenas.counts), axis=1)
    rows = np.asarray(jax.vmap(packed)(arenas.cars))
    return [
        ArenaView(*parts) for parts in zip(balls, rows, arenas.pads.cooldown, arenas.pads.lock, counts, strict=True)
    ]


def test_a_state_comes_back_as_it_went_over(simulator):
    pitch = Pitch(simulator, PhysicsSettings(teams=TEAMS))
    for view in views(moments()):
        pitch.write(view, 0)
        found = ArenaView(*(np.zeros_like(part) for part in view))
        pitch.read(found, 0, 0)
        for name, sent, came in zip(ArenaView._fields, view, found, strict=True):
            if name != "counts":  # those are ours
                np.testing.assert_allclose(sent, came, rtol=2e-7, atol=1e-7, err_msg=name)  # lengths there are / 50


@pytest.mark.slow
def test_it_plays_as_ours_does(simulator):
    """A second of play side by side; what has ended is left alone."""
    settings, rng = PhysicsSettings(teams=(0, 1)), np.random.default_rng(7)
    play = rocketsim.RocketSim(settings, "", 8, 0)
    step = jax.jit(jax.vmap(play))
    ours = theirs = crowds(rng, 32, settings.teams)
    over = np.arange(32) >= 28
    for _ in range(15):
        pressed = random_controls(rng, (32, 2))
        for _ in range(8):
            ours = engine(settings, 1)(ours, pressed)
        theirs = step(theirs, pressed, pressed, over)
    far = np.linalg.norm(ours.ball.position.array - theirs.ball.position.array, axis=-1)
    near = (far < 1)[:28]
    assert near.mean() >= 0.8 and play._made == 28 and (far[28:] > 1).any()
    for name, numbers in vars(ours.counts).items():
        equal = (numbers == getattr(theirs.counts, name))[:28][near].mean()
        assert equal >= 0.9, (name, equal)
    assert int(ours.counts.touches.sum()) > 0


def test_an_arena_is_kept_until_others_need_it(simulator, monkeypatch):
    monkeypatch.setattr(rocketsim, "MOST", 2)
    play = rocketsim.RocketSim(PhysicsSettings(teams=TEAMS), "", 8, 1)
    first, second, third = (jax.tree.map(lambda leaf, row=row: leaf[row], moments()) for row in range(3))
    idle, go = np.zeros((3, 8), np.float32), np.bool_(False)
    after = play(first, idle, idle, go)
    kept = list(play._left.values())[0][0]
    again = play(after, idle, idle, go)
    assert play._made == 1 and list(play._left.values())[0][0] is kept
    for arena in (second, third, second):
        play(arena, idle, idle, go)
    assert play._made == 2 and sum(map(len, play._left.values())) == 2
    fresh = play(after, idle, idle, go)  # written again, where the wheels have to begin again
    np.testing.assert_allclose(fresh.ball.position.array, again.ball.position.array, atol=1e-3)
    np.testing.assert_allclose(fresh.cars.position.array, again.cars.position.array, atol=2)


def test_a_demolished_car_comes_back_where_the_seed_says(simulator):
    pitch, arenas = Pitch(simulator, PhysicsSettings(teams=TEAMS)), moments()
    demoed = arenas.cars.is_demoed | (np.arange(3) == 1)
    arenas = arenas.replace(cars=arenas.cars.replace(is_demoed=demoed, respawn_time=np.float32(demoed * 0.05)))
    places = set()
    for seed in (3, 3, 4, 5, 6, 7):
        view = ArenaView(*map(np.copy, views(arenas)[0]))
        pitch.write(view, 0)
        pitch.play(view, 0, np.zeros((3, 8)), 8)
        pitch.read(view, 8, seed)
        assert not view.cars[1, rocketsim._IS_DEMOED]
        places.add((seed, float(view.cars[1, 0])))
    assert len(places) == 5 and len({x for _, x in places}) > 1


def test_a_second_arena_is_refused(simulator, monkeypatch):
    with pytest.raises(UserError, match="once in a process"):
        rocketsim.RocketSim(PhysicsSettings(), "/somewhere", 8, 1)


def test_what_is_seen_is_what_rlgym_sees(simulator):
    """DefaultObs of RLGym's engine and ours, of the same arena in RocketSim."""
    reason = "pip install --no-deps rlgym-rocket-league==2.0.1"
    builders = pytest.importorskip("rlgym.rocket_league.obs_builders", reason=reason)
    from rlgym.rocket_league.action_parsers import LookupTableAction

    assert (LookupTableAction.make_lookup_table() == actions.TABLE).all()
    game = CarSoccer(teams=(1, 2))
    state, arenas = game.init(jax.random.key(0)), moments()
    build, agent = builders.DefaultObs(zero_padding=3), RLGymAgent(game)
    for number, view in enumerate(views(arenas)):
        arena = jax.tree.map(lambda leaf, number=number: jnp.asarray(leaf[number]), arenas)
        theirs = build.build_obs(agent.names, agent.state_of(view, 0), {})
        ours = game._views(state.replace(game=state.game.replace(arena=arena)))
        for seat, row in enumerate(theirs.values()):
            differs = np.flatnonzero(np.abs(np.asarray(ours)[seat] - row) > 1e-6)
            assert not len(differs), (number, seat, differs)


def test_an_agent_of_rlgym_plays_the_rows_that_it_chooses(simulator):
    reason = "pip install --no-deps rlgym-rocket-league==2.0.1"
    builders = pytest.importorskip("rlgym.rocket_league.obs_builders", reason=reason)
    parsers = pytest.importorskip("rlgym.rocket_league.action_parsers", reason=reason)

    class Chooses(RLGymAgent):
        obs_builder, action_parser = builders.DefaultObs(zero_padding=3), parsers.LookupTableAction()

        def choose(self, observations):
            assert all(row.shape == (172,) for row in observations.values())
            return {"blue-0": np.array([20]), "orange-0": np.array([89])}

    class Presses(Chooses):
        action_parser = None

        def choose(self, observations):
            return {"blue-0": actions.TABLE[20] * 0.9, "orange-0": np.tile(actions.TABLE[89], (8, 1))}

    game = CarSoccer()
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 3))
    for kind in (Chooses, Presses):
        np.testing.assert_array_equal(jax.jit(jax.vmap(kind(game).actions))(states), [[20, 89]] * 3)


def test_the_first_tick_after_a_start_is_like_any_other(simulator) -> None:
    """A car that a ramp presses moves the same in a new arena and in a used one."""
    start = car_soccer_recordings.ramp(np.random.default_rng(0))
    new, used = (car_soccer_recordings.Recorder(simulator, (0,), start) for _ in range(2))
    used.arena.step(60)
    used.arena.remove_car(used.cars[0])  # whose wheels remember their pushes
    used.cars = [used.arena.add_car(0, 0)]
    used.cars[0].set_state(new.cars[0].get_state())
    used.arena.ball.set_state(new.arena.ball.get_state())
    for recorder in (new, used):
        recorder.press(np.array([[1.0, 0, 0, 0, 0, 0, 0, 0]]))
        recorder.arena.step(5)
    places = [recorder.cars[0].get_state().pos.as_tuple() for recorder in (new, used)]
    np.testing.assert_allclose(*places, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_recordings_are_recorded_again(simulator, tmp_path) -> None:
    """`python -m scripts.car_soccer_recordings` writes the files that are in the repository."""
    assert car_soccer_recordings.main([str(tmp_path)]) == 0
    for name in car_soccer_recordings.FILES:
        folders = tmp_path, car_soccer_recordings.FOLDER
        read = [json.loads(gzip.decompress((folder / name).read_bytes())) for folder in folders]
        assert read[0] == read[1], name


# ---- as in RLGym ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gym():
    game = CarSoccer(teams=(2, 1), padded=False, truncations={"timeout": 2.0})
    game.simulator = lambda arena, controls, before, over: arena.replace(tick=arena.tick + 8)  # nothing moves
    return RLGym(game, seed=3)


def test_an_episode_as_in_rlgym(gym):
    assert gym.agents == ["blue-0", "blue-1", "orange-0"] and gym.action_spaces["blue-1"] == ("discrete", 90)
    observations = gym.reset()
    form = gym.observation_spaces["orange-0"]
    assert {agent: ("real", *row.shape) for agent, row in observations.items()} == dict.fromkeys(gym.agents, form)
    steps, cut = 0, False
    while not cut:
        chosen = {agent: np.array([89]) for agent in gym.agents}
        observations, rewards, terminated, truncated = gym.step(chosen)
        assert list(observations) == list(rewards) == list(terminated) == list(truncated) == gym.agents
        assert not any(terminated.values()) and len(set(truncated.values())) == 1
        steps, cut = steps + 1, truncated["blue-0"]
    assert steps == 30 and isinstance(rewards["blue-0"], float) and "seat 2" in gym.render()
    first = gym.set_state(gym.state.replace(truncated=jnp.bool_(False)))
    np.testing.assert_array_equal(first["blue-1"], observations["blue-1"])
    starts = {tuple(np.round(gym.reset()["blue-0"], 3)) for _ in range(5)}
    assert len(starts) > 1
    gym.close()


def test_a_row_that_does_nothing_more_is_taken_for_another(gym):
    gym.reset()
    state = gym.state
    empty = state.game.arena.cars.replace(boost=jnp.zeros(3))
    game = state.game.replace(arena=state.game.arena.replace(cars=empty))
    gym.set_state(state.replace(game=game, legal_action_mask=actions.mask(game.arena)))
    boost = int(np.flatnonzero((actions.TABLE == [1, -1, 0, -1, 0, 0, 1, 0]).all(axis=1))[0])
    assert not gym.state.legal_action_mask[0, boost]
    gym.step(dict.fromkeys(gym.agents, boost))
    assert not gym.state.illegal_action
    np.testing.assert_array_equal(gym.state.game.controls, [[1, -1, 0, -1, 0, 0, 0, 0]] * 3)


def test_the_example(gym):
    CarSoccer(**rlgym_loop.OPTIONS)
    earned = rlgym_loop.play(gym, 40)  # beyond the end of an episode
    assert set(earned) == set(gym.agents) and all(np.isfinite(value) for value in earned.values())


@pytest.mark.parametrize("chosen", [{}, {"orange-0": 90}, {"orange-0": [1, 2]}])
def test_a_missing_row_is_a_sentence(gym, chosen):
    gym.reset()
    with pytest.raises(UserError, match="orange-0 needs one row of the table, 0 to 89"):
        gym.step({"blue-0": 1, "blue-1": 1} | chosen)
