"""`jaxrl train`: a new run."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence

import jax

import jaxrl
from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, presets
from jaxrl.games import make_stages
from jaxrl.runs import distributed
from jaxrl.runs.directory import RunDirectory, begun_run
from jaxrl.runs.folder import next_command
from jaxrl.text_tables import flat
from jaxrl.training.launching.run import run_training
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl train`."""
    config = described(args)
    prepare(args, config)
    run = RunDirectory(config.run.path)
    if args.goes_on and distributed.broadcast(run.checkpoints().saved):
        other = f"change it with `{next_command('resume', run.path, 'KEY=VALUE')}`, or give another --name."
        return run_training(begun_config(run, config, other), run, resume=True)
    stages = make_stages(config)  # before there is a directory: a mistake leaves nothing behind
    with begun_run(config) as run:
        return run_training(config, run, resume=False, stages=stages)


def prepare(args: argparse.Namespace, config: Config) -> None:
    """Joins the other processes, with --distributed, and tells XLA what the training needs; before it computes.

    Raises:
      UserError: they cannot be joined, or cannot share the training, or have another configuration or version.
    """
    if args.distributed:
        distributed.join(args.coordinator, args.processes, args.rank)
        text = json.dumps(configs.to_dict(config), sort_keys=True)
        versions = {"version of jaxrl": jaxrl.__version__, "version of jax": jax.__version__}
        distributed.check_equal(versions | {"configuration": text})
    elif any(each is not None for each in (args.coordinator, args.processes, args.rank)):
        raise UserError("--coordinator, --processes and --rank go with --distributed.")
    xla.prepare_training(config, distributed.count())


def begun_config(run: RunDirectory, config: Config, otherwise: str) -> Config:
    """The configuration with which a run that is saved goes on, where `config` describes it once more.

    Raises:
      UserError: it was begun with other settings, of those that change what is learnt; and `otherwise`.
    """
    begun = configs.from_dict(presets.read(run.config_file))
    before, now = (flat(configs.to_dict(_anyhow(each))) for each in (begun, config))
    if other := [key for key in {**before, **now} if before.get(key) != now.get(key)]:
        told = f"{run.path} was begun with {other[0]} {before.get(other[0])!r}, not {now.get(other[0])!r}"
        raise UserError(f"{told}: {otherwise}")
    return dataclasses.replace(config, train=dataclasses.replace(config.train, from_run=begun.train.from_run))


def _anyhow(config: Config) -> Config:
    """A configuration without what a run has written out (`train.from_run`) or changes nothing that is learnt."""
    section = registry.section_of(config.env.id)  # where an engine runs
    game = {config.env.id: section()} if section is not None else {}
    return dataclasses.replace(config, **{name: each.without_deployment() for name, each in config.sections()}, **game)


def described(args: argparse.Namespace) -> Config:
    """The configuration of the training that the command line describes, with its name.

    Raises:
      UserError: it describes none, or a wrong one.
    """
    if not args.config and not any(text.startswith("env.id=") for text in args.overrides):
        known = ", ".join(presets.shipped())
        raise UserError(f"say what to train: --config with a YAML file or one of {known}, or a game as env.id=GAME.")
    config = configs.load(args.config, args.overrides, args.allow)
    default = default_name(args.config, config.env.id, args.overrides)
    return configs.named(config, args.name or config.run.name or default)


def default_name(file: str | None, game: str, overrides: Sequence[str]) -> str:
    """That of the configuration file, or of the game if the command line names another one than the file."""
    if file:
        path, said = presets.find(file), presets.game_of(presets.apply_overrides({}, overrides))
        if said is None or {presets.game_of(layer.tree) for layer in presets.layers(path)} <= {None, said}:
            return path.stem
    return game.rpartition(":")[2]
