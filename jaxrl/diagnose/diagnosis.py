"""Measures where the time and memory of one configuration go on this machine, all in this process."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.diagnose import hardware, play
from jaxrl.diagnose.host_play import BLOCK, by_engine, host_play
from jaxrl.diagnose.timing import Contestant, race, safe_ratio
from jaxrl.diagnose.training import Training, answering, comparable, playing
from jaxrl.games import make_games
from jaxrl.runs.config import device_count
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl_envs.contract.env import Env

FORMAT = 2  # of a report
PERCENTILES = (50, 95, 99)
LEARNING = ("replay_sample", "forward", "backward")  # counters of the learner
Block = Callable[[], Any]


def diagnose(config: Config, *, seconds: float = 2.0) -> dict[str, Any]:
    """Measures a configuration and returns the whole report, JSON-ready.

    Args:
      config: configuration to diagnose.
      seconds: least duration of each measurement.
    """
    enable_compilation_cache(config.run.cache_dir)
    before = cache_state(config.run.cache_dir)
    env = make_games(config).training
    config = comparable(config)
    report = {"format": FORMAT, "hardware": hardware.describe(), "config": configs.to_dict(config)}
    report |= _measured(config, env, seconds) | {"memory": hardware.memory()}
    after = cache_state(config.run.cache_dir)
    # Number of programs that this diagnosis compiled: 0 means that all were in the cache.
    return report | {"cache": after | {"added": after["programs"] - before["programs"]}}


def _measured(config: Config, env: Env, seconds: float) -> dict[str, Any]:
    """Returns the part of a report beside machine, memory and cache."""
    host, train, sebulba = env.host, config.train, config.sebulba
    with contextlib.ExitStack() as stack:
        training = stack.enter_context(contextlib.closing(Training(config, env, profile=host)))
        game = _bridge(config, env, stack) if host else _random_play(config, env)
        contestants = [training.contestant("training"), game, playing(training.program)]
        whole, game_alone, *alone = race([each for each in contestants if each], rounds=3, seconds=seconds / 3)
        busy = {"cpu_cores_busy": safe_ratio(whole.rate, whole.cpu_rate), "gpus": _gpus_during(training.block)}
        facts = training.facts()
    iteration = 1e3 * config.batch_size / whole.rate  # ms per update, as all below
    # With host games playing overlaps with learning, and the learner counts its own time.
    rollout = 1e3 * config.batch_size / alone[0].rate if alone else None
    learning = sum(facts["counters"].get(name, 0.0) for name in LEARNING) * config.batch_size / 1e3 if host else None
    update = learning if rollout is None else max(0.0, iteration - rollout)
    asked = train.num_envs // (sebulba.actors * sebulba.groups) if host else train.num_envs  # games at once
    report = {
        "environment": {
            "steps_per_second": game_alone.rate,
            "steps_per_cpu_second": game_alone.cpu_rate,
            "share": safe_ratio(whole.rate, game_alone.rate),
        },
        "training": {
            "steps_per_second": whole.rate,
            "steps_per_cpu_second": whole.cpu_rate,
            "iteration_ms": iteration,
            "rollout_ms": rollout,
            "update_ms": update,
        },
        "inference_ms": {str(batch): latency(answering(config, env, batch), seconds) for batch in sorted({1, asked})},
        "first_call_seconds": {"training": whole.first_seconds, "environment": game_alone.first_seconds},
        "utilisation": busy,
    }
    return report | ({"host": facts} if host else {})


def _random_play(config: Config, env: Env) -> Contestant:
    """Returns the contestant of a compiled game alone with random players, writing what a learner needs."""
    train, devices = config.train, device_count(config, jax.local_device_count())
    return play.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed", devices=devices)


def _bridge(config: Config, env: Any, stack: contextlib.ExitStack) -> Contestant:
    """Returns the contestant of a host engine with random players, through the bridge; the stack closes its pool."""
    from jaxrl_envs.host.bridge import HostPool

    batch, threads = config.train.num_envs, config.sebulba.threads or xla.cores()
    pool = stack.enter_context(HostPool(env.game.engine(batch, 1), threads=threads))
    go_on, steps = host_play(pool, env.game, batch, by_engine(batch)), max(1, BLOCK // batch)
    return Contestant("bridge", float(batch * steps), lambda: go_on(steps))


def latency(call: Block, seconds: float, fewest: int = 20) -> dict[str, float]:
    """Percentiles of the duration of one call in ms, after two untimed calls."""
    call(), call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < fewest or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    found = np.percentile(times, PERCENTILES).tolist()
    return {f"p{percent}": value for percent, value in zip(PERCENTILES, found, strict=True)} | {"calls": len(times)}


def _gpus_during(block: Block) -> list[dict[str, str]]:
    """Returns nvidia-smi's report about the GPUs while training runs; empty without a GPU."""
    if not hardware.gpus():
        return []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        block()  # so that the device is busy when it is queried
        answer = pool.submit(hardware.gpus)
        while not answer.done():
            block()
    return answer.result()


def cache_state(directory: str) -> dict[str, Any]:
    """Directory, number and size of the compiled programs on disk."""
    if not directory:
        return {"directory": "", "programs": 0, "mib": 0.0}
    path = Path(directory).expanduser()
    sizes = [file.stat().st_size for file in path.glob("*-cache")] if path.is_dir() else []
    return {"directory": str(path), "programs": len(sizes), "mib": sum(sizes) / 2**20}
