"""What the trainer asks of a way to train: one protocol for Anakin, Sebulba and DQN, and the choice between them.

A program advances a training state. The state is a pytree with at least these attributes: `params`, `opt_state`, `key`,
`hyper` (traced hyper-parameters), `update` (i32[], updates done), `env_steps` and `games` (`ppo.state.Counter`) and
`pool` (`league.pool.PoolState`, None without a league). Saving and restoring it is resuming exactly, so nothing that
matters may live outside of it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from envs.core import Env
from jaxrl.algorithms.ppo.state import make_hyper
from jaxrl.config.schema import Config
from jaxrl.training.sebulba.counters import Timers


class Interrupted(Exception):
    """`Program.run` was asked to stop before it could finish a single update; its state is as good as before."""


class Failed(Exception):
    """Playing failed and has been stopped; the state that `run` was called with is intact and worth saving.

    `__cause__` is what happened: a `UserError` is the user's to mend, such as a broken engine; anything else is ours.
    """


class Program:
    """A training program for one configuration and one game; see the module."""

    config: Config
    timers: Timers = Timers(False)  # counters of the run (`sebulba.profile`); the trainer adds what its log takes

    def init(self, seed: int) -> Any:
        """The state before the first update."""
        raise NotImplementedError

    def run(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """Runs on to the next multiple of `train.updates_per_call` updates.

        Args:
          state: donated; do not use it afterwards.

        Returns:
          The state afterwards and metrics by tag, [] or [S] each. The state is some updates short of the multiple if
          `request_stop` was called meanwhile, or if playing failed; then the next call raises what happened.

        Raises:
          Interrupted, Failed: before any update was done; `state` has not been donated.
        """
        raise NotImplementedError

    @property
    def abstract_state(self) -> Any:
        """Shapes, dtypes and shardings of the state without computing it; a checkpoint restores to them."""
        raise NotImplementedError

    @property
    def shardings(self) -> Any:
        """Where the device arrays of the state live, as a tree like it."""
        raise NotImplementedError

    def fresh_hyper(self, template: Any) -> Any:
        """The traced hyper-parameters of the configuration, placed like those of `template` (`abstract_state`)."""
        hyper = make_hyper(self.config.ppo, self.config.num_updates, self.config.train.from_update)
        return placed_like(hyper, template.hyper)

    def begin(self, state: Any) -> Any:
        """A state that was put together by hand, made fit for `run`: other parameters or another pool than those of
        `init`."""
        return state

    def request_stop(self) -> None:
        """Asks a `run` under way to return after the update in hand; safe in a signal handler. May do nothing."""

    def close(self) -> None:
        """Ends all threads; a later `run` would start them again."""


def placed_like(tree: Any, like: Any) -> Any:
    """`tree`, broadcast to the shapes of `like` and put where its leaves live."""
    return jax.tree.map(
        lambda value, leaf: jax.device_put(np.broadcast_to(np.asarray(value), leaf.shape), leaf.sharding), tree, like
    )


def on_host(env: Env) -> bool:
    """Whether a game is played by an engine on the host."""
    return bool(getattr(env, "host", False))


def make_program(config: Config, env: Env) -> Program:
    """The training program of a configuration for `env`.

    Raises:
      UserError: something in the configuration does not fit the game or this machine.
    """
    if config.train.algorithm == "dqn":
        from jaxrl.algorithms.dqn.program import make_dqn

        return make_dqn(config, env)
    if on_host(env):
        from jaxrl.training.sebulba.program import make_sebulba

        return make_sebulba(config, env)
    from jaxrl.training.anakin import make_anakin

    return make_anakin(config, env)
