"""Recorded episodes of the reference simulator, and how far ours is from them (docs/games/car_soccer_physics.md).

A file is one JSON object, plain or gzip: episodes by name. Each is started from its first state, driven by its
controls, and compared with every recorded state. Episodes of one arena with as many cars are one program.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.field.spawn import arena_at, cars_at
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball
from jaxrl_envs.car_soccer.physics.tick import ticks
from jaxrl_envs.car_soccer.physics.vector import axes, vec
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.golden import fit, require

Record = dict[str, Any]
HORIZONS = (60, 120, 240, 360)  # ticks
NEAR = 1.0  # uu, what counts as the same
CHANCE = 1e-3  # a suite fails where fewer episodes than found are near with this probability
# The episodes of tests/golden/car_soccer, by suite and body: how many, and how many of them are near after 1, 2, 3 s.
COUNTED: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = {
    ("ball", "ball"): (40, (40, 39, 39)),
    ("tumble", "car"): (30, (30, 30)),
    ("drive", "car"): (40, (40, 40)),
    ("hit", "ball"): (50, (50, 49)),
    ("hit", "car"): (50, (49, 48)),
    ("carcar", "car"): (50, (48,)),
    ("carcar_air", "car"): (40, (39,)),
    ("play1", "ball"): (84, (84, 84, 84)),
    ("play1", "car"): (84, (84, 84, 83)),
    ("play2", "ball"): (72, (72, 72, 72)),
    ("play2", "car"): (72, (72, 71, 68)),
    ("play3", "ball"): (72, (72, 72, 72)),
    ("play3", "car"): (72, (71, 70, 65)),
    ("from_air", "ball"): (64, (64, 64)),
    ("from_air", "car"): (64, (64, 64)),
    ("from_floor", "ball"): (64, (64, 63)),
    ("from_floor", "car"): (64, (64, 64)),
    ("from_ramp", "ball"): (64, (64, 64)),
    ("from_ramp", "car"): (64, (64, 64)),
    ("from_wall", "ball"): (64, (64, 64)),
    ("from_wall", "car"): (64, (64, 63)),
    ("from_ceiling", "ball"): (64, (64, 64)),
    ("from_ceiling", "car"): (64, (64, 63)),
    ("from_goal", "ball"): (64, (64, 64)),
    ("from_goal", "car"): (64, (61, 54)),
}
SCENARIO_LIMIT, SCENARIO_TICKS = 0.1, 240  # uu and degrees, for flat scenarios without ties
FLAGS = ("has_jumped", "has_double_jumped", "has_flipped", "is_flipping", "is_jumping", "is_supersonic", "is_demoed")
NEVER = 1e9  # s
LONGEST = 7_200  # ticks of an episode: a minute
FAR = 1e6  # the largest number in a recording, in any unit
LIMIT, VALUES = 1 << 27, 1 << 22  # of a file, at most: bytes, unpacked; numbers, lists and mappings
GROUPS, NUMBERS = 16, 1 << 22  # at most: kinds of matches in a file, and bodies times ticks of one kind
_VECTORS = ("vel", "ang_vel")
_SCALARS = (
    *("boost", "is_on_ground", "jump_time", "flip_time", "air_time_since_jump", "handbrake_val", "is_auto_flipping"),
    "demo_respawn_timer",
)
_ABSENT = {"pos": [0, 0, 0], "rot": np.eye(3).tolist(), "is_demoed": True, "demo_respawn_timer": NEVER}


class Errors(NamedTuple):
    """Distances of an episode from its recording, one number for each recorded tick.

    Attributes:
      ticks: i64[N]. ball, car: f32[N], uu, of the worst car; nan without cars. turn: f32[N], degrees, likewise.
    """

    ticks: np.ndarray
    ball: np.ndarray
    car: np.ndarray
    turn: np.ndarray


# ---- playing --------------------------------------------------------------------------------------------------------


def start(settings: PhysicsSettings, record: Record) -> Arena:
    """Returns the arena at the start of an episode; cars that it lacks are demolished for good."""
    state = record["states"][0]
    cars = [*state["cars"], *[_ABSENT] * (settings.cars - len(state["cars"]))]

    def read(name: str, kind: type = np.float32, default: Any = 0) -> np.ndarray:
        return np.array([car.get(name, default) for car in cars], kind)

    fresh = cars_at(vec(read("pos")), axes(read("rot")), jnp.asarray(read("boost"))).replace(
        velocity=vec(read("vel", default=[0, 0, 0])),
        angular_velocity=vec(read("ang_vel", default=[0, 0, 0])),
        on_ground=read("is_on_ground", bool),
        jump_time=read("jump_time"),
        flip_time=read("flip_time"),
        air_time_since_jump=read("air_time_since_jump"),
        handbrake=read("handbrake_val"),
        is_auto_flipping=read("is_auto_flipping", bool),
        respawn_time=read("demo_respawn_timer"),
        **{name: read(name, bool) for name in FLAGS},
    )
    ball = Ball(*(vec(np.array(state["ball"][name], np.float32)) for name in ("pos", "vel", "ang_vel")))
    return arena_at(settings, ball, fresh, jnp.uint32(0))


def controls(record: Record, cars: int, length: int) -> np.ndarray:
    """f32[length, cars, 8]; nothing is pressed beyond the episode's end."""
    result, at = np.zeros((length, cars, 8), np.float32), 0
    for count, rows in record["controls_rle"]:
        if rows:
            result[at : at + count, : len(rows)] = rows
        at += count
    return result


class Poses(NamedTuple):
    """Compared poses after each tick: f32[..., 3] and, for cars, f32[..., P, 3], f32[..., P, 3, 3]."""

    ball: jax.Array
    position: jax.Array
    axes: jax.Array


def play(settings: PhysicsSettings, geometry: world.Geometry | None, arenas: Arena, pressed: jax.Array) -> Poses:
    """Episodes tick by tick: arenas [N], controls f32[N, T, P, 8] -> leaves [N, T, ...]."""

    def episode(arena, pressed):
        def after(arena, pressed):
            arena = ticks(geometry, settings, arena, pressed, 1)
            return arena, Poses(arena.ball.position.array, arena.cars.position.array, arena.cars.axes.array)

        return lax.scan(after, arena, pressed)[1]

    return jax.vmap(episode)(arenas, pressed)


def compare(records: Sequence[Record], iterations: int = 10) -> list[Errors]:
    """Distances of every episode from ours."""
    groups: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for index, record in enumerate(records):
        meta = record["meta"]
        groups.setdefault((meta["arena"] == "THE_VOID", tuple(meta["teams"]) or (0,)), []).append(index)
    if len(groups) > GROUPS:
        raise UserError(f"the episodes have {len(groups)} kinds of arenas and teams, at most {GROUPS}: split the file.")
    found: dict[int, Errors] = {}
    for (is_void, teams), members in groups.items():
        settings = PhysicsSettings(teams=teams, iterations=iterations)
        length = -(-max(records[i]["T"] for i in members) // 120) * 120
        if len(members) * length * (len(teams) + 1) > NUMBERS:
            raise UserError(f"{len(members)} episodes of up to {length} ticks are too many at once: split the file.")
        arenas = jax.tree.map(lambda *leaves: np.stack(leaves), *(start(settings, records[i]) for i in members))
        pressed = np.stack([controls(records[i], len(teams), length) for i in members])
        run = jax.jit(functools.partial(play, settings, None if is_void else world.own()))
        played = jax.device_get(run(arenas, pressed))
        for row, index in enumerate(members):
            found[index] = _errors(records[index], Poses(*(leaf[row] for leaf in played)))
    return [found[index] for index in range(len(records))]


def _errors(record: Record, played: Poses) -> Errors:
    at = np.array(record["ticks"][1:])
    states = record["states"][1:]
    far = lambda a, b: _or_lost(np.linalg.norm(a - b, axis=-1))  # noqa: E731
    ball = far(played.ball[at - 1], np.array([state["ball"]["pos"] for state in states]))
    cars = len(record["meta"]["teams"])
    if not cars:
        return Errors(at, ball, np.full(len(at), np.nan), np.full(len(at), np.nan))
    position = np.array([[car["pos"] for car in state["cars"]] for state in states])
    turned = np.array([[car["rot"] for car in state["cars"]] for state in states])
    # 2 sin(angle / 2), from the difference of the matrices: exact for small angles, where the trace is not
    chord = np.linalg.norm(played.axes[at - 1, :cars] - turned, axis=(-2, -1)) / np.sqrt(2)
    angle = _or_lost(np.degrees(2 * np.arcsin(np.clip(chord / 2, 0, 1))))
    return Errors(at, ball, far(played.position[at - 1, :cars], position).max(axis=1), angle.max(axis=1))


def _or_lost(errors: np.ndarray) -> np.ndarray:
    """Returns errors, inf where ours is no number any more: nan says that there are no cars."""
    return np.where(np.isnan(errors), np.inf, errors)


# ---- reports --------------------------------------------------------------------------------------------------------


class Deviations(NamedTuple):
    """The report of `jaxrl check`: the table, the number of figures beyond their bounds, and the first of those."""

    table: str
    disagreements: int
    first: str | None

    def __str__(self) -> str:
        return self.table


def verify(path: str | Path, iterations: int = 10) -> Deviations:
    """Compares the episodes of a file with ours.

    Raises:
      UserError: the file cannot be read, or is no such recording.
    """
    return measure(read(path), iterations)


def measure(records: Mapping[str, Record], iterations: int = 10) -> Deviations:
    """Compares episodes by name, as `verify`."""
    errors = compare(list(records.values()), iterations)
    suites: dict[str, list[Errors]] = {}
    lines, beyond = [], []
    for (name, record), found in zip(records.items(), errors, strict=True):
        suite = record["meta"].get("suite")
        if suite:
            suites.setdefault(suite, []).append(found)
        else:
            line, is_beyond = _scenario(name, record["meta"], found)
            lines.append(line)
            beyond += [line] if is_beyond else []
    for suite, episodes in suites.items():
        rows, worse = _suite(suite, episodes)
        lines += rows
        beyond += worse
    head = f"{len(records)} episodes; share within {NEAR:g} uu (median, uu) after seconds of play"
    return Deviations("\n".join([head, *lines]), len(beyond), beyond[0] if beyond else None)


def read(path: str | Path) -> dict[str, Record]:
    """Returns the episodes of a file by name.

    Raises:
      UserError: see `verify`.
    """
    records = unchecked(path)
    for name, record in records.items():
        check(path, name, record)
    return records


def unchecked(path: str | Path) -> dict[str, Record]:
    """Returns the episodes of a file by name, whatever they hold."""
    records = files.parse(files.unpacked(path, LIMIT), str(path), json_text=True, most=VALUES)
    if not isinstance(records, Mapping) or not records:
        raise UserError(f"{path} has no episodes: expected one JSON object, episodes by name.")
    return dict(records)


def check(path: str | Path, name: str, record: Record) -> None:
    """Raises UserError for what is no episode."""
    try:
        require(name.isprintable() and len(name) <= 100, "its name must be at most 100 printable characters")
        _check(record)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(f"{path}, {name[:100]}: not a recorded episode ({what}).") from None


_LIST = {"pos": list}  # of numbers, see `_numbers`
_SHAPE = {
    "meta": {"arena": frozenset({"SOCCAR", "THE_VOID"}), "teams": [range(2)]},
    "T": range(1, LONGEST + 1),
    "ticks": [range(LONGEST + 1)],
    "states": [{"ball": _LIST, "cars": [_LIST | {"rot": list}]}],
    "controls_rle": [(range(LONGEST + 1), list)],
}
_SCENARIO = {"touches_mesh": bool, "ties": bool, "flat_until_tick": int}


def _check(record: Record) -> None:
    """Raises ValueError, TypeError or KeyError for a record that is not complete, consistent and of finite numbers."""
    fit(record, _SHAPE)
    meta, ticks_, states = record["meta"], record["ticks"], record["states"]
    cars, count = len(meta["teams"]), len(states)
    require(cars <= 6, "teams must be at most six numbers, 0 or 1")
    rising = count > 1 and ticks_[:1] == [0] and sorted(set(ticks_)) == ticks_ and ticks_[-1] <= record["T"]
    require(count == len(ticks_) and rising, "ticks and states do not belong together")
    each = [len(state["cars"]) for state in states] + [len(rows) for _, rows in record["controls_rle"]]
    require(set(each) == {cars}, "not every state and every control has each car")
    fit({"car": ""} | meta, {"car": str}, "meta")
    if suite := meta.get("suite"):
        fit(meta, {"suite": str}, "meta")
        require(suite.isprintable() and len(suite) <= 20, "suite must be at most 20 printable characters")
    else:
        fit({"flat_until_tick": 0} | meta, _SCENARIO, "meta")
    _numbers("ball.pos", [state["ball"]["pos"] for state in states], count, 3)
    for name in ("vel", "ang_vel"):
        _numbers(f"ball.{name}", states[0]["ball"][name], 3)
    if cars:
        _numbers("pos", [[car["pos"] for car in state["cars"]] for state in states], count, cars, 3)
        _numbers("rot", [[car["rot"] for car in state["cars"]] for state in states], count, cars, 3, 3)
        pressed = [rows for _, rows in record["controls_rle"]]
        _numbers("controls_rle", pressed or np.zeros((0, cars, 8)), len(pressed), cars, 8)
    for car in states[0]["cars"]:
        for name in (*_VECTORS, *_SCALARS, *FLAGS):
            _numbers(name, car.get(name, [0, 0, 0] if name in _VECTORS else 0), *((3,) if name in _VECTORS else ()))


def _numbers(name: str, value: Any, *shape: int) -> None:
    """Raises ValueError unless a value is an array of that shape of numbers that a place or a speed can have."""
    array = np.asarray(value)  # of a ragged list: ValueError
    fits = array.shape == shape and array.dtype.kind in "biuf" and bool((np.abs(array.astype(float)) <= FAR).all())
    require(fits, f"{name} must be {' x '.join(map(str, shape)) or 'one'} numbers of at most {FAR:g}")


def _scenario(name: str, meta: Record, found: Errors) -> tuple[str, bool]:
    """Returns a line for a scenario, and whether it is beyond its bound: flat without ties, it is exact for 2 s."""
    until = min(SCENARIO_TICKS, meta.get("flat_until_tick", SCENARIO_TICKS) if meta["touches_mesh"] else SCENARIO_TICKS)
    is_bound = bool((found.ticks <= until).any())
    early = found.ticks <= max(until if is_bound else SCENARIO_TICKS, found.ticks[0])
    uu = float(np.fmax(found.ball, found.car)[early].max())
    degrees = float(np.fmax(found.turn, 0)[early].max())
    line = f"  {name:22s} within {uu:.4f} uu, {degrees:.4f} degrees for {found.ticks[early][-1]} ticks"
    if meta["ties"] or not is_bound:
        return f"{line}; {'a tie decides' if meta['ties'] else 'nothing in it is flat: no bound'}", False
    is_beyond = max(uu, degrees) > SCENARIO_LIMIT
    return f"{line}, beyond its bound" if is_beyond else line, is_beyond


def _suite(suite: str, episodes: Sequence[Errors]) -> tuple[list[str], list[str]]:
    """Returns rows for the ball and the worst car of a suite's episodes, and what is beyond the bounds."""
    rows, beyond = [], []
    for body in ("ball", "car"):
        cells = []
        count, counted = COUNTED.get((suite, body), (0, ()))
        for horizon in HORIZONS:
            at = np.concatenate([getattr(found, body)[found.ticks == horizon] for found in episodes])
            at = at[~np.isnan(at)]  # without cars
            if not len(at):
                continue
            near, second = int((at < NEAR).sum()), horizon // 120
            cells.append(f"{horizon / 120:g} s {near / len(at):.3f} ({np.median(at):.4f})")
            if lost := int(np.isinf(at).sum()):
                beyond.append(f"{suite}, {body} after {second} s: {lost} of {len(at)} are at no number")
            elif 0 < second <= len(counted) and near < (least := fewest(len(at), counted[second - 1], count)):
                beyond.append(f"{suite}, {body} after {second} s: {near} of {len(at)} are near, not {least} or more")
        if cells:
            rows.append(f"  {suite:10s} {len(episodes):3d} {body:4s}  " + "  ".join(cells))
    return rows, beyond


def fewest(episodes: int, near: int, counted: int) -> int:
    """Returns the least acceptable number of near episodes, if `near` of `counted` others were near.

    The share is taken as (near + 1) / (counted + 2), the mean of its distribution after these trials; fewer than the
    result are near with a probability of at most CHANCE.
    """
    at_most = special.bdtr(np.arange(episodes + 1), episodes, (near + 1) / (counted + 2))
    return int(np.argmax(at_most > CHANCE))
