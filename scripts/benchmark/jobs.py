"""What a worker process can be asked for: plain arguments in, contestants or finished figures out.

Every job runs in a process of its own, because XLA's flags, the cores and the compilation cache are fixed once jax has
started. A job's result is a `Team`; the asking process decides when its contestants run, so that teams of several
processes can take turns. Peers are imported by the jobs that are about them: they need not be installed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxrl import config as configs
from jaxrl.diagnose import hardware, jaxprs, play
from jaxrl.diagnose.timing import Contestant
from jaxrl.diagnose.training import Training
from jaxrl.games import make_env
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl.training.make import make_program
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.contract import registry
from jaxrl_envs.host.env import HostEnv
from scripts.benchmark import arenas, engines, peers, sum_trees, training

Tree = dict[str, Any]  # a configuration, or the options of a game


class Team(NamedTuple):
    """What a job offers."""

    contestants: list[Contestant]
    facts: Callable[[], dict[str, Any]] = dict  # asked once everything has run
    close: Callable[[], Any] = lambda: None  # ends threads and processes of the contestants


def environment(env: str, options: Tree, entries: list[tuple[int, str]], devices: int) -> Team:
    """Random play of one game with each of `entries`: games at once and the view."""
    game = registry.make(env, **options)
    contestants = [play.contestant(game, batch=batch, view=view, devices=devices) for batch, view in entries]
    size = jaxprs.program_size(game)
    return Team(contestants, lambda: {"jaxpr_equations": size})


def bots(env: str, options: Tree, batch: int, devices: int) -> Team:
    """Every scripted player of a game on all its seats; nothing is written down."""
    game = registry.make(env, **options)
    same: dict[str, Any] = {"batch": batch, "devices": devices, "view": "lean", "steps": 32}
    return Team([play.contestant(game, name=name, player=name, **same) for name in game.bots])


def peer_games(names: list[str]) -> Team:
    """Random play of the games of peers."""
    return Team([contestant for name in names for contestant in peers.load(name).contestants()])


def arena_ticks(env: str, options: Tree, batches: list[int]) -> Team:
    """The physics of car soccer alone; see `scripts.benchmark.arenas`."""
    game = registry.make(env, **options)
    assert isinstance(game, CarSoccer)
    contestants, facts = arenas.contestants(game, batches)
    return Team(contestants, lambda: facts)


def soccer_peers(size: int) -> Team:
    """RocketSim and RLGym with a given number of cars in a team."""
    from scripts.benchmark.peers import soccer

    return Team(soccer.contestants(size))


def training_parts(config: Tree) -> Team:
    """One configuration and its parts; see `scripts.benchmark.training`."""
    contestants, facts = training.contestants(configs.from_dict(config))
    return Team(contestants, facts)


def gate(config: Tree) -> Team:
    """Training and random play of one configuration, and the calibration kernel; see `scripts.benchmark.gate`."""
    of = configs.from_dict(config)
    env = make_env(of)
    stack = contextlib.ExitStack()
    whole = stack.enter_context(contextlib.closing(Training(of, env)))
    if isinstance(env, HostEnv):
        seats = stack.enter_context(engines.HostContestants(env.game, 64))
        game = seats.bridge(0, threads=1)
    else:
        game = play.contestant(env, batch=1024, view="observed", steps=32)
    contestants = [whole.contestant("training"), game._replace(name="random play"), training.calibration()]
    return Team(contestants, close=stack.close)


def whole_training(config: Tree) -> Team:
    """Whole updates of one configuration."""
    of = configs.from_dict(config)
    return Team([Training(of, make_env(of)).contestant("jaxrl")])


def pure_ppo(hidden: list[int], **settings: Any) -> Team:
    """A PureJaxRL-style PPO on gymnax CartPole, with our network and with its own; `settings` of the peer."""
    from scripts.benchmark.peers import pure_ppo as peer

    given = peer.PeerSettings(hidden=tuple(hidden), activation="tanh", **settings)
    contestants = [
        peer.contestant(given._replace(separate=False), "PureJaxRL-style, our network (one torso)"),
        peer.contestant(given, "PureJaxRL-style, its network (two torsos)"),
    ]
    return Team(contestants)


def sb3(config: Tree) -> Team:
    """Stable-Baselines3's MaskablePPO on the game of a configuration through the Gymnasium adapter."""
    from scripts.benchmark.peers import sb3_ppo

    of = configs.from_dict(config)
    return Team([sb3_ppo.contestant(of, make_env(of))])


def host_play(env: str, options: Tree, batch: int, entries: list[tuple[str, int, bool, int]]) -> Team:
    """Ways to play a game of a host engine; see `scripts.benchmark.engines`.

    Args:
      env: "" is a game in which nothing happens.
      options: of the game.
      batch: games at once.
      entries: (layer, number of the bot, whether observations are written, threads) each.
    """
    seats = engines.HostContestants(engines.find_game(env, options), batch, options)
    return Team([seats.contestant(*entry) for entry in entries], close=seats.close)


def host_training(config: Tree) -> Team:
    """Learning from games on the host as it is, and with its counters on, which tell where the time goes."""
    of = configs.from_dict(config)
    enable_compilation_cache(of.run.cache_dir)  # two trainings of one shape
    plain, counting = (Training(of, make_env(of), profile=profile) for profile in (False, True))
    stack = contextlib.ExitStack()
    for each in (plain, counting):
        stack.callback(each.close)
    contestants = [plain.contestant("training"), counting.contestant("training, counters on")]
    return Team(contestants, counting.facts, stack.close)


def host_busy(config: Tree, work_us: list[int], calls: int) -> Team:
    """How busy trainings keep the threads of engines that cost so much; nothing to time, the facts tell.

    Args:
      config: what is trained.
      work_us: what a decision costs the engine, in turn.
      calls: of `run` for each; the first one is not counted.
    """
    of = configs.from_dict(config)
    enable_compilation_cache(of.run.cache_dir)  # trainings of one shape
    busy, threads = {}, 0
    for work in work_us:
        with contextlib.closing(Training(of, HostEnv(engines.WorkGame(work)), profile=True)) as each:
            for _ in range(calls):
                each.block()
            facts = each.facts()
        busy[str(work)], threads = facts["figures"]["engine_busy"], facts["threads"].get("engine", 0)
    return Team([], lambda: {"engine_busy": busy, "threads": threads})


def replay(capacity: int, batch: int, games: int) -> Team:
    """Sum-trees; see `scripts.benchmark.sum_trees`."""
    return Team(sum_trees.contestants(capacity=capacity, batch=batch, games=games))


def compilation(config: Tree, cache: str, started: float) -> Team:
    """Seconds from a fresh process to a compiled training step; cold or warm is a matter of what `cache` holds.

    Args:
      config: what would be trained.
      cache: a folder.
      started: `time.time` when the process was asked for.
    """
    enable_compilation_cache(cache)
    of = configs.from_dict(config)
    program: Any = make_program(of, make_env(of))
    imported = time.time()
    state = program.init(0)
    made = time.time()
    lowered = program.compiled.lower(state)
    traced = time.time()
    lowered.compile()
    compiled = time.time()
    facts = {
        "process_and_imports": imported - started,
        "initial_state": made - imported,
        "trace_and_lower": traced - made,
        "compile": compiled - traced,
        "total": compiled - started,
        "processor": time.process_time(),
    }
    return Team([], lambda: facts)


JOBS: dict[str, Callable[..., Team]] = {
    job.__name__: job
    for job in (
        *(environment, bots, peer_games, arena_ticks, soccer_peers, training_parts, whole_training, compilation, gate),
        *(pure_ppo, sb3, host_play, host_training, host_busy, replay),
    )
}


def closing_facts(team: Team) -> dict[str, Any]:
    """What is known once everything has run."""
    return team.facts() | {"memory": hardware.memory(), "hardware": hardware.describe()}
