"""`train.from_run`: a new run that continues from a checkpoint of another one, or begins with a policy file.

Taken over from a checkpoint are the learner (parameters, target parameters, optimizer state), the key and the counters
(updates, environment steps, games). Games in progress are always dealt again, because opponents and number of games may
differ between the two runs; the pool begins with the other checkpoints of the earlier run, or, without any, with what
the new run begins with, e.g. a clone. Hyper-parameters are those of the new configuration. A policy (zoo:NAME,
FILE.jaxrl) holds the parameters alone: all else begins as in any new run.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import ANCHOR
from jaxrl.config import Config, Stage
from jaxrl.games import GameForms
from jaxrl.players.spec import parse, policy_file
from jaxrl.policies.export import forms, read_parameters
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory, each_seed, find_run, make_stamp, read_checkpoint
from jaxrl.training.exploit.snapshots import insert_snapshot
from jaxrl.training.program import Program
from jaxrl.training.state import TrainState
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.shared.errors import UserError

TAKEN_OVER = ("learner", "key", "update", "env_steps", "games")

_log = logging.getLogger("jaxrl")


@dataclasses.dataclass(frozen=True)
class Origin:
    """The checkpoint that a run continues from."""

    run: RunDirectory  # the earlier one
    snapshot: checkpoint.Snapshot  # its checkpoint
    # the number of the stage that the new run begins in: the one called as that of the checkpoint, or the first
    stage: int
    from_run: str  # RUN@UPDATE, with the number written out: "the newest" may be another one tomorrow

    @property
    def update(self) -> int:
        """Its updates."""
        return self.snapshot.step


class PolicyOrigin(NamedTuple):
    """The policy file that a run begins with, in its first stage."""

    params: PyTree  # of the network
    from_run: str
    stage: int = 0
    update: int = 0


def find_origin(config: Config, stages: Sequence[tuple[Stage, GameForms]]) -> Origin | PolicyOrigin | None:
    """Returns the checkpoint or policy file that `train.from_run` names, None if it names none.

    The options of the game may be others than those of the checkpoint where the game says so (`Env.free_options`), with
    a curriculum of either run, as between stages, and with a policy file; whether what was learnt fits shows in
    `first_state`. Raises UserError: there is no such run, checkpoint or policy, or it is of another game or as long as
    the whole new run, or lies between two compiled calls of the new run."""
    train = config.train
    if not train.from_run:
        if config.ppo.anchor.on:
            _log.warning(
                "ppo.anchor holds the policy to one that has learnt nothing: name a run or a policy in train.from_run."
            )
        return None
    try:
        if train.from_policy:
            spec = parse(train.from_run)
            file = policy_file(spec) or Path(spec.name).expanduser()
            found, env = read_parameters(file), stages[0][1].training
            if (found.env_id, found.env_version) != (config.env.id, env.version):
                game = f"{found.env_id} ({found.env_version})"
                raise UserError(f"{train.from_run} plays {game}, not {config.env.id} ({env.version}).")
            return PolicyOrigin(found.params, train.from_run)
        run = find_run(train.from_name, config.run.directory)
        snapshot = read_checkpoint(run, train.from_checkpoint)
        name = checkpoint.stage_name(snapshot.meta["host"])
        names = [stage.name for stage, _ in stages]
        number = names.index(name) if name in names else 0
        stamp = make_stamp(stages[number][0].config, stages[number][1].training)
        any_options = name or config.curriculum
        checkpoint.check_stamp(
            snapshot.meta, stamp, free=None if any_options else stages[number][1].training.free_options
        )
    except UserError as error:
        raise UserError(f"train.from_run: {error}") from error
    if snapshot.step % train.updates_per_call:
        raise UserError(
            f"train.from_run: the checkpoint after {snapshot.step} updates of {train.from_name!r} can only be "
            f"continued if that is a multiple of train.updates_per_call ({train.updates_per_call}): change one of them."
        )
    if snapshot.step >= config.num_updates:
        raise UserError(
            f"train.from_run: {train.from_name!r} has {snapshot.step} updates already, and train.total_steps "
            f"({train.total_steps}) make {config.num_updates}: steps count from its beginning; raise train.total_steps."
        )
    return Origin(run, snapshot, number, f"{train.from_name}@{snapshot.step}")


def resumed_state(program: Program, snapshot: checkpoint.Snapshot) -> TrainState:
    """Returns the state of a run that goes on from its own checkpoint. Raises UserError: the checkpoint is of another
    network, or has games with other controllers."""
    state: TrainState = checkpoint.unpack(snapshot.arrays, snapshot.meta["leaves"], program.abstract_state)
    loaded, begun = checkpoint.params_hash(state.learner.params), snapshot.meta["host"].get("controllers", [])
    if loaded != snapshot.meta["params_hash"]:
        raise RuntimeError(f"loaded parameters {loaded} are not those saved, {snapshot.meta['params_hash']}")
    if begun not in ([], list(program.setup.seats.names)):
        raise UserError(
            f"the games in progress were begun with {', '.join(begun)} at the seats: resume with the same bots in the "
            "same order (weights may change), or start a new run with train.from_run."
        )
    # Traced hyper-parameters come from the configuration: it may have been changed on purpose for the rest.
    return program.restored(program.with_hyper(state))


def first_state(program: Program, origin: Origin | PolicyOrigin) -> TrainState:
    """Returns the state of the new run before its first update; `program` is of its resolved configuration. Raises
    UserError: the network is another one, or the number of seeds, which with a policy file is free."""
    slots = program.config.league.snapshots
    if isinstance(origin, PolicyOrigin):
        fresh = program.init(program.config.run.seed)
        taken, pool = _taken_from_policy(program, fresh, origin)
    else:
        fresh = program.init(derived_seed(program.config.run.seed, origin.update))  # new: games, pool, hyper-parameters
        wanted = {name: getattr(program.abstract_state, name) for name in TAKEN_OVER}
        try:
            taken = _taken(origin.snapshot, wanted)
        except UserError as error:
            raise UserError(f"train.from_run: {origin.run.name!r} after {origin.update} updates: {error}") from error
        pool = _earlier(origin, slots) or [(origin.update, checkpoint.params_of(origin.snapshot.arrays))]
    state = program.restored(program.with_hyper(dataclasses.replace(fresh, **taken)))
    for step, params in pool[:slots]:
        state = insert_snapshot(program, state, params, step)
    return program.begin(state)


def _taken_from_policy(
    program: Program, fresh: TrainState, origin: PolicyOrigin
) -> tuple[dict[str, Any], list[tuple[int, PyTree]]]:
    """Returns the learner with the parameters of a policy file in every seed, and these parameters for the pool. Raises
    UserError: the network is another one."""
    params, seeds = origin.params, program.config.run.seeds
    if forms(params) != forms(each_seed(fresh.learner.params, seeds)[0]):
        raise UserError(
            f"train.from_run: {origin.from_run} does not fit: its network is another one, or its game's form."
        )
    if seeds > 1:
        params = jax.tree.map(lambda leaf: np.stack([leaf] * seeds), params)
    stored = checkpoint.pack(fresh.learner.begin_with(params))  # from where it is put in its places, as on a resume
    return {"learner": checkpoint.unpack(*stored, program.abstract_state.learner)}, [(0, params)]


def _taken(snapshot: checkpoint.Snapshot, wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns parts of a checkpoint. Target parameters that the earlier run did not keep start as the current
    parameters, as does the anchor; those that the new run does not keep are dropped. Raises UserError: another network,
    or number of seeds."""
    copies = wanted["learner"].target_params
    known = {name: copies[name] for name in target_params_in(snapshot) & copies.keys() - {ANCHOR}}
    behind = tuple(f"{checkpoint.TARGET_PARAMS}{name}." for name in target_params_in(snapshot) - known.keys())
    arrays = {name: array for name, array in snapshot.arrays.items() if not name.startswith(behind)}
    parts = wanted | {"learner": wanted["learner"].replace(target_params=known)}
    taken = checkpoint.unpack_parts(dataclasses.replace(snapshot, arrays=arrays), parts)
    learner = taken["learner"]
    new = {name: jax.tree.map(jnp.copy, learner.params) for name in copies.keys() - known.keys()}
    return taken | {"learner": learner.replace(target_params=learner.target_params | new)}


def target_params_in(snapshot: checkpoint.Snapshot) -> set[str]:
    """Returns the names of the target parameters (`Learner.target_params`) in a checkpoint."""
    place = checkpoint.TARGET_PARAMS
    return {name.removeprefix(place).partition(".")[0] for name in snapshot.arrays if name.startswith(place)}


def _earlier(origin: Origin, count: int) -> list[tuple[int, Any]]:
    """The newest `count` checkpoints before `origin`, oldest first: updates and parameters, without damaged ones."""
    found: list[tuple[int, Any]] = []
    store = origin.run.checkpoints()
    for step in sorted((step for step in distributed.broadcast(store.steps) if step < origin.update), reverse=True):
        if len(found) == count:
            break
        try:
            snapshot = store.read_together(step, whole=True)
        except checkpoint.Damaged as error:
            _log.warning(
                "checkpoint %s is damaged (%s): it is left out of the pool.", store.directory / str(step), error
            )
            continue
        found.insert(0, (step, checkpoint.params_of(snapshot.arrays)))
    return found


def derived_seed(seed: int, *numbers: int) -> int:
    """Returns a seed below 2^32 that depends on all of these and on nothing else."""
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1)[0])
