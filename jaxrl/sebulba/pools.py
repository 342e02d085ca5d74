"""The games of one actor and the threads that step them, for PPO and DQN alike."""

from __future__ import annotations

from envs.host.bridge import HostPool
from envs.host.core import HostGame
from jaxrl import xla
from jaxrl.config.schema import SebulbaConfig


def actor_pool(config: SebulbaConfig, game: HostGame, actor: int, share: int, *, seed: int, groups: int) -> HostPool:
    """Lanes ``actor * share .. (actor + 1) * share - 1``.

    Args:
      config: threads, timeout, profile.
      game: that is played.
      actor, share: number of the actor, and games of each.
      seed: of the games; games that are loaded bring theirs.
      groups: parts that are stepped apart.
    """
    return HostPool(
        game.engine(share, seed, first_slot=actor * share),
        threads=share if game.remote else max(1, (config.threads or xla.cores()) // config.actors),
        groups=groups,
        timeout=config.timeout,
        timed=config.profile,
    )
