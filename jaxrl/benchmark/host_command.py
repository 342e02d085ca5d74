"""The parts of `jaxrl benchmark` for games whose engine lives on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envs.errors import UserError
from jaxrl import config as configs
from jaxrl import peers as peers_package
from jaxrl.benchmark import allocations, breakdown, hardware, table
from jaxrl.benchmark.timing import Result, safe_ratio
from jaxrl.benchmark.worker import JobFailed, Question, ask
from jaxrl.config import Config

if TYPE_CHECKING:
    from jaxrl.benchmark.command import Effort, Step

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
Found = tuple[dict[str, Any], str]


def on_host(config: Config) -> bool:
    """Whether the game of a configuration is played by an engine on the host."""
    from envs import registry

    return bool(getattr(registry.game_class(config.env.id), "host", False))


def plan(config: Config, effort: Effort, parts: list[str], peers: bool) -> list[Step]:
    """(title, name in the JSON, what to do) of every measurement."""
    from jaxrl.benchmark.host import find_game

    cores = len(hardware.usable_cores())
    game = find_game(config.env.id, dict(config.env.options))
    if game.remote:  # hundreds of games side by side would be as many processes
        raise UserError(f"the engine of {config.env.id} is another program: use `jaxrl benchmark {config.env.id}`.")
    names = game.bots
    steps: dict[str, Step] = {
        "environment": ("random play", "environment", lambda: _environment(config, effort, cores)),
        "bots": ("scripted players against themselves", "bots", lambda: _bots(config, effort, names)),
        "bridge": ("the bridge, with an engine that does nothing", "bridge", lambda: _bridge(effort, cores)),
        "replay": ("prioritised replay: our sum-tree and one in Python", "replay", lambda: _replay(effort)),
        "allocations": ("allocations while playing", "allocations", lambda: _allocations(config, cores)),
        "training": ("training", "training", lambda: _training(config, effort)),
        "busy": ("how busy training keeps the engine's threads", "busy", lambda: _busy(config, cores)),
        "peers": ("AsyncVectorEnv around the same engine", "async_vector_env", lambda: _peers(config, effort, cores)),
    }
    return [steps[part] for part in parts]


def wanted_parts(only: list[str] | None, peer: bool) -> list[str]:
    """The parts to measure, in order.

    Raises:
      UserError: a part that games on the host do not have.
    """
    if unknown := [part for part in only or [] if part not in PARTS]:
        raise UserError(f"--only {unknown[0]}: games on the host have the parts {', '.join(PARTS)}.")
    return [part for part in PARTS if (part in only if only else part != "peers" or peer)]


def _thread_counts(cores: int) -> list[int]:
    return sorted({1, min(2, cores), cores})


def _play(game: dict[str, Any], entries: list[list[Any]]) -> Question:
    """A worker that plays; `entries` as in `jobs.host_play`."""
    return Question("host_play", game | {"entries": entries}, our_flags=False)


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
    [answer] = ask([Question("replay", dict(REPLAY), our_flags=False)], rounds=effort.rounds, seconds=effort.seconds)
    found = breakdown.replay_ratios(answer.results)
    return answer.as_dict() | {"ratios": found}, table.replay(found)


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
    return report, table.allocations(report)


def _training(config: Config, effort: Effort) -> Found:
    """Whole updates, the part of the time that the engine's threads work, and where the rest of it goes."""
    tree = configs.to_dict(config)
    question = Question("host_training", {"config": tree}, config.run.devices or 1)
    [answer] = ask([question], rounds=min(5, effort.rounds), seconds=2 * effort.seconds)
    return answer.as_dict(), table.host_training(answer.results, answer.facts)


def _busy(config: Config, cores: int) -> Found:
    """The share of the time that the engine's threads work, for engines of different speed and a small network."""
    small = configs.load(None, [*SMALL, f"env.id={config.env.id}", f"sebulba.threads={min(2, cores)}"])
    job = {"config": configs.to_dict(small), "work_us": WORK_US, "calls": 4}
    [answer] = ask([Question("host_busy", job)])
    return dict(answer.facts), table.busy(answer.facts)


def _peers(config: Config, effort: Effort, cores: int) -> Found:
    """AsyncVectorEnv, the bridge with as many games, and the bridge with a batch of its own size."""
    if sentence := peers_package.missing("gymnasium_vector"):
        return {"skipped": sentence}, sentence
    report: dict[str, Any] = {}
    text: list[str] = []
    for game in (_game(config, PROCESSES), NOOP | {"batch": PROCESSES}):
        questions = [
            _play(game, [["peer", 0, True, PROCESSES]]),
            _play(game, [["chosen", 0, True, min(2, cores)]]),
            _play(game | {"batch": BATCHES[1]}, [["chosen", 0, True, min(2, cores)]]),
        ]
        answers = ask(questions, rounds=min(5, effort.rounds), seconds=effort.seconds)
        peer, *ours = [answer.results[0] for answer in answers]
        # By the clock only: the processor time of the peer is that of its processes, and not told.
        ratios = {str(each.info["batch"]): safe_ratio(each.rate, peer.rate) for each in ours}
        name = game["env"] or "no-op"
        report[name] = {"peer": peer._asdict(), "ours": [each._asdict() for each in ours], "ratios": ratios}
        text.append(table.host_rates(f"{name}, actions drawn by NumPy", [peer, *ours]))
        text += [f"bridge with {batch} games: {ratio:.1f} x AsyncVectorEnv" for batch, ratio in ratios.items()]
    return report, "\n".join(text)


def _of_play(title: str, results: list[Result]) -> Found:
    """Rates, and what a second thread brings."""
    scaling = breakdown.thread_scaling(results)
    text = [table.host_rates(title, results), table.scaling(scaling)]
    return {"results": [each._asdict() for each in results], "scaling": scaling}, "\n".join(filter(None, text))
