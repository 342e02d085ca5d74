"""Arithmetic over measured rates; no jax here, so that the asking process stays light."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxrl.diagnose.timing import Speed, safe_ratio
from scripts.benchmark.peers.published import Published
from scripts.benchmark.worker import Measurement


def of_training(answer: Measurement) -> dict[str, Any]:
    """Steps per second, seconds and shares of the parts, achieved FLOP/s against a large product of the same run."""
    results = {result.name: result for result in answer.results}
    facts, whole = answer.facts, results["whole"]
    time = {name: safe_ratio(1.0, results[name].rate) for name in ("whole", "playing", "game") if name in results}
    parts = {"environment": time["game"]}
    if "playing" in time:
        parts["inference"] = max(0.0, time["playing"] - time["game"])
        parts["update"] = max(0.0, time["whole"] - time["playing"])
    products = {name: result for name, result in results.items() if name.startswith("matrix")}
    fastest = max(result.rate for result in products.values())
    per_update = facts["num_envs"] * facts["num_steps"]
    flops = facts["flops_playing"] + facts["flops_learning"] * facts["learnt"]
    return facts | {
        "flops_per_step": flops,
        "steps_per_second": whole.rate,
        "steps_per_second_range": [whole.low, whole.high],
        "steps_per_cpu_second": whole.cpu_rate,
        "first_call_seconds": whole.first_seconds,
        "seconds_per_update": {part: seconds * per_update for part, seconds in parts.items()},
        "share": {part: safe_ratio(seconds, time["whole"]) for part, seconds in parts.items()},
        "achieved_gflops": flops * whole.rate / 1e9,
        "matrix_product_gflops": {name: result.rate / 1e9 for name, result in products.items()},
        "flops_share": safe_ratio(flops * whole.rate, fastest),
        "flops_share_by_cpu_time": _by_cpu_time(flops, whole, list(products.values())),
    }


def against_published(results: list[Speed], published: Sequence[Published]) -> list[dict[str, Any]]:
    """Our fastest games per second over each published figure, which is of another machine, by the clock and by
    processor time (which says nothing of an accelerator)."""
    known = [(result, result.info["decisions_per_game"]) for result in results if "decisions_per_game" in result.info]
    if not known:
        return []
    rate = max(result.rate / length for result, length in known)
    cpu = max(result.cpu_rate / length for result, length in known)
    return [
        {
            "against": figure.name,
            "games_per_second": figure.games_per_second,
            "ratio": rate / figure.games_per_second,
            "by_cpu_time": cpu / figure.games_per_second,
        }
        for figure in published
    ]


def reset_share(results: list[Speed]) -> float:
    """The share of a lean step that the automatic reset takes, from the pair at the batch where it was left out."""
    [endless] = [result for result in results if result.info["view"] == "endless"]
    same = [r for r in results if r.info["view"] == "lean" and r.info.get("batch") == endless.info.get("batch")]
    return 1.0 - safe_ratio(same[0].rate, endless.rate)


def _by_cpu_time(flops_per_step: float, whole: Speed, products: list[Speed]) -> float:
    """The same share per second of processor time: less sensitive to what else the machine does."""
    return safe_ratio(flops_per_step * whole.cpu_rate, max(result.cpu_rate for result in products))


def ratios(ours: list[Speed], theirs: list[Speed]) -> list[dict[str, Any]]:
    """Our fastest contestant over each of theirs, by the clock and by processor time."""
    if not ours:
        return []
    rate, cpu = max(result.rate for result in ours), max(result.cpu_rate for result in ours)
    return [
        {"against": peer.name, "ratio": safe_ratio(rate, peer.rate), "by_cpu_time": safe_ratio(cpu, peer.cpu_rate)}
        for peer in theirs
    ]


# ---- games on the host --------------------------------------------------------------------------------------------


def thread_scaling(results: list[Speed]) -> list[dict[str, Any]]:
    """How many times as fast several threads are as one, for every way to play that was measured with both.

    "by_cpu_time" is what it would be if each thread had a core to itself: it tells whether threads hinder each other.
    """

    def kind(result: Speed) -> tuple[Any, ...]:
        return tuple(result.info[key] for key in ("layer", "bot", "observe", "batch"))

    alone = {kind(result): result for result in results if result.info["threads"] == 1}
    return [
        {
            "name": result.name,
            "batch": result.info["batch"],
            "ratio": safe_ratio(result.rate, alone[kind(result)].rate),
            "by_cpu_time": result.info["threads"] * safe_ratio(result.cpu_rate, alone[kind(result)].cpu_rate),
        }
        for result in results
        if result.info["threads"] > 1 and kind(result) in alone
    ]


def replay_ratios(results: list[Speed]) -> list[dict[str, Any]]:
    """Our sum-tree over the Python one, job by job, with the microseconds of one transition."""
    ours = {result.info["job"]: result for result in results if not result.info["peer"]}
    theirs = {result.info["job"]: result for result in results if result.info["peer"]}
    return [
        {
            "job": job,
            "batch": result.info["batch"],
            "microseconds": 1e6 * safe_ratio(1.0, result.rate),
            "peer_microseconds": 1e6 * safe_ratio(1.0, theirs[job].rate),
            "ratio": safe_ratio(result.rate, theirs[job].rate),
            "by_cpu_time": safe_ratio(result.cpu_rate, theirs[job].cpu_rate),
        }
        for job, result in ours.items()
    ]
