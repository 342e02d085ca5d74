"""The parts of a benchmark of a game whose engine lives on the host."""

from __future__ import annotations

from typing import Any

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.diagnose.timing import Speed, safe_ratio
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark import allocations, breakdown, engines, tables
from scripts.benchmark import peers as peers_package
from scripts.benchmark.report import Effort, Found, Part, wanted
from scripts.benchmark.worker import JobFailed, Task, ask

PARTS = ("environment", "bots", "bridge", "replay", "allocations", "training", "busy", "peers")
BATCHES = (64, 1024)  # games side by side: about what an actor has, and what fills the memory caches
NOOP: dict[str, Any] = {"env": "", "options": {}, "batch": 1024}  # the game in which nothing happens
PROCESSES = 8  # games of AsyncVectorEnv; each of them is a process
REPLAY = {"capacity": 100_000, "batch": 384, "games": 64}
WORK_US = [1, 10, 100, 1000]  # what a decision costs in engines of different speed
SMALL = [  # a small network and one actor with 64 games in two blocks: while one is stepped, the other is answered
    *("network.hidden=[32]", "train.num_envs=64", "train.num_steps=32", "ppo.epochs=1", "ppo.minibatches=4"),
    *("sebulba.actors=1", "sebulba.groups=2", "train.updates_per_call=4", "run.devices=1"),
]
DECISIONS = 1_000_000  # that the allocations are counted over


def on_host(config: Config) -> bool:
    """Whether the game of a configuration is played by an engine on the host."""
    from jaxrl_envs.contract import registry

    return bool(getattr(registry.game_class(config.env.id), "host", False))


def plan(config: Config, effort: Effort, only: list[str] | None, peers: bool) -> list[Part]:
    """What is measured of a game on the host; the arguments as for compiled games.

    Raises:
      UserError: there is no such part, or the engine is another program: hundreds of games side by side would be as
        many processes.
    """
    parts = wanted("games on the host have", PARTS, only, () if peers else ("peers",))
    cores = xla.cores()
    game = engines.find_game(config.env.id, dict(config.env.options))
    if game.remote:
        raise UserError(
            f"the engine of {config.env.id} is another program: use `python -m scripts.benchmark {config.env.id}`."
        )
    known = [
        Part("random play", "environment", lambda: _environment(config, effort, cores)),
        Part("scripted players against themselves", "bots", lambda: _bots(config, effort, game.bots)),
        Part("the bridge, with an engine that does nothing", "bridge", lambda: _bridge(effort, cores)),
        Part("prioritised replay: our sum-tree and one in Python", "replay", lambda: _replay(effort)),
        Part("allocations while playing", "allocations", lambda: _allocations(config, cores)),
        Part("training", "training", lambda: _training(config, effort)),
        Part("how busy training keeps the engine's threads", "busy", lambda: _busy(config, cores)),
        Part("AsyncVectorEnv around the same engine", "async_vector_env", lambda: _peers(config, effort, cores)),
    ]
    return [part for name, part in zip(PARTS, known, strict=True) if name in parts]


def _thread_counts(cores: int) -> list[int]:
    return sorted({1, min(2, cores), cores})


def _play(game: dict[str, Any], entries: list[list[Any]]) -> Task:
    """A worker that plays; `entries` as in `jobs.host_play`."""
    return Task("host_play", game | {"entries": entries}, our_flags=False)


def _game(config: Config, batch: int) -> dict[str, Any]:
    return {"env": config.env.id, "options": dict(config.env.options), "batch": batch}


# ---- parts --------------------------------------------------------------------------------------------------------


def _environment(config: Config, effort: Effort, cores: int) -> Found:
    """The random player: the engine alone with and without observations, and through the bridge."""
    threads = _thread_counts(cores)
    entries = [["engine", 0, observe, count] for observe in (False, True) for count in threads]
    entries += [["bridge", 0, True, count] for count in threads]
    answers = ask(
        [_play(_game(config, batch), entries) for batch in BATCHES], rounds=effort.rounds, seconds=effort.seconds
    )
    return _of_play(f"{config.env.id}, random play", [result for answer in answers for result in answer.results])


def _bots(config: Config, effort: Effort, names: tuple[str, ...]) -> Found:
    """Every scripted player on all seats."""
    entries = [["engine", bot, observe, 1] for bot in range(1, len(names)) for observe in (False, True)]
    entries += [["bridge", bot, True, 1] for bot in range(1, len(names))]
    if not entries:
        return {"skipped": "the game has no scripted players"}, "the game has no scripted players"
    [answer] = ask([_play(_game(config, BATCHES[0]), entries)], rounds=min(5, effort.rounds), seconds=effort.seconds)
    return _of_play(f"{config.env.id}, scripts", answer.results)


def _bridge(effort: Effort, cores: int) -> Found:
    """What the bridge itself costs."""
    entries: list[list[Any]] = [["engine", 0, True, 1]]
    entries += [["bridge", 0, True, count] for count in _thread_counts(cores)]
    [answer] = ask([_play(NOOP, entries)], rounds=effort.rounds, seconds=effort.seconds)
    found, text = _of_play("no-op engine", answer.results)
    costs = {
        result.name: 1e9 * (safe_ratio(1.0, result.cpu_rate) - safe_ratio(1.0, answer.results[0].cpu_rate))
        for result in answer.results[1:]
    }
    lines = [f"{name}: {cost:.0f} ns of processor time a game-step beyond the engine" for name, cost in costs.items()]
    return found | {"bridge_ns": costs}, "\n".join([text, *lines])


def _replay(effort: Effort) -> Found:
    [answer] = ask([Task("replay", dict(REPLAY), our_flags=False)], rounds=effort.rounds, seconds=effort.seconds)
    found = breakdown.replay_ratios(answer.results)
    return answer.as_dict() | {"ratios": found}, tables.replay(found)


def _allocations(config: Config, cores: int) -> Found:
    if sentence := allocations.missing():
        return {"skipped": sentence}, sentence
    report: dict[str, Any] = {}
    for game in (NOOP, _game(config, BATCHES[0])):
        try:
            found = allocations.measure(game | {"decisions": DECISIONS, "threads": min(2, cores)})
        except RuntimeError as error:
            raise JobFailed(str(error)) from error
        report |= {f"{game['env'] or 'no-op'}, {name}": value for name, value in found.items()}
    return report, tables.allocations(report)


def _training(config: Config, effort: Effort) -> Found:
    """Whole updates, the part of the time that the engine's threads work, and where the rest of it goes."""
    tree = configs.to_dict(config)
    task = Task("host_training", {"config": tree}, config.run.devices or 1)
    [answer] = ask([task], rounds=min(5, effort.rounds), seconds=2 * effort.seconds)
    return answer.as_dict(), tables.host_training(answer.results, answer.facts)


def _busy(config: Config, cores: int) -> Found:
    """The share of the time that the engine's threads work, for engines of different speed and a small network."""
    small = configs.load(None, [*SMALL, f"env.id={config.env.id}", f"sebulba.threads={min(2, cores)}"])
    job = {"config": configs.to_dict(small), "work_us": WORK_US, "calls": 4}
    [answer] = ask([Task("host_busy", job)])
    return dict(answer.facts), tables.busy(answer.facts)


def _peers(config: Config, effort: Effort, cores: int) -> Found:
    """AsyncVectorEnv, the bridge with as many games, and the bridge with a batch of its own size."""
    if sentence := peers_package.missing("gymnasium_vector"):
        return {"skipped": sentence}, sentence
    report: dict[str, Any] = {}
    text: list[str] = []
    for game in (_game(config, PROCESSES), NOOP | {"batch": PROCESSES}):
        tasks = [
            _play(game, [["peer", 0, True, PROCESSES]]),
            _play(game, [["chosen", 0, True, min(2, cores)]]),
            _play(game | {"batch": BATCHES[1]}, [["chosen", 0, True, min(2, cores)]]),
        ]
        answers = ask(tasks, rounds=min(5, effort.rounds), seconds=effort.seconds)
        peer, *ours = [answer.results[0] for answer in answers]
        # By the clock only: the processor time of the peer is that of its processes, and not told.
        ratios = {str(each.info["batch"]): safe_ratio(each.rate, peer.rate) for each in ours}
        name = game["env"] or "no-op"
        report[name] = {"peer": peer._asdict(), "ours": [each._asdict() for each in ours], "ratios": ratios}
        text.append(tables.host_rates(f"{name}, actions drawn by NumPy", [peer, *ours]))
        text += [f"bridge with {batch} games: {ratio:.1f} x AsyncVectorEnv" for batch, ratio in ratios.items()]
    return report, "\n".join(text)


def _of_play(title: str, results: list[Speed]) -> Found:
    """Rates, and what a second thread brings."""
    scaling = breakdown.thread_scaling(results)
    text = [tables.host_rates(title, results), tables.scaling(scaling)]
    return {"results": [each._asdict() for each in results], "scaling": scaling}, "\n".join(filter(None, text))
