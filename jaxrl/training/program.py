"""What a training asks of its compiled or host program: one protocol for Anakin and Sebulba.

A program advances a `TrainState`. Saving and restoring it is resuming exactly, so nothing that matters may live outside
of it.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrl.algorithms.base import Algorithm
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config, contenders, presets
from jaxrl.runs import distributed
from jaxrl.runs.config import WEIGHTS
from jaxrl.runs.metrics import Metrics
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.state import TrainState
from jaxrl.training.timers import Timers
from jaxrl_envs.shared.errors import UserError

NOT_FINITE = "rollout/not_finite"  # metric of a compiled game: its observations and rewards that are no numbers
NO_ACTION = "rollout/no_action"  # the same: its questions to which no action is legal


class Interrupted(Exception):
    """`Program.advance` was asked to stop before it could finish a single update; its state is as good as before."""


class Failed(Exception):
    """Playing failed and has been stopped; the state that `advance` was called with is intact and worth saving.

    `__cause__` is what happened: a `UserError` is the user's to mend, such as a broken engine; anything else is ours.
    """


@contextlib.contextmanager
def saved_first() -> Iterator[None]:
    """Turns what ends a part of a training, such as an evaluation, into Failed, before which the state is saved."""
    try:
        yield
    except (UserError, distributed.PeerFailed) as error:
        raise Failed(str(error)) from error


class Diverged(UserError):
    """The policy after `version` updates cannot be played with any more; the message says how it shows."""

    def __init__(self, message: str, version: int):
        super().__init__(message)
        self.version = version


class Program(abc.ABC):
    """A training program for one configuration and one game; see the module."""

    config: Config
    setup: RolloutSetup
    mesh: Mesh  # of the devices that learn
    timers: Timers = Timers(False)  # counters of the run (`sebulba.profile`); `Reports` adds what its log takes

    @property
    def algorithm(self) -> Algorithm:
        """Algorithm that learns."""
        return self.setup.algorithm

    @abc.abstractmethod
    def init(self, seed: int) -> TrainState:
        """Returns the state before the first update."""

    @abc.abstractmethod
    def advance(self, state: TrainState) -> tuple[TrainState, Metrics, int]:
        """Runs on to the next multiple of `train.updates_per_call` updates. Raises Interrupted, Failed: before any
        update was done; `state` has not been donated.

        Args:
          state: donated; do not use it afterwards.

        Returns:
          The state afterwards, metrics ([] or [S] each) and the number of updates. That is short of the multiple if
          `request_stop` was called meanwhile, or if playing failed; then the next call raises what happened.
        """

    @property
    def host_rollout_bytes(self) -> int:
        """Memory of the host that rollouts take."""
        return 0

    def begin_compiling(self) -> None:  # noqa: B027, only Anakin has a program that takes long
        """Begins to compile `advance` in a thread, beside whatever makes the first state. A process that fails or is
        interrupted meanwhile ends when this has ended."""

    def working_bytes(self, state: TrainState) -> int:
        """Returns bytes that `advance` takes on a device besides its state (of a CPU: on all virtual devices); compiles
        it. 0 if unknown."""
        return 0

    @property
    @abc.abstractmethod
    def abstract_state(self) -> TrainState:
        """Shapes, dtypes and shardings of `saved` states without computing one; a checkpoint restores to them."""

    def saved(self, state: TrainState) -> TrainState:
        """Returns the part of a state that checkpoints hold."""
        return state

    def restored(self, state: TrainState) -> TrainState:
        """Returns a state to run on from, from what `saved` has left of it."""
        return state

    def begin(self, state: TrainState) -> TrainState:
        """Makes a state that was put together by hand fit for `advance`: other parameters or another pool than those of
        `init`."""
        return state

    def counters(self) -> Mapping[str, Any]:
        """Returns metrics about whatever plays the games, for `jaxrl.runs.prometheus`, whose thread asks: those of
        `HostGame.counters`; and `workers`, of each worker of a fleet a mapping with name, threads, busy_seconds (so
        far, over its threads), calls (not answered yet) and losses (blocks of games that were lost with it)."""
        return {}

    def request_stop(self) -> None:  # noqa: B027, does nothing unless a loop can stop earlier
        """Asks an `advance` under way to return after the update in hand; safe in a signal handler."""

    def close(self) -> None:  # noqa: B027, only loops with threads have something to end
        """Ends all threads; a later `advance` would start them again."""

    # ---- states put together by hand ----------------------------------------------------------------------------

    @property
    def shardings(self) -> TrainState:
        """Shardings of the state's device arrays, as a tree like `abstract_state`; None for arrays of the host."""
        return jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)

    def weights(self, number: int) -> Any:
        """Returns the weights of rewards of a contender of `run.vary`, by option and name; None without any."""
        given = {key: values[number] for key, values in self.config.run.vary.items() if key.startswith(WEIGHTS)}
        tree: dict[str, Any] = {}
        for key, value in given.items():
            tree = presets.changed(tree, key.removeprefix(WEIGHTS).split("."), value)
        return tree or None

    def with_hyper(self, state: TrainState) -> TrainState:
        """Returns the state with the numbers of the configuration, which may have been changed on purpose:
        hyper-parameters, and weights of rewards."""
        each = [self.algorithm.hyper()]
        if self.config.run.vary:
            each = [make_algorithm(config, self.setup.env).hyper() for config in contenders(self.config)]

        def place(leaf: jax.Array, *values: Any) -> jax.Array:
            value = np.asarray(values[0], leaf.dtype)
            if len(values) > 1:
                value = np.repeat(np.array(values, leaf.dtype), leaf.shape[0] // len(values), axis=0)
            return distributed.place(np.broadcast_to(value, leaf.shape), leaf.sharding)

        learner = state.learner.replace(hyper=jax.tree.map(place, state.learner.hyper, *each))
        weights = jax.tree.map(place, state.weights, *map(self.weights, range(len(each))))
        return dataclasses.replace(state, learner=learner, weights=weights)
