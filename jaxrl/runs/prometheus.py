"""Figures of a running training for Prometheus: `metrics.prometheus` serves them over HTTP.

What is counted here is told by the training after every call and by the game, if it knows of engine processes
(`jaxrl.envs.host.core.HostGame.counters`), when Prometheus asks. Nothing is computed or kept while nobody does.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxrl.config.schema import Config
from jaxrl.envs.core import Env
from jaxrl.envs.errors import UserError

PREFIX = "jaxrl_"
LOCAL = "127.0.0.1"  # to this machine alone
NAMED = {"time/queue_depth": "queue_depth", "train/policy_lag": "policy_lag_updates"}  # figures with names of their own
HELP = {
    "env_steps": "Environment steps of the training.",
    "updates": "Updates of the training.",
    "games": "Games of the training that have ended.",
    "queue_depth": "Rollouts that were ready when the learner asked for one, mean of the last call.",
    "policy_lag_updates": "Updates between the parameters that played and those that learnt, mean of the last call.",
    "scalar": "Figures of the last call of the training by their TensorBoard tag.",
    "game_duration_seconds": "How long games took, whoever played them.",
    "games_started": "Games begun on engine processes, of evaluations too.",
    "games_waiting": "Games that wait for a free engine process.",
    "daemon_utilisation": "Share of the time that an engine process has worked on a game, since the call before.",
    "daemon_busy_seconds": "Seconds in which an engine process has worked on a game.",
    "daemon_games": "Games of an engine process.",
    "daemon_restarts": "Restarts of engine processes.",
    "daemon_faults": "Games that had to be played on elsewhere, by reason.",
    "daemon_evictions": "Games that had to give their engine process up for another one.",
}
TOTALS = {"games_started": "games_started", "restarts": "daemon_restarts", "evictions": "daemon_evictions"}


class Exporter:
    """A small HTTP server with a thread of its own; `update` tells it what to serve."""

    def __init__(self, port: int, host: str = LOCAL, counters: Callable[[], Mapping[str, Any]] = dict):
        """Starts to serve.

        Args:
          port: of the server; 0: any that is free, see the attribute `port`.
          host: its address.
          counters: of the game.

        Raises:
          UserError: prometheus-client is not installed, or the port cannot be used.
        """
        try:
            import prometheus_client
        except ImportError as error:
            raise UserError(
                "metrics.prometheus needs prometheus-client: pip install 'jaxrl[metrics]', or leave it empty."
            ) from error
        self._counters, self._lock = counters, threading.Lock()
        self._totals: dict[str, float] = {}
        self._row: dict[str, float] = {}
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
        """After a call of the training: what it has done so far, and the figures of the call."""
        mark = (time.monotonic(), _busy(self._counters()))
        with self._lock:
            self._totals = {"env_steps": float(steps), "updates": float(updates), "games": float(games)}
            self._row = {tag: float(value) for tag, value in row.items() if math.isfinite(value)}
            self._marks = [self._marks[1], mark]

    def collect(self) -> Iterator[Any]:
        """The metrics as prometheus-client wants them; called in the server's thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        counters, now = self._counters(), time.monotonic()
        with self._lock:
            totals, row, (since, before) = self._totals, self._row, self._marks[0]
        for name, value in totals.items():
            yield CounterMetricFamily(PREFIX + name, HELP[name], value)
        for tag, name in NAMED.items():
            if tag in row:
                yield GaugeMetricFamily(PREFIX + name, HELP[name], row[tag])
        scalars = GaugeMetricFamily(PREFIX + "scalar", HELP["scalar"], labels=["tag"])
        for tag, value in row.items():
            scalars.add_metric([tag], value)
        yield scalars
        yield from _of_game(counters)
        yield from _of_daemons(counters.get("daemons", ()), before, max(now - since, 1e-9))

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


def _of_game(counters: Mapping[str, Any]) -> Iterator[Any]:
    """What a game says of all its engine processes together."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for key, name in TOTALS.items():
        if key in counters:
            yield CounterMetricFamily(PREFIX + name, HELP[name], float(counters[key]))
    if "queue" in counters:
        yield GaugeMetricFamily(PREFIX + "games_waiting", HELP["games_waiting"], float(counters["queue"]))
    if "faults_by_reason" in counters:
        faults = CounterMetricFamily(PREFIX + "daemon_faults", HELP["daemon_faults"], labels=["reason"])
        for reason, count in counters["faults_by_reason"].items():
            faults.add_metric([reason], float(count))
        yield faults
    if "game_seconds" in counters:
        seconds = counters["game_seconds"]
        buckets, below = [], 0
        for bound, count in zip([*seconds["bounds"], math.inf], seconds["counts"], strict=True):
            below += count
            buckets.append(("+Inf" if math.isinf(bound) else str(float(bound)), float(below)))
        name = "game_duration_seconds"
        yield HistogramMetricFamily(PREFIX + name, HELP[name], buckets=buckets, sum_value=float(seconds["sum"]))


def _of_daemons(daemons: Sequence[Mapping[str, Any]], before: Mapping[str, float], seconds: float) -> Iterator[Any]:
    """What each engine process has done; `before`: seconds that it had been busy `seconds` ago."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    if not daemons:
        return
    share = GaugeMetricFamily(PREFIX + "daemon_utilisation", HELP["daemon_utilisation"], labels=["daemon"])
    busy = CounterMetricFamily(PREFIX + "daemon_busy_seconds", HELP["daemon_busy_seconds"], labels=["daemon"])
    games = CounterMetricFamily(PREFIX + "daemon_games", HELP["daemon_games"], labels=["daemon"])
    for daemon in daemons:
        name, spent = str(daemon["name"]), float(daemon["busy_seconds"])
        share.add_metric([name], min(1.0, max(0.0, spent - before.get(name, 0.0)) / seconds))
        busy.add_metric([name], spent)
        games.add_metric([name], float(daemon["games"]))
    yield from (share, busy, games)


def _busy(counters: Mapping[str, Any]) -> dict[str, float]:
    """Seconds that each engine process has been busy so far."""
    return {str(daemon["name"]): float(daemon["busy_seconds"]) for daemon in counters.get("daemons", ())}


def make_exporter(config: Config, env: Callable[[], Env]) -> Exporter | None:
    """The exporter that a configuration asks for; None if it asks for none.

    Args:
      config: of the training.
      env: gives the game that is played now, which changes with the stages of a curriculum.

    Raises:
      UserError: see `Exporter`.
    """
    where = config.metrics.prometheus
    if not where:
        return None
    host, _, port = str(where).rpartition(":")

    def counters() -> Mapping[str, Any]:
        game = getattr(env(), "game", None)
        return game.counters() if game is not None else {}

    return Exporter(int(port), host or LOCAL, counters)
