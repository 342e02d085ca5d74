"""The commands of `jaxrl forge …`: decks, recording games, reading them, and serving them in place of a daemon."""

from __future__ import annotations

import argparse
import importlib
import sys
import types

from jaxrl.envs.errors import UserError, nearest

HELP = "list and make decks, record, read and replay games of Forge (Magic)"
COMMANDS = {
    "decks": "jaxrl.envs.forge.deckbuilding.command",
    "record": "jaxrl.envs.forge.people.watch",
    "story": "jaxrl.envs.forge.people.story",
    "replay": "jaxrl.envs.forge.people.replay",
}


def module(name: str) -> types.ModuleType:
    """The module of a command, with `add_arguments` and `main`; raises UserError if there is no such command."""
    if name in ("-h", "--help"):
        return sys.modules[__name__]
    if not name or name.startswith("-"):
        raise UserError(f"forge needs a command first: {', '.join(COMMANDS)} (e.g. `jaxrl forge record --help`).")
    if name not in COMMANDS:
        raise UserError(f"there is no command `jaxrl forge {name}`: {nearest(name, COMMANDS)}")
    return importlib.import_module(COMMANDS[name])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `jaxrl forge --help`, which names the commands."""
    parser.epilog = f"commands: {', '.join(COMMANDS)}; each has its own --help"
