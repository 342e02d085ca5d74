"""Car soccer in RocketSim: its physics under our observations, masks, rewards, bots, figures and ends of episodes.

A decision hands the whole arena over and takes it back after its ticks, so a policy sees what it was trained on and
the figures mean the same. RocketSim remembers more of a car's wheels than it tells. So every game keeps an arena of
its own, written to only where the state is not the one it was left in: at a game's first step and at kickoffs.
"""

from __future__ import annotations

import importlib.util
import struct
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.car_soccer.physics.field import mesh
from jaxrl_envs.car_soccer.physics.field.pads import POSITIONS
from jaxrl_envs.car_soccer.physics.settings import HITBOXES, PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball, Cars
from jaxrl_envs.car_soccer.physics.vector import axes, vec
from jaxrl_envs.host.callbacks import Outputs, call_host
from jaxrl_envs.shared.errors import UserError

MOST = 512  # arenas; each takes 40 ms to make and 0.4 MB
_NEVER = 2**64 - 1  # as a tick

# A row of a car, f32[K]: vectors, its axes, the wheels that touch something, numbers, flags, and the last three, which
# RocketSim tells in other ways. What is called how here and there:
_VECTORS = {
    "position": "pos",
    "velocity": "vel",
    "angular_velocity": "ang_vel",
    "flip_torque": "flip_rel_torque",
    "world_contact_normal": "world_contact_normal",
}
_NUMBERS = {
    "boost": "boost",
    "jump_time": "jump_time",
    "flip_time": "flip_time",
    "air_time": "air_time",
    "air_time_since_jump": "air_time_since_jump",
    "boosting_time": "boosting_time",
    "supersonic_time": "supersonic_time",
    "handbrake": "handbrake_val",
    "auto_flip_time": "auto_flip_timer",
    "auto_flip_direction": "auto_flip_torque_scale",
    "respawn_time": "demo_respawn_timer",
    "bump_cooldown": "car_contact_cooldown_timer",
}
_FLAGS = {
    "on_ground": "is_on_ground",
    "is_jumping": "is_jumping",
    "has_jumped": "has_jumped",
    "has_double_jumped": "has_double_jumped",
    "has_flipped": "has_flipped",
    "is_flipping": "is_flipping",
    "is_supersonic": "is_supersonic",
    "is_auto_flipping": "is_auto_flipping",
    "world_contact": "has_world_contact",
    "is_demoed": "is_demoed",
}
_LAST = ("jump_held", "bumped_car", "hit_tick")
_PARTS = np.cumsum([3 * len(_VECTORS), 9, 4, len(_NUMBERS), len(_FLAGS)])
_IS_DEMOED = _PARTS[3] + list(_FLAGS).index("is_demoed")
TOUCHES, BUMPS, DEMOLITIONS, DEMOLISHED, SMALL_PADS, BIG_PADS, LAST_TOUCH = range(7)  # leaves of `Counts`


class RocketSim:
    """RocketSim's counterpart of `ticks`."""

    def __init__(self, settings: PhysicsSettings, meshes: str, count: int, delay: int):
        """Reads the arena, which RocketSim does once in a process.

        Args:
          settings: settings of the physics; the solver is RocketSim's.
          meshes: a folder, empty for our own arena; see `mesh.read_folder`.
          count, delay: numbers of ticks, see `ticks`.

        Raises:
          UserError: the package is missing, or another arena has been read.
        """
        self._module = started(meshes)
        self._settings, self._count, self._delay = settings, count, delay
        self._left: dict[bytes, list[Pitch]] = {}  # by the state in which they were left, the oldest first
        self._made, self._lock = 0, threading.Lock()  # devices call at the same time

    def __call__(self, arena: Arena, controls: jax.Array, before: jax.Array, over: jax.Array) -> Arena:
        """Returns one arena after a decision; `over`, bool[]: it is not used again, so it may stay as it is."""
        bodies = (arena.ball.position, arena.ball.velocity, arena.ball.angular_velocity)
        ball = jnp.concatenate([body.array for body in bodies])
        counts, structure = jax.tree.flatten(arena.counts)
        given = (ball, packed(arena.cars), arena.pads.cooldown, arena.pads.lock, jnp.stack(counts))
        forms = [jax.ShapeDtypeStruct(part.shape, part.dtype) for part in given]
        rest = (arena.tick, arena.seed, over, before, controls)
        ball, cars, cooldown, lock, counts = call_host(self._advance, forms, *given, *rest)
        return arena.replace(
            tick=arena.tick + self._count,
            ball=Ball(*(vec(ball[3 * k : 3 * k + 3]) for k in range(3))),
            cars=unpacked(arena.cars, cars),
            pads=arena.pads.replace(cooldown=cooldown, lock=lock),
            counts=jax.tree.unflatten(structure, list(counts)),
        )

    def _advance(self, outputs: Outputs, *arguments: np.ndarray) -> None:
        """On the host; all arrays have a leading axis of arenas."""
        given, (ticks, seeds, over, before, controls) = arguments[: len(outputs)], arguments[len(outputs) :]
        for array, old in zip(outputs, given, strict=True):
            array[...] = old
        with self._lock:
            for lane in np.flatnonzero(~over):
                view = ArenaView(*(array[lane] for array in outputs))
                pitch, tick = self._find(view, int(ticks[lane])), int(ticks[lane])
                pitch.play(view, tick, before[lane], self._delay)
                pitch.play(view, tick + self._delay, controls[lane], self._count - self._delay)
                pitch.read(view, tick + self._count, int(seeds[lane]))
                self._left.setdefault(view.key(), []).append(pitch)

    def _find(self, view: ArenaView, tick: int) -> Pitch:
        """Returns the arena that was left in this state, or another one, which is set to it."""
        key = view.key()
        found = key in self._left
        if not found and self._made < MOST:
            self._made += 1
            pitch = Pitch(self._module, self._settings)
        else:
            key = key if found else next(iter(self._left))
            pitch = self._left[key].pop()
            if not self._left[key]:
                del self._left[key]
        if not found:
            pitch.write(view, tick)
        return pitch


class ArenaView(NamedTuple):
    """One arena as it goes over and comes back: f32[9], f32[P, K], f32[34], i32[34], i32[7, P]; written in place."""

    ball: np.ndarray
    cars: np.ndarray
    cooldown: np.ndarray
    lock: np.ndarray
    counts: np.ndarray

    def key(self) -> bytes:
        """Returns the key that identifies an arena's state."""
        return self.ball.tobytes() + self.cars.tobytes() + self.cooldown.tobytes()


# ---- cars as rows ---------------------------------------------------------------------------------------------------


def packed(cars: Cars) -> jax.Array:
    """f32[P, K]."""
    vectors = [getattr(cars, name).array for name in _VECTORS]
    rest = [getattr(cars, name)[:, None] for name in (*_NUMBERS, *_FLAGS, *_LAST)]
    parts = [*vectors, cars.axes.array.reshape(-1, 9), cars.wheels.touching, *rest]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=-1)


def unpacked(cars: Cars, rows: jax.Array) -> Cars:
    """Returns the cars as f32[P, K] says, whose wheels otherwise stay as they are."""
    vectors, turned, touching, *rest = jnp.split(rows, _PARTS, axis=-1)
    found: dict[str, Any] = {name: vec(vectors[:, 3 * k : 3 * k + 3]) for k, name in enumerate(_VECTORS)}
    for names, part in zip((_NUMBERS, _FLAGS, _LAST), rest, strict=True):
        found |= {name: part[:, k].astype(getattr(cars, name).dtype) for k, name in enumerate(names)}
    return cars.replace(
        axes=axes(turned.reshape(-1, 3, 3)),
        wheels=cars.wheels.replace(touching=touching > 0),
        is_boosting=found["boosting_time"] > 0,
        **found,
    )


# ---- an arena of RocketSim ------------------------------------------------------------------------------------------


class Pitch:
    """One arena of RocketSim with its cars."""

    def __init__(self, module: ModuleType, settings: PhysicsSettings):
        """Makes an arena in any state; `module` is RocketSim."""
        self._module, self._settings = module, settings
        self._arena = new_arena(module)
        self._arena.set_ball_touch_callback(self._touched)
        self._arena.set_car_bump_callback(self._bumped)
        self._arena.set_boost_pickup_callback(self._picked_up)
        places = np.array([pad.get_pos().as_tuple() for pad in self._arena.get_boost_pads()])
        order = np.linalg.norm(places[None, :, :2] - POSITIONS[:, None, :2], axis=-1).argmin(axis=1)
        self._pads = [self._arena.get_boost_pads()[number] for number in order]
        self._cars: list[Any] = []
        self._number: dict[int, int] = {0: -1}  # of a car by its id there, which is never 0
        self._counts, self._late = np.zeros((7, settings.cars), np.int32), 0  # of the game at hand

    def write(self, view: ArenaView, tick: int) -> None:
        """Puts the arena into a state, at this tick of its game."""
        make, vector = self._module, self._vector
        for car in self._cars:  # new ones remember nothing of another game
            self._arena.remove_car(car)
        hitbox = list(HITBOXES).index(self._settings.hitbox)
        self._cars = [self._arena.add_car(team, hitbox) for team in self._settings.teams]
        self._number = {0: -1} | {car.id: number for number, car in enumerate(self._cars)}
        ball = make.BallState()
        ball.pos, ball.vel, ball.ang_vel = (vector(view.ball[k : k + 3]) for k in (0, 3, 6))
        self._arena.ball.set_state(ball)
        for car, row in zip(self._cars, view.cars, strict=True):
            car.set_state(self._state(row, self._arena.tick_count - tick))
        for pad, cooldown, lock in zip(self._pads, view.cooldown, view.lock, strict=True):
            state = make.BoostPadState()
            state.cooldown, state.is_active = float(cooldown), bool(cooldown == 0)
            state.prev_locked_car_id = self._cars[lock].id if lock >= 0 else 0
            pad.set_state(state)

    def play(self, view: ArenaView, tick: int, controls: np.ndarray, count: int) -> None:
        """Some ticks with f32[P, 8]; counts in the view what happens."""
        for car, row in zip(self._cars, controls.tolist(), strict=True):
            jump, boost, handbrake = map(bool, row[5:])
            pressed = self._module.CarControls(*row[:5], jump=jump, boost=boost, handbrake=handbrake)
            car.set_controls(pressed)
        self._counts, self._late = view.counts, self._arena.tick_count - tick
        self._arena.step(count)

    def read(self, view: ArenaView, tick: int, seed: int) -> None:
        """Writes down how it is now, at this tick of a game with this seed."""
        ball = self._arena.ball.get_state()
        view.ball[:] = [*ball.pos.as_tuple(), *ball.vel.as_tuple(), *ball.ang_vel.as_tuple()]
        for number, (car, row) in enumerate(zip(self._cars, view.cars, strict=True)):
            state = car.get_state()
            if row[_IS_DEMOED] and not state.is_demoed:  # RocketSim lets the clock decide where it comes back
                car.respawn((seed + tick * len(self._cars) + number) % 2**31)
                state = car.get_state()
            row[:] = self._row(state, self._arena.tick_count - tick)
        states = [pad.get_state() for pad in self._pads]
        view.cooldown[:] = [state.cooldown for state in states]
        view.lock[:] = [self._number.get(state.prev_locked_car_id, -1) for state in states]

    def shown_by(self, engine: Any, names: Sequence[str]) -> Any:
        """Returns the state of the arena as RLGym's engine for RocketSim tells it, its cars called so."""
        engine._arena, engine._cars = self._arena, dict(zip(names, self._cars, strict=True))
        engine._agent_ids = {car.id: name for name, car in engine._cars.items()}
        engine._hitboxes, engine._touches = ({car.id: 0 for car in self._cars} for _ in range(2))
        engine._tick_count = self._arena.tick_count
        return engine._get_state()

    def _state(self, row: np.ndarray, late: int) -> Any:
        """Returns a row of a car as RocketSim has it; `late` is how many ticks its clock is ahead of the game's."""
        make, state = self._module, self._module.CarState()
        vectors, turned, touching, numbers, flags, (held, bumped, hit) = np.split(row, _PARTS)
        for k, name in enumerate(_VECTORS.values()):
            setattr(state, name, self._vector(vectors[3 * k : 3 * k + 3]))
        state.rot_mat = make.RotMat(*(self._vector(axis) for axis in turned.reshape(3, 3)))
        state.wheels_with_contact = tuple(map(bool, touching))
        for name, value in zip(_NUMBERS.values(), numbers, strict=True):
            setattr(state, name, float(value))
        for name, value in zip(_FLAGS.values(), flags, strict=True):
            setattr(state, name, bool(value))
        state.last_controls.jump = bool(held)
        state.car_contact_id = self._cars[int(bumped)].id if bumped >= 0 else 0
        hit = int(hit) + late
        state.ball_hit_info.tick_count_when_extra_impulse_applied = hit if hit >= 0 else _NEVER
        return state

    def _row(self, state: Any, late: int) -> list[float]:
        """Reverses `_state`."""
        turned, hit = state.rot_mat, state.ball_hit_info.tick_count_when_extra_impulse_applied
        row = [value for name in _VECTORS.values() for value in getattr(state, name).as_tuple()]
        row += [*turned.forward.as_tuple(), *turned.right.as_tuple(), *turned.up.as_tuple()]
        row += state.wheels_with_contact
        row += [getattr(state, name) for name in (*_NUMBERS.values(), *_FLAGS.values())]
        number = self._number.get(state.car_contact_id, -1)
        return [*row, state.last_controls.jump, number, hit - late if hit != _NEVER else -10]

    def _vector(self, values: Sequence[float] | np.ndarray) -> Any:
        return self._module.Vec(*map(float, values))

    # What happens in a tick, as RocketSim tells it while it plays.

    def _touched(self, *, car: Any, **_: Any) -> None:
        number, tick = self._number[car.id], self._arena.tick_count - self._late
        if self._counts[LAST_TOUCH, number] != tick:  # two points of contact are one touch
            self._counts[TOUCHES, number] += 1
            self._counts[LAST_TOUCH, number] = tick

    def _bumped(self, *, bumper: Any, victim: Any, is_demo: bool, **_: Any) -> None:
        self._counts[DEMOLITIONS if is_demo else BUMPS, self._number[bumper.id]] += 1
        self._counts[DEMOLISHED, self._number[victim.id]] += is_demo

    def _picked_up(self, *, car: Any, boost_pad: Any, **_: Any) -> None:
        self._counts[BIG_PADS if boost_pad.is_big else SMALL_PADS, self._number[car.id]] += 1


# ---- arenas ---------------------------------------------------------------------------------------------------------


def new_arena(module: ModuleType) -> Any:
    """An arena of RocketSim without cars, after its first tick: only in that one, pressed wheels are pushed up as if a
    tick took Bullet's default of 1/60 s. The push stays until they are pressed again or in the air.
    """
    # The light kind takes a fifth of the time to make, and a tick of it a third more.
    arena = module.Arena(module.GameMode.SOCCAR, module.MemoryWeightMode.LIGHT)
    arena.step(1)
    return arena


_READ: list[str] = []  # the meshes that RocketSim has read in this process


def started(meshes: str = "") -> ModuleType:
    """RocketSim with an arena; see `RocketSim.__init__`."""
    module = require("RocketSim", "car_soccer in the simulator rocketsim", "jaxrl[rlgym]")
    if not _READ:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "soccar", mesh.read_folder(meshes) if meshes else [mesh.own()])
            _begin(module, folder)
        _READ.append(meshes)
    if _READ != [meshes]:
        raise UserError(f"RocketSim reads an arena once in a process, here {_READ[0] or 'our own'}: start another one.")
    return module


def _begin(module: ModuleType, folder: str) -> None:
    try:
        module.init(folder)
    except RuntimeError as error:
        if "inited" not in str(error):
            raise
        raise UserError(
            f"RocketSim reads an arena once in a process, and something else has let it read one ({error}): let jaxrl "
            "begin it (RLGym then takes the arena that is there), or use a process for each."
        ) from None


def write(folder: Path, meshes: Sequence[mesh.Mesh]) -> None:
    """Makes a folder of .cmf files, see `mesh.read_folder`."""
    folder.mkdir(parents=True)
    for number, each in enumerate(meshes):
        sizes = struct.pack("<ii", len(each.triangles), len(each.vertices))
        arrays = each.triangles.astype("<i4"), (each.vertices / mesh.UNIT).astype("<f4")
        (folder / f"mesh_{number:03}.cmf").write_bytes(sizes + b"".join(array.tobytes() for array in arrays))


def rlgym_meshes() -> str:
    """Returns the folder of the game's own meshes that RLGym brings.

    Raises:
      UserError: it is not installed.
    """
    try:
        found = importlib.util.find_spec("rlgym.rocket_league.sim")
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise UserError(
            "car_soccer in the simulator rlgym needs the package 'rlgym-rocket-league': pip install 'jaxrl[rlgym]', "
            "then pip install --no-deps rlgym-rocket-league==2.0.1 (it asks for an older numpy than it needs)."
        )
    return str(Path(found.origin).parent / "collision_meshes")
