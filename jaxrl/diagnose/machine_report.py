"""`jaxrl diagnose`: reports where time and memory of a configuration go on this machine, and compares saved reports.

Everything is measured in this process with the programs that training uses, after one untimed call each. For figures
to publish, with peers and several batch sizes, use `python -m scripts.benchmark` in a checkout.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.diagnose import hardware
from jaxrl.diagnose.diagnosis import FORMAT, PERCENTILES, diagnose
from jaxrl.diagnose.timing import safe_ratio
from jaxrl.games import deployment, make_games
from jaxrl.matches.tables import align
from jaxrl.runs.directory import find_run, stage_number
from jaxrl.text_tables import flat, machine, table
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

MARKS = ("<!-- BENCHMARK:GPU:BEGIN -->", "<!-- BENCHMARK:GPU:END -->")


def main(args: argparse.Namespace) -> int:
    """Prints a report, or the comparison of two."""
    if args.compare:
        print(compare(*(load_report(path) for path in args.compare)))
        return 0
    if args.save and not Path(args.save).resolve().parent.is_dir():
        raise UserError(f"--save {args.save!r}: its folder does not exist.")
    if args.into:
        if not args.gpu:
            raise UserError("--into is for what --gpu measures.")
        between(Path(args.into))  # before anything is measured
    if args.save and args.gpu:
        raise UserError("--gpu has no report to --save.")
    if args.seconds <= 0:
        raise UserError(f"--seconds must be above 0, got {args.seconds:g}.")
    if args.run in registry.games_with("diagnosis"):
        return diagnose_engine(args)
    stage = _stage(args)
    xla.prepare_training(stage.config)
    if stage.name:
        print(str(stage))
    if args.gpu:
        return ready_for_gpu(stage.config, args)
    report = diagnose(stage.config, seconds=args.seconds)
    print(describe(report))
    if args.save:
        Path(args.save).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def diagnose_engine(args: argparse.Namespace) -> int:
    """Checks that a game whose engine is another program can be played; returns 2 if not."""
    config = configs.load(args.config, [f"env.id={args.run}", *args.overrides], args.allow)
    print(machine(hardware.describe()))
    return 0 if registry.game_module(args.run, "diagnosis").diagnose(**deployment(config)) else 2


def ready_for_gpu(config: Config, args: argparse.Namespace) -> int:
    """Checks everything that a first run on a GPU would need; returns 1 if something is wrong, which is a bug of jaxrl.

    Without a GPU it lowers everything that the configuration compiles. With a GPU it also compares results with the
    CPU's and measures rates by the number of parallel games.
    """
    from jaxrl.diagnose.device_parity import agreements  # here, because it imports every part that compiles
    from jaxrl.diagnose.gpu_compile import lowered

    games, gpus = make_games(config), ", ".join(gpu["name"] for gpu in hardware.gpus())
    print(machine(hardware.describe()))
    print(f"GPUs: {gpus or 'none here; lowering needs none'}", flush=True)
    found = []
    for each in lowered(config, games):
        found.append(each)
        print(f"{each.name}: {', '.join(each.wrong) or 'fine'}", file=sys.stderr, flush=True)
    rows = [[one.name, f"{one.operations:,}", f"{one.flops:.3g}", ", ".join(one.wrong) or "nothing"] for one in found]
    print(table(["program", "operations", "FLOPs of a call (matrix products)", "wrong for a GPU"], rows))
    fine = not any(one.wrong for one in found)
    if xla.on_cpu():
        print("Computing on the CPU: with a GPU, agreement with the CPU and rates by batch are measured here too.")
        if args.into:
            print(f"Nothing is put into {args.into}: there are no rates.")
        return int(not fine)
    compared = list(agreements(config, games.training, _cpu(), jax.devices()[0]))
    rows = [[one.what, one.found, one.bound, "yes" if one.fine else "NO"] for one in compared]
    print(f"\n{table(['beside the CPU', 'found', 'bound', 'fine'], rows)}", flush=True)
    if games.training.host:
        print("No rates by batch: the engine of this game computes on the host.")
    else:
        _rates(config, games.training, args)
    return int(not (fine and all(one.fine for one in compared)))


def _cpu() -> jax.Device:
    try:
        return jax.devices("cpu")[0]
    except RuntimeError as error:
        raise UserError("jax may not use the CPU here: unset JAX_PLATFORMS, or set it to cuda,cpu.") from error


def _rates(config: Config, env: Env, args: argparse.Namespace) -> None:
    """Prints rates by batch size; with `--into` also writes them into a document."""
    from jaxrl.diagnose.saturation import rates

    name = f"`{args.config or config.run.name or config.env.id}`"
    cells = [["configuration", "games at once", "environment steps/s", "training steps/s", "peak device MiB"]]
    for each in rates(config, env, args.seconds):
        peak = "-" if each.peak_mib is None else f"{each.peak_mib:.0f}"
        cells.append([name, f"{each.num_envs:,}", f"{each.playing:,.0f}", f"{each.training:,.0f}", peak])
        print("  ".join(cells[-1]), file=sys.stderr, flush=True)
    text = align(cells)
    print(f"\n{text}")
    if args.into:
        put_into(Path(args.into), f"{machine(hardware.describe())}\n\n{text}\n")


def put_into(path: Path, text: str) -> None:
    """Puts a text between the two marker lines of a document; raises as `between` does."""
    before, after = between(path)
    path.write_text(f"{before}{MARKS[0]}\n{text}{MARKS[1]}{after}", encoding="utf-8")


def between(path: Path) -> tuple[str, str]:
    """The text before and after the two marker lines of a document.

    Raises:
      UserError: the document cannot be read, or has no marker lines.
    """
    try:
        before, _, rest = path.read_text(encoding="utf-8").partition(f"{MARKS[0]}\n")
    except OSError as error:
        raise UserError(f"--into {str(path)!r}: {error.strerror}.") from error
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise UserError(f"--into {str(path)!r}: it has no lines {MARKS[0]} and {MARKS[1]}.")
    return before, after


def _stage(args: argparse.Namespace) -> Stage:
    """The stage that the arguments name: of a curriculum the one that the run has reached, or its first one.

    `a.b=value` in the place of RUN is an override."""
    name, overrides = args.run, list(args.overrides)
    if name is not None and "=" in name:
        name, overrides = None, [name, *overrides]
    if name is None:
        return configs.stages(configs.load(args.config, overrides, args.allow))[0]
    if args.config:
        raise UserError("give either a run or --config, not both.")
    run = find_run(name)
    stages, store = configs.stages(configs.load(run.config_file, overrides, args.allow)), run.checkpoints()
    reached = store.newest().meta["host"] if len(stages) > 1 and store.steps() else {}
    return stages[stage_number(stages, reached)]


# ---- reports ------------------------------------------------------------------------------------------------------


def load_report(path: str) -> dict[str, Any]:
    """A report that `--save` wrote.

    Raises:
      UserError: there is no report at `path`.
    """
    try:
        report = json.loads(files.contents(path))
    except OSError as error:
        raise UserError(f"cannot read the report {path!r}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path!r} is not a report of `jaxrl diagnose --save`.") from error
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise UserError(f"{path!r} is not a report of this version of `jaxrl diagnose --save`.")
    return report


def figures(report: dict[str, Any]) -> dict[str, tuple[float | None, bool]]:
    """Name -> (figure, whether more is better), for every figure that two reports are compared by."""
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
        found |= _host_figures(report["host"])
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
        lines.append(_describe_host(report["host"]))
    for gpu in busy["gpus"]:
        lines.append("GPU: " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    where = cache["directory"] or "off (run.cache_dir is empty)"
    lines.append(
        f"compile cache: {where}, {cache['programs']} programs, {cache['mib']:.1f} MiB; "
        f"{cache['added']} of them compiled just now"
    )
    return "\n".join(lines)


def _host_figures(facts: dict[str, Any]) -> dict[str, tuple[float | None, bool]]:
    """Name -> (figure, whether more is better), for the part "host" of a report."""
    found: dict[str, tuple[float | None, bool]] = {}
    for name, value in facts["counters"].items():
        found[f"{name.replace('_', ' ')}, ms per 1,000 steps"] = (value, False)
    for name, value in facts["figures"].items():
        found[name.replace("_", " ")] = (value, name == "engine_busy")
    found["threads"] = (float(sum(facts["threads"].values())), False)
    found["buffers MiB"] = (facts["buffer_mib"], False)
    return found


def _describe_host(facts: dict[str, Any]) -> str:
    """The facts of the part "host" that are not in the table of figures."""
    threads = ", ".join(f"{number} {name}" for name, number in sorted(facts["threads"].items()))
    return (
        f"{facts['algorithm']} with {facts['actors']} actor(s), {facts['num_envs']} games in "
        f"{facts['actors'] * facts['groups']} block(s), lag {facts['lag']}; threads: {threads}\n"
        "counters are sums over threads, which overlap; they were on while all this was measured"
    )


def compare(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Shows two reports side by side; a ratio above 1 means that the later one is better."""
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
    """Differences in hardware, versions and configuration; without them a comparison says little."""
    left = flat({"hardware": before["hardware"], "config": before["config"]})
    right = flat({"hardware": after["hardware"], "config": after["config"]})
    names = [name for name in {**left, **right} if name not in ("hardware.load_average",)]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


def _number(value: float | None) -> str:
    return "not told" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
