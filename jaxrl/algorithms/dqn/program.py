"""Which DQN program a configuration and a game need."""

from __future__ import annotations

from envs.core import Env
from jaxrl.config.schema import Config
from jaxrl.training.program import Program, on_host


def make_dqn(config: Config, env: Env) -> Program:
    """The training program of a configuration with `train.algorithm: dqn` for `env`."""
    if on_host(env):
        from jaxrl.algorithms.dqn.host import HostDQN

        return HostDQN(config, env)
    from jaxrl.algorithms.dqn.compiled import CompiledDQN

    return CompiledDQN(config, env)
