"""Car soccer above the physics: what is seen, chosen, counted and paid, against plain Python and hand-made moments."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer import actions, bots, events, field, observe, scoreboard, setters
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Ball
from jaxrl_envs.car_soccer.physics.vector import Axes, axes, vec
from jaxrl_envs.car_soccer.prediction import predict, still
from jaxrl_envs.car_soccer.rewards import compose
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from tests.jaxrl_envs.car_soccer.referee import car_soccer_play as referee
from tests.support.car_soccer_moments import games, moments

pytestmark = pytest.mark.thorough

DUEL, UNEVEN, FULL = Teams((1, 1)), Teams((1, 2)), Teams((3, 3))


# ---- actions --------------------------------------------------------------------------------------------------------


def test_the_table_is_rlgyms():
    """24 rows of the ground and 66 of the air; some rows by hand, as their loops make them."""
    assert actions.TABLE.shape == (90, 8) and len(np.unique(actions.TABLE, axis=0)) == 90
    assert actions.TABLE[0].tolist() == [-1, -1, 0, -1, 0, 0, 0, 0]
    assert actions.TABLE[1].tolist() == [-1, -1, 0, -1, 0, 0, 0, 1]
    assert actions.TABLE[23].tolist() == [1, 1, 0, 1, 0, 0, 1, 1]
    assert actions.TABLE[24].tolist() == [0, -1, -1, -1, -1, 0, 0, 0]
    assert actions.TABLE[-1].tolist() == [1, 1, 1, 1, 1, 0, 1, 0]
    dodges = actions.TABLE[(actions.TABLE[:, 5] == 1) & (actions.TABLE[:, 2] != 0)]
    assert len(dodges) == 12 and (dodges[:, 7] == 1).all() and (dodges[:, 3] == 0).all()
    assert actions.name(actions.IDLE) == "nothing" and actions.name(23) == "right, boost, powerslide"


def test_the_mask_leaves_out_what_does_nothing():
    state = games(DUEL)
    mask = np.asarray(jax.jit(jax.vmap(actions.mask))(state.arena))
    cars = state.arena.cars
    demoed, empty = np.asarray(cars.is_demoed), np.asarray(cars.boost) == 0
    assert demoed.any() and (mask[demoed].sum(axis=1) == 1).all() and mask[demoed][:, actions.IDLE].all()
    boost, jump = actions.TABLE[:, 6] > 0, actions.TABLE[:, 5] > 0
    assert mask[~demoed & ~empty][:, boost & ~jump].all()
    alone = jax.tree.map(lambda leaf: leaf[:1], state)
    high = alone.arena.cars.replace(
        position=vec(jnp.array([[[0.0, 0.0, 1000.0], [2000.0, 2000.0, 1000.0]]])),
        boost=jnp.zeros((1, 2)),
        **{name: jnp.zeros((1, 2), bool) for name in ("on_ground", "is_jumping", "is_demoed", "has_double_jumped")},
        has_flipped=jnp.array([[True, False]]),
        air_time_since_jump=jnp.zeros((1, 2)),
    )
    far = alone.arena.ball.replace(position=vec(jnp.array([[3000.0, -3000.0, 100.0]])))
    drives = np.asarray(jax.vmap(lambda arena: actions.mask(arena, actions.ALLOWED["ground"]))(state.arena))
    assert (drives[..., :24] == mask[..., :24]).all()
    lies = np.asarray(actions.lies(cars)) & ~demoed
    assert 0 < lies.sum() < lies.size and (drives[..., 24:].sum(axis=-1) == lies).all()  # one row turns it over
    assert drives[lies][:, (actions.TABLE == np.eye(8)[5]).all(axis=1)].all()
    spent, fresh = np.asarray(actions.mask(jax.tree.map(lambda x: x[0], alone.arena.replace(cars=high, ball=far))))
    assert (spent == ~(boost | jump)).all() and (fresh == ~boost).all()
    placed = alone.arena.replace(cars=high, ball=far)
    longer = np.asarray(actions.mask(jax.tree.map(lambda x: x[0], placed), tick_skip=60))
    assert (longer[0] == ~boost).all()  # in half a second it may land


def test_kickoffs_are_driven_by_the_book_until_the_ball_is_touched():
    """Every place of a kickoff, from both sides, in the seconds that the page says; nothing is illegal for others."""
    seconds = {2048: 1.95, 256: 2.22, 0: 2.51}  # by the distance of the place from the middle line
    options = {"terminations": (), "truncations": {"timeout": 9}, "reward_mode": "listed", "rewards": {"touch": 1}}
    env = CarSoccer(openings=True, **options)
    starts_of = lambda games: jax.random.split(jax.random.key(0), games)  # noqa: E731
    starts = jax.jit(jax.vmap(env.init))(starts_of(40))

    def played(state):
        def decide(state, _):
            mask, touch = env.policy_mask(state), state.game.tracks.first_touch
            free = jnp.sum(state.legal_action_mask ^ actions.mask(state.game.arena), axis=-1) <= (touch < 0)
            after = env.step(state, jnp.argmax(mask, axis=-1), jax.random.key(0))
            return after, (mask, state.legal_action_mask, free.all() & ~after.illegal_action, touch)

        return jax.lax.scan(decide, state, length=44)[1]

    mask, legal, free, touch = map(np.asarray, jax.jit(jax.vmap(played))(starts))
    places = np.abs(np.asarray(starts.game.arena.cars.position.x))[:, 0].round().astype(int)
    assert set(places) == set(seconds)
    np.testing.assert_allclose(touch[:, -1] / field.TICKS, [seconds[place] for place in places], atol=0.02)
    assert (mask.sum(axis=-1)[touch < 0] == 1).all() and (mask[touch >= 0] == legal[touch >= 0]).all() and free.all()
    state = jax.tree.map(lambda leaf: leaf[0], starts)
    assert CarSoccer(**options).policy_mask(state) is state.legal_action_mask
    env = CarSoccer(openings=True, teams=(3, 3), **options)
    teams = jax.jit(jax.vmap(env.init))(starts_of(40))
    goes = np.asarray(jax.jit(jax.vmap(env.policy_mask))(teams)).sum(axis=-1) == 1
    places = np.asarray(teams.game.arena.cars.position.array)
    for game, place in zip(goes, np.linalg.norm(places[..., :2], axis=-1).reshape(-1, 2, 3), strict=True):
        for one, away in zip(game.reshape(2, 3), place, strict=True):
            assert one.sum() == 1 and away[one][0] == pytest.approx(away.min(), abs=0.1)
    with pytest.raises(UserError, match="openings are a book for tick_skip 8"):
        CarSoccer(openings=True, tick_skip=12, **options)


# ---- what is seen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("teams", "padded"), [(DUEL, False), (UNEVEN, True)])
def test_observations_are_rlgyms(teams, padded):
    state = games(teams)
    seen = np.asarray(jax.jit(jax.vmap(lambda game: observe.default(game, teams, padded)))(state))
    assert seen.shape[2] == 52 + 20 * (6 if padded else teams.seats)
    for views, moment in zip(seen, moments(state, teams), strict=True):
        for seat, view in enumerate(views):
            expected = referee.observation(moment, seat, 3 if padded else None)
            np.testing.assert_allclose(view, expected, atol=1e-6, rtol=1e-6)


def test_the_relative_observation_is_seen_from_the_car():
    state = games(UNEVEN)
    views = (observe.default, observe.relative)
    both = jax.jit(jax.vmap(lambda game: [view(game, UNEVEN, True) for view in views]))(state)
    default, relative = map(np.asarray, both)
    same = [*range(9, 72), *(52 + 20 * 3 + k for k in range(15, 20))]  # pads, own secrets and car; flags of others
    np.testing.assert_allclose(relative[..., same], default[..., same], atol=1e-6)
    cars, ball = state.arena.cars, state.arena.ball
    for seat in range(3):
        apart = np.asarray(ball.position.array - cars.position.array[:, seat])
        ahead = np.sum(np.asarray(cars.axes.forward.array[:, seat]) * apart, axis=1)
        np.testing.assert_allclose(relative[:, seat, 0], ahead / 2300, atol=1e-5)
        lengths = [np.linalg.norm(each, axis=1) for each in (relative[:, seat, :3], apart / 2300)]
        np.testing.assert_allclose(*lengths, atol=1e-5)
    np.testing.assert_allclose(relative[:, 0, 72:112], 0)  # the first car has no mates


def test_parts_that_follow():
    state = games(UNEVEN)
    all_parts = lambda game: {name: part(game, UNEVEN, True) for name, part in observe.EXTRAS.items()}  # noqa: E731
    parts = jax.jit(jax.vmap(all_parts))(state)
    assert np.asarray(parts["present"][0]).tolist() == [[0, 0, 1, 1, 0], [1, 0, 1, 0, 0], [1, 0, 1, 0, 0]]
    assert np.array_equal(parts["previous_action"], state.controls)
    ahead = np.asarray(parts["prediction"]).reshape(-1, 3, 3, 3)
    ball = jax.tree.map(lambda leaf: leaf[0], state.arena.ball)
    np.testing.assert_allclose(ahead[0, 0], predict(ball, 20).position.array[np.array([4, 9, 19])] / 2300, atol=1e-5)
    assert "scan" not in str(jax.make_jaxpr(jax.vmap(all_parts))(state))  # a step predicts the ball once
    np.testing.assert_allclose(ahead[:, 1], ahead[:, 0] * np.array([-1, -1, 1]), atol=1e-6)
    assert np.asarray(parts["scoreboard"])[0].tolist() == [[0, 1, 0]] * 3
    aim, cars = np.asarray(parts["aim"]).reshape(-1, 3, 4, 4), state.arena.cars
    ways = np.einsum("gpwk,gpkx->gpwx", aim[..., :3], cars.axes.array) * (1000 * np.exp(aim[..., 3:]) - 1)
    ball, here = np.asarray(state.arena.ball.position.array)[:, None], np.asarray(cars.position.array)
    middle = field.GOAL_HEIGHT / 2
    goals = [np.array([[0, way * field.BACK * side, middle] for way in UNEVEN.attack]) for side in (1, -1)]
    expected = np.stack([ball - here, goals[0] - ball, goals[0] - here, goals[1] - here], axis=2)
    np.testing.assert_allclose(ways, expected, atol=0.5)


# ---- scripted players -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("teams", [DUEL, FULL], ids=["1v1", "3v3"])
def test_bots_play_as_their_plain_versions(teams):
    state = games(teams, seed=1)
    told = moments(state, teams)
    mask = np.asarray(jax.jit(jax.vmap(actions.mask))(state.arena))
    table = actions.TABLE.tolist()
    driven = jax.jit(jax.vmap(lambda game: {name: driver(game, teams) for name, driver in bots.DRIVERS.items()}))(state)
    for name, wanted in driven.items():
        wanted = np.asarray(wanted)
        rows = np.asarray(actions.nearest(jnp.asarray(wanted), jnp.asarray(mask)))
        for game, moment in enumerate(told):
            for seat in range(teams.seats):
                expected = referee.controls(name, moment, seat)
                np.testing.assert_allclose(wanted[game, seat], expected, atol=1e-4, err_msg=f"{name} {game} {seat}")
                row = referee.nearest_row(table, [round(v, 4) for v in expected], mask[game, seat].tolist())
                if (np.abs(np.abs(expected) - 0.5) > 1e-3).all():  # else rounding decides between two rows
                    assert rows[game, seat] == row


# ---- how episodes begin ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kickoff", "random", "air", "shoot"])
@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_everything_begins_inside_of_the_field(name, difficulty):
    scene = setters.Scene(FULL, difficulty)
    start = jax.jit(jax.vmap(lambda key: setters.SETTERS[name](key, scene)))(jax.random.split(jax.random.key(0), 300))
    for position in (start.ball_position[:, None], start.position):
        x, y, z = np.abs(np.asarray(position)).transpose(2, 0, 1)
        assert (x < field.SIDE - 90).all() and (y < field.BACK - 90).all() and (z < field.CEILING - 90).all()
        assert (x + y < field.CORNER - 130).all() and (np.asarray(position)[..., 2] >= 17).all()
        for wall, across in ((field.SIDE, x), (field.BACK, y)):  # the ball is clear of the ramps at the ceiling
            assert (np.hypot(np.maximum(across - wall + 512, 0), np.maximum(z - 1536, 0)) < 512 - 92).all()
    rotation = np.asarray(start.rotation)
    turned = rotation @ rotation.swapaxes(-1, -2)
    np.testing.assert_allclose(turned, np.broadcast_to(np.eye(3), rotation.shape), atol=1e-4)
    np.testing.assert_allclose(np.linalg.det(rotation), 1, atol=1e-4)  # forward x right = up
    assert (np.linalg.norm(start.velocity, axis=-1) <= field.CAR_SPEED + 1).all()


def test_kickoffs_are_fair():
    begin = jax.jit(jax.vmap(lambda key: setters.kickoff(key, setters.Scene(FULL))))
    start = begin(jax.random.split(jax.random.key(1), 200))
    position, forward = np.asarray(start.position), np.asarray(start.rotation)[:, :, 0]
    np.testing.assert_allclose(position[:, :3] * [-1, -1, 1], position[:, 3:], atol=1e-3)
    np.testing.assert_allclose(forward[:, :3] * [-1, -1, 1], forward[:, 3:], atol=1e-5)
    places = {tuple(np.round(place[:2]).astype(int)) for place in position[:, :3].reshape(-1, 3)}
    assert places == {(-2048, -2560), (2048, -2560), (-256, -3840), (256, -3840), (0, -4608)}
    assert all(len({tuple(car) for car in game[:3]}) == 3 for game in position)


def test_shoot_gives_an_easy_chance():
    scene = setters.Scene(DUEL, 0.0)
    start = jax.jit(jax.vmap(lambda key: setters.shoot(key, scene)))(jax.random.split(jax.random.key(2), 200))
    way = np.sign(np.asarray(start.ball_position[:, 1]))
    shooter = (way < 0).astype(int)
    rows = np.arange(200)
    to_ball = np.asarray(start.ball_position) - np.asarray(start.position)[rows, shooter]
    forward = np.asarray(start.rotation)[rows, shooter, 0]
    assert 80 < (way > 0).sum() < 120 and (to_ball[:, 1] * way > 0).all()
    assert (np.sum(forward[:, :2] * to_ball[:, :2], axis=1) / np.linalg.norm(to_ball[:, :2], axis=1) > 0.999).all()
    assert (np.asarray(start.ball_velocity) == 0).all()


def test_mixtures_draw_by_weight():
    names = {"one": 3.0, "two": 1.0, "three": 0.0}
    known = {name: lambda key, scene, value=value: jnp.float32(value) for value, name in enumerate(names)}
    drawn = jax.vmap(lambda key: setters.mixture(names, known)(key, None))(jax.random.split(jax.random.key(3), 2000))
    assert (np.asarray(drawn) < 2).all() and abs(np.mean(np.asarray(drawn) == 1) - 0.25) < 0.03


def test_states_of_a_file(tmp_path):
    scene = setters.Scene(DUEL)
    states = jax.jit(jax.vmap(lambda key: setters.random(key, scene)))(jax.random.split(jax.random.key(4), 5))
    setters.save_states(tmp_path / "states.npz", states)
    env = CarSoccer(setters={"replay": 1}, replays=str(tmp_path / "states.npz"))
    begun = jax.jit(jax.vmap(lambda key: env.setter(key, env.scene)))(jax.random.split(jax.random.key(0), 64))
    drawn, held = ({tuple(place) for place in np.asarray(each.ball_position)} for each in (begun, states))
    assert drawn == held
    with pytest.raises(UserError, match="no file of states with 4 cars"):
        CarSoccer(teams=(2, 2), setters={"replay": 1}, replays=str(tmp_path / "states.npz"))
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UserError, match="cannot read the states"):
        CarSoccer(setters={"replay": 1}, replays=str(tmp_path / "damaged.npz"))


# ---- what happens ---------------------------------------------------------------------------------------------------


def moved(game, *, ball=None, speed=None, tick=0, **counts):
    """A game some ticks later, with the ball elsewhere and counts changed."""
    arena = game.arena
    body = arena.ball
    body = body.replace(position=vec(jnp.array(ball, jnp.float32))) if ball else body
    body = body.replace(velocity=vec(jnp.array(speed, jnp.float32))) if speed else body
    changed = {name: jnp.array(value, jnp.int32) for name, value in counts.items()}
    return game.replace(arena=arena.replace(ball=body, tick=arena.tick + tick, counts=arena.counts.replace(**changed)))


def first(teams, seed=0):
    game = jax.tree.map(lambda leaf: leaf[0], games(teams, seed))
    return game.replace(arena=game.arena.replace(tick=jnp.int32(0)))


@cache
def _observed(teams):
    return jax.jit(lambda *arguments: events.observe(teams, *arguments))


def happened(teams, before, after):
    tracks, found = _observed(teams)(before.tracks, before.arena, after.arena)
    return after.replace(tracks=tracks), found


def test_goals_assists_and_own_goals():
    touched = [900, 960, -1, 400, -1, -1]
    game = moved(first(FULL), ball=(0, 0, 100), speed=(0, 0, 0), tick=1000, last_touch=touched)
    after, found = happened(FULL, game, moved(game, ball=(0, 5300, 200), tick=8))
    assert found.scored.tolist() == [True] * 3 + [False] * 3 and found.conceded.tolist() == [False] * 3 + [True] * 3
    assert np.flatnonzero(found.goal).tolist() == [1] and np.flatnonzero(found.assist).tolist() == [0]
    assert not found.own_goal.any()
    _, found = happened(FULL, game, moved(game, ball=(0, -5300, 200), tick=8))
    assert not found.own_goal.any() and not found.goal.any()  # no car sent it there
    late = moved(game, tick=600)
    _, found = happened(FULL, late, moved(late, ball=(0, 5300, 200), tick=8))
    assert found.scored.any() and not found.goal.any()  # four seconds after the touch no car is credited


def test_an_own_goal_is_of_the_team_that_sent_the_ball_not_of_who_deflects_a_shot():
    def goes(speed, touch=None, **more):
        """The ball with another speed after a decision, in which a car may have touched it; who pays for it then."""
        nonlocal game
        counts = game.arena.counts
        last, number = np.array(counts.last_touch), np.array(counts.touches)
        if touch is not None:
            last[touch], number[touch] = int(game.arena.tick), number[touch] + 1
        after = moved(game, speed=speed, tick=8, touches=number, last_touch=last, **more)
        step = one_step(FULL, game, after)
        game = step.after
        return [np.flatnonzero(compose.COMPONENTS[n].function(step)).tolist() for n in ("own_goal_risk", "own_goal")]

    into, away = (0, -3000, 0), (0, 3000, 0)
    lies = moved(first(FULL), ball=(0, -3000, 200), speed=(0, 0, 0), tick=100, last_touch=[-1] * 6)
    lies = game = lies.replace(tracks=events.begin(FULL, still(lies.arena.ball), kickoff=jnp.bool_(False)))
    assert goes(into, touch=4) == [[], []]  # an opponent shoots
    assert goes((100, -2500, 0), touch=1) == [[], []]  # a defender deflects it
    assert goes(into, ball=(0, -5300, 200)) == [[], []]
    game = lies
    assert goes(into, touch=1) == goes(into, touch=1) == [[1], []]  # it sends the ball itself, in two decisions
    assert goes(into, ball=(0, -5300, 200)) == [[], [1]]
    game = lies
    assert goes(away, touch=1) == goes(into, touch=4) == [[], []]  # an opponent turns it
    assert goes(into, ball=(0, -5300, 200)) == [[], []]


def test_shots_and_saves():
    game = moved(first(DUEL), ball=(0, 3000, 200), speed=(0, 3000, 0), tick=100, last_touch=[60, -1])
    shot, found = happened(DUEL, game, moved(game, tick=8))
    assert found.shot.tolist() == [True, False] and found.threat.tolist() == [False, True]
    again, found = happened(DUEL, shot, moved(shot, tick=8))
    assert not found.shot.any()
    _, found = happened(DUEL, again, moved(again, speed=(0, -2000, 0), tick=8, touches=[0, 1], last_touch=[60, 120]))
    assert found.save.tolist() == [False, True]
    slow = moved(game, speed=(0, 1500, 0))
    assert not happened(DUEL, slow, moved(slow, tick=8))[1].shot.any()


def test_passes_kickoffs_and_possession():
    untouched = np.full(6, -1)
    game = moved(first(FULL), ball=(0, 0, 93), speed=(0, 0, 0), last_touch=untouched)
    game = game.replace(tracks=events.begin(FULL, still(game.arena.ball), kickoff=jnp.bool_(True)))

    def touches(game, ticks, **when):
        counts = game.arena.counts
        last, number = np.array(counts.last_touch), np.array(counts.touches)
        for car, tick in when.items():
            last[int(car[-1])], number[int(car[-1])] = tick, number[int(car[-1])] + 1
        return moved(game, tick=ticks, touches=number, last_touch=last)

    after, found = happened(FULL, game, touches(game, 8, car0=5))
    assert found.possession.tolist() == [True] * 3 + [False] * 3 and not found.kickoff_won.any()
    after, found = happened(FULL, after, touches(after, 100, car1=90))
    assert np.flatnonzero(found.passed).tolist() == [0] and np.flatnonzero(found.received).tolist() == [1]
    after, found = happened(FULL, after, moved(after, ball=(0, 900, 93), tick=200))
    assert found.kickoff_won.tolist() == [True] * 3 + [False] * 3 and bool(after.tracks.judged)
    assert not happened(FULL, after, moved(after, tick=8))[1].kickoff_won.any()


def test_a_match_ends_after_its_time_or_in_overtime():
    board = scoreboard.begin(10.0)
    none, blue = jnp.array([False, False]), jnp.array([True, False])
    board = scoreboard.advance(board, blue, 9.0, jnp.float32(500))
    up = scoreboard.advance(board, none, 2.0, jnp.float32(500))
    assert not bool(up.over) and float(up.left) == 0  # the ball is still in the air
    assert bool(scoreboard.advance(up, none, 0.1, jnp.float32(100)).over)
    even = scoreboard.advance(up, blue[::-1], 0.1, jnp.float32(500))
    assert bool(even.overtime) and not bool(even.over)
    assert bool(scoreboard.advance(even, blue, 50.0, jnp.float32(500)).over)


def test_the_prediction_of_the_ball():
    """In flight as the closed form has it; it bounces from the floor and from walls, and goes into the goal."""
    fall = Ball(vec(jnp.array([0.0, 0.0, 1500.0])), vec(jnp.array([300.0, -200.0, 400.0])), vec(jnp.zeros(3)))
    ahead = predict(fall, 10)
    slower = (1 - 0.97) / -math.log(0.97)  # mean share of the velocity within the second
    np.testing.assert_allclose(ahead.position.x[-1], 300 * slower, atol=2)
    np.testing.assert_allclose(ahead.position.z[-1], 1500 + 400 - 325, atol=15)
    sent = lambda position, velocity: predict(  # noqa: E731
        fall.replace(position=vec(jnp.array(position)), velocity=vec(jnp.array(velocity))), 20
    )
    bounced = sent((0.0, 0.0, 300.0), (0.0, 0.0, -500.0))
    assert float(bounced.position.z.min()) > 85 and float(bounced.position.z[6]) > 95
    goal = sent((0.0, 4000.0, 100.0), (0.0, 2000.0, 0.0))
    wall = sent((2000.0, 4000.0, 100.0), (0.0, 2000.0, 0.0))
    assert float(goal.scored) == 1 and float(wall.scored) == 0 and float(wall.position.y[-1]) < 5100


def test_a_goal_after_the_time_of_a_match_counts_once_where_no_match_ends_the_episode():
    over = moved(first(DUEL), ball=(0, 5400, 200))
    over = over.replace(board=over.board.replace(over=jnp.bool_(True)))
    for terminations, y in ((("match",), 5400.0), (("touch",), 0.0)):
        env = CarSoccer(terminations=terminations)
        assert float(jax.jit(env._continued)(over, over).arena.ball.position.y) == y


# ---- rewards --------------------------------------------------------------------------------------------------------


def upright(cars) -> Axes:
    return axes(jnp.tile(jnp.eye(3), (cars, 1, 1)))


def one_step(teams, before, after, controls=None):
    after, found = happened(teams, before, after)
    return Step(teams, 8 / 120, before, after, found)


def test_every_component_is_finite_and_pays_both_teams_alike():
    """Games turned by 180 degrees with the teams exchanged pay the same."""
    before, after = games(FULL, 5), games(FULL, 6)
    counts = jax.tree.map(lambda leaf: jax.random.randint(jax.random.key(7), leaf.shape, 0, 3), after.arena.counts)
    after = after.replace(arena=after.arena.replace(counts=counts))

    def pay(before, after):
        step = one_step(FULL, before, after)
        return {name: part.function(step) for name, part in compose.COMPONENTS.items()}

    def turned(game):
        order = np.array([3, 4, 5, 0, 1, 2])
        flip = lambda v: type(v)(-v.x, -v.y, v.z)  # noqa: E731
        is_vector = lambda node: hasattr(node, "scaled")  # noqa: E731
        arena = jax.tree.map(lambda node: flip(node) if is_vector(node) else node, game.arena, is_leaf=is_vector)
        cars = jax.tree.map(lambda leaf: leaf[:, order], (arena.cars, arena.counts))
        return game.replace(arena=arena.replace(cars=cars[0], counts=cars[1]))

    run = jax.jit(jax.vmap(pay))
    plain, other = run(before, after), run(turned(before), turned(after))
    for name, value in plain.items():
        assert value.shape == (64, 6) and np.isfinite(value).all(), name
        np.testing.assert_allclose(value, np.roll(other[name], 3, axis=1), atol=2e-4, err_msg=name)
    paid = {name for name, value in plain.items() if np.asarray(value).any()}
    assert len(paid) > 30
    assert {"velocity_to_ball", "spacing", "coverage", "overcommit", "shadow", "aerial_touch"} <= paid


def test_a_demolished_car_earns_nothing_by_its_old_state():
    before, after = games(FULL, 5), games(FULL, 6)

    def pay(before, after):
        step = one_step(FULL, before, after)
        rates = {name: 1.0 for name, part in compose.COMPONENTS.items() if part.rate}
        of_ball = jnp.array([compose.COMPONENTS[name].of_ball for name in rates])
        return compose.Reward(rates)(step)[1], of_ball, step.alive

    shares, of_ball, alive = map(np.asarray, jax.jit(jax.vmap(pay))(before, after))
    cars = shares[~of_ball].reshape(64, -1, 6)
    assert not (cars * ~alive[:, None]).any() and (cars * alive[:, None]).any(axis=(0, 2)).sum() > 15
    assert (shares[of_ball].reshape(64, -1, 6) * ~alive[:, None]).any()


def test_demolished_mates_and_opponents_do_not_count():
    """Neither for rewards nor for scripted players: what is left of a team plays as a team of that size."""
    full, alone = games(FULL, 5), games(DUEL, 5)
    cars = full.arena.cars
    gone = cars.replace(is_demoed=jnp.ones_like(cars.is_demoed).at[:, jnp.array([0, 3])].set(False))
    pair = jax.tree.map(lambda leaf: leaf[:, jnp.array([0, 3])], gone)
    full = full.replace(arena=full.arena.replace(cars=gone))
    arena = full.arena.replace(cars=pair, counts=alone.arena.counts)
    alone = alone.replace(arena=arena, controls=full.controls[:, ::3])
    names = ("midfield", "goal_line", "shadow", "spacing", "coverage", "rotation", "double_commit", "overcommit")

    def seen(teams):
        def of(game):
            step = one_step(teams, game, game)
            paid = [compose.COMPONENTS[name].function(step) for name in names]
            return jnp.stack([*paid, step.last_of_team, step.closest_of_team]), bots.rule_policy(game, teams)

        return jax.jit(jax.vmap(of))

    (paid, driven), (expected, wanted) = seen(FULL)(full), seen(DUEL)(alone)
    np.testing.assert_allclose(paid[:, :, ::3], expected, atol=1e-5)
    np.testing.assert_allclose(driven[:, ::3], wanted, atol=1e-5)
    assert not np.asarray(paid[:, names.index("spacing"), ::3]).any()


def test_a_flip_reset_needs_wheels_on_the_ball_only():
    game = moved(first(DUEL), ball=(0, 0, 895), speed=(0, 0, 0))
    place = vec(jnp.array([[0.0, 0.0, 1000.0], [0.0, 300.0, 1000.0]]))
    flags = {name: jnp.zeros(2, bool) for name in ("is_demoed", "has_double_jumped")}
    cars = game.arena.cars.replace(position=place, axes=upright(2), air_time_since_jump=jnp.zeros(2), **flags)
    spent, fresh = (cars.replace(has_flipped=jnp.full(2, value)) for value in (True, False))
    steps = [
        one_step(DUEL, *(game.replace(arena=game.arena.replace(cars=each)) for each in pair))
        for pair in ((spent, fresh), (fresh, fresh))
    ]
    pays = [np.asarray(compose.COMPONENTS["flip_reset"].function(step)).tolist() for step in steps]
    assert pays == [[1, 0], [0, 0]]


def test_some_components_by_hand():
    game = moved(first(DUEL), ball=(0, 1000, 93), speed=(0, 600, 0))
    cars = game.arena.cars.replace(
        position=vec(jnp.array([[0.0, 0.0, 17.0], [0.0, 3000.0, 17.0]])),
        velocity=vec(jnp.array([[0.0, 1150.0, 0.0], [0.0, 1150.0, 0.0]])),
        boost=jnp.array([25.0, 100.0]),
        is_demoed=jnp.zeros(2, bool),
    )
    game = game.replace(arena=game.arena.replace(cars=cars))
    closer = cars.replace(position=vec(jnp.array([[0.0, 100.0, 17.0], [0.0, 3100.0, 17.0]])))
    later = moved(game, tick=8, touches=[1, 0], last_touch=[5, -1])
    step = one_step(DUEL, game, later.replace(arena=later.arena.replace(cars=closer)))
    pays = {name: np.asarray(part.function(step)) for name, part in compose.COMPONENTS.items()}
    assert pays["touch"].tolist() == [1, 0]
    np.testing.assert_allclose(pays["velocity_to_ball"], [0.5, 0], atol=0.01)
    np.testing.assert_allclose(pays["approach"], [100 / (2300 * 8 / 120), -100 / (2300 * 8 / 120)], atol=0.01)
    np.testing.assert_allclose(pays["boost_kept"], [0.5, 1.0], atol=1e-6)
    np.testing.assert_allclose(pays["ball_velocity_to_goal"], [0.1, -0.1], atol=0.001)
    assert pays["offensive"].tolist() == [1, 0] and pays["defensive"].tolist() == [0, 1]


def test_rewards_are_weighted_shared_and_logged():
    game = moved(first(FULL), ball=(0, 0, 93), speed=(0, 0, 0))
    one = np.array([1, 0, 0, 0, 0, 0])
    step = one_step(FULL, game, moved(game, tick=8, touches=2 * one, last_touch=6 * one - 1))
    weights = {"touch": 3.0, "attacking_third": -1.0}
    earned, shares = compose.Reward(weights)(step)
    assert earned.tolist() == (3 * one).tolist() and shares.tolist() == [(3 * one).tolist(), [0] * 6]
    team = [1, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(compose.Reward(weights, team_spirit=1.0)(step)[0], team, atol=1e-6)
    both = compose.Reward(weights, zero_sum=1.0)(step)[0]
    np.testing.assert_allclose(both, [3, 0, 0, -1, -1, -1], atol=1e-6)
    losing = game.replace(board=game.board.replace(goals=jnp.array([0, 1])))
    behind = Step(FULL, step.seconds, losing, step.after, step.events)
    assert compose.Reward(weights, factors={"losing": 2.0})(behind)[0].tolist() == (6 * one).tolist()


def test_what_a_car_earns_in_a_decision_is_cut_before_teams_share_it():
    game = moved(first(DUEL), ball=(0, 0, 93), speed=(0, 0, 0))
    step = one_step(DUEL, game, moved(game, tick=8, touches=[1, 0], last_touch=[6, -1]))
    reward = compose.Reward({"touch": -30.0}, clip=10.0, zero_sum=1.0)
    earned, shares = reward(step)
    assert earned.tolist() == [-10, 10] and shares.tolist() == [[-30, 0], [20, 0]]
    assert reward.names == ("touch", "clipped") and CarSoccer(reward_clip=0).reward.clip == 0
    env = CarSoccer(reward_mode="listed", rewards={"touch": -30.0})
    told = lambda state: (env.episode_stats(state), env.reward_parts(state))  # noqa: E731
    of_game = jax.eval_shape(lambda: [told(env.init(jax.random.key(0)))])
    assert "reward_clipped" in of_game[0][0] and list(of_game[0][1]) == ["touch"]


def test_weights_are_annealed():
    """Those with two values, and of two modes; the rest of the game stays, and so does the order of the shares."""
    listed = {"touch": (3.0, 1.0), "goal": 5.0}
    env = CarSoccer(reward_mode="listed", rewards=listed, annealed_by=0.5)
    game = moved(first(DUEL), ball=(0, 0, 93), speed=(0, 0, 0))
    step = one_step(DUEL, game, moved(game, tick=8, touches=[1, 0], last_touch=[6, -1]))
    paid = {at: float(env.annealed(jnp.float32(at)).reward(step)[0][0]) for at in (0.0, 0.25, 0.5, 1.0)}
    assert paid == {0.0: 3.0, 0.25: 2.0, 0.5: 1.0, 1.0: 1.0} and float(env.reward(step)[0][0]) == 1
    fixed = CarSoccer(reward_mode="listed", rewards={"touch": [2, 2]})
    assert fixed.annealed(jnp.float32(0)) is fixed and fixed.reward.weights == {"touch": 2}
    mixed = CarSoccer(reward_mode=["dense", "sparse"], rewards={"demo": 0}).reward.weights
    assert mixed["goal"] == (2, 10) and mixed["touch"] == (0.1, 0) and "demo" not in mixed
    assert set(mixed) == {*compose.weights_of("dense", {}, mates=False)} - {"demo"}


def test_modes():
    for mode in ("sparse", "dense", "hybrid"):
        weights = compose.weights_of(mode, {})
        assert weights["goal"] == {"sparse": 10, "dense": 2, "hybrid": 10}[mode]
        assert ("touch" in weights) == (mode != "sparse")
    assert compose.weights_of("hybrid", {"touch": 0.0, "in_air": 0.3})["in_air"] == 0.3
    assert "touch" not in compose.weights_of("hybrid", {"touch": 0.0})
    assert compose.weights_of("listed", {"goal": 1.0}) == {"goal": 1.0}
    assert all(part.function.__doc__ for part in compose.COMPONENTS.values())


# ---- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"teams": (4, 4)}, "teams must be two numbers of cars, 1 to 3"),
        ({"setters": {"kickof": 1}}, "did you mean 'kickoff'"),
        ({"setters": {"kickoff": 0}}, "weights of setters sum to nothing"),
        ({"setters": {"kickoff": -1}}, "setters.kickoff must be a number >= 0"),
        ({"setters": {"replay": 1}}, "needs a file of states"),
        ({"rewards": {"tuch": 1}}, "did you mean 'touch'"),
        ({"reward_mode": "listed"}, "weights of rewards sum to nothing"),
        ({"reward_mode": "denser"}, "did you mean 'dense'"),
        ({"truncations": {}}, "may never end"),
        ({"truncations": {"no_tuch": 3}}, "did you mean 'no_touch'"),
        ({"terminations": ("gaol",)}, "did you mean 'goal'"),
        ({"rewards": {"touch": [1, 2, 3]}}, "touch must be one value, or two"),
        ({"annealed_by": 0}, "annealed_by must be above 0"),
        ({"reward_clip": -1}, "reward_clip must be a number >= 0"),
        ({"delay": 9}, "delay must be 0 to tick_skip"),
        ({"difficulty": 2.0}, "difficulty must be 0 to 1"),
        ({"factors": {"overtme": 2}}, "did you mean 'overtime'"),
    ],
)
def test_mistakes_end_in_one_sentence(options, said):
    with pytest.raises(UserError, match=said) as error:
        registry.make("car_soccer", **options)
    assert str(error.value).count("\n") == 0


def test_weights_of_rewards_may_be_negative_but_are_numbers():
    assert CarSoccer(rewards={"touch": -1.0}).reward.weights["touch"] == -1
    with pytest.raises(UserError, match=r"rewards\.touch must be a number, not nan\.$"):
        CarSoccer(rewards={"touch": math.nan})


def test_states_are_of_the_size_of_the_settings():
    env = CarSoccer(teams=(1, 2))
    assert env.sides == (0, 1, 1) and env.num_players == 3 and env.settings == PhysicsSettings((0, 1, 1))
    assert CarSoccer(teams=(1, 0)).sides == (0,)
