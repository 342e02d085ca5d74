"""`jaxrl diagnose`: where the time and the memory of a configuration go on this machine; two saved reports compared.

Everything is measured in this process with the programs that training uses, after one untimed call each. For figures
to publish, with peers and several batch sizes, use `jaxrl benchmark`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs import registry
from envs.errors import UserError
from jaxrl import config as configs
from jaxrl import xla
from jaxrl.benchmark import hardware
from jaxrl.benchmark.table import machine, table
from jaxrl.benchmark.timing import percentile, race, safe_ratio
from jaxrl.commands import diagnose_host
from jaxrl.config import Config
from jaxrl.runs.games import deployment

if TYPE_CHECKING:
    from envs.core import Env

PERCENTILES = (50, 95, 99)
FORMAT = 1  # of the saved report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="diagnose the configuration of this run, or what a game needs whose engine is another program: "
        f"{', '.join(registry.games_with('diagnosis'))}",
    )
    parser.add_argument("overrides", nargs="*", metavar="a.b=value", help="changes to the configuration")
    parser.add_argument("--config", metavar="FILE", help="diagnose this configuration (default: the defaults)")
    parser.add_argument("--save", metavar="FILE", help="write the report there, for --compare")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two saved reports")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each measurement takes (default: 2)")


def main(args: argparse.Namespace) -> int:
    """Prints a report, or the comparison of two."""
    if args.compare:
        print(compare(*(load_report(path) for path in args.compare)))
        return 0
    if args.save and not Path(args.save).resolve().parent.is_dir():
        raise UserError(f"--save {args.save!r}: its folder does not exist.")
    if args.seconds <= 0:
        raise UserError(f"--seconds must be above 0, got {args.seconds:g}.")
    if args.run in registry.games_with("diagnosis"):
        return diagnose_engine(args)
    config = _configuration(args)
    xla.prepare_training(config)
    report = diagnose(config, seconds=args.seconds)
    print(describe(report))
    if args.save:
        Path(args.save).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def diagnose_engine(args: argparse.Namespace) -> int:
    """Whether games whose engine is another program can be played; 2 if not."""
    config = configs.load(args.config, [f"env.id={args.run}", *args.overrides])
    print(machine(hardware.describe()))
    return 0 if registry.game_module(args.run, "diagnosis").diagnose(**deployment(config)) else 2


def _configuration(args: argparse.Namespace) -> Config:
    """The configuration that the arguments name; `a.b=value` in the place of RUN is an override."""
    run, overrides = args.run, list(args.overrides)
    if run is not None and "=" in run:
        run, overrides = None, [run, *overrides]
    if run is None:
        return configs.load(args.config, overrides)
    if args.config:
        raise UserError("give either a run or --config, not both.")
    from jaxrl.runs.directory import find_run

    return configs.load(find_run(run).config_file, overrides)


# ---- measuring ----------------------------------------------------------------------------------------------------


def diagnose(config: Config, *, seconds: float = 2.0) -> dict[str, Any]:
    """The whole report, JSON-ready.

    Args:
      config: what would be trained.
      seconds: how long each measurement takes at least.
    """
    from jaxrl.benchmark.training import comparable
    from jaxrl.runs.directory import enable_compilation_cache
    from jaxrl.runs.games import make_games
    from jaxrl.training.program import on_host

    enable_compilation_cache(config.run.cache_dir)
    before = cache_state(config.run.cache_dir)
    env = make_games(config).training
    config = comparable(config)
    if on_host(env):
        measured = diagnose_host.measure(config, env, seconds, latency, _gpus_during)
    else:
        measured = _measure(config, env, seconds)
    report = {"format": FORMAT, "hardware": hardware.describe(), "config": configs.to_dict(config)}
    report |= measured | {"memory": hardware.memory()}
    return report | {"cache": _cache_report(before, cache_state(config.run.cache_dir))}


def _measure(config: Config, env: Env, seconds: float) -> dict[str, Any]:
    """What a report says about a compiled game, beside machine and cache."""
    import jax

    from jaxrl.benchmark import environment, training
    from jaxrl.training.anakin import make_anakin

    anakin = make_anakin(config, env)
    train, devices = config.train, anakin.mesh.size
    contestants = [
        training.whole(anakin),
        training.playing(anakin),
        environment.contestant(env, batch=train.num_envs, steps=train.num_steps, view="observed", devices=devices),
    ]
    whole, playing, game = race(contestants, rounds=3, seconds=seconds / 3)
    per_update = 1e3 * config.batch_size
    params = jax.block_until_ready(anakin.init(0).params)
    return {
        "environment": {"steps_per_second": game.rate, "share": safe_ratio(whole.rate, game.rate)},
        "training": {
            "steps_per_second": whole.rate,
            "iteration_ms": per_update / whole.rate,
            "rollout_ms": per_update / playing.rate,
            "update_ms": max(0.0, per_update / whole.rate - per_update / playing.rate),
        },
        "inference_ms": {
            str(batch): latency(_inference(anakin, params, batch), seconds) for batch in sorted({1, train.num_envs})
        },
        "first_call_seconds": {"training": whole.first_seconds, "environment": game.first_seconds},
        "utilisation": {
            "cpu_cores_busy": safe_ratio(whole.rate, whole.cpu_rate),
            "gpus": _gpus_during(contestants[0].block),
        },
    }


def _inference(anakin: Any, params: Any, batch: int) -> Callable[[], Any]:
    """Decisions of `batch` games from their states, as a player or a server would ask for them."""
    import jax

    keys = jax.random.split(jax.random.key(0), batch)
    states = jax.block_until_ready(jax.jit(jax.vmap(anakin.actor.env.init))(keys))

    def act(params: Any, states: Any, keys: Any) -> Any:
        return jax.vmap(lambda state, key: anakin.policy(params, state, key, False))(states, keys)

    program = jax.jit(act)
    return lambda: jax.block_until_ready(program(params, states, keys))


def latency(call: Callable[[], Any], seconds: float, fewest: int = 20) -> dict[str, float]:
    """Percentiles of the time of one call in ms, after two untimed ones."""
    call(), call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < fewest or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return {f"p{percent}": percentile(times, percent) for percent in PERCENTILES} | {"calls": float(len(times))}


def _gpus_during(block: Callable[[], Any]) -> list[dict[str, str]]:
    """What the GPUs report while training runs; empty without one."""
    if not hardware.gpus():
        return []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        block()  # the device is busy when the question is asked
        answer = pool.submit(hardware.gpus)
        while not answer.done():
            block()
    return answer.result()


def cache_state(directory: str) -> dict[str, Any]:
    """The compiled programs on disk: where, how many, how large."""
    if not directory:
        return {"directory": "", "programs": 0, "mib": 0.0}
    path = Path(directory).expanduser()
    sizes = [file.stat().st_size for file in path.glob("*-cache")] if path.is_dir() else []
    return {"directory": str(path), "programs": len(sizes), "mib": sum(sizes) / 2**20}


def _cache_report(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The state now, and how many programs this diagnosis had to add: 0 means that everything was found there."""
    return after | {"added": after["programs"] - before["programs"]}


# ---- reports ------------------------------------------------------------------------------------------------------


def load_report(path: str) -> dict[str, Any]:
    """A report that `--save` wrote.

    Raises:
      UserError: there is none at `path`.
    """
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the report {path!r}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path!r} is not a report of `jaxrl diagnose --save`.") from error
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise UserError(f"{path!r} is not a report of this version of `jaxrl diagnose --save`.")
    return report


def figures(report: dict[str, Any]) -> dict[str, tuple[float | None, bool]]:
    """Name -> (figure, whether more is better), of everything that two reports are compared by."""
    training, memory = report["training"], report["memory"]
    found: dict[str, tuple[float | None, bool]] = {
        "environment steps/s": (report["environment"]["steps_per_second"], True),
        "training steps/s": (training["steps_per_second"], True),
        "rollout ms": (training["rollout_ms"], False),
        "update ms": (training["update_ms"], False),
    }
    for batch, times in report["inference_ms"].items():
        for percent in PERCENTILES:
            found[f"inference of {batch}, p{percent} ms"] = (times[f"p{percent}"], False)
    if "host" in report:
        found |= diagnose_host.figures(report["host"])
    found["first training call s"] = (report["first_call_seconds"]["training"], False)
    found["peak memory MiB"] = (memory["peak_rss_mib"], False)
    found["peak device memory MiB"] = (memory["peak_device_mib"], False)
    return found


def describe(report: dict[str, Any]) -> str:
    """A report as text."""
    facts, cache, busy = report["hardware"], report["cache"], report["utilisation"]
    lines = [
        f"{facts['cpu']}, {facts['cores']} cores, load {facts['load_average']}; "
        f"{facts.get('devices', 0)} x {facts.get('device_kind', '?')}; jax {facts['jax']}",
        f"game {report['config']['env']['id']}; environment takes {100 * report['environment']['share']:.1f} % "
        "of the training time",
        table(["figure", "value"], [[name, _number(value)] for name, (value, _) in figures(report).items()]),
        f"CPU: {busy['cpu_cores_busy']:.2f} of {facts['cores']} cores busy while training",
    ]
    if "host" in report:
        lines.append(diagnose_host.describe(report["host"]))
    for gpu in busy["gpus"]:
        lines.append("GPU: " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    where = cache["directory"] or "off (run.cache_dir is empty)"
    lines.append(
        f"compile cache: {where}, {cache['programs']} programs, {cache['mib']:.1f} MiB; "
        f"{cache['added']} of them compiled just now"
    )
    return "\n".join(lines)


def compare(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Two reports side by side; a ratio above 1 means that the later one is better."""
    old, new = figures(before), figures(after)
    rows = []
    for name, (value, more_is_better) in new.items():
        earlier = old.get(name, (None, True))[0]
        if value is None or earlier is None:
            continue
        gain = safe_ratio(value, earlier) if more_is_better else safe_ratio(earlier, value)
        rows.append([name, _number(earlier), _number(value), f"{gain:.2f}"])
    notes = [f"{key}: {a} -> {b}" for key, a, b in _differences(before, after)]
    return "\n".join([table(["figure", "before", "after", "better by"], rows), *notes])


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """What else is different: hardware, versions, configuration. Without it a comparison says little."""
    left = _flat({"hardware": before["hardware"], "config": before["config"]})
    right = _flat({"hardware": after["hardware"], "config": after["config"]})
    names = [name for name in {**left, **right} if name not in ("hardware.load_average",)]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _number(value: float | None) -> str:
    return "not told" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
