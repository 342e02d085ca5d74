"""What a worker process can be asked for: plain dictionaries in, contestants or a finished report out.

Every job runs in a process of its own, because XLA's flags, the cores and the compilation cache are fixed once jax has
started. A job's result is a `Team`; the asking process decides when its contestants run, so that teams of several
processes can take turns.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxrl.benchmark import hardware
from jaxrl.benchmark.timing import Contestant

Job = dict[str, Any]


class Team(NamedTuple):
    """What a job offers."""

    contestants: list[Contestant]
    facts: dict[str, Any]
    close: Callable[[], Any] = lambda: None  # ends threads and processes of the contestants


def environment(job: Job) -> Team:
    """Random play of one game.

    Args:
      job: {"env", "options", "entries": [[batch, view], ...], "devices"}.
    """
    from envs import registry
    from jaxrl.benchmark import environment as play

    env = registry.make(job["env"], **job["options"])
    contestants = [
        play.contestant(env, batch=batch, view=view, devices=job["devices"]) for batch, view in job["entries"]
    ]
    return Team(contestants, {"jaxpr_equations": play.program_size(env)})


def bots(job: Job) -> Team:
    """Every scripted player of a game on all its seats; nothing is written down.

    Args:
      job: {"env", "options", "batch", "devices"}.
    """
    from envs import registry
    from jaxrl.benchmark import environment as play

    env = registry.make(job["env"], **job["options"])
    of_job = {"batch": job["batch"], "devices": job["devices"], "view": "lean", "steps": 32}
    return Team([play.contestant(env, name=name, player=name, **of_job) for name in env.bots], {})


def peer_games(job: Job) -> Team:
    """Random play of a peer's games.

    Args:
      job: {"peers": [names]}.
    """
    from jaxrl import peers

    found: list[Contestant] = []
    for name in job["peers"]:
        found += peers.load(name).contestants()
    return Team(found, {})


def training(job: Job) -> Team:
    """One configuration and its parts; see `jaxrl.benchmark.training`.

    Args:
      job: {"config": tree}.
    """
    from jaxrl import config as configs
    from jaxrl.benchmark import training as parts

    return Team(*parts.contestants(configs.from_dict(job["config"])))


def whole_training(job: Job) -> Team:
    """Whole updates of one configuration.

    Args:
      job: {"config": tree}.
    """
    from jaxrl import config as configs
    from jaxrl.benchmark import training as parts
    from jaxrl.runs.games import make_env
    from jaxrl.training.anakin import make_anakin

    config = parts.comparable(configs.from_dict(job["config"]))
    return Team([parts.whole(make_anakin(config, make_env(config)), "jaxrl")], {})


def pure_ppo(job: Job) -> Team:
    """A PureJaxRL-style PPO on gymnax CartPole, with our network and with its own.

    Args:
      job: {"num_envs", "num_steps", "epochs", "minibatches", "updates", "hidden"}.
    """
    from jaxrl.peers import pure_ppo as peer

    equal = {name: job[name] for name in ("num_envs", "num_steps", "epochs", "minibatches", "updates")}
    settings = peer.Settings(hidden=tuple(job["hidden"]), activation="tanh", **equal)
    contestants = [
        peer.contestant(settings._replace(separate=False), "PureJaxRL-style, our network (one torso)"),
        peer.contestant(settings, "PureJaxRL-style, its network (two torsos)"),
    ]
    return Team(contestants, {})


def sb3(job: Job) -> Team:
    """Stable-Baselines3's MaskablePPO on the same game through the Gymnasium adapter.

    Args:
      job: {"config": tree}.
    """
    from envs import registry
    from jaxrl import config as configs
    from jaxrl.peers import sb3_ppo

    config = configs.from_dict(job["config"])
    return Team([sb3_ppo.contestant(config, registry.make(config.env.id, **config.env.options))], {})


def host_play(job: Job) -> Team:
    """Ways to play a game of a host engine; see `jaxrl.benchmark.host`.

    Args:
      job: {"env" ("": a game in which nothing happens), "options", "batch", "entries": [[layer, number of the bot,
        whether observations are written, threads], ...]}.
    """
    from jaxrl.benchmark import host

    game = host.find_game(job["env"], job["options"])
    seats = host.Table(game, job["batch"], job["options"])
    return Team([seats.contestant(*entry) for entry in job["entries"]], {}, seats.close)


def host_training(job: Job) -> Team:
    """Learning from games on the host; see `jaxrl.benchmark.host_training`.

    Args:
      job: {"config": tree}.
    """
    from jaxrl import config as configs
    from jaxrl.benchmark import host_training as loop
    from jaxrl.runs.directory import enable_compilation_cache
    from jaxrl.runs.games import make_env

    config = configs.from_dict(job["config"])
    enable_compilation_cache(config.run.cache_dir)  # two trainings of one shape
    both, contestants = loop.contestants(config, make_env(config))
    stack = contextlib.ExitStack()
    for each in both:
        stack.callback(each.close)
    return Team(contestants, both[1].facts, stack.close)


def host_busy(job: Job) -> Team:
    """How busy trainings keep the threads of engines that cost so much; nothing to time, the facts tell.

    Args:
      job: {"config": tree, "work_us": [...], "calls": of `run` for each, the first one not counted}.
    """
    from envs.host.env import HostEnv
    from jaxrl import config as configs
    from jaxrl.benchmark import host
    from jaxrl.benchmark.host_training import Training
    from jaxrl.runs.directory import enable_compilation_cache

    config = configs.from_dict(job["config"])
    enable_compilation_cache(config.run.cache_dir)  # trainings of one shape
    busy = {}
    for work in job["work_us"]:
        with contextlib.closing(Training(config, HostEnv(host.WorkGame(work)), profile=True)) as training:
            for _ in range(job["calls"]):
                training.block()
            busy[str(work)] = training.facts["figures"]["engine_busy"]
    return Team([], {"engine_busy": busy, "threads": training.facts["threads"].get("engine", 0)})


def replay(job: Job) -> Team:
    """Sum-trees; see `jaxrl.benchmark.replay`.

    Args:
      job: {"capacity", "batch", "games"}.
    """
    from jaxrl.benchmark import replay as trees

    return Team(trees.contestants(**{name: job[name] for name in ("capacity", "batch", "games")}), {})


def compilation(job: Job) -> Team:
    """Seconds from a fresh process to a compiled training step; cold or warm is a matter of what `cache` holds.

    Args:
      job: {"config": tree, "cache": folder, "started": `time.time` when the process was asked for}.
    """
    from jaxrl import config as configs
    from jaxrl.runs.directory import enable_compilation_cache
    from jaxrl.runs.games import make_env
    from jaxrl.training.anakin import make_anakin

    enable_compilation_cache(job["cache"])
    config = configs.from_dict(job["config"])
    anakin = make_anakin(config, make_env(config))
    imported = time.time()
    state = anakin.init(0)
    made = time.time()
    lowered = anakin.run.lower(state)
    traced = time.time()
    lowered.compile()
    compiled = time.time()
    facts = {
        "process_and_imports": imported - job["started"],
        "initial_state": made - imported,
        "trace_and_lower": traced - made,
        "compile": compiled - traced,
        "total": compiled - job["started"],
        "processor": time.process_time(),
    }
    return Team([], facts)


JOBS: dict[str, Callable[[Job], Team]] = {
    "environment": environment,
    "bots": bots,
    "peer_games": peer_games,
    "training": training,
    "whole_training": whole_training,
    "pure_ppo": pure_ppo,
    "sb3": sb3,
    "compilation": compilation,
    "host_busy": host_busy,
    "host_play": host_play,
    "host_training": host_training,
    "replay": replay,
}


def closing_facts(team: Team) -> dict[str, Any]:
    """What is known once everything has run."""
    return team.facts | {"memory": hardware.memory(), "hardware": hardware.describe()}
