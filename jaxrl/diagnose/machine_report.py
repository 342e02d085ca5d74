"""`jaxrl diagnose`: reports where time and memory of a configuration go on this machine, and compares saved reports.

Everything is measured in this process with the programs that training uses, after one untimed call each. For figures
to publish, with several batch sizes or a peer, use the scripts of `scripts/benchmark` in a checkout.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.diagnose import hardware
from jaxrl.diagnose.diagnosis import FORMAT, PERCENTILES, diagnose
from jaxrl.diagnose.timing import safe_ratio
from jaxrl.games import make_games
from jaxrl.runs.directory import find_run, stage_number
from jaxrl.text_tables import align, cores, flat, machine, table
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

GATED = ("environment steps per CPU s", "training steps per CPU s")  # that `losses` compares


def report_machine(config: Config, seconds: float, save: str | None = None) -> None:
    """Measures a configuration for `seconds` a measurement, and prints the report; `save`: a file for it."""
    report = diagnose(config, seconds=seconds)
    print(describe(report))
    if xla.only_compiles_for_gpus():
        print("GPU: none; the plugin of jax for NVIDIA's only compiles here (--gpu CARD), and programs run on the CPU")
    if save:
        Path(save).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def compile_for_card(config: Config, card_name: str, programs: Sequence[str], budget: Path | None, name: str) -> bool:
    """Compiles programs for a GPU that is absent and prints reports.

    Args:
      config: configuration of the training.
      card_name: name of the GPU, see `find_card`.
      programs: programs to compile.
      budget: a file with limits of kernels and waits.
      name: name of the configuration in that file.

    Returns:
      Whether the training keeps to its budget.
    """
    from jaxrl.diagnose.gpu import compiler  # here, because it imports every part that compiles
    from jaxrl.diagnose.gpu.cards import find_card

    card, exceeded = find_card(card_name), []
    for found in compiler.compile_programs(config, make_games(config), card, programs):
        print(compiler.describe(found, config, card), end="\n\n", flush=True)
        if budget and found.name == "training":
            exceeded += compiler.beyond(budget, name, compiler.parts(found, config))
    for sentence in exceeded:
        print(sentence, file=sys.stderr)
    return not exceeded


def ready_for_gpu(config: Config, *, seconds: float, name: str) -> bool:
    """Checks everything that a first run on a GPU would need; returns whether all is well: if not, jaxrl has a bug.

    Without a GPU it lowers everything that the configuration compiles. With a GPU it also compares results with the
    CPU's and measures rates by the number of parallel games.

    Args:
      config: configuration of the training.
      seconds: duration of each measurement.
      name: name of the configuration in the table of rates.
    """
    from jaxrl.diagnose.device_parity import agreements  # here, because it imports every part that compiles
    from jaxrl.diagnose.gpu.programs import lowered

    games, gpus = make_games(config), ", ".join(gpu["name"] for gpu in hardware.gpus())
    print(machine(hardware.describe()))
    print(f"GPUs: {gpus or 'none here; lowering needs none'}", flush=True)
    found = []
    for each in lowered(config, games):
        found.append(each)
        print(f"{each.name}: {', '.join(each.wrong) or 'fine'}", file=sys.stderr, flush=True)
    rows = [[one.name, f"{one.operations:,}", ", ".join(one.wrong) or "nothing"] for one in found]
    print(table(["program", "operations", "wrong for a GPU"], rows))
    fine = not any(one.wrong for one in found)
    if xla.on_cpu():
        print("Computing on the CPU: with a GPU, agreement with the CPU and rates by batch are measured here too.")
        return fine
    try:
        cpu = jax.devices("cpu")[0]
    except RuntimeError as error:
        raise UserError("jax may not use the CPU here: unset JAX_PLATFORMS, or set it to cuda,cpu.") from error
    compared = list(agreements(config, games.training, cpu, jax.devices()[0]))
    rows = [[one.what, one.found, one.bound, "yes" if one.fine else "NO"] for one in compared]
    print(f"\n{table(['beside the CPU', 'found', 'bound', 'fine'], rows)}", flush=True)
    if games.training.host:
        print("No rates by batch: the engine of this game computes on the host.")
    else:
        _rates(config, games.training, seconds, name)
    return fine and all(one.fine for one in compared)


def _rates(config: Config, env: Env, seconds: float, name: str) -> None:
    """Prints rates by batch size."""
    from jaxrl.diagnose.saturation import rates

    cells = [["configuration", "games at once", "environment steps/s", "training steps/s", "peak device MiB"]]
    for each in rates(config, env, seconds):
        peak = "-" if each.peak_mib is None else f"{each.peak_mib:.0f}"
        cells.append([f"`{name}`", f"{each.num_envs:,}", f"{each.playing:,.0f}", f"{each.training:,.0f}", peak])
        print("  ".join(cells[-1]), file=sys.stderr, flush=True)
    print(f"\n{align(cells)}")


def reached_stage(name: str, overrides: Sequence[str], allow: Collection[str]) -> Stage:
    """Returns the stage of its curriculum that a run has reached."""
    run = find_run(name)
    stages, store = configs.stages(configs.load(run.config_file, overrides, allow)), run.checkpoints()
    reached = store.newest().meta["host"] if len(stages) > 1 and store.steps() else {}
    return stages[stage_number(stages, reached)]


# ---- reports ------------------------------------------------------------------------------------------------------


def load_report(path: str) -> dict[str, Any]:
    """Returns a report that `--save` wrote. Raises UserError if there is no report at `path`."""
    try:
        report = files.read(path)
        if not isinstance(report, dict) or report.get("format") != FORMAT:
            raise UserError(f"{path!r} is not a report of this version of `jaxrl diagnose --save`.")
        if not all(value is None or math.isfinite(value) for value, _ in figures(report).values()):
            raise ValueError("a figure is not finite")
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UserError(f"{path!r} is not a report of `jaxrl diagnose --save` ({error}).") from error
    return report


def figures(report: dict[str, Any]) -> dict[str, tuple[float | None, bool]]:
    """Returns name -> (figure, whether more is better), for every figure that two reports are compared by."""
    training, memory = report["training"], report["memory"]
    found: dict[str, tuple[float | None, bool]] = {
        "environment steps/s": (report["environment"]["steps_per_second"], True),
        "training steps/s": (training["steps_per_second"], True),
        GATED[0]: (report["environment"]["steps_per_cpu_second"], True),
        GATED[1]: (training["steps_per_cpu_second"], True),
        "rollout ms": (training["rollout_ms"], False),
        "update ms": (training["update_ms"], False),
    }
    for batch, times in report["inference_ms"].items():
        for percent in PERCENTILES:
            found[f"inference of {batch}, p{percent} ms"] = (times[f"p{percent}"], False)
    if host := report.get("host"):
        for name, value in host["counters"].items():
            found[f"{name.replace('_', ' ')}, ms per 1,000 steps"] = (value, False)
        for name, value in host["figures"].items():
            found[name.replace("_", " ")] = (value, name == "engine_busy")
        found["threads"] = (float(sum(host["threads"].values())), False)
    found["first training call s"] = (report["first_call_seconds"]["training"], False)
    found["peak memory MiB"] = (memory["peak_rss_mib"], False)
    found["peak device memory MiB"] = (memory["peak_device_mib"], False)
    return found


def describe(report: dict[str, Any]) -> str:
    """Returns a report as text."""
    facts, cache, busy = report["hardware"], report["cache"], report["utilisation"]
    lines = [
        f"{facts['cpu']}, {cores(facts)}, load {facts['load_average']}; "
        f"{facts.get('devices', 0)} x {facts.get('device_kind', '?')}; jax {facts['jax']}",
        f"game {report['config']['env']['id']}; environment takes {100 * report['environment']['share']:.1f} % "
        "of the training time",
        table(["figure", "value"], [[name, _number(value)] for name, (value, _) in figures(report).items()]),
        f"CPU: {busy['cpu_cores_busy']:.2f} of {facts['cores']} cores busy while training",
    ]
    if host := report.get("host"):
        threads = ", ".join(f"{number} {name}" for name, number in sorted(host["threads"].items()))
        lines.append(
            f"{host['algorithm']} with {host['actors']} actor(s), {host['num_envs']} games in "
            f"{host['actors'] * host['groups']} block(s), lag {host['lag']}; threads: {threads}\n"
            "counters are sums over threads, which overlap; they were on while all this was measured"
        )
    for gpu in busy["gpus"]:
        lines.append("GPU: " + ", ".join(f"{key} {value}" for key, value in gpu.items()))
    where = cache["directory"] or "off (run.cache_dir is empty)"
    lines.append(
        f"compile cache: {where}, {cache['programs']} programs, {cache['mib']:.1f} MiB; "
        f"{cache['added']} of them compiled just now"
    )
    return "\n".join(lines)


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
    # Differences in hardware, versions and configuration; without them a comparison says little.
    left, right = (flat({"hardware": each["hardware"], "config": each["config"]}) for each in (before, after))
    keys = [key for key in {**left, **right} if left.get(key) != right.get(key) and key != "hardware.load_average"]
    notes = [f"{key}: {left.get(key)} -> {right.get(key)}" for key in keys]
    return "\n".join([table(["figure", "before", "after", "better by"], rows), *notes])


def losses(before: dict[str, Any], after: dict[str, Any], most: float) -> list[str]:
    """Returns a sentence for each rate per CPU second, of training or the game alone, that lost more than `most` %."""
    old, new = (figures(report) for report in (before, after))
    gains = {name: 100 * (safe_ratio(new[name][0] or 0.0, old[name][0] or 0.0) - 1.0) for name in GATED}
    return [f"FAIL  {name}: {gain:+.1f} %, at most -{most:g} % wanted" for name, gain in gains.items() if gain < -most]


def _number(value: float | None) -> str:
    return "not told" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
