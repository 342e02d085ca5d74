"""The commands of `jaxrl forge …`: decks, recording games, and reading them."""

from __future__ import annotations

import argparse
import importlib
import sys
import types

from jaxrl_envs.shared.errors import UserError, nearest

HELP = "list and make decks, record and read games of Forge (Magic)"
COMMANDS = {
    "decks": "jaxrl_envs.forge.deckbuilding.command",
    "record": "jaxrl_envs.forge.recordings.record_ai",
    "story": "jaxrl_envs.forge.display.narration",
}


def module(name: str) -> types.ModuleType:
    """Returns the module of a command, with `add_options` and `main`; raises UserError if there is no such command."""
    if name in ("-h", "--help"):
        return sys.modules[__name__]
    if not name or name.startswith("-"):
        raise UserError(f"forge needs a command first: {', '.join(COMMANDS)} (e.g. `jaxrl forge record --help`).")
    if name not in COMMANDS:
        raise UserError(f"there is no command `jaxrl forge {name}`: {nearest(name, COMMANDS)}")
    return importlib.import_module(COMMANDS[name])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of `jaxrl forge --help`, which names the commands."""
    parser.epilog = f"commands: {', '.join(COMMANDS)}; each has its own --help"
