"""What a worker process can be asked to measure: plain dictionaries in, plain dictionaries out.

Every job runs in a process of its own, because the number of virtual devices, the cores and the compilation cache are
fixed once jax has started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl.benchmark import hardware
from jaxrl.benchmark.timing import Contestant, race

Report = dict[str, Any]


def environment_speed(job: dict[str, Any]) -> Report:
    """Random play of one game in several views and batch sizes, and of the peers' games, in turn.

    Args:
      job: {"env", "options", "entries": [[batch, view], ...], "devices", "rounds", "seconds", "peers": [names]}.
    """
    from envs import registry
    from jaxrl.benchmark import environment

    env = registry.make(job["env"], **job["options"])
    ours = [
        environment.contestant(env, batch=batch, view=view, devices=job["devices"]) for batch, view in job["entries"]
    ]
    skipped, theirs = _peer_games(job.get("peers", []))
    results = race([*ours, *theirs], rounds=job["rounds"], seconds=job["seconds"])
    return {
        "ours": [result._asdict() for result in results[: len(ours)]],
        "peers": [result._asdict() for result in results[len(ours) :]],
        "skipped": skipped,
        "jaxpr_equations": environment.program_size(env),
        "memory": hardware.memory(),
    }


def _peer_games(names: Sequence[str]) -> tuple[list[str], list[Contestant]]:
    """(sentences about the peers that cannot run, the contestants of those that can)."""
    from jaxrl import peers

    skipped = [sentence for name in names if (sentence := peers.missing(name)) is not None]
    found: list[Contestant] = []
    for name in names:
        if peers.missing(name) is None:
            found += peers.load(name).contestants()
    return skipped, found


def training_speed(job: dict[str, Any]) -> Report:
    """Training speed and its breakdown.

    Args:
      job: {"config": tree, "rounds", "seconds"}.
    """
    from jaxrl import config as configs
    from jaxrl.benchmark import training

    report = training.measure(configs.from_dict(job["config"]), rounds=job["rounds"], seconds=job["seconds"])
    return report | {"memory": hardware.memory()}


def ppo_race(job: dict[str, Any]) -> Report:
    """Our loop and a PureJaxRL-style PPO on gymnax CartPole with equal settings, in turn.

    Args:
      job: {"devices", "num_envs", "num_steps", "epochs", "minibatches", "hidden", "rounds", "seconds"}.
    """
    from envs import registry
    from jaxrl import config as configs
    from jaxrl import peers
    from jaxrl.anakin import make_anakin
    from jaxrl.benchmark import training

    absent = peers.missing("purejaxrl")
    if absent is not None:
        return {"skipped": absent}
    from jaxrl.peers import pure_ppo

    config = configs.from_dict(cartpole(job))
    equal = {name: job[name] for name in ("num_envs", "num_steps", "epochs", "minibatches", "updates")}
    settings = pure_ppo.Settings(hidden=tuple(job["hidden"]), activation="tanh", **equal)
    env = registry.make(config.env.id)
    contestants = [
        training.whole(make_anakin(config, env), "jaxrl"),
        pure_ppo.contestant(settings._replace(separate=False), "PureJaxRL-style, our network (one torso)"),
        pure_ppo.contestant(settings, "PureJaxRL-style, its network (two torsos)"),
    ]
    results = race(contestants, rounds=job["rounds"], seconds=job["seconds"])
    return {"results": [result._asdict() for result in results], "memory": hardware.memory()}


def cartpole(job: dict[str, Any]) -> dict[str, Any]:
    """The configuration tree of `ppo_race`."""
    ppo = {name: job[name] for name in ("num_envs", "num_steps", "epochs", "minibatches")}
    rate = {"kind": "constant", "start": 2.5e-4}
    return {
        "run": {"devices": job["devices"]},
        "env": {"id": "gymnax:CartPole-v1"},
        "network": {"hidden": list(job["hidden"]), "activation": "tanh"},
        "ppo": ppo | {"gamma": 0.99, "learning_rate": rate, "entropy_coef": {"kind": "constant", "start": 0.01}},
        "train": {"updates_per_call": job["updates"]},
    }


def sb3_race(job: dict[str, Any]) -> Report:
    """Our loop and Stable-Baselines3's MaskablePPO on the same game through the Gymnasium adapter, in turn.

    Args:
      job: {"config": tree, "rounds", "seconds"}.
    """
    from envs import registry
    from jaxrl import config as configs
    from jaxrl import peers
    from jaxrl.anakin import make_anakin
    from jaxrl.benchmark import training

    absent = peers.missing("sb3")
    if absent is not None:
        return {"skipped": absent}
    from jaxrl.peers import sb3_ppo

    config = training.comparable(configs.from_dict(job["config"]))
    env = registry.make(config.env.id, **config.env.options)
    contestants = [training.whole(make_anakin(config, env), "jaxrl"), sb3_ppo.contestant(config, env)]
    results = race(contestants, rounds=job["rounds"], seconds=job["seconds"])
    return {"results": [result._asdict() for result in results], "memory": hardware.memory()}


def compile_seconds(job: dict[str, Any]) -> Report:
    """Seconds from a fresh process to a compiled training step; cold or warm is a matter of what `cache` holds.

    Args:
      job: {"config": tree, "cache": folder, "started": seconds of `time.time` when the process was asked for}.
    """
    start = time.time()
    from envs import registry
    from jaxrl import config as configs
    from jaxrl.anakin import make_anakin
    from jaxrl.runs import enable_compilation_cache

    enable_compilation_cache(job["cache"])
    config = configs.from_dict(job["config"])
    anakin = make_anakin(config, registry.make(config.env.id, **config.env.options))
    imported = time.time()
    state = anakin.init(0)
    made = time.time()
    lowered = anakin.run.lower(state)
    traced = time.time()
    lowered.compile()
    compiled = time.time()
    return {
        "process_and_imports": imported - job["started"],
        "imports": imported - start,
        "initial_state": made - imported,
        "trace_and_lower": traced - made,
        "compile": compiled - traced,
        "total": compiled - job["started"],
        "memory": hardware.memory(),
    }


JOBS: dict[str, Callable[[dict[str, Any]], Report]] = {
    "environment": environment_speed,
    "training": training_speed,
    "ppo": ppo_race,
    "sb3": sb3_race,
    "compile": compile_seconds,
}
