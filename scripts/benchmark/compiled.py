"""The parts of a benchmark of a compiled game: environment speed, bots, training speed, compile time, peers."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from typing import Any, NamedTuple

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.runs import config as run_config
from scripts.benchmark import breakdown, soccer, tables
from scripts.benchmark import peers as peers_package
from scripts.benchmark.peers import published
from scripts.benchmark.report import Effort, Found, Part, wanted
from scripts.benchmark.worker import Task, ask

PARTS = ("environment", "bots", "training", "compile", "ticks", "peers")
CPU_BATCHES = (256, 1024, 4096, 16384)
ACCELERATOR_BATCHES = (1024, 8192, 65536, 524288)
CARTPOLE: dict[str, Any] = {
    "num_envs": 512,
    "num_steps": 128,
    "epochs": 4,
    "minibatches": 4,
    "hidden": [64, 64],
    "updates": 2,
}


class Place(NamedTuple):
    """Where something is measured."""

    title: str
    suffix: str  # of its name in the JSON
    devices: int
    core: int | None  # the only one that is used; None: all


def batches() -> tuple[int, ...]:
    """Games at once: from few to what fills this kind of device."""
    return CPU_BATCHES if xla.on_cpu() else ACCELERATOR_BATCHES


def plan(config: Config, effort: Effort, only: list[str] | None, peers: bool) -> list[Part]:
    """What is measured of a compiled game: on a CPU with one core too, which is what other programs are quoted with.

    Args:
      config: what is trained.
      effort: how long it may take.
      only: the parts that are wanted.
      peers: other programs take turns with ours.

    Raises:
      UserError: compiled games have no such part.
    """
    on_cpu, every = xla.on_cpu(), device_count(config)
    core = Place("one core", "_core", 1, min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
    whole = Place(f"{every} device(s)", "", every, None)
    environment = [place for place, here in ((core, on_cpu), (whole, every > 1 or not on_cpu)) if here]
    training = [core, whole] if on_cpu and every > 1 else [whole]
    known = {
        "environment": [
            _part("random play", "environment", place, _environment, config, effort, place, peers and place is core)
            for place in environment
        ],
        "ticks": soccer.parts(config, effort, peers, core.core),
        "bots": [
            Part(
                f"scripted players against themselves, {environment[0].title}",
                "bots",
                functools.partial(_bots, config, effort, environment[0]),
            )
        ],
        "training": [_part("training", "training", place, _training, config, effort, place) for place in training],
        "compile": [Part("compilation", "compile", functools.partial(_compilation, config, every))],
        "peers": [
            *(
                _part("PPO on CartPole", "ppo", place, _ppo, effort, place)
                for place in ([core, whole] if on_cpu else [whole])
            ),
            Part("MaskablePPO on the same game", "sb3", functools.partial(_sb3, config, effort, every)),
        ],
    }
    parts = wanted("compiled games have", PARTS, only, () if peers else ("peers",))
    return [part for name in parts for part in known[name]]


def _part(title: str, name: str, place: Place, run: Any, *arguments: Any) -> Part:
    return Part(f"{title}, {place.title}", name + place.suffix, functools.partial(run, *arguments))


def device_count(config: Config) -> int:
    """Devices that the configuration trains on: virtual ones on a CPU."""
    if xla.on_cpu():
        return config.run.devices or run_config.device_count(config, xla.cores())
    return config.run.devices or 1


def _environment(config: Config, effort: Effort, place: Place, peers: bool) -> Found:
    batches = [batch for batch in effort.batches if batch % place.devices == 0]
    middle = batches[len(batches) // 2]
    job = {
        "env": config.env.id,
        "options": dict(config.env.options),
        "entries": [[b, "lean"] for b in batches]
        + [[b, "observed"] for b in batches]
        + [[middle, "features"], [middle, "endless"]],
        "devices": place.devices,
    }
    tasks = [Task("environment", job, place.devices, place.core)]
    same_game = peers_package.SAME_GAME.get(config.env.id, ())
    present, absent = _peers_here(["openspiel", "pgx", "gymnax", *same_game] if peers else [])
    tasks += [Task("peer_games", {"names": [name]}, place.devices, place.core, our_flags=False) for name in present]
    ours, *theirs = ask(tasks, rounds=effort.rounds, seconds=effort.seconds)
    others = [result for answer in theirs for result in answer.results]
    reset_share = breakdown.reset_share(ours.results)
    lean = [result for result in ours.results if result.info["view"] == "lean"]
    found = breakdown.ratios(lean, others)
    figures = breakdown.against_published(lean, published.RANDOM_PLAY.get(config.env.id, ()))
    text = [
        tables.rates("environment steps", [*ours.results, *others]),
        tables.ratios(f"{config.env.id}, the fastest lean rate, against", found),
        tables.published(figures),
        f"{ours.facts['jaxpr_equations']} equations in the jaxpr of one step",
        f"reset cost: {100 * reset_share:.0f} % of a lean step, {middle} games",
        *absent,
    ]
    report = {"ours": ours.as_dict(), "peers": [answer.as_dict() for answer in theirs], "ratios": found}
    return report | {"published": figures, "reset_share": reset_share}, "\n".join(filter(None, text))


def _bots(config: Config, effort: Effort, place: Place) -> Found:
    """Every bot of the game on all seats."""
    batch = effort.batches[len(effort.batches) // 2] // place.devices * place.devices
    job = {"env": config.env.id, "options": dict(config.env.options), "batch": batch, "devices": place.devices}
    [answer] = ask([Task("bots", job, place.devices, place.core)], rounds=min(5, effort.rounds), seconds=effort.seconds)
    scripted = [result for result in answer.results if result.name != "random"]
    figures = breakdown.against_published(scripted, published.BOT_PLAY.get(config.env.id, ()))
    text = [tables.rates("bot on all seats", answer.results), tables.published(figures)]
    return answer.as_dict() | {"published": figures}, "\n".join(filter(None, text))


def _training(config: Config, effort: Effort, place: Place) -> Found:
    task = Task("training_parts", {"config": _on_devices(config, place.devices)}, place.devices, place.core)
    [answer] = ask([task], rounds=effort.rounds, seconds=2 * effort.seconds)
    report = breakdown.of_training(answer)
    return report, tables.training(report)


def _compilation(config: Config, devices: int) -> Found:
    """The same start twice, the second time with what the first one left in the cache."""
    with tempfile.TemporaryDirectory(prefix="jaxrl-cache-") as cache:
        job = {"config": _on_devices(config, devices), "cache": cache}
        starts = (Task("compilation", job | {"started": time.time()}, devices) for _ in range(2))
        cold, warm = (ask([task])[0].facts for task in starts)
    return {"cold": cold, "warm": warm}, tables.compilation(cold, warm)


def _ppo(effort: Effort, place: Place) -> Found:
    """Our loop and the peer's on CartPole, everything that costs time equal."""
    ours = Task("whole_training", {"config": _cartpole(place.devices)}, place.devices, place.core)
    return _against(ours, Task("pure_ppo", CARTPOLE, 1, place.core, our_flags=False), "purejaxrl", effort)


def _sb3(config: Config, effort: Effort, devices: int) -> Found:
    tree = _on_devices(config, devices)
    ours = Task("whole_training", {"config": tree}, devices)
    return _against(ours, Task("sb3", {"config": tree}, 1), "sb3", effort)


def _against(ours: Task, theirs: Task, peer: str, effort: Effort) -> Found:
    _, absent = _peers_here([peer])
    if absent:
        return {"skipped": absent[0]}, absent[0]
    first, second = ask([ours, theirs], rounds=min(5, effort.rounds), seconds=2 * effort.seconds)
    found = breakdown.ratios(first.results, second.results)
    text = [tables.rates("training steps", [*first.results, *second.results]), tables.ratios("jaxrl against", found)]
    return {"ours": first.as_dict(), "peer": second.as_dict(), "ratios": found}, "\n".join(text)


def _peers_here(names: list[str]) -> tuple[list[str], list[str]]:
    """(the peers that can run here, a sentence about each of the others)."""
    absent = {name: sentence for name in names if (sentence := peers_package.missing(name)) is not None}
    return [name for name in names if name not in absent], list(absent.values())


def _on_devices(config: Config, devices: int) -> dict[str, Any]:
    tree = configs.to_dict(config)
    tree["run"]["devices"] = devices
    return tree


def _cartpole(devices: int) -> dict[str, Any]:
    """The configuration tree that equals `CARTPOLE`."""
    ppo = {name: CARTPOLE[name] for name in ("epochs", "minibatches")}
    return {
        "run": {"devices": devices},
        "env": {"id": "gymnax:CartPole-v1"},
        "network": {"hidden": CARTPOLE["hidden"], "activation": "tanh"},
        "ppo": ppo | {"gamma": 0.99, "clip": 0.2, "learning_rate": 2.5e-4, "entropy_coef": 0.01},
        "train": {
            "num_envs": CARTPOLE["num_envs"],
            "num_steps": CARTPOLE["num_steps"],
            "updates_per_call": CARTPOLE["updates"],
        },
    }
