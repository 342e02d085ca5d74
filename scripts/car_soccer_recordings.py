"""`python -m scripts.car_soccer_recordings [FOLDER]`: records `FILES` of tests/golden/car_soccer in RocketSim again.

Needs RocketSim (pip install 'jaxrl[rlgym]'), which reads our own arena. Three kinds of episodes, in the format of
jaxrl_envs/car_soccer/golden.py: 64 of each suite with random controls, one scenario for each place to start from, and
one for each way in which two cars meet. The same version of RocketSim records the same files on the same processor,
byte by byte.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from jaxrl import cli
from jaxrl_envs.car_soccer.actions import TABLE
from jaxrl_envs.car_soccer.golden import FLAGS
from jaxrl_envs.car_soccer.physics.constants import RESPAWN_X
from jaxrl_envs.car_soccer.physics.field import mesh
from jaxrl_envs.car_soccer.simulators import rocketsim

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden" / "car_soccer"
EPISODES = 64
TEAMS = {"play1": (0, 1), "play2": (0, 0, 1, 1), "play3": (0, 0, 0, 1, 1, 1)}
HELD = 8  # ticks, for which an action is held
REST = 17.0  # uu, of a car's position above what its wheels stand on
EVERY = 60  # ticks, between recorded states


class Car(NamedTuple):
    """A car as an episode begins: f64[3] each, and what it stands on, if anything."""

    position: np.ndarray
    forward: np.ndarray
    up: np.ndarray
    velocity: np.ndarray
    on_ground: bool = True
    boost: float = 50.0


class Start(NamedTuple):
    """A ball and cars as an episode begins; ball: f64[3, 3], position, velocity, spin."""

    ball: np.ndarray
    cars: Sequence[Car]


# ---- where episodes begin -------------------------------------------------------------------------------------------


def play(rng: np.random.Generator, teams: Sequence[int]) -> Start:
    """Returns cars at rest anywhere on the floor, and a flying ball."""
    ball = rng.uniform((-2500, -3500, 100), (2500, 3500, 1500)), rng.uniform(-1, 1, 3) * (1500, 1500, 800), np.zeros(3)
    return Start(np.array(ball), [_on_floor(rng, 0, (3300, 4300)) for _ in teams])


def air(rng: np.random.Generator) -> Start:
    """Returns a car turned and spinning anyhow, far from all surfaces."""
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    position = rng.uniform((-2500, -3500, 700), (2500, 3500, 1400))
    return _with_ball(rng, Car(position, axes[0], axes[1], rng.uniform(-900, 900, 3), False))


def floor(rng: np.random.Generator) -> Start:
    """Returns a car that drives on the floor."""
    return _with_ball(rng, _on_floor(rng, 1500, (3000, 3800)))


def ramp(rng: np.random.Generator) -> Start:
    """Returns a car on the middle of a facet of the ramp below a side wall, in any direction."""
    angle = (rng.integers(1, mesh.ARC_FACETS - 1) + 0.5) * np.pi / 2 / mesh.ARC_FACETS
    inward = np.cos(np.pi / 4 / mesh.ARC_FACETS) * mesh.SIDE_RAMP  # from the axis of the arc to the middle of a facet
    up = np.array([-np.sin(angle), 0, np.cos(angle)])
    middle = np.array([mesh.X - mesh.SIDE_RAMP, rng.uniform(-2000, 2000), mesh.SIDE_RAMP])
    return _on(rng, middle - inward * up, up)


def wall(rng: np.random.Generator) -> Start:
    """Returns a car on a side wall, in any direction."""
    return _on(rng, np.array([mesh.X, *rng.uniform((-2000, 700), (2000, 1200))]), np.array([-1.0, 0, 0]))


def ceiling(rng: np.random.Generator) -> Start:
    """Returns a car below the ceiling, in any direction."""
    return _on(rng, np.array([*rng.uniform(-1, 1, 2) * (2500, 3000), mesh.Z]), np.array([0, 0, -1.0]))


def goal(rng: np.random.Generator) -> Start:
    """Returns a car on the floor in a goal, in any direction."""
    place = np.array([*rng.uniform((-600, 5250), (600, 5750)), 0])
    return _on(rng, place, np.array([0, 0, 1.0]), np.array([0, 4200, 200.0]))


PLACES: dict[str, Callable[[np.random.Generator], Start]] = {
    place.__name__: place for place in (air, floor, ramp, wall, ceiling, goal)
}


def _on_floor(rng: np.random.Generator, speed: float, most: tuple[float, float]) -> Car:
    yaw, place = rng.uniform(-np.pi, np.pi), rng.uniform(-1, 1, 2) * most
    forward = np.array([np.cos(yaw), np.sin(yaw), 0])
    up, velocity = np.array([0, 0, 1.0]), forward * rng.uniform(0, speed) if speed else np.zeros(3)
    return Car(np.array([*place, REST]), forward, up, velocity, boost=rng.uniform(0, 100))


def _on(rng: np.random.Generator, place: np.ndarray, up: np.ndarray, ball: np.ndarray | None = None) -> Start:
    """Puts a car on a surface at a place."""
    along = np.cross(up, rng.normal(size=3))
    forward = along / np.linalg.norm(along)
    car = Car(place + REST * up, forward, up, forward * rng.uniform(0, 1500), boost=rng.uniform(0, 100))
    return _with_ball(rng, car, ball)


def _with_ball(rng: np.random.Generator, car: Car, at: np.ndarray | None = None) -> Start:
    """Returns a ball on the car's way, towards the middle of the arena unless told where."""
    if at is None:
        at = np.clip(car.position + car.forward * rng.uniform(400, 900) + car.up * 150, -3000, 3000)
        at = np.clip(at, (-3000, -4000, 200), (3000, 4000, 1600))
    return Start(np.array([at, rng.uniform(-400, 400, 3), np.zeros(3)]), [car])


# ---- recording ------------------------------------------------------------------------------------------------------


def controls(rng: np.random.Generator, simulator: Recorder) -> np.ndarray:
    """Draws f64[P, 8] of the next action: each car chases the ball or takes any row of the table, half and half."""
    ball = np.array(simulator.arena.ball.get_state().pos.as_tuple())
    rows = TABLE[rng.integers(len(TABLE), size=len(simulator.cars))].astype(float)
    for row, car, chases in zip(rows, simulator.cars, rng.random(len(rows)) < 0.5, strict=True):
        if chases:
            state = car.get_state()
            to = ball - state.pos.as_tuple()
            angle = np.arctan2(to @ state.rot_mat.right.as_tuple(), to @ state.rot_mat.forward.as_tuple())
            row[:] = 0
            row[:2] = 1, np.sign(angle) * (abs(angle) > 0.2)
    return rows


class Recorder:
    """One arena of RocketSim, set to a start and asked for its state."""

    def __init__(self, module: ModuleType, teams: Sequence[int], start: Start):
        """Sets the arena to the start, whose numbers become f32."""
        self._module = module
        self.arena = rocketsim.new_arena(module)
        self.cars = [self.arena.add_car(team, 0) for team in teams]
        ball = module.BallState()
        ball.pos, ball.vel, ball.ang_vel = map(self._vector, start.ball)
        self.arena.ball.set_state(ball)
        for car, begin in zip(self.cars, start.cars, strict=True):
            state = module.CarState()
            state.pos, state.vel = self._vector(begin.position), self._vector(begin.velocity)
            axes = begin.forward, np.cross(begin.up, begin.forward), begin.up
            state.rot_mat = module.RotMat(*map(self._vector, axes))
            state.is_on_ground, state.boost = begin.on_ground, begin.boost
            car.set_state(state)

    def press(self, rows: np.ndarray) -> None:
        """Controls f[P, 8] for the ticks that follow."""
        for car, row in zip(self.cars, rows.tolist(), strict=True):
            jump, boost, handbrake = map(bool, row[5:])
            car.set_controls(self._module.CarControls(*row[:5], jump=jump, boost=boost, handbrake=handbrake))

    def state(self, whole: bool = False) -> dict[str, Any]:
        """Returns the state for a recording: where everything is, or the whole with which an episode begins."""
        ball = self.arena.ball.get_state()
        found: dict[str, Any] = {"ball": {"pos": _short(ball.pos.as_tuple(), whole)}, "cars": []}
        if whole:
            found["ball"] |= {name: _short(getattr(ball, name).as_tuple(), whole) for name in ("vel", "ang_vel")}
        for car in self.cars:
            state = car.get_state()
            axes = [getattr(state.rot_mat, name).as_tuple() for name in ("forward", "right", "up")]
            row = {"pos": _short(state.pos.as_tuple(), whole), "rot": [_short(axis, whole, 6) for axis in axes]}
            if whole:
                row |= {name: _short(getattr(state, name).as_tuple(), whole) for name in ("vel", "ang_vel")}
                row |= {"boost": _short([state.boost], whole)[0], "is_on_ground": state.is_on_ground}
                row |= {name: True for name in FLAGS if getattr(state, name)}
            found["cars"].append(row)
        return found

    def _vector(self, values: np.ndarray) -> Any:
        return self._module.Vec(*map(float, values))


def _short(values: Sequence[float], whole: bool, digits: int = 3) -> list[float]:
    """Returns numbers with as many digits as an f32 has, or fewer."""
    return [float(str(np.float32(value))) if whole else round(value, digits) for value in values]


def record(
    module: ModuleType, meta: dict[str, Any], start: Start, length: int, seed: Sequence[int], every: int = EVERY
) -> dict[str, Any]:
    """Records `length` ticks; controls are drawn from the seed, or rows for all of it (`meta["controls"]`)."""
    rng = np.random.default_rng(seed)
    fixed = meta.pop("controls", None)
    recorder = Recorder(module, meta["teams"], start)
    ticks, states = [0], [recorder.state(whole=True)]
    pressed: list[list[Any]] = []
    for tick in range(length):
        if tick % HELD == 0:
            rows = controls(rng, recorder) if fixed is None else np.array(fixed, float)
            if pressed and pressed[-1][1] == rows.tolist():
                pressed[-1][0] += HELD
            else:
                pressed.append([HELD, rows.tolist()])
            recorder.press(rows)
        recorder.arena.step(1)
        if (tick + 1) % every == 0:
            ticks.append(tick + 1)
            states.append(recorder.state())
    meta = {"arena": "SOCCAR", "mesh": "own", "teams": list(meta.pop("teams"))} | meta
    return {"meta": meta, "T": length, "controls_rle": pressed, "ticks": ticks, "states": states}


# A scenario of each place: its row of controls, and for how many ticks the car is where nothing is a mesh.
SCENARIOS = {
    "air": ((0, 0, 0.4, 0.3, 0, 0, 1, 0), 120),
    "floor": ((1, 0.5, 0, 0, 0, 0, 1, 0), 120),
    "ramp": ((1, 0, 0, 0, 0, 0, 0, 0), 0),
    "wall": ((1, 0.2, 0, 0, 0, 0, 0, 0), 0),
    "ceiling": ((1, 0, 0, 0, 0, 0, 0, 0), 0),
    "goal": ((1, 0, 0, 0, 0, 0, 0, 0), 0),
}


def episodes(every: int = EVERY, count: int = EPISODES) -> dict[str, dict[str, Any]]:
    """Records all episodes by name."""
    module = rocketsim.started()
    found = {}
    for name, teams in TEAMS.items():
        for number in range(count):
            seed = (*name.encode(), number)
            start = play(np.random.default_rng((*seed, 1)), teams)
            found[f"{name}_own_{number}"] = record(module, {"suite": name, "teams": teams}, start, 360, seed, every)
    for name, place in PLACES.items():
        for number in range(count):
            seed = (*name.encode(), number)
            start = place(np.random.default_rng((*seed, 1)))
            suite = {"suite": f"from_{name}", "teams": (0,)}
            found[f"from_{name}_{number}"] = record(module, suite, start, 240, seed, every)
        row, flat = SCENARIOS[name]
        meta: dict[str, Any] = {
            "teams": (0,),
            "controls": (row,),
            "flat_until_tick": flat,
            "touches_mesh": flat == 0,
            "ties": False,
        }
        start = place(np.random.default_rng(list(name.encode())))
        found[f"starts_{name}"] = record(module, meta, start, 120, (0,), min(every, 10))
    return found


# ---- two cars that meet ---------------------------------------------------------------------------------------------

RESTS, DRIVES, TURNS = (0,) * 8, (1, 0, 0, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0, 0, 0)
BOOSTS, JUMPS = (1, 0, 0, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, 1, 0, 0)


class Encounter(NamedTuple):
    """A car that looks along +y, and another one ahead of it; degrees, uu, uu/s."""

    away: float = 250
    aside: float = 10  # of the other one
    turn: float = 0  # of the other one, from +x
    nose: float = 91
    speeds: tuple[float, float] = (2290, 0)
    heights: tuple[float, float] = (REST, REST)
    controls: tuple[Sequence[int], Sequence[int]] = (BOOSTS, RESTS)
    teams: tuple[int, int] = (0, 1)
    length: int = 120

    def start(self) -> Start:
        """Returns the cars, and a ball far away."""
        cars = []
        for x, y, yaw, speed, z in zip(
            (0, self.aside), (-self.away, 0), np.radians((self.nose, self.turn)), self.speeds, self.heights, strict=True
        ):
            forward = np.array([np.cos(yaw), np.sin(yaw), 0])
            cars.append(Car(np.array([x, y, z]), forward, np.array([0, 0, 1.0]), forward * speed, z == REST, 100))
        return Start(np.array([[3000, -4000, 93.15], [0, 0, 0], [0, 0, 0]]), cars)


ENCOUNTERS = {  # not head on without any angle: two faces are then as deep as each other, and a last bit decides
    "side_square": Encounter(nose=90),
    "behind_square": Encounter(nose=90, turn=90, aside=25),
    "side": Encounter(turn=12, aside=20),
    "behind": Encounter(turn=80, speeds=(2290, 700), controls=(BOOSTS, DRIVES)),
    "head_on": Encounter(turn=-75, aside=-15, speeds=(2290, 300), controls=(BOOSTS, DRIVES)),
    "both_supersonic": Encounter(away=450, turn=-85, speeds=(2290, 2290), controls=(BOOSTS, BOOSTS)),
    "in_the_air": Encounter(turn=-100, aside=12, heights=(590, 600)),
    "respawn": Encounter(turn=12, aside=20, away=300, controls=(TURNS, JUMPS), length=440),
    "slow": Encounter(nose=90, speeds=(1400, 0), controls=(DRIVES, RESTS)),
    "mates": Encounter(turn=12, aside=20, teams=(0, 0)),
}


def encounters() -> dict[str, dict[str, Any]]:
    """Records all encounters by name."""
    module, found = rocketsim.started(), {}
    for name, given in ENCOUNTERS.items():
        meta = {"teams": given.teams, "flat_until_tick": given.length, "touches_mesh": False, "ties": False}
        while True:
            episode = record(module, meta | {"controls": given.controls}, given.start(), given.length, (0,), 10)
            # RocketSim lets the clock choose one of four places to come back to
            if name != "respawn" or round(episode["states"][-1]["cars"][1]["pos"][0]) == RESPAWN_X[0]:
                break
        found[f"meets_{name}"] = episode
    return found


FILES = {"own.json.gz": episodes, "encounters.json.gz": encounters}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the files."""
    words = sys.argv[1:] if argv is None else list(argv)
    for name, recorded in FILES.items():
        path = (Path(words[0]) if words else FOLDER) / name
        data = json.dumps(recorded(), separators=(",", ":")).encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{path}: {len(data):,} bytes, packed {path.stat().st_size:,}")
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
