"""A policy of car soccer as a bot of RLBot: what it sees and may do is what it saw and could do in training.

pip install rlgym-rlbot, Python 3.11 or 3.12; then pytest tests/policies/test_rlbot.py also reads packets of RLBot.
"""

from __future__ import annotations

import time
import tomllib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl.policies.standalone.rlbot_folder import save_rlbot
from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.observe import _PAD_ORDER
from jaxrl_envs.shared.errors import UserError
from tests.policies.test_standalone import program_of, untrained

SETTERS = {"random": 1.0, "air": 1.0}
EXTRAS = ["present", "aim", "previous_action", "scoreboard"]
RELATIVE = {"teams": [2, 2], "observation": "relative", "extras": EXTRAS, "setters": SETTERS}
DEFAULT = {"teams": [1, 1], "observation": "default", "padded": False, "actions": "ground", "setters": SETTERS}
GAMES = 10


def policy_with(options):
    return untrained(
        {"env": {"id": "car_soccer", "options": options}, "network": {"hidden": [8]}}, "car_soccer", "pace"
    )


def body(position, velocity, spin, axes):
    rotation = np.array(axes).T if axes is not None else None
    return SimpleNamespace(
        position=np.array(position),
        linear_velocity=np.array(velocity),
        angular_velocity=np.array(spin),
        rotation_mtx=rotation,
        forward=rotation[:, 0] if axes is not None else None,
        up=rotation[:, 2] if axes is not None else None,
    )


def car(cars, number, team):
    """A car as `rlgym_compat` has it."""
    at = jax.tree.map(lambda leaf: leaf[number], cars)
    flipped, double = bool(at.has_flipped), bool(at.has_double_jumped)
    has_flip = not flipped and not double and float(at.air_time_since_jump) < 1.25
    return SimpleNamespace(
        team_num=team,
        physics=body(at.position.array, at.velocity.array, at.angular_velocity.array, at.axes.array),
        boost_amount=float(at.boost),
        demo_respawn_timer=float(at.respawn_time) * bool(at.is_demoed),
        on_ground=bool(at.on_ground),
        is_boosting=float(at.boosting_time) > 0,
        is_supersonic=bool(at.is_supersonic),
        is_holding_jump=bool(at.jump_held),
        handbrake=float(at.handbrake),
        has_jumped=bool(at.has_jumped),
        is_jumping=bool(at.is_jumping),
        has_flipped=flipped,
        is_flipping=flipped and float(at.flip_time) < 0.65,
        has_double_jumped=double,
        has_flip=has_flip,
        can_flip=not bool(at.on_ground) and not bool(at.jump_held) and has_flip,
        is_autoflipping=bool(at.is_auto_flipping),
        air_time_since_jump=float(at.air_time_since_jump),
    )


def shown(game, teams):
    """The state as `rlgym_compat` has it, whose pads count up."""
    arena = game.arena
    ball = arena.ball
    left = np.array(arena.pads.cooldown)[_PAD_ORDER]
    full = np.where(np.isin(np.arange(34), (3, 4, 15, 18, 29, 30)), 10, 4)
    return SimpleNamespace(
        cars={f"car {k}": car(arena.cars, k, int(team)) for k, team in enumerate(teams)},
        ball=body(ball.position.array, ball.velocity.array, ball.angular_velocity.array, None),
        boost_pad_timers=np.where(left > 0, full - left, 0),
    )


def any_state(env, rng, key):
    """A state whose cars have jumped, dodged and boosted anyhow, and the mask of what they may do in it."""
    state = env.init(key)
    flags = ("on_ground", "jump_held", "has_jumped", "is_jumping", "has_flipped", "has_double_jumped", "is_supersonic")
    numbers = {"boost": 100, "handbrake": 1, "air_time_since_jump": 2.5, "flip_time": 1.3, "boosting_time": 1}
    seats = env.num_players
    cars = state.game.arena.cars.replace(
        is_demoed=jnp.asarray(rng.random(seats) < 0.1),
        respawn_time=jnp.asarray(rng.random(seats), jnp.float32),
        **{name: jnp.asarray(rng.random(seats) < 0.5) for name in flags},
        **{name: jnp.asarray((rng.random(seats) * most).round(1), jnp.float32) for name, most in numbers.items()},
    )
    pads = state.game.arena.pads.replace(cooldown=jnp.asarray((rng.random(34) * 4 - 1).clip(0), jnp.float32))
    arena = state.game.arena.replace(cars=cars, pads=pads)
    controls = jnp.asarray(actions.TABLE[rng.integers(0, 90, seats)])
    board = state.game.board.replace(goals=jnp.asarray(rng.integers(0, 9, 2), jnp.int32))
    game = state.game.replace(arena=arena, controls=controls, board=board)
    return state.replace(game=game, legal_action_mask=actions.mask(arena, env.allowed, env.tick_skip))


def in_packets(game, ticks):
    """A game state of `shown` as two packets of RLBot, a tick apart."""
    from rlbot import flat

    def physics(body, axes=None):
        turned = {}
        if axes is not None:
            pitch, yaw = np.arcsin(axes[2, 0]), np.arctan2(axes[1, 0], axes[0, 0])
            turned = {"rotation": flat.Rotator(pitch, yaw, np.arctan2(-axes[2, 1], axes[2, 2]))}
        velocity, spin = (flat.Vector3(*map(float, part)) for part in (body.linear_velocity, body.angular_velocity))
        return flat.Physics(
            flat.Vector3(*map(float, body.position)), velocity=velocity, angular_velocity=spin, **turned
        )

    def player(number, car):
        return flat.PlayerInfo(
            physics=physics(car.physics, car.physics.rotation_mtx),
            air_state=flat.AirState.OnGround if car.on_ground else flat.AirState.InAir,
            dodge_timeout=1.25 - car.air_time_since_jump,
            demolished_timeout=car.demo_respawn_timer or -1,
            is_supersonic=car.is_supersonic,
            team=car.team_num,
            boost=car.boost_amount,
            player_id=number,
            last_input=flat.ControllerState(jump=car.is_holding_jump, boost=car.is_boosting),
            has_jumped=car.has_jumped,
            has_double_jumped=car.has_double_jumped,
            has_dodged=car.has_flipped,
            dodge_elapsed=0.0 if car.is_flipping else 1.0,
        )

    players = [player(number, car) for number, car in enumerate(game.cars.values())]
    pads = [flat.BoostPadState(timer == 0, float(timer)) for timer in game.boost_pad_timers]
    balls = [flat.BallInfo(physics(game.ball))]
    match = [flat.MatchInfo(match_phase=flat.MatchPhase.Active, frame_num=tick) for tick in ticks]
    return [flat.GamePacket(players, pads, balls, each) for each in match]


@pytest.mark.thorough
@pytest.mark.parametrize("options", [RELATIVE, DEFAULT], ids=["relative", "default"])
def test_packets_of_rlbot_say_the_same(options, tmp_path):
    compat = pytest.importorskip("rlgym_compat", reason="pip install rlgym-rlbot")
    from rlbot import flat
    from rlgym_compat.common_values import BOOST_LOCATIONS

    policy, rng = policy_with(options), np.random.default_rng(0)
    env = policy.env
    save_rlbot(tmp_path / "bot", policy)
    bot = program_of(tmp_path / "bot" / "bot.py")
    field = flat.FieldInfo([flat.BoostPad(flat.Vector3(*place)) for place in BOOST_LOCATIONS])
    for key in jax.random.split(jax.random.key(1), GAMES):
        game = shown(jax.device_get(any_state(env, rng, key)).game, env.sides)
        for car in game.cars.values():  # what is no part of a packet, or not at the same time as the rest of it
            car.handbrake, car.is_jumping, car.has_jumped = 0.0, False, car.has_jumped and not car.on_ground
            car.air_time_since_jump = min(car.air_time_since_jump, 1.2) * car.has_jumped
            car.has_flip = not car.has_flipped and not car.has_double_jumped
            car.can_flip = car.has_flip and not car.on_ground and not car.is_holding_jump
        state = compat.GameState.create_compat_game_state(field)
        for packet in in_packets(game, (7, 8)):
            state.update(packet)
        for seat in range(env.num_players):
            clock, previous = (1.0, 200.0, False), np.zeros(8)
            told, known = (
                bot.observation(state, seat, previous, clock),
                bot.observation(game, f"car {seat}", previous, clock),
            )
            np.testing.assert_allclose(told, known, atol=1e-5)
            np.testing.assert_array_equal(bot.legal(state, seat), bot.legal(game, f"car {seat}"))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [RELATIVE, DEFAULT], ids=["relative", "default"])
def test_a_bot_sees_and_may_do_what_the_policy_did_in_training(options, tmp_path):
    policy, rng = policy_with(options), np.random.default_rng(0)
    env, seats = policy.env, policy.env.num_players
    save_rlbot(tmp_path / "bot", policy)
    bot = program_of(tmp_path / "bot" / "bot.py")
    for key in jax.random.split(jax.random.key(1), GAMES):
        state = any_state(env, rng, key)
        rows = np.array([env.observe(state, seat) for seat in range(seats)])
        state = jax.device_get(state)
        board, game = state.game.board, shown(state.game, env.sides)
        for seat, team in enumerate(env.sides):
            clock = (float(board.goals[team] - board.goals[1 - team]), float(board.left), bool(board.overtime))
            found = bot.observation(game, f"car {seat}", np.array(state.game.controls[seat]), clock)
            np.testing.assert_allclose(found, rows[seat], atol=1e-5)
            np.testing.assert_array_equal(bot.legal(game, f"car {seat}"), state.legal_action_mask[seat])


@pytest.mark.thorough
def test_a_player_has_the_book_of_openings_for_itself_and_so_has_its_bot(tmp_path):
    """A player with the book against the same network without it."""
    options = DEFAULT | {"actions": "table", "setters": {"kickoff": 1.0}}
    free, policy = policy_with(options), policy_with(options | {"openings": True})
    save_rlbot(tmp_path / "bot", policy)
    bot, state = program_of(tmp_path / "bot" / "bot.py"), policy.env.init(jax.random.key(0))
    step, key = jax.jit(policy.env.step), jax.random.key(0)
    acts = jax.jit(lambda state: [each.player().act(each.params, (), state, key)[0] for each in (policy, free)])
    played = []
    for since in range(40):
        told, (mine, theirs) = shown(jax.device_get(state.game), free.env.sides), acts(state)
        rows = np.array([bot.legal(told, f"car {seat}", since) for seat in range(2)])
        touched = int(state.game.tracks.first_touch) >= 0
        if touched:
            assert mine[0] == theirs[0]
            break
        np.testing.assert_array_equal(rows, policy.env.policy_mask(state))
        assert rows[0].sum() == 1 and rows[0, mine[0]] and state.legal_action_mask.sum() > 90
        played.append((int(mine[0]), int(theirs[1])))
        state = step(state, jnp.array([mine[0], theirs[1]]), key)
    ours, others = zip(*played, strict=True)
    assert touched and len(ours) > 20 and not state.illegal_action and ours != others
    assert bot.legal(told, "car 0").sum() > 1


@pytest.mark.thorough
def test_the_folder_is_one_of_rlbot_and_a_policy_in_it_answers_in_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "zoo:car_soccer", "--rlbot", "bot"]) == 0
    settings = tomllib.loads((tmp_path / "bot" / "bot.toml").read_text())["settings"]
    assert settings["run_command"].endswith("bot.py") and (tmp_path / "bot" / settings["loadout_file"]).exists()
    bot, policy = (program_of(tmp_path / "bot" / name) for name in ("bot.py", "policy.py"))
    game = shown(jax.device_get(policy_with(RELATIVE).env.init(jax.random.key(0))).game, (0, 0, 1, 1))
    network, times = policy.NumpyPolicy(), []
    for _ in range(200):
        start = time.process_time()
        features = bot.observation(game, "car 1", np.zeros(8), (0, 300, False))
        row = network.act(features, bot.legal(game, "car 1"))
        times.append(time.process_time() - start)
    assert bot.SETTINGS["allowed"][row] and np.median(times) < 1 / 15  # a decision is asked for 15 times a second


def test_what_cannot_be_a_bot_is_refused(tmp_path):
    for policy, told in (
        (untrained({"network": {"hidden": [8]}}), "car_soccer"),
        (policy_with(RELATIVE | {"extras": ["prediction"]}), "where the ball will be"),
        (policy_with(RELATIVE | {"hitbox": "merc"}), "octane"),
    ):
        with pytest.raises(UserError, match=told):
            save_rlbot(tmp_path / "bot", policy)
        assert not (tmp_path / "bot").exists()
