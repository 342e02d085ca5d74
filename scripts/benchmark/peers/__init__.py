"""Other people's programs that do comparable work, a script each: ours and theirs take turns in one process.

    taskset -c 0 python -m scripts.benchmark.peers.openspiel

All peers are optional; a script says what to install if its peer is missing. What re-creates a peer's algorithm is
written from its description; no peer's code is copied. Programs of peers in jax are compiled without the XLA flags that
our games ask for (`jaxrl.xla.plain_options`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from jaxrl import xla
from jaxrl.config import Config
from jaxrl.diagnose import play
from jaxrl.diagnose.timing import Contestant
from jaxrl.diagnose.training import MeasuredTraining
from jaxrl.games import make_env
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env
from scripts.benchmark.report import compare


def our_random_play(id: str, batches: tuple[int, ...] = (1024, 4096)) -> list[Contestant]:
    """Returns random play of one of our games on one device, unobserved, and with observation and mask written."""
    xla.set_devices(1)
    xla.prepare_game(id)
    env = registry.make(id)
    return [
        play.contestant(env, batch=batch, view=view, name=f"jaxrl {id}, {view}, {batch:,} games")
        for view in ("lean", "observed")
        for batch in batches
    ]


def beside_our_training(config: Config, peer: Callable[[Env], Contestant]) -> int:
    """Measures and prints our training of a configuration and the peer's in the same game; returns the exit code."""
    xla.prepare_training(config)
    env = make_env(config)
    with contextlib.closing(MeasuredTraining(config, env)) as training:
        compare("training steps", [training.contestant("jaxrl")], [peer(env)], rounds=5, seconds=1.0)
    return 0
