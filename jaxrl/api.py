"""jaxrl in a program or a notebook: what the commands do, as functions; `jaxrl.train` and so on are these.

    import jaxrl

    run = jaxrl.train({"env": {"id": "skull_king"}, "train": {"total_steps": 200_000}}, name="mine")
    for row in jaxrl.evaluate("mine", ["hard", "zoo:skull_king"], deals=100):
        print(row.opponent, row.samples.outcomes.tally())
    print(jaxrl.tournament(["mine", "zoo:skull_king", "bot:hard"], deals=50).ratings("hard"))

Mistakes raise `jaxrl.UserError` with the sentence that the commands print. Train before anything else computes with
jax: what XLA is told for a game can be told once.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import presets, trust
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, opponent_names
from jaxrl.matches.tables import Row
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.policies.find import FoundPlayers, Lookup, find_opponents, find_player, find_players
from jaxrl.runs.directory import TrainedRun, begun_run, enable_compilation_cache, load_run
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching.start import run_training
from jaxrl.training.plan import make_plan
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env


def make(id: str, **options: Any) -> Env:
    """Makes the game with this id (`jaxrl games` lists them) and these options.

    On a CPU it also asks XLA for what the commands ask for, by adding to ``XLA_FLAGS`` (see `jaxrl.xla.prepare_game`).
    A flag of your own wins, and none has an effect once jax has started: make the game before anything is computed.

    Raises:
      UserError: the id is unknown, or the game has no such option.
    """
    xla.prepare_game(id)
    return registry.make(id, **options)


def train(
    config: Mapping[str, Any] | str | os.PathLike,
    overrides: Sequence[str] = (),
    *,
    name: str = "",
    callbacks: Sequence[Callback] = (),
    allow: Collection[str] = (),
) -> TrainedRun:
    """Trains to the end, as `jaxrl train` does, and reads the run back.

    Ctrl-C and SIGTERM stop it after the next update and save; `jaxrl resume NAME` goes on.

    Args:
      config: a tree of keys (`jaxrl config` explains them), a YAML file or the name of a preset.
      overrides: "a.b=value" each.
      name: name of the run in `run.directory`; without one that of the configuration, else of the game.
      callbacks: objects that are told how it goes, besides those that the configuration names.
      allow: modules that a configuration from a file may name: importing them runs them.

    Raises:
      UserError: the configuration has mistakes, the run exists already, a callback has raised, or the training
        cannot go on.
      KeyboardInterrupt: it was stopped.
    """
    if isinstance(config, Mapping):
        file, wanted = None, configs.from_dict(presets.apply_overrides(dict(config), overrides))
    else:
        file, wanted = config, configs.load(config, overrides, allow)
    default = presets.default_name(file, wanted.env.id, overrides)
    wanted = configs.named(wanted, name or wanted.run.name or default)
    xla.prepare_training(wanted)
    plan = make_plan(wanted)
    with begun_run(wanted) as run:
        if run_training(plan, run, resume=False, callbacks=callbacks):
            raise KeyboardInterrupt
    return load_run(run.path, allow=[each.permissions[0] for each in trust.named(wanted)])  # the caller's own word


def load(
    name: str | os.PathLike,
    overrides: Sequence[str] = (),
    *,
    checkpoint: str = "newest",
    sampled: bool = False,
    allow: Collection[str] = (),
) -> FoundPlayers:
    """Loads a run, a policy file or a zoo policy ("zoo:NAME"), with its players, game and configuration.

    Args:
      name: name of the run, its folder, the file, or "zoo:NAME".
      overrides: overrides of its configuration, "a.b=value" each.
      checkpoint: checkpoint of a run: "newest", "best", or a number of updates.
      sampled: sample actions even if the configuration says greedy.
      allow: modules that its configuration may name: importing them runs them.

    Raises:
      UserError: the player does not exist, or its files cannot be read.
    """
    return find_player(os.fspath(name), Lookup(None, overrides, checkpoint, sampled, allow))


def evaluate(
    name: str | os.PathLike,
    opponents: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    *,
    deals: int | None = None,
    seed: int = EVALUATION_SEED,
    checkpoint: str = "newest",
    sampled: bool = False,
    allow: Collection[str] = (),
) -> list[Row]:
    """Evaluates a player against each opponent on duplicate deals, like `jaxrl evaluate`; writes nothing.

    Args:
      name, overrides, checkpoint, sampled, allow: arguments as for `load`.
      opponents: names of bots, "searcher-N", "zoo:NAME" or policy files; those of its configuration without any.
      deals: each is played once from every side; those of its configuration if none are given.
      seed: seed of the deals.

    Returns:
      A row for each seed of the run and opponent: `Row.samples` has the outcomes with their intervals.

    Raises:
      UserError: a player is unknown, or plays another game.
    """
    lookup = Lookup(None, overrides, checkpoint, sampled, allow)
    found = find_player(os.fspath(name), lookup)
    enable_compilation_cache(found.config.run.cache_dir)
    names = list(opponents) if opponents is not None else opponent_names(found.config, found.env)
    others = find_opponents(names, lookup, found)
    deals = found.config.evaluate.deals if deals is None else deals
    return evaluate_players(found.env, found.players, others, deals=deals, seed=seed)


def tournament(
    names: Sequence[str], *, deals: int = 50, seed: int = 0, sampled: bool = False, allow: Collection[str] = ()
) -> RoundRobin:
    """Plays a round-robin tournament on duplicate deals, like `jaxrl tournament`.

    Args:
      names: "bots", "bot:NAME", runs ("RUN", "RUN@UPDATE", "RUN@best", "RUN@all"), "zoo:NAME", policy files, or keys of
        the game ("env.id=skull_king", where only bots play).
      deals: deals of each pair, played from all sides.
      seed: seed of the deals.
      sampled, allow: arguments as for `load`.

    Returns:
      The results: `matrix_table`, `ratings(anchor)` and what else `RoundRobin` has.

    Raises:
      UserError: a player is unknown, or they play different games.
    """
    field = find_players(names, sampled=sampled, allow=allow)
    enable_compilation_cache(field.config.run.cache_dir)
    return Tournament(field.env, field.players, deals=deals, seed=seed).run()
