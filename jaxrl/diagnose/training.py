"""Contestants made of a training: whole updates, playing alone, inference alone; and the counters of its threads.

Where playing and learning overlap, as with games on the host, parts of the time do not add up; there every thread
counts its own time (`jaxrl.training.timers`), and the engine's threads report the share of the time that they work.

Only this module of `jaxrl.diagnose` knows the inside of a training program.
"""

from __future__ import annotations

import dataclasses
import statistics
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from jaxrl.algorithms.base import AXIS, Rollout, local_numbers
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.diagnose.timing import Contestant, safe_ratio
from jaxrl.league.seats import LEARNER
from jaxrl.networks import distributions
from jaxrl.runs.metrics import values
from jaxrl.training.anakin.gpu_rollout import form_of
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.make import make_program
from jaxrl.training.timers import PREFIX
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import prng

TIME = "time/"
LEARNT = "train/learnt_fraction"


def comparable(config: Config, *, profile: bool = False) -> Config:
    """Returns `config` for timing: one seed, and no early stop, because skipped passes would look like speed; with
    `profile` threads count where the time goes, which costs a little time."""
    return dataclasses.replace(
        config,
        ppo=dataclasses.replace(config.ppo, target_kl=0.0),
        run=dataclasses.replace(config.run, seeds=1, vary={}),
        sebulba=dataclasses.replace(config.sebulba, profile=profile),
    )


class MeasuredTraining:
    """A training that advances with each call of `block`; `close` ends its threads."""

    def __init__(self, config: Config, env: Env, *, profile: bool = False):
        """Makes the first state; `env` is the game, `profile` as in `comparable`."""
        self.config = comparable(config, profile=profile)
        self.program = make_program(self.config, env)
        self._state = self.program.init(0)
        self._told: list[dict[str, float]] = []
        self._learnt: list[float] = []

    def block(self) -> None:
        """Runs the updates of one call."""
        self._state, found, _ = jax.block_until_ready(self.program.advance(self._state))
        told = values(found)
        self._told.append({tag: float(value) for tag, value in told.items() if tag.startswith(TIME)})
        self._learnt.append(float(told.get(LEARNT, 1.0)))

    def contestant(self, name: str) -> Contestant:
        """Returns a contestant that runs whole updates; its unit is one environment step."""
        units = self.config.batch_size * self.config.train.updates_per_call
        return Contestant(name, float(units), self.block, {"batch": self.config.train.num_envs})

    def games_per_step(self) -> float:
        """Returns finished games per environment step so far."""
        return safe_ratio(int(self._state.games), int(self._state.env_steps))

    def decisions(self) -> dict[str, float]:
        """Returns shares of the training steps after a block: `learnt` from; of `others`, bots and snapshots (by the
        seats that they hold); and `forced`, with one legal action."""
        learnt = float(np.mean([1.0 if np.isnan(each) else each for each in self._learnt]))
        others = float(np.mean(np.asarray(self._state.lanes.controllers) != LEARNER))
        return {"learnt": learnt, "others": others, "forced": max(0.0, 1.0 - learnt - others)}

    def close(self) -> None:
        """Ends all threads."""
        self.program.close()

    def facts(self) -> dict[str, Any]:
        """Returns what is trained and where time goes, JSON-ready: medians over all calls but the compiling first.

        Call it before `close`, because it counts the threads.
        """
        steady = self._told[1:] or self._told
        tags = sorted({tag for each in steady for tag in each})
        figures = {tag: statistics.median(each[tag] for each in steady if tag in each) for tag in tags}
        names = Counter(thread.name.rstrip("-_ 0123456789") for thread in threading.enumerate())
        train, sebulba = self.config.train, self.config.sebulba
        return {
            "env": self.config.env.id,
            "algorithm": train.algorithm,
            "num_envs": train.num_envs,
            "num_steps": train.num_steps,
            "actors": sebulba.actors,
            "groups": sebulba.groups,
            "lag": sebulba.lag,
            "threads": dict(names),
            "figures": {tag.removeprefix(TIME): v for tag, v in figures.items() if not tag.startswith(PREFIX)},
            "counters": {tag.removeprefix(PREFIX): v for tag, v in figures.items() if tag.startswith(PREFIX)},
        }


# ---- parts --------------------------------------------------------------------------------------------------------


def playing(program: Any) -> Contestant | None:
    """Returns a contestant that collects rollouts, its unit one environment step; None if playing cannot run alone."""
    if not isinstance(program, Anakin):
        return None
    state = program.init(0)
    specs = jax.tree.map(lambda sharding: sharding.spec, program.shardings)

    def collect(state: Any, seed: jax.Array) -> tuple[Any, Any]:
        lanes, rollout = played(program, state, seed)
        return rollout.steps, lanes

    sharded = jax.shard_map(
        collect,
        mesh=program.mesh,
        in_specs=(specs, PartitionSpec()),
        out_specs=(PartitionSpec(None, AXIS), PartitionSpec(AXIS)),
        check_vma=False,
    )
    compiled = jax.jit(sharded)
    counter = iter(range(1, 2**31))

    def block() -> None:
        jax.block_until_ready(compiled(state, next(counter)))

    return Contestant("playing", float(program.config.batch_size), block)


def played(program: Anakin, state: Any, seed: jax.Array) -> tuple[Any, Rollout]:
    """Returns the lanes after a rollout of one device's share, and the rollout; inside the program's mesh."""
    train, setup = program.config.train, program.setup
    policy = setup.algorithm.policy(state.learner, state.update)
    ids, key = local_numbers(train.num_envs), prng.fast_key(seed)
    lanes, rollout, _ = collect(setup, policy, state.pool, state.lanes, key, ids, train.num_steps, form_of(setup))
    return lanes, rollout


def evaluation(config: Config, env: Env, batch: int) -> tuple[Callable[..., tuple[Any, jax.Array, jax.Array]], tuple]:
    """Returns the network on `batch` decisions: a function that gives (memories, logits, values), and its arguments."""
    network = make_algorithm(config, env).network
    params = network.init(jax.random.key(0))
    observation = jax.tree.map(lambda leaf: np.zeros((batch, *leaf.shape), leaf.dtype), env.observation_spec)
    mask = np.ones((batch, env.num_actions), bool)
    arguments = (params, network.memory((batch,)), observation, mask)
    return jax.vmap(network.evaluate, in_axes=(None, 0, 0, 0)), arguments


def answering(config: Config, env: Env, batch: int) -> Callable[[], np.ndarray]:
    """Returns a function that decides greedily for all seats asked in `batch` games, from arrays on the host."""
    evaluate, arguments = evaluation(config, env, batch * (env.num_players if env.simultaneous else 1))
    compiled = jax.jit(lambda *arguments: distributions.greedy(evaluate(*arguments)[1]))
    return lambda: np.asarray(compiled(*arguments))
