"""`jaxrl benchmark`: environment speed, training speed and compile time of one game, peers beside it on request."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from envs.errors import UserError
from jaxrl import config as configs
from jaxrl import peers as peers_package
from jaxrl import xla
from jaxrl.benchmark import breakdown, forge_command, hardware, host_command, table
from jaxrl.benchmark.worker import JobFailed, Question, ask
from jaxrl.config import Config
from jaxrl.peers import published
from jaxrl.runs.games import make_games

PARTS = ("environment", "bots", "training", "compile", "peers")
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


class Effort(NamedTuple):
    """How long to measure."""

    rounds: int
    seconds: float
    batches: tuple[int, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--env", metavar="ID", help="the game (default: the one of the configuration)")
    parser.add_argument("--config", metavar="FILE", help="what is trained (default: the defaults of every key)")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="a.b=value",
        help="changes to the configuration; the name of a game whose engine is another program, forge: what that costs",
    )
    parser.add_argument("--peer", action="store_true", help="run the installed peers too, in turn with ours")
    every = dict.fromkeys((*PARTS, *host_command.PARTS, *forge_command.PARTS))
    parser.add_argument("--only", choices=tuple(every), action="append", help="leave out the other parts")
    parser.add_argument("--json", metavar="FILE", help="write the report there too")
    parser.add_argument("--quick", action="store_true", help="fewer batch sizes, shorter rounds: a first impression")
    parser.add_argument("--sweep", action="store_true", help="forge: try all JVM profiles and keep the best one")
    parser.add_argument("--recordings", metavar="PATH", action="append", help="forge: recorded games to replay")


def main(args: argparse.Namespace) -> int:
    """Measures, prints each part as soon as it is known, writes the JSON."""
    target = Path(args.json) if args.json else None
    if target is not None and not target.resolve().parent.is_dir():
        raise UserError(f"--json {args.json!r}: there is no folder {str(target.parent)!r}.")
    if games := [text for text in args.overrides if "=" not in text]:
        return forge_command.main(args, games[0], [text for text in args.overrides if "=" in text])
    if args.sweep:
        raise UserError("--sweep is about JVMs: `jaxrl benchmark forge --sweep`.")
    overrides = list(args.overrides) + ([f"env.id={args.env}"] if args.env else [])
    config = configs.load(args.config, overrides)
    xla.prepare_training(config)
    make_games(config)  # what does not fit is said before anything is measured
    batches = CPU_BATCHES if xla.on_cpu() else ACCELERATOR_BATCHES
    effort = Effort(3, 0.2, batches[1:2]) if args.quick else Effort(7, 0.5, batches)
    wanted = host_command.wanted_parts if host_command.on_host(config) else wanted_parts
    report = measure(config, effort, wanted(args.only, args.peer), say=print, peers=args.peer)
    if target is not None:
        target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if report["failures"] else 0


def wanted_parts(only: list[str] | None, peer: bool) -> list[str]:
    """The parts to measure, in order.

    Raises:
      UserError: a part that compiled games do not have.
    """
    if unknown := [part for part in only or [] if part not in PARTS]:
        raise UserError(f"--only {unknown[0]} is of games on the host; compiled games have {', '.join(PARTS)}.")
    if only:
        return [part for part in PARTS if part in only]
    return [part for part in PARTS if part != "peers" or peer]


def measure(
    config: Config, effort: Effort, parts: list[str], *, say: Callable[[str], Any], peers: bool
) -> dict[str, Any]:
    """The whole report; a part that fails is named in it and does not take the others with it."""
    report: dict[str, Any] = {
        "hardware": hardware.describe(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "config": configs.to_dict(config),
        "parts": {},
        "failures": {},
    }
    say(table.machine(report["hardware"]))
    plan = host_command.plan if host_command.on_host(config) else _plan
    for title, name, run in plan(config, effort, parts, peers):
        say(f"\n== {title}")
        try:
            report["parts"][name], text = run()
            say(text)
        except JobFailed as error:
            report["failures"][name] = str(error)
            say(f"failed:\n{error}")
    return report


Step = tuple[str, str, Callable[[], tuple[dict[str, Any], str]]]


def _plan(config: Config, effort: Effort, parts: list[str], peers: bool) -> list[Step]:
    """(title, name in the JSON, what to do) of every measurement."""
    on_cpu, every = xla.on_cpu(), device_count(config)
    core = hardware.usable_cores()[0]
    plan: list[Step] = []
    if "environment" in parts:
        if on_cpu:
            plan.append(
                ("random play, one core", "environment_core", lambda: _environment(config, effort, 1, core, peers))
            )
        if every > 1 or not on_cpu:
            title = f"random play, {every} device(s)"
            plan.append((title, "environment", lambda: _environment(config, effort, every, None, False)))
    if "bots" in parts:
        title, devices = ("one core", 1) if on_cpu else (f"{every} device(s)", every)
        where = core if on_cpu else None
        plan.append(
            (f"scripted players against themselves, {title}", "bots", lambda: _bots(config, effort, devices, where))
        )
    if "training" in parts:
        if on_cpu and every > 1:
            plan.append(("training, one core", "training_core", lambda: _training(config, effort, 1, core)))
        plan.append((f"training, {every} device(s)", "training", lambda: _training(config, effort, every, None)))
    if "compile" in parts:
        plan.append(("compilation", "compile", lambda: _compilation(config, every)))
    if "peers" in parts:
        if on_cpu:
            plan.append(("PPO on CartPole, one core", "ppo_core", lambda: _ppo(effort, 1, core)))
        plan.append((f"PPO on CartPole, {every} device(s)", "ppo", lambda: _ppo(effort, every, None)))
        plan.append(("MaskablePPO on the same game", "sb3", lambda: _sb3(config, effort, every)))
    return plan


def device_count(config: Config) -> int:
    """Devices that the configuration trains on: virtual ones on a CPU."""
    if xla.on_cpu():
        return config.run.devices or configs.device_count(config, xla.cores())
    return config.run.devices or 1


def _environment(
    config: Config, effort: Effort, devices: int, core: int | None, peers: bool
) -> tuple[dict[str, Any], str]:
    batches = [batch for batch in effort.batches if batch % devices == 0]
    middle = batches[len(batches) // 2]
    job = {
        "env": config.env.id,
        "options": dict(config.env.options),
        "entries": [[b, "lean"] for b in batches]
        + [[b, "observed"] for b in batches]
        + [[middle, "features"], [middle, "endless"]],
        "devices": devices,
    }
    questions = [Question("environment", job, devices, core)]
    same_game = peers_package.SAME_GAME.get(config.env.id, ())
    present, absent = _peers_here(["openspiel", "pgx", "gymnax", *same_game] if peers else [])
    questions += [Question("peer_games", {"peers": [name]}, devices, core, our_flags=False) for name in present]
    ours, *theirs = ask(questions, rounds=effort.rounds, seconds=effort.seconds)
    others = [result for answer in theirs for result in answer.results]
    reset_share = breakdown.reset_share(ours.results)
    lean = [result for result in ours.results if result.info["view"] == "lean"]
    found = breakdown.ratios(lean, others)
    figures = breakdown.against_published(lean, published.RANDOM_PLAY.get(config.env.id, ()))
    text = [
        table.rates("environment steps", [*ours.results, *others]),
        table.ratios(f"{config.env.id}, the fastest lean rate, against", found),
        table.published(figures),
        f"{ours.facts['jaxpr_equations']} equations in the jaxpr of one step",
        f"reset cost: {100 * reset_share:.0f} % of a lean step, {middle} games",
        *absent,
    ]
    report = {"ours": ours.as_dict(), "peers": [answer.as_dict() for answer in theirs], "ratios": found}
    return report | {"published": figures, "reset_share": reset_share}, "\n".join(filter(None, text))


def _bots(config: Config, effort: Effort, devices: int, core: int | None) -> tuple[dict[str, Any], str]:
    """Every bot of the game on all seats."""
    batch = effort.batches[len(effort.batches) // 2] // devices * devices
    job = {"env": config.env.id, "options": dict(config.env.options), "batch": batch, "devices": devices}
    [answer] = ask([Question("bots", job, devices, core)], rounds=min(5, effort.rounds), seconds=effort.seconds)
    scripted = [result for result in answer.results if result.name != "random"]
    figures = breakdown.against_published(scripted, published.BOT_PLAY.get(config.env.id, ()))
    text = [table.rates("bot on all seats", answer.results), table.published(figures)]
    return answer.as_dict() | {"published": figures}, "\n".join(filter(None, text))


def _training(config: Config, effort: Effort, devices: int, core: int | None) -> tuple[dict[str, Any], str]:
    question = Question("training", {"config": _on_devices(config, devices)}, devices, core)
    [answer] = ask([question], rounds=effort.rounds, seconds=2 * effort.seconds)
    report = breakdown.of_training(answer)
    return report, table.training(report)


def _compilation(config: Config, devices: int) -> tuple[dict[str, Any], str]:
    """The same start twice, the second time with what the first one left in the cache."""
    with tempfile.TemporaryDirectory(prefix="jaxrl-cache-") as cache:
        question = Question("compilation", {"config": _on_devices(config, devices), "cache": cache}, devices)
        cold, warm = (ask([question])[0].facts for _ in range(2))
    return {"cold": cold, "warm": warm}, table.compilation(cold, warm)


def _ppo(effort: Effort, devices: int, core: int | None) -> tuple[dict[str, Any], str]:
    """Our loop and the peer's on CartPole, everything that costs time equal."""
    ours = Question("whole_training", {"config": _cartpole(devices)}, devices, core)
    return _against(ours, Question("pure_ppo", CARTPOLE, 1, core, our_flags=False), "purejaxrl", effort)


def _sb3(config: Config, effort: Effort, devices: int) -> tuple[dict[str, Any], str]:
    tree = _on_devices(config, devices)
    ours = Question("whole_training", {"config": tree}, devices)
    return _against(ours, Question("sb3", {"config": tree}, 1), "sb3", effort)


def _against(ours: Question, theirs: Question, peer: str, effort: Effort) -> tuple[dict[str, Any], str]:
    _, absent = _peers_here([peer])
    if absent:
        return {"skipped": absent[0]}, absent[0]
    first, second = ask([ours, theirs], rounds=min(5, effort.rounds), seconds=2 * effort.seconds)
    found = breakdown.ratios(first.results, second.results)
    text = [table.rates("training steps", [*first.results, *second.results]), table.ratios("jaxrl against", found)]
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
    ppo = {name: CARTPOLE[name] for name in ("num_envs", "num_steps", "epochs", "minibatches")}
    rate = {"kind": "constant", "start": 2.5e-4}
    return {
        "run": {"devices": devices},
        "env": {"id": "gymnax:CartPole-v1"},
        "network": {"hidden": CARTPOLE["hidden"], "activation": "tanh"},
        "ppo": ppo | {"gamma": 0.99, "learning_rate": rate, "entropy_coef": {"kind": "constant", "start": 0.01}},
        "train": {"updates_per_call": CARTPOLE["updates"]},
    }
