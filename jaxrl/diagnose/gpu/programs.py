"""The programs of a configuration, and their lowering for a GPU: every stage except XLA's own compiler.

jax can lower a program for CUDA on any machine. The text shows what could not run on a GPU or would be slow: calls
of the host from inside the loop, arithmetic in float64, custom calls to unknown libraries.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.registry import make_algorithm, trained_player
from jaxrl.config import Config
from jaxrl.diagnose.training import evaluation
from jaxrl.games import GameForms
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import Matchup, opponent_names
from jaxrl.players.player import Player, bot_player
from jaxrl.search.player import make_search
from jaxrl.search.policies import SearchParams, network_guide, network_policy
from jaxrl.search.settings import SearchSettings
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.exploit.best_response import response_config
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.learner import parted
from jaxrl.training.sebulba.loop import Sebulba
from jaxrl_envs.conformance.gpu_checks import equations
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

PLATFORM = "cuda"
HARMLESS = {"cu_threefry2x32_ffi", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}  # jax's own, on a GPU


class Lowerable(NamedTuple):
    """A program and the shapes of its arguments."""

    name: str
    function: Any  # jitted
    arguments: tuple[Any, ...]


class Lowered(NamedTuple):
    """A program lowered for another platform."""

    name: str
    operations: int  # of StableHLO
    wrong: tuple[str, ...]  # operations that a GPU cannot do or does slowly; empty if all is well


def lowered(config: Config, games: GameForms, platform: str = PLATFORM) -> Iterator[Lowered]:
    """Lowers training with `config`, its evaluation, a search and a best response for `platform`, as far as they exist.

    For host games only inference and learning are lowered; their other programs call the engine.
    """
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1))
    for program in programs(config, games):
        yield lower(program, platform)


def lower(program: Lowerable, platform: str = PLATFORM) -> Lowered:
    """Lowers one program."""
    traced = program.function.trace(*program.arguments)
    names = {equation.primitive.name for equation, _ in equations(traced.jaxpr.jaxpr)}
    if callbacks := sorted(name for name in names if name.endswith("callback")):
        return Lowered(program.name, 0, (f"calls the host ({', '.join(callbacks)})",))
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    calls = set(re.findall(r"stablehlo\.custom_call @([\w.]+)", text)) - HARMLESS
    wrong = [f"calls {name}" for name in sorted(calls)]
    if doubles := len(re.findall(r"tensor<(?:\d+x)*f64>", text)):
        wrong.append(f"{doubles} values of float64")
    return Lowered(program.name, len(re.findall(r"stablehlo\.\w+", text)), tuple(wrong))


def programs(config: Config, games: GameForms, devices: Sequence[jax.Device] = ()) -> Iterator[Lowerable]:
    """Yields the programs of a configuration, each made on demand and never compiled.

    Args:
      config: configuration to compile.
      games: its game.
      devices: devices of the programs, if not those of this machine; they may be descriptions of absent ones.
    """
    training = make_program(config, games.training, devices=devices)
    if isinstance(training, Sebulba):
        yield from _host_programs(config, games.training, training)
        return
    assert isinstance(training, Anakin)
    yield Lowerable("training", training.compiled, (training.forms,))
    yield _evaluation(config, games.evaluation, devices)
    for make in (_search, _best_response):
        try:
            yield make(config, games, devices)
        except UserError:  # this game or algorithm does not support it
            continue


def _evaluation(config: Config, env: Env, devices: Sequence[jax.Device]) -> Lowerable:
    policy = trained_player(config, env, "policy", None, greedy=config.evaluate.greedy)
    bots = [bot_player(env, name) for name in opponent_names(config, env) if name in env.bots]
    return _match("evaluation", config, env, policy, bots, _params_of(config, env), devices)


def _search(config: Config, games: GameForms, devices: Sequence[jax.Device]) -> Lowerable:
    env, network = games.evaluation, make_algorithm(config, games.evaluation).network
    settings = SearchSettings(simulations=16)
    search = make_search(env, settings, own=network_policy(network), guide=network_guide(network))
    bots = [bot_player(env, next(iter(env.bots)))]
    return _match("search", config, env, search.player(), bots, SearchParams(_params_of(config, env)), devices)


def _best_response(config: Config, games: GameForms, devices: Sequence[jax.Device]) -> Lowerable:
    response = make_program(response_config(config, games.training), games.training, devices=devices)
    assert isinstance(response, Anakin)
    return Lowerable("best response", response.compiled, (response.forms,))


def _match(
    name: str, config: Config, env: Env, policy: Player, bots: list[Player], params: Any, devices: Sequence[jax.Device]
) -> Lowerable:
    deals = config.evaluate.training_deals
    matchup = Matchup(env, policy, bots, deals=deals, seed=EVALUATION_SEED, devices=devices)
    return Lowerable(name, *matchup.program(params))


def _params_of(config: Config, env: Env) -> Any:
    return jax.eval_shape(make_algorithm(config, env).network.init, jax.eval_shape(lambda: jax.random.key(0)))


def _host_programs(config: Config, env: Env, training: Sebulba) -> Iterator[Lowerable]:
    """Yields inference for the games of one block, and learning from a rollout."""
    sebulba = config.sebulba
    games = config.train.num_envs // (sebulba.actors * sebulba.groups)
    function, arguments = evaluation(config, env, games * (env.num_players if env.simultaneous else 1))
    yield Lowerable("answers", jax.jit(function), arguments)
    learner, key = training.algorithm.init(jax.random.key(0)), jax.random.key(0)
    if training.algorithm.host_learning(training.timers) is not None:
        return  # it learns on the host by small programs of its own
    policy = training.algorithm.policy(learner, jnp.int32(0))
    rollout = training.storages[0].rollout(policy, may_truncate=env.may_truncate)
    yield Lowerable("learning", training.learner.compiled, (*parted(learner), rollout, key, np.int32(0)))
