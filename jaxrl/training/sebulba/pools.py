"""The games of one actor and the threads that step them."""

from __future__ import annotations

from jaxrl import xla
from jaxrl.config import Config
from jaxrl.runs import distributed
from jaxrl.training.sebulba.remote.cluster import worker_pool
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.shared.errors import UserError


def actor_pool(
    config: Config, game: HostGame, actor: int, share: int, *, seed: int, groups: int
) -> HostPool | WorkerPool:
    """Lanes ``actor * share .. (actor + 1) * share - 1``, on the workers of `fleet` if there are any.

    Args:
      config: of the training.
      game: that is played.
      actor, share: number of the actor, and games of each.
      seed: of the games; games that are loaded bring theirs.
      groups: parts that are stepped apart.

    Raises:
      UserError: workers are wanted, but cannot be had.
    """
    if config.fleet.workers:
        return worker_pool(config, game, actor, share, seed=seed, groups=groups)
    sebulba = config.sebulba
    threads = sebulba.threads or xla.cores() * distributed.count()
    return HostPool(
        game.meant_for("training").engine(share, seed, first_slot=actor * share),
        threads=share if game.remote else max(1, threads // sebulba.actors),
        groups=groups,
        timeout=sebulba.timeout,
        timed=sebulba.profile,
    )


def check_room(config: Config, game: HostGame, games: int, key: str) -> None:
    """Compares the games of a training with the processes that play them.

    Args:
      config: of the training.
      game: that is played.
      games: side by side.
      key: of the configuration that says so, e.g. train.num_envs.

    Raises:
      UserError: games would have to take each other's process away at every decision, and be played again; or
        the run would stop before a game that has lost its process can go on in another one.
    """
    room = game.capacity() if game.remote and not config.fleet.workers else games
    if games > room:
        raise UserError(
            f"{key} is {games}, but {game.id} has room for {room} games at a time here: lower it (and sebulba.actors "
            "with it), or let more engine processes run."
        )
    timeout = config.sebulba.timeout
    if timeout < game.patience():
        raise UserError(
            f"sebulba.timeout is {timeout:g} s, but {game.id} may need {game.patience():g} s to find out that "
            "an engine process hangs and to go on in another one: raise it."
        )
