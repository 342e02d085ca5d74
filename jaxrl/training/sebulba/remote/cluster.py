"""Workers as actors of a Ray cluster (https://docs.ray.io): it places, watches and restarts them.

Ray moves orders and answers, and starts a worker again, wherever there is room, when it or its machine is gone. Nothing
else is used of it. Everyone who can reach a Ray cluster can run programs on it, so one that is started here listens on
this machine alone and asks for a token; one that is joined stays as open as it was started.
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import signal
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.training.sebulba.remote.worker import Answer, EngineBlock, EngineWorker, Failure, Order, Strange
from jaxrl.training.sebulba.remote.worker_pool import Lost, WorkerPool
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.shared.errors import UserError

_ALONE = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it would report to its makers
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its name for: listen on 127.0.0.1 alone, on any system
}
PATIENCE = 120.0  # seconds beyond sebulba.timeout, in which a worker starts, or Ray finds a place for it
TRIES = 5  # how often in a row a worker may be lost before the run stops


def worker_pool(config: Config, game: HostGame, actor: int, share: int, *, seed: int, groups: int) -> WorkerPool:
    """Returns lanes ``actor * share .. (actor + 1) * share - 1`` on this actor's share of the workers. Raises
    UserError: there is no Ray, or no such cluster. `seed`: seed of the games; games that are loaded bring theirs."""
    fleet, count = config.fleet, config.fleet.workers // config.sebulba.actors
    connect(config)
    size, threads = share // groups, max(1, int(fleet.cpus))
    part = size // count

    def blocks(worker: int) -> list[EngineBlock]:
        first = actor * share + worker * part
        return [EngineBlock(first + g * size, part, seed, threads, config.sebulba.timeout) for g in range(groups)]

    workers = [RayWorker(config, blocks(number)) for number in range(count)]
    threads = share if game.remote else threads * groups * count
    return WorkerPool(game, workers, share, groups, threads=threads, tries=TRIES)


def connect(config: Config) -> None:
    """Joins the cluster that `fleet.address` names, or starts one on this machine that no other machine can reach.
    Raises UserError: Ray is not installed, or the cluster cannot be reached."""
    fleet = config.fleet
    if not fleet.address:
        os.environ.update(_ALONE)  # Ray reads these when it is imported
        if "RAY_AUTH_MODE" not in os.environ:  # other users of this machine know no token
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise UserError("fleet.workers needs ray: pip install 'jaxrl[fleet]', or set fleet.workers=0.") from error
    room = max(1, math.ceil(fleet.workers * fleet.cpus))
    if ray.is_initialized():
        if fleet.address or ray.cluster_resources().get("CPU", 0) >= room:
            return
        ray.shutdown()  # a stage before had fewer workers
    where = {"address": fleet.address} if fleet.address else {"address": "local", "num_cpus": room}
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # what it forks is another program at once
            ray.init(
                **where, include_dashboard=None if fleet.address else False, log_to_driver=False, logging_level="error"
            )
    except Exception as error:  # Ray raises this very class where a process of its own does not begin in time
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise UserError(
            f"fleet.address {fleet.address!r}: no cluster of workers ({reason}); start it with `ray start --head`, or "
            "leave this empty for workers on this machine."
            if fleet.address
            else f"Ray cannot be started on this machine: {reason}."
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminated)  # Ray would end the process without saving


class RayWorker:
    """An `EngineWorker` in a process of the cluster."""

    def __init__(self, config: Config, blocks: Sequence[EngineBlock]):
        """Asks for one; Ray starts it where `fleet.cpus` are free, and again when it is lost."""
        import ray

        fleet = config.fleet
        self._ray, self._timeout = ray, config.sebulba.timeout
        self._cpus, self._heard = fleet.cpus, False
        make = ray.remote(EngineWorker).options(
            num_cpus=fleet.cpus,
            max_restarts=-1,
            max_task_retries=-1,  # Ray waits for the new one, which then says that it knows nothing of its games
            max_concurrency=len(blocks),
            scheduling_strategy="SPREAD",
        )
        self._actor = make.remote(functools.partial(game_of, configs.to_dict(config)), list(blocks))

    def ask(self, block: int, number: int, orders: Sequence[Order]) -> Any:
        """See `Worker.ask`."""
        return self._actor.obey.remote(block, number, list(orders))

    def answer(self, asked: Any, orders: int) -> Answer | Strange | Failure:
        """See `Worker.answer`; one that says nothing for `PATIENCE` seconds more than its engine may take is ended and
        counts as lost. Raises UserError: there is no room for it in the cluster, or it cannot start."""
        errors, patience = self._ray.exceptions, PATIENCE + orders * self._timeout
        try:
            found: Answer | Strange | Failure = self._ray.get(asked, timeout=patience)
            self._heard = True
            return found
        except errors.GetTimeoutError as error:
            if not self._heard:
                cores = self._ray.cluster_resources().get("CPU", 0.0)
                raise UserError(
                    f"a worker of {self._cpus:g} cores has found no place within {patience:g} s in a cluster of "
                    f"{cores:g}: lower fleet.workers or fleet.cpus, or let more machines join."
                ) from error
            self._ray.kill(self._actor, no_restart=False)
            raise Lost(f"a worker has said nothing for {patience:g} s") from error
        except errors.RayTaskError as error:
            raise UserError(f"a worker failed: {_last_line(error)}") from error
        except errors.RayActorError as error:
            if getattr(error, "actor_init_failed", False):
                raise UserError(f"a worker cannot start: {_last_line(error)}") from error
            raise Lost(str(error).partition("\n")[0]) from error
        except errors.RayError as error:  # its answer was lost, its machine is gone or has no memory left
            raise Lost(str(error).partition("\n")[0] or type(error).__name__) from error

    def close(self) -> None:
        """See `Worker.close`."""
        self._ray.kill(self._actor, no_restart=True)


def game_of(tree: dict[str, Any]) -> HostGame:
    """The game of a configuration, on a machine that only plays: whatever accelerators it has are left alone."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jaxrl.games import make_env

    game: HostGame = make_env(configs.from_dict(tree)).game  # type: ignore[attr-defined]  # of a HostEnv
    return game


def _last_line(error: Exception) -> str:
    """Returns what happened, from a report with a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
