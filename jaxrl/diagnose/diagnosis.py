"""Measures where the time and memory of one configuration go on this machine, all in this process."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.diagnose import hardware, play
from jaxrl.diagnose.host_play import through_bridge
from jaxrl.diagnose.timing import race, safe_ratio
from jaxrl.diagnose.training import MeasuredTraining, answering, comparable, playing
from jaxrl.games import make_games
from jaxrl.runs.config import device_count
from jaxrl.runs.directory import cache_folder, enable_compilation_cache

PERCENTILES = (50, 95, 99)
LEARNING = ("replay_sample", "forward", "backward")  # counters of the learner
Block = Callable[[], Any]


def diagnose(config: Config, *, seconds: float = 2.0) -> dict[str, Any]:
    """Measures a configuration, each part for `seconds` at least, and returns the whole report, JSON-ready."""
    enable_compilation_cache(config.run.cache_dir)
    before = cache_state(config.run.cache_dir)
    env = make_games(config).training
    config = comparable(config)
    report = {"hardware": hardware.describe(), "config": configs.to_dict(config)}
    report |= _measured(config, env, seconds) | {"memory": hardware.memory()}
    after = cache_state(config.run.cache_dir)
    # Number of programs that this diagnosis compiled: 0 means that all were in the cache.
    return report | {"cache": after | {"added": after["programs"] - before["programs"]}}


def _measured(config: Config, env: Any, seconds: float) -> dict[str, Any]:
    """Returns the part of a report beside machine, memory and cache."""
    host, train, sebulba = env.host, config.train, config.sebulba
    with contextlib.ExitStack() as stack:
        training = stack.enter_context(contextlib.closing(MeasuredTraining(config, env, profile=host)))
        if host:
            game = through_bridge(stack, env.game, train.num_envs, sebulba.threads or xla.cores())
        else:
            devices = device_count(config, jax.local_device_count())
            game = play.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed", devices=devices)
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


def latency(call: Block, seconds: float, fewest: int = 20) -> dict[str, float]:
    """Returns percentiles of the duration of one call in ms, after two untimed calls."""
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
    """Returns the directory, number and size of the compiled programs on disk."""
    path = cache_folder(directory)
    if path is None:
        return {"directory": "", "programs": 0, "mib": 0.0}
    sizes = [file.stat().st_size for file in path.glob("*-cache")] if path.is_dir() else []
    return {"directory": str(path), "programs": len(sizes), "mib": sum(sizes) / 2**20}
