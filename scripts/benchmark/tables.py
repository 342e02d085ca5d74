"""Reports as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxrl.diagnose import hardware
from jaxrl.diagnose.timing import Speed
from jaxrl.text_tables import count, table


def rates(title: str, results: Sequence[Speed]) -> str:
    """One line per contestant; games per second too where the length of a game is known."""
    header = [
        f"{title}, {hardware.vector_width()}",
        "batch",
        "steps/s",
        "slowest",
        "fastest",
        "per CPU s",
        "first run s",
    ]
    lengths = [result.info.get("decisions_per_game") for result in results]
    if any(lengths):
        header += ["games/s", "per CPU s", "steps/game"]
    rows = []
    for result, length in zip(results, lengths, strict=True):
        row = [result.name, str(result.info.get("batch", ""))]
        row += [count(rate) for rate in (result.rate, result.low, result.high, result.cpu_rate)]
        row.append(f"{result.first_seconds:.1f}")
        if length:
            row += [count(result.rate / length), count(result.cpu_rate / length), f"{length:.2f}"]
        rows.append(row + [""] * (len(header) - len(row)))
    return table(header, rows)


def published(found: Sequence[dict[str, Any]]) -> str:
    """Our games per second over published figures, or nothing without published ones."""
    if not found:
        return ""
    rows = [
        [each["against"], count(each["games_per_second"]), f"{each['by_cpu_time']:.1f}", f"{each['ratio']:.1f}"]
        for each in found
    ]
    return table(
        ["published, measured on another machine", "games/s", "our fastest / it by CPU time", "by the clock"], rows
    )


def ratios(title: str, found: Sequence[dict[str, Any]]) -> str:
    """Ours over theirs; nothing if there are no peers."""
    if not found:
        return ""
    rows = [[each["against"], f"{each['by_cpu_time']:.2f}", f"{each['ratio']:.2f}"] for each in found]
    return table([title, "by CPU time", "by the clock"], rows)


def training(report: dict[str, Any]) -> str:
    """Steps per second, breakdown, FLOP/s."""
    products = " · ".join(f"{name}: {rate:.1f}" for name, rate in report["matrix_product_gflops"].items())
    rows = [
        [part, f"{report['seconds_per_update'][part] * 1e3:.1f}", f"{100 * report['share'][part]:.1f} %"]
        for part in report["share"]
    ]
    low, high = report["steps_per_second_range"]
    return "\n".join(
        [
            f"{count(report['steps_per_second'])} training steps/s ({count(low)} to {count(high)}), "
            f"{count(report['steps_per_cpu_second'])} per CPU s, "
            f"on {report['devices']} device(s) with {hardware.vector_width()}: {report['env']}, {report['network']}, "
            f"{report['num_envs']} games x {report['num_steps']} steps, "
            f"{report['epochs']} epochs x {report['minibatches']} minibatches",
            table(["one update", "ms", "share"], rows),
            f"of these steps {100 * report['learnt']:.1f} % are learnt from, {100 * report['others']:.1f} % are of "
            f"bots and snapshots, {100 * report['forced']:.1f} % are forced",
            f"{report['achieved_gflops']:.1f} GFLOP/s in the network's products = "
            f"{100 * report['flops_share_by_cpu_time']:.0f} % of the fastest large product by CPU time, "
            f"{100 * report['flops_share']:.0f} % by the clock ({products} GFLOP/s)",
            f"peak memory {_mib(report['memory']['peak_rss_mib'])}, device {_mib(report['memory']['peak_device_mib'])}",
        ]
    )


def compilation(cold: dict[str, Any], warm: dict[str, Any]) -> str:
    """Seconds to a compiled training step."""
    names = ("process_and_imports", "initial_state", "trace_and_lower", "compile", "total", "processor")
    rows = [[name.replace("_", " "), f"{cold[name]:.1f}", f"{warm[name]:.1f}"] for name in names]
    return table(["seconds to a compiled training step", "cold", "warm cache"], rows)


# ---- games on the host --------------------------------------------------------------------------------------------


def host_rates(title: str, results: Sequence[Speed]) -> str:
    """One line per way to play; games and rounds per second where their length is known."""
    header = [title, "batch", "decisions/s", "slowest", "fastest", "per CPU s", "games/s", "rounds/s", "per CPU s"]
    rows = []
    for result in results:
        info = result.info
        row = [result.name, str(info["batch"])]
        row += [count(rate) for rate in (result.rate, result.low, result.high)]
        row.append("" if info["layer"] == "peer" else count(result.cpu_rate))
        if length := info.get("decisions_per_game"):
            row.append(count(result.rate / length))
            if rounds := info.get("rounds_per_game"):
                row += [count(rate / length * rounds) for rate in (result.rate, result.cpu_rate)]
        rows.append(row + [""] * (len(header) - len(row)))
    return table(header, rows)


def scaling(found: Sequence[dict[str, Any]]) -> str:
    """What more threads bring; nothing if only one was measured."""
    if not found:
        return ""
    rows = [[each["name"], str(each["batch"]), f"{each['ratio']:.2f}", f"{each['by_cpu_time']:.2f}"] for each in found]
    return table(["against one thread", "batch", "ratio", "by CPU time"], rows)


def replay(found: Sequence[dict[str, Any]]) -> str:
    """Our sum-tree beside the Python one."""
    header = ["one transition of a batch", "batch", "jaxrl us", "Python us", "by CPU time", "by the clock"]
    rows = [
        [each["job"], str(each["batch"])]
        + [f"{each[key]:.3f}" for key in ("microseconds", "peer_microseconds")]
        + [f"{each[key]:.0f}" for key in ("by_cpu_time", "ratio")]
        for each in found
    ]
    return table(header, rows)


def allocations(report: dict[str, dict[str, float]]) -> str:
    """Allocations of a number of decisions."""
    header = ["while playing", "decisions", "calls of malloc", "bytes more", "Python objects more", "resident MiB more"]
    keys = ("malloc_calls", "bytes", "python_objects")
    rows = [
        [name, f"{found['decisions']:,}", *(f"{found[key]:,}" for key in keys), f"{found['rss_mib']:.2f}"]
        for name, found in report.items()
    ]
    return table(header, rows)


def host_training(results: Sequence[Speed], facts: dict[str, Any]) -> str:
    """Steps per second without and with counters, what the threads do, and the counters."""
    rows = [[each.name, *(count(rate) for rate in (each.rate, each.low, each.high, each.cpu_rate))] for each in results]
    header = [
        f"{facts['env']}, {facts['algorithm']}: {facts['num_envs']} games x {facts['num_steps']} steps, "
        f"{facts['actors']} actor(s), lag {facts['lag']}",
        *("steps/s", "slowest", "fastest", "per CPU s"),
    ]
    return "\n".join([table(header, rows), host_time(facts)])


def busy(facts: dict[str, Any]) -> str:
    """How busy the engine's threads are, by what a decision costs."""
    rows = [[f"{work} us", f"{100 * share:.1f} %"] for work, share in facts["engine_busy"].items()]
    return table([f"a decision takes, {facts['threads']} engine threads", "busy"], rows)


def host_time(facts: dict[str, Any]) -> str:
    """Where the time of a training on the host goes; facts of `jaxrl.diagnose.training.Training`."""
    rows = [[name.replace("_", " "), f"{value:.3f}"] for name, value in facts["figures"].items()]
    rows += [[f"{name.replace('_', ' ')}, ms per 1,000 steps", f"{v:.2f}"] for name, v in facts["counters"].items()]
    threads = ", ".join(f"{number} {name}" for name, number in sorted(facts["threads"].items()))
    return "\n".join(
        [table(["counters on", "median"], rows), f"threads: {threads}; buffers: {facts['buffer_mib']:.1f} MiB"]
    )


def _mib(value: float | None) -> str:
    return "not told" if value is None else f"{value:.0f} MiB"
