"""`jaxrl games`: what can be trained on, one line each, and how other games are named."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser

from jaxrl_envs.contract import registry

OTHERS = """
other games (train, check and all other commands take them as env.id):
  pgx:NAME              a game of Pgx, e.g. pgx:connect_four     (pip install 'jaxrl[games]')
  gymnax:NAME           a game of gymnax, e.g. gymnax:CartPole-v1 (the same extra)
  openspiel:NAME        of OpenSpiel, e.g. openspiel:leduc_poker (pip install 'jaxrl[openspiel]'), with
                        parameters in quotes: "openspiel:leduc_poker(players=3)"; openspiel_table:NAME: compiled
  my_file:MyGame        your own class in my_file.py; `jaxrl check my_file:MyGame` tests it
options of a game: jaxrl config --env ID"""


def add_options(parser: ArgumentParser) -> None:
    """Adds nothing: `jaxrl games` has no options."""


def main(args: argparse.Namespace) -> int:
    """Prints the registered games."""
    rows = []
    for id in registry.registered():
        env = registry.make(id)
        seats = f"{env.num_players} seat{'s' * (env.num_players > 1)}"
        about = (type(env).__doc__ or "").strip().splitlines()[:1]
        rows.append([id, seats, "on the host" if env.host else "compiled", *(about or [""])])
    width = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(size) for cell, size in zip(row, width, strict=False)), row[3]]))
    print(OTHERS)
    return 0
