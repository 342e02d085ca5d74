"""Reports as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxrl.benchmark.timing import safe_ratio


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns: the first one left-aligned, the others right-aligned."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = []
    for line in lines:
        others = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *others]).rstrip())
    return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])


def count(value: float) -> str:
    """A rate in a few characters: 12.3 M, 456 k, 78.9."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def machine(facts: dict[str, Any]) -> str:
    """The hardware in a line or two."""
    known = [
        facts.get("cpu"),
        f"{facts.get('cores')} cores",
        f"{facts.get('memory_gib')} GiB",
        f"device: {facts['devices']} x {facts['device_kind']}" if "device_kind" in facts else None,
        f"jax {facts.get('jax')}",
        f"Python {facts.get('python')}",
    ]
    line = " · ".join(str(part) for part in known if part)
    load, cores = facts.get("load_average"), facts.get("cores") or 1
    if load is not None and load > cores:
        line += (
            f"\nThe machine is busy (load average {load}): absolute figures are too low, ratios of one run still hold."
        )
    return line


def environment(report: dict[str, Any]) -> str:
    """Rates of the views and batch sizes of our game, then of the peers."""
    rows = [
        [result["name"], str(result["info"]["batch"]), *_rates(result), f"{result['first_seconds']:.1f}"]
        for result in report["ours"]
    ]
    rows += [[result["name"], "", *_rates(result), f"{result['first_seconds']:.1f}"] for result in report["peers"]]
    header = ["environment steps", "batch", "steps/s", "slowest", "fastest", "per CPU s", "first run s"]
    return table(header, rows)


def ratios(report: dict[str, Any]) -> str:
    """Our fastest lean rate over each peer's rate, by wall clock and by processor time."""
    lean = [result for result in report["ours"] if result["info"]["view"] == "lean"]
    if not lean or not report["peers"]:
        return ""
    best = max(lean, key=lambda result: result["rate"])
    cpu = max(lean, key=lambda result: result["cpu_rate"])
    rows = [
        [
            peer["name"],
            f"{safe_ratio(best['rate'], peer['rate']):.2f}",
            f"{safe_ratio(cpu['cpu_rate'], peer['cpu_rate']):.2f}",
        ]
        for peer in report["peers"]
    ]
    return table([f"{best['name']} (batch {best['info']['batch']}) against", "ratio", "by CPU time"], rows)


def race_of(results: Sequence[dict[str, Any]]) -> str:
    """The first contestant's rate over each other's."""
    ours = results[0]
    rows = [
        [
            result["name"],
            *_rates(result),
            f"{safe_ratio(ours['rate'], result['rate']):.2f}",
            f"{safe_ratio(ours['cpu_rate'], result['cpu_rate']):.2f}",
        ]
        for result in results
    ]
    header = ["training steps", "steps/s", "slowest", "fastest", "per CPU s", f"{ours['name']} / it", "by CPU time"]
    return table(header, rows)


def training(report: dict[str, Any]) -> str:
    """Steps per second, breakdown, FLOP/s."""
    products = " · ".join(f"{name}: {rate:.1f}" for name, rate in report["matrix_product_gflops"].items())
    rows = [
        [part, f"{report['seconds_per_update'][part] * 1e3:.1f}", f"{100 * report['share'][part]:.1f} %"]
        for part in ("environment", "inference", "update")
    ]
    low, high = report["steps_per_second_range"]
    return "\n".join(
        [
            f"{count(report['steps_per_second'])} steps/s ({count(low)} to {count(high)}) "
            f"on {report['devices']} device(s): {report['env']}, {report['network']}, "
            f"{report['num_envs']} games x {report['num_steps']} steps, "
            f"{report['epochs']} epochs x {report['minibatches']} minibatches",
            table(["one update", "ms", "share"], rows),
            f"{report['achieved_gflops']:.1f} GFLOP/s in the network's products = "
            f"{100 * report['flops_share']:.0f} % of the fastest large product ({products} GFLOP/s)",
            f"peak memory {_mib(report['memory']['peak_rss_mib'])}, device {_mib(report['memory']['peak_device_mib'])}",
        ]
    )


def compilation(cold: dict[str, Any], warm: dict[str, Any]) -> str:
    """Seconds to a compiled training step."""
    names = ("process_and_imports", "initial_state", "trace_and_lower", "compile", "total")
    rows = [[name.replace("_", " "), f"{cold[name]:.1f}", f"{warm[name]:.1f}"] for name in names]
    return table(["seconds to a compiled training step", "cold", "warm cache"], rows)


def _rates(result: dict[str, Any]) -> list[str]:
    return [count(result[name]) for name in ("rate", "low", "high", "cpu_rate")]


def _mib(value: float | None) -> str:
    return "not told" if value is None else f"{value:.0f} MiB"
