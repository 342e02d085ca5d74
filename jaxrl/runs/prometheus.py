"""Figures of a running training for Prometheus: `metrics.prometheus` serves them over HTTP.

Of several processes each serves its own: how far it is, what it takes of its machine, and its engines; the first serves
the figures of the whole training besides. All have the labels run, rank and host.

What is counted here is told by the training after every call, and by its program
(`jaxrl.training.program.Program.counters`) when Prometheus asks. Nothing is computed or kept unless it asks.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jaxrl.config import Config
from jaxrl.runs import distributed
from jaxrl_envs.shared.errors import UserError

PREFIX = "jaxrl_"
LOCAL = "127.0.0.1"  # to this machine alone
LAST = 65535  # port
NAMED = {  # figures with names of their own
    "time/queue_depth": "queue_depth",
    "time/engine_busy": "engine_utilisation",
    "time/gpu_utilisation": "gpu_utilisation",
    "train/policy_lag": "policy_lag_updates",
}
HELP = {
    "env_steps": "Environment steps of the training.",
    "updates": "Updates of the training.",
    "games": "Games of the training that have ended.",
    "queue_depth": "Rollouts that were ready when the learner asked for one, mean of the last call.",
    "policy_lag_updates": "Updates between the parameters that played and those that learnt, mean of the last call.",
    "parameter_age_seconds": "Seconds since the newest parameters were learnt; what plays may lag behind them.",
    "engine_utilisation": "Share of the time that the engine threads of all games have worked, in the last call.",
    "gpu_utilisation": "Share of the time that kernels ran on the GPUs of the process, as the driver measured it last.",
    "scalar": "Figures of the last call of the training by their TensorBoard tag.",
    "game_duration_seconds": "How long games took, on engine processes and workers alike.",
    "games_started": "Games begun on engine processes, of evaluations too.",
    "games_waiting": "Games that wait for a free engine process.",
    "daemon_utilisation": "Share of the time that an engine process has worked on a game, since the call before.",
    "daemon_busy_seconds": "Seconds in which an engine process has worked on a game.",
    "daemon_games": "Games of an engine process.",
    "daemon_restarts": "Restarts of engine processes.",
    "daemon_faults": "Games that had to be played on elsewhere, by reason.",
    "daemon_evictions": "Games that had to give their engine process up for another one.",
    "worker_utilisation": "Share of the time that the engine threads of a fleet's worker have worked, since the call "
    "before.",
    "worker_busy_seconds": "Seconds that the engine threads of a worker have worked, summed over them.",
    "worker_calls": "Calls to a worker that it has not answered yet.",
    "worker_losses": "Blocks of games that were lost with their worker, and played again by the one in its place.",
}
COUNTER, GAUGE = "counter", "gauge"
KINDS = {  # what plays the games: engine processes, and workers of a fleet; what they tell besides how busy they are
    "daemon": {"games": COUNTER},
    "worker": {"losses": COUNTER, "calls": GAUGE},
}
TOTALS = {"games_started": "games_started", "restarts": "daemon_restarts", "evictions": "daemon_evictions"}


class Exporter:
    """A small HTTP server with a thread of its own; `update` tells it what to serve."""

    def __init__(
        self,
        port: int,
        host: str = LOCAL,
        counters: Callable[[], Mapping[str, Any]] = dict,
        *,
        labels: Mapping[str, str] = MappingProxyType({}),
        whole: bool = True,
    ):
        """Starts to serve.

        Args:
          port: port of the server; 0: any that is free, see the attribute `port`.
          host: its address.
          counters: counters of the engines, see `jaxrl.training.program.Program.counters`.
          labels: labels of everything that is served.
          whole: whether to serve the figures of the whole training too.

        Raises:
          UserError: prometheus-client is not installed, or the port cannot be used.
        """
        try:
            import prometheus_client
        except ImportError as error:
            raise UserError(
                "metrics.prometheus needs prometheus-client: pip install 'jaxrl[metrics]', or leave it empty."
            ) from error
        self._counters, self._lock, self._labels, self._whole = counters, threading.Lock(), dict(labels), whole
        self._totals: dict[str, float] = {}
        self._row: dict[str, float] = {}
        self._learnt = math.nan  # when
        self._machine = prometheus_client.ProcessCollector(registry=None)
        self._marks = [(time.monotonic(), _busy(counters()))] * 2  # of the last two calls
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)  # a collector is whatever can collect
        try:
            self._server, self._thread = prometheus_client.start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise UserError(
                f"metrics.prometheus: port {port} of {host} cannot be used ({error.strerror}): choose another."
            ) from error
        self.port: int = self._server.server_port

    def update(self, *, steps: int, updates: int, games: int, row: Mapping[str, float]) -> None:
        """Takes what the training has done so far, and the figures of its last call."""
        mark = (time.monotonic(), _busy(self._counters()))
        with self._lock:
            self._totals = {"updates": float(updates)}
            self._learnt = time.monotonic()
            if self._whole:
                self._totals |= {"env_steps": float(steps), "games": float(games)}
                self._row = {tag: float(value) for tag, value in row.items() if math.isfinite(value)}
            self._marks = [self._marks[1], mark]

    def collect(self) -> Iterator[Any]:
        """Yields the metrics as prometheus-client wants them; called in the server's thread."""
        for family in self._families():
            family.samples = [each._replace(labels=self._labels | each.labels) for each in family.samples]
            yield family

    def _families(self) -> Iterator[Any]:
        counters, now = self._counters(), time.monotonic()
        with self._lock:
            totals, row, learnt, (since, before) = self._totals, self._row, self._learnt, self._marks[0]
        yield from self._machine.collect()
        if math.isfinite(learnt):
            yield _metric("parameter_age_seconds", now - learnt)
        for name, value in totals.items():
            yield _metric(name, value, COUNTER)
        yield from (_metric(name, row[tag]) for tag, name in NAMED.items() if tag in row)
        yield _metric("scalar", row, label="tag")
        yield from (_metric(name, counters[key], COUNTER) for key, name in TOTALS.items() if key in counters)
        if "queue" in counters:
            yield _metric("games_waiting", counters["queue"])
        if "faults_by_reason" in counters:
            yield _metric("daemon_faults", counters["faults_by_reason"], COUNTER, "reason")
        if "game_seconds" in counters:
            yield _durations(**counters["game_seconds"])
        for kind in KINDS:
            each = {str(one["name"]): one for one in counters.get(f"{kind}s", ())}
            yield from _of_each(kind, each, before, max(now - since, 1e-9)) if each else ()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


def _metric(name: str, value: float | Mapping[str, float], kind: str = GAUGE, label: str = "") -> Any:
    """Returns a metric: a number, or one for each value of a label."""
    from prometheus_client import Metric

    found = Metric(PREFIX + name, HELP[name], kind)
    for key, number in (value if isinstance(value, Mapping) else {"": value}).items():
        found.add_sample(found.name + "_total" * (kind == COUNTER), {label: key} if label else {}, float(number))
    return found


def _durations(bounds: Sequence[float], counts: Sequence[int], sum: float) -> Any:
    """Returns the histogram of how long games took; `counts` are of the buckets below each bound and beyond."""
    from prometheus_client.core import HistogramMetricFamily

    below = map(float, itertools.accumulate(counts))
    buckets = list(zip([*(str(float(bound)) for bound in bounds), "+Inf"], below, strict=True))
    name = "game_duration_seconds"
    return HistogramMetricFamily(PREFIX + name, HELP[name], buckets=buckets, sum_value=float(sum))


def _of_each(
    kind: str, each: Mapping[str, Mapping[str, Any]], before: Mapping[str, float], seconds: float
) -> Iterator[Any]:
    """Yields the metrics of all workers of a kind, by name; `before`: seconds that each had been busy `seconds` ago."""
    busy = {name: float(one["busy_seconds"]) for name, one in each.items()}
    spent = {name: (busy[name] - before.get(name, 0.0)) / one.get("threads", 1) for name, one in each.items()}
    share = {name: min(1.0, max(0.0, own / seconds)) for name, own in spent.items()}
    yield _metric(f"{kind}_utilisation", share, label=kind)
    yield _metric(f"{kind}_busy_seconds", busy, COUNTER, kind)
    for what, add in KINDS[kind].items():
        yield _metric(f"{kind}_{what}", {name: one[what] for name, one in each.items()}, add, kind)


def _busy(counters: Mapping[str, Any]) -> dict[str, float]:
    """Returns the seconds that each engine process, or worker, has been busy so far."""
    return {str(one["name"]): float(one["busy_seconds"]) for kind in KINDS for one in counters.get(f"{kind}s", ())}


@contextlib.contextmanager
def exporting(config: Config, run: str, counters: Callable[[], Mapping[str, Any]]) -> Iterator[Exporter | None]:
    """Opens the exporter of this process that a configuration asks for, None if none, for a block that goes on with it;
    a block that fails ends its server.

    Args:
      config: configuration of the training.
      run: its name.
      counters: counters of the engines as they are now, see `jaxrl.training.program.Program.counters`.

    Raises:
      UserError: see `Exporter`.
    """
    where, rank = config.metrics.prometheus, distributed.rank()
    if not where:
        yield None
        return
    host, _, port = str(where).rpartition(":")
    own = int(port) and int(port) + rank
    if own > LAST:
        raise UserError(f"metrics.prometheus: process {rank} would serve at port {own}: choose a lower one.")
    labels = {"run": run, "rank": str(rank), "host": platform.node()}
    exporter = Exporter(own, host or LOCAL, counters, labels=labels, whole=distributed.is_rank0())
    try:
        yield exporter
    except BaseException:
        exporter.close()
        raise
