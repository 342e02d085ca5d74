"""`jaxrl diagnose`: reports where time and memory of a configuration go on this machine.

Everything is measured in this process with the programs that training uses, after one untimed call each. For figures
to publish, with several batch sizes or a peer, use the scripts of `scripts/benchmark` in a checkout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.diagnose import hardware
from jaxrl.diagnose.diagnosis import PERCENTILES, diagnose
from jaxrl.games import make_games
from jaxrl.runs.directory import find_run, stage_number
from jaxrl.text_tables import cores, machine, table
from jaxrl_envs.shared.errors import UserError


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


def ready_for_gpu(config: Config) -> bool:
    """Checks everything that a first run on a GPU would need; returns whether all is well: if not, jaxrl has a bug.

    Without a GPU it lowers everything that the configuration compiles. With a GPU it also compares results with the
    CPU's.
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
        print("Computing on the CPU: with a GPU, agreement with the CPU is measured here too.")
        return fine
    try:
        cpu = jax.devices("cpu")[0]
    except RuntimeError as error:
        raise UserError("jax may not use the CPU here: unset JAX_PLATFORMS, or set it to cuda,cpu.") from error
    compared = list(agreements(config, games.training, cpu, jax.devices()[0]))
    rows = [[one.what, one.found, one.bound, "yes" if one.fine else "NO"] for one in compared]
    print(f"\n{table(['beside the CPU', 'found', 'bound', 'fine'], rows)}", flush=True)
    return fine and all(one.fine for one in compared)


def reached_stage(name: str, overrides: Sequence[str], allow: Collection[str]) -> Stage:
    """Returns the stage of its curriculum that a run has reached."""
    run = find_run(name)
    stages, store = configs.stages(configs.load(run.config_file, overrides, allow)), run.checkpoints()
    reached = store.newest().meta["host"] if len(stages) > 1 and store.steps() else {}
    return stages[stage_number(stages, reached)]


# ---- reports ------------------------------------------------------------------------------------------------------


def figures(report: dict[str, Any]) -> dict[str, float | None]:
    """Returns name -> figure, None where it is not told."""
    training, memory = report["training"], report["memory"]
    found: dict[str, float | None] = {
        "environment steps/s": report["environment"]["steps_per_second"],
        "training steps/s": training["steps_per_second"],
        "environment steps per CPU s": report["environment"]["steps_per_cpu_second"],
        "training steps per CPU s": training["steps_per_cpu_second"],
        "rollout ms": training["rollout_ms"],
        "update ms": training["update_ms"],
    }
    for batch, times in report["inference_ms"].items():
        found |= {f"inference of {batch}, p{percent} ms": times[f"p{percent}"] for percent in PERCENTILES}
    if host := report.get("host"):
        found |= {f"{name.replace('_', ' ')}, ms per 1,000 steps": value for name, value in host["counters"].items()}
        found |= {name.replace("_", " "): value for name, value in host["figures"].items()}
    found["first training call s"] = report["first_call_seconds"]["training"]
    found["peak memory MiB"] = memory["peak_rss_mib"]
    found["peak device memory MiB"] = memory["peak_device_mib"]
    return found


def describe(report: dict[str, Any]) -> str:
    """Returns a report as text."""
    facts, cache, busy = report["hardware"], report["cache"], report["utilisation"]
    lines = [
        f"{facts['cpu']}, {cores(facts)}, load {facts['load_average']}; "
        f"{facts.get('devices', 0)} x {facts.get('device_kind', '?')}; jax {facts['jax']}",
        f"game {report['config']['env']['id']}; environment takes {100 * report['environment']['share']:.1f} % "
        "of the training time",
        table(["figure", "value"], [[name, _number(value)] for name, value in figures(report).items()]),
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


def _number(value: float | None) -> str:
    return "not told" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
