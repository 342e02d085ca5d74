"""Car soccer beside the simulators that its bots are trained in elsewhere: ticks of arenas, and decisions of cars."""

from __future__ import annotations

import functools
from typing import Any

from jaxrl.config import Config
from jaxrl.diagnose.timing import Speed
from jaxrl.text_tables import count, table
from scripts.benchmark import peers as peers_package
from scripts.benchmark.report import Effort, Found, Part
from scripts.benchmark.worker import Task, ask

GAME, PEER = "car_soccer", "rocketsim"
SIZES = (1, 2, 3)  # of the teams


def parts(config: Config, effort: Effort, peers: bool, core: int | None) -> list[Part]:
    """What is measured of this game alone, one part for each size of the teams; all on one core."""
    if config.env.id != GAME:
        return []
    same: dict[str, Any] = {"config": config, "effort": effort, "peers": peers, "core": core}
    return [
        Part(
            f"{size} against {size}: ticks alone, and decisions with observation, mask and reward, one core",
            f"ticks_{size}v{size}",
            functools.partial(_measured, size, **same),
        )
        for size in SIZES
    ]


def _measured(size: int, config: Config, effort: Effort, peers: bool, core: int | None) -> Found:
    options = dict(config.env.options) | {"teams": [size, size]}
    job: dict[str, Any] = {"env": GAME, "options": options}
    tasks = [
        Task("arena_ticks", job | {"batches": list(effort.batches)}, 1, core),
        Task(
            "environment", job | {"entries": [[batch, "observed"] for batch in effort.batches], "devices": 1}, 1, core
        ),
    ]
    absent = peers_package.missing(PEER) if peers else None
    if peers and absent is None:
        tasks.append(Task("soccer_peers", {"size": size}, 1, core, our_flags=False))
    ticks, play, *other = ask(tasks, rounds=effort.rounds, seconds=effort.seconds)
    seats = 2 * size
    rows = [_row(each, each.name, 1) for each in ticks.results]
    rows += [_row(each, f"decisions of cars, {each.info['batch']} arenas", seats) for each in play.results]
    rows += [_row(each, each.name, 1) for answer in other for each in answer.results]
    report: dict[str, Any] = {"ticks": ticks.as_dict(), "decisions": play.as_dict(), "seats": seats}
    text = [table(["", "per CPU second", "per second"], rows)]
    text.append(
        f"{ticks.facts['flops_per_tick']:,.0f} FLOP a tick as XLA counts, with one round of every loop; "
        f"{ticks.facts['bytes_per_arena']:,} bytes an arena"
    )
    if other:
        theirs = dict(zip(("ticks", "decisions"), other[0].results, strict=True))
        ratios = {
            "ticks": max(each.cpu_rate for each in ticks.results) / theirs["ticks"].cpu_rate,
            "decisions": max(each.cpu_rate for each in play.results) * seats / theirs["decisions"].cpu_rate,
        }
        report |= {"peers": other[0].as_dict(), "by_cpu_time": ratios}
        text.append(
            f"by CPU time {ratios['ticks']:.2f} x RocketSim's ticks, {ratios['decisions']:.1f} x RLGym's decisions"
        )
    elif absent:
        report["skipped"] = absent
        text.append(absent)
    return report, "\n".join(text)


def _row(speed: Speed, name: str, factor: int) -> list[str]:
    return [name, count(speed.cpu_rate * factor), count(speed.rate * factor)]
