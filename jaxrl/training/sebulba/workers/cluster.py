"""Workers as actors of a Ray cluster (https://docs.ray.io): it places, watches and restarts them.

Ray moves orders and answers, and starts a worker anew, wherever there is room, when it or its machine is gone. Nothing
else is used of it. Whoever can reach a Ray cluster can run programs on it, so one that is started here asks for a token
that nobody else is told; one that is joined is as open as whoever started it left it (`RAY_AUTH_MODE=token`).
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import warnings
from collections.abc import Sequence
from typing import Any

from jaxrl import config as configs
from jaxrl.config.schema import Config
from jaxrl.envs.errors import UserError
from jaxrl.envs.host.core import HostGame
from jaxrl.training.sebulba.workers.pool import Lost, WorkerPool
from jaxrl.training.sebulba.workers.worker import Answer, Block, EngineWorker, Failure, Order, Strange

TRIES = 5  # how often in a row a worker may be lost before the run stops


def worker_pool(config: Config, game: HostGame, actor: int, share: int, *, seed: int, groups: int) -> WorkerPool:
    """Lanes ``actor * share .. (actor + 1) * share - 1`` on this actor's share of the workers.

    Args:
      config: of the training, with `fleet.workers`.
      game: for its sizes.
      actor, share: number of the actor, and games of each.
      seed: of the games; games that are loaded bring theirs.
      groups: parts that are stepped apart.

    Raises:
      UserError: there is no Ray, or no such cluster.
    """
    fleet, count = config.fleet, config.fleet.workers // config.sebulba.actors
    connect(config)
    size, threads = share // groups, max(1, int(fleet.cpus))
    part = size // count

    def blocks(worker: int) -> list[Block]:
        first = actor * share + worker * part
        return [Block(first + g * size, part, seed, threads, config.sebulba.timeout) for g in range(groups)]

    workers = [RayWorker(config, blocks(number)) for number in range(count)]
    return WorkerPool(game, workers, share, groups, threads=threads * groups * count, tries=TRIES)


def connect(config: Config) -> None:
    """Joins the cluster that `fleet.address` names, once, or starts one on this machine that nobody else can reach.

    Raises:
      UserError: Ray is not installed, or the cluster cannot be reached.
    """
    fleet = config.fleet
    if not fleet.address:  # Ray reads these when it is imported
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
        if "RAY_AUTH_MODE" not in os.environ:  # its servers listen to everybody: nobody else knows the token
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise UserError("fleet.workers needs ray: pip install 'jaxrl[fleet]', or set fleet.workers=0.") from error
    if ray.is_initialized():
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if not fleet.address:
        room = max(1, math.ceil(fleet.workers * fleet.cpus))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # what it forks is another program at once
            ray.init("local", num_cpus=room, include_dashboard=False, **quiet)
        return
    try:
        ray.init(fleet.address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(
            f"fleet.address {fleet.address!r} cannot be joined ({reason}): start it with `ray start --head`, or "
            "leave this empty for workers on this machine."
        ) from error


class RayWorker:
    """An `EngineWorker` in a process of the cluster."""

    def __init__(self, config: Config, blocks: Sequence[Block]):
        """Asks for one; Ray starts it where `fleet.cpus` and `fleet.memory` are free, and again when it is lost."""
        import ray

        fleet = config.fleet
        self._ray, self._patience = ray, fleet.patience
        room = {"memory": int(fleet.memory * 2**30)} if fleet.memory else {}
        make = ray.remote(EngineWorker).options(
            num_cpus=fleet.cpus,
            max_restarts=-1,
            max_task_retries=-1,  # Ray waits for the new one, which then says that it knows nothing of its games
            max_concurrency=len(blocks),
            scheduling_strategy="SPREAD",
            **room,
        )
        self._actor = make.remote(functools.partial(game_of, configs.to_dict(config)), list(blocks))

    def ask(self, block: int, number: int, orders: Sequence[Order]) -> Any:
        """See `Worker.ask`."""
        return self._actor.obey.remote(block, number, list(orders))

    def answer(self, asked: Any) -> Answer | Strange | Failure:
        """See `Worker.answer`; a worker that says nothing for `fleet.patience` seconds is ended and counts as lost."""
        errors = self._ray.exceptions
        try:
            found: Answer | Strange | Failure = self._ray.get(asked, timeout=self._patience)
            return found
        except errors.GetTimeoutError as error:
            self._ray.kill(self._actor, no_restart=False)
            raise Lost(f"a worker has said nothing for {self._patience:g} s") from error
        except errors.ActorUnschedulableError as error:
            raise UserError(f"no machine of the cluster has room for a worker: {error}") from error
        except (errors.RayActorError, errors.ObjectLostError) as error:
            raise Lost(str(error).splitlines()[0]) from error

    def close(self) -> None:
        """See `Worker.close`."""
        self._ray.kill(self._actor, no_restart=True)


def game_of(tree: dict[str, Any]) -> HostGame:
    """The game of a configuration, on a machine that only plays: whatever accelerators it has are left alone."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from jaxrl.runs.games import make_env

    game: HostGame = make_env(configs.from_dict(tree)).game  # type: ignore[attr-defined]  # of a HostEnv
    return game
