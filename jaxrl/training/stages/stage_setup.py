"""What is made for one stage of a training: its game, its program, its evaluations. A training without a curriculum has
one; one with several makes each when it comes to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.algorithms.registry import make_algorithm, trained_player
from jaxrl.config import Config, Stage
from jaxrl.games import GameForms, Stages
from jaxrl.league.pool import PoolState
from jaxrl.matches.evaluate import opponent_names
from jaxrl.matches.remote import is_remote
from jaxrl.players.player import Player
from jaxrl.runs import distributed
from jaxrl.runs.directory import each_seed, seed_names
from jaxrl.search.searchers import scripted_player
from jaxrl.training import memory_budget
from jaxrl.training.exploit.best_response import Exploiter
from jaxrl.training.exploit.snapshots import insert_snapshot
from jaxrl.training.make import make_program
from jaxrl.training.program import Program
from jaxrl.training.stages.continuation import derived_seed
from jaxrl.training.state import TrainState
from jaxrl.training.strength.evaluation import TrainingEvaluation
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError


class StageSetup(NamedTuple):
    """All that a training needs in one stage. Nothing of it is compiled before it is used."""

    config: Config
    env: Env  # as it is trained on
    evaluation_env: Env
    program: Program
    player: Player  # the policy; its parameters come with each match
    evaluation: TrainingEvaluation
    exploiter: Exploiter | None
    headline: Mapping[str, str]  # what the progress line shows, label -> tag


def make_stage(stage: Stage, games: GameForms) -> StageSetup:
    """Returns the parts of a stage. Raises UserError: something does not fit the game, this machine, or its memory."""
    config, (env, table) = stage.config, games
    if is_remote(table):  # not when the first evaluation is due
        table.game.ready()  # type: ignore[attr-defined]  # a HostEnv
    program = make_program(config, env)
    memory_budget.check_state(program)
    player, evaluation = make_evaluation(config, table)
    headline = {"stage": "curriculum/stage"} if stage.name else {}
    # Where only the learner plays, its returns may add up to 0.
    wins = env.num_sides > 1 and config.train.evaluate_every
    headline |= {"win rate": "eval/mean_win_rate"} if wins else {"return": "rollout/ep_rew_mean"}
    return StageSetup(
        config=config,
        env=env,
        evaluation_env=table,
        program=program,
        player=player,
        evaluation=evaluation,
        exploiter=Exploiter(config, env, table) if config.exploit.every else None,
        headline=headline | dict(program.algorithm.headline),
    )


def make_evaluation(config: Config, table: Env) -> tuple[Player, TrainingEvaluation]:
    """The policy without parameters, and its evaluations during training; `table` is the game as it is evaluated."""
    player = trained_player(config, table, config.run.name, None, greedy=config.evaluate.greedy)
    opponents = [scripted_player(table, name) for name in opponent_names(config, table)]
    return player, TrainingEvaluation(config, table, player, opponents)


def policies(player: Player, name: str, params: Any, seeds: int) -> list[Player]:
    """Returns the policy of each seed, by its name, from a run's `name` and parameters."""
    each = zip(seed_names(name, seeds), each_seed(params, seeds), strict=True)
    return [player.named(own, of_seed) for own, of_seed in each]


def check_learners(stages: Stages) -> None:
    """Raises UserError unless what a stage has learnt fits all others; traces networks, computes nothing."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    first = None
    for stage, games in stages if len(stages) > 1 else []:
        algorithm = make_algorithm(stage.config, games.training)
        own = jax.eval_shape(algorithm.init, key)
        first = own if first is None else first
        if algorithm.carried(first, own) != own:
            raise UserError(
                f"{stage}: what its settings or its game make of the learner is of another shape than before."
            )


# ---- from one stage to another ------------------------------------------------------------------------------------


def carried(program: Program, before: TrainState) -> TrainState:
    """Returns the first state of a stage: the learner, the key and the counters of the stage before, and new games.
    `before`: the state of the program that trained until now; not donated, but its learner goes on in the new state."""
    update = int(np.asarray(before.update).reshape(-1)[0])
    fresh = program.init(derived_seed(program.config.run.seed, update))
    learner = program.algorithm.carried(before.learner, fresh.learner)
    parts = {name: getattr(before, name) for name in ("key", "update", "env_steps", "games")} | {"learner": learner}
    placed = {name: jax.tree.map(_as, part, getattr(fresh, name)) for name, part in parts.items()}
    state = program.with_hyper(dataclasses.replace(fresh, **placed))
    if before.pool is not None and program.config.league.snapshots:
        state = _with_snapshots(program, state, before.pool)
    return program.begin(state)


def _as(leaf: Any, like: Any) -> Any:
    """Places an array where another one is: on its devices, or on the host."""
    return distributed.place(leaf, like.sharding) if isinstance(like, jax.Array) else leaf


def _with_snapshots(program: Program, state: TrainState, pool: PoolState) -> TrainState:
    """The state with the newest snapshots of `pool`, oldest first and seed by seed: each seed decides who joins."""
    pool = jax.device_get(pool)
    seeds = program.config.run.seeds
    for seed, own in enumerate(each_seed(pool, seeds)):
        leads = [0.0 if other == seed else None for other in range(seeds)]
        filled = [slot for slot in np.argsort(own.order) if own.born[slot] >= 0]
        for slot in filled[-program.config.league.snapshots :]:
            params = jax.tree.map(lambda leaf, slot=slot: leaf[:, slot] if seeds > 1 else leaf[slot], pool.snapshots)
            role = int(own.role[slot])
            state = insert_snapshot(program, state, params, int(own.born[slot]), role=role, leads=leads)
    return state
