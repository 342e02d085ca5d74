"""Short measurements of each part of a training with host games: the engine, inference, the update, and a call to a
worker."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import Asked
from jaxrl.config import Config
from jaxrl.diagnose.estimates.fleet import Linear, Times
from jaxrl.diagnose.training import comparable
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.loop import Sebulba
from jaxrl.training.sebulba.remote.cluster import worker_pool
from jaxrl.training.sebulba.remote.worker import ENDED
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl_envs.contract.env import Env
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, HostGame, make_buffers, shapes
from jaxrl_envs.shared.errors import UserError

CALL, PER_BYTE = 6.7e-4, 5e-9  # seconds, docs/operations/planning.md: where Ray is not installed
WORKERS_SHARE = 0.5  # of these seconds, in the worker's process
STRETCHES = 5  # of a measurement
MORE = 4  # factor between the numbers of games of the two points of a line


class Measured(NamedTuple):
    """The measurements that a fleet is simulated from."""

    times: Times
    decisions_per_game: float | None  # None if no game ended during the measurement
    transport: str  # where the times of a call to a worker come from, as text


def measure(config: Config, env: Env, part: int, block: int, *, gbit: float, seconds: float) -> Measured:
    """Measures each part for about `seconds` seconds; compiles the network's programs.

    Args:
      config: what would be trained.
      env: its game, on the host.
      part: games of a worker in a block.
      block: games of a block.
      gbit: Gbit/s of the network between machines.
      seconds: for each part.

    Raises:
      UserError: the algorithm learns by programs of its own, which cannot be timed alone.
    """
    here = dataclasses.replace(comparable(config), fleet=dataclasses.replace(config.fleet, workers=0))
    program = make_program(here, env)
    assert isinstance(program, Sebulba)
    if program.algorithm.host_learning(program.timers) is not None:
        raise UserError(f"{config.train.algorithm} learns on the host by many small programs: estimate with ppo.")
    state = program.init(0)
    with contextlib.closing(program):
        engine, computing, length = _engine(program, state, part, seconds)
        near = _answering(program, state, block, seconds / 2)
        far = _answering(program, state, MORE * block, seconds / 2)
        update = _learning(program, state, seconds) / here.batch_size
    bytes_moved = _bytes(program.game)
    if importlib.util.find_spec("ray") is not None:
        points = [_transport(config, program, state, games, computing, seconds / 2) for games in (part, MORE * part)]
        mine, theirs = (_line(part, a, MORE * part, b) for a, b in zip(*(each[:2] for each in points), strict=True))
        waiting, engine = min(each[2] for each in points), min(engine, *(each[3] for each in points))
        how = "measured with one worker of Ray on this machine"
    else:
        whole = Linear(CALL, PER_BYTE * bytes_moved)
        theirs, waiting = Linear(WORKERS_SHARE * whole.fixed, WORKERS_SHARE * whole.each), 0.0
        mine = Linear(whole.fixed - theirs.fixed, whole.each - theirs.each)
        assumed = f"{1e3 * CALL:.2g} ms a call, {1e9 * PER_BYTE:.0f} ns a byte"
        how = f"ray is not installed: {assumed}, as in docs/operations/planning.md"
    times = Times(
        engine=engine,
        engine_cpu=min(computing, engine),
        transport=mine,
        remote=theirs,
        waiting=waiting,
        answers=_line(block, near, MORE * block, far),
        update=update,
        network=8 * bytes_moved / (gbit * 1e9),
    )
    return Measured(times, length, how)


def _line(games: int, near: float, more: int, far: float) -> Linear:
    each = max(0.0, (far - near) / (more - games))
    return Linear(max(0.0, near - each * games), each)


def _bytes(game: HostGame) -> int:
    """Bytes of one game's answer, without the fields that are sent for ended games only."""
    forms = shapes(game, 1)
    return sum(
        int(np.prod(shape)) * np.dtype(kind).itemsize for name, (shape, kind) in forms.items() if name not in ENDED
    )


def _repeated(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """(seconds, processor seconds of this process) of a call: means over the fastest of `STRETCHES` stretches, after an
    untimed call, because other processes may use the machine."""
    call()
    return min(_stretch(call, seconds / STRETCHES) for _ in range(STRETCHES))


def _stretch(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    cpu, start, count = time.process_time(), time.perf_counter(), 0
    while not count or time.perf_counter() - start < seconds:
        call()
        count += 1
    return (time.perf_counter() - start) / count, (time.process_time() - cpu) / count


class _Games:
    """Some games of a training state, stepped by the engine's own random choices."""

    def __init__(self, pool: HostPool | WorkerPool, program: Sebulba, state: Any, games: int):
        lanes = state.lanes
        which = np.arange(games) % len(lanes.blobs)
        self._pool, self._rows = pool, make_buffers(program.game, games)
        controllers = program.host.numbers[lanes.controllers[which]]
        pool.load(lanes.blobs[which], controllers, self._rows, lanes.length[which])
        pool.next_controllers[:] = controllers
        self._random = np.full(self._rows.action.shape, RANDOM, np.int32)
        self.steps = self.ended = 0

    def step(self) -> None:
        """Plays one decision in each game."""
        self._pool.send(self._random, self._rows)
        self._pool.recv()
        self.steps += len(self._random)
        self.ended += int((self._rows.terminated | self._rows.truncated).sum())


def _engine(program: Sebulba, state: Any, part: int, seconds: float) -> tuple[float, float, float | None]:
    """(seconds of a decision on one thread, its computing seconds, decisions per game or None)."""
    sebulba = program.config.sebulba
    with HostPool(program.game.engine(part, 0), threads=1, timeout=sebulba.timeout) as pool:
        games = _Games(pool, program, state, part)
        clock, cpu = _repeated(games.step, seconds)
    return clock / part, min(cpu, clock) / part, games.steps / games.ended if games.ended else None


def _answering(program: Sebulba, state: Any, block: int, seconds: float) -> float:
    """Seconds of inference for a block, from host arrays to host arrays."""
    programs, env = program.host.programs, program.setup.env
    acting = state.acting[0] if state.acting else None
    policy = acting.policy if acting else program.algorithm.policy(state.learner, jnp.int32(0))
    pool = state.pool.replace(snapshots=None) if state.pool is not None else None
    snapshots = state.pool.snapshots if state.pool is not None and state.pool.born.shape[0] else None
    ids = np.arange(block, dtype=np.uint32)
    seating = programs.seating(state.key, np.int32(0), pool, ids)
    rows = make_buffers(program.game, block)
    rows.legal_action_mask[:] = True
    asked = Asked(rows.observation, rows.legal_action_mask, rows.current_player)
    controllers = state.lanes.controllers[ids % len(state.lanes.controllers)]
    memory = program.algorithm.network.memory((block, env.num_players))
    arguments = (policy, snapshots, seating, np.uint32(0), asked, controllers, ids, memory)
    return _repeated(lambda: programs.read(programs.answers(*arguments)[0]), seconds)[0]


def _learning(program: Sebulba, state: Any, seconds: float) -> float:
    """Seconds of one update."""
    policy = program.algorithm.policy(state.learner, jnp.int32(0))
    rollout = program.storages[0].rollout(policy, may_truncate=program.game.may_truncate)
    learner = state.learner

    def learn() -> None:
        nonlocal learner
        learner, _ = jax.block_until_ready(program.learner.learn(learner, rollout, state.key, np.int32(0)))

    return _repeated(learn, seconds)[0]


def _transport(
    config: Config, program: Sebulba, state: Any, games: int, computing: float, seconds: float
) -> tuple[float, float, float, float]:
    """Times of a call to a worker with `games` games, without its engine (`computing` seconds of a decision).

    Returns (processor seconds here, processor seconds in Ray's processes, idle seconds, seconds of a decision there).
    """
    workers = max(1, config.fleet.workers)  # one of them is called; a cluster may already run for all
    alone = dataclasses.replace(
        config,
        sebulba=dataclasses.replace(config.sebulba, actors=workers, groups=1),
        fleet=dataclasses.replace(config.fleet, workers=workers, address=""),
    )
    with worker_pool(alone, program.game, 0, games, seed=0, groups=1) as pool:
        played = _Games(pool, program, state, games)
        played.step()
        steps, busy, theirs = played.steps, int(pool.busy_ns[0]), _descendants_seconds()
        clock, cpu = _repeated(played.step, seconds)
        calls = (played.steps - steps) / games
        engine, theirs = (int(pool.busy_ns[0]) - busy) / 1e9 / calls, (_descendants_seconds() - theirs) / calls
    threads = min(games, max(1, int(config.fleet.cpus)))
    rest = max(0.0, clock - engine / threads)
    cpu = min(cpu, rest)
    theirs = min(max(0.0, theirs - computing * games), rest - cpu) if theirs else rest - cpu
    return cpu, theirs, rest - cpu - theirs, engine / games


def _descendants_seconds() -> float:
    """Processor seconds of the workers that this process has started; 0 where the system does not report them."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            name, _, fields = path.read_text().partition("(")[2].rpartition(")")
            found = fields.split()
            parents[int(path.parent.name)] = int(found[1])
            if name.startswith(("ray::", "raylet")):
                seconds[int(path.parent.name)] = (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")

    def ours(number: int) -> bool:
        return number == os.getpid() or (number in parents and ours(parents[number]))

    return sum(value for number, value in seconds.items() if ours(number))
