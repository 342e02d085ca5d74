"""`jaxrl zoo`: the trained policies that come with jaxrl."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path

from jaxrl import zoo
from jaxrl.config import command_line as arguments
from jaxrl.text_tables import count, table
from jaxrl.zoo import names as zoo_names
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

HELP = "list and get the trained policies that come with jaxrl"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl zoo`."""
    help = "list the policies, show the card of one, or get its file and its card (default: list)"
    parser.add_argument("what", choices=("list", "show", "get"), nargs="?", default="list", help=help)
    arguments.completed(parser.add_argument("name", nargs="?", metavar="NAME", help="of the policy"), zoo_names)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where to put them (default: here)")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl zoo`."""
    from jaxrl.policies.export import put

    if args.what == "list":
        print(table(["policy", "game", "trained", "least won", "MB"], [_line(name) for name in zoo.names()]))
        print("\nplay against one: jaxrl play NAME; its card: jaxrl zoo show NAME")
        return 0
    if args.name is None:
        raise UserError(f"say which one: jaxrl zoo {args.what} NAME, one of {', '.join(zoo.names())}.")
    if args.what == "show":
        print(zoo.card_file(args.name).read_text(encoding="utf-8"), end="")
        return 0
    if not Path(args.folder).is_dir():
        raise UserError(f"{args.folder} is no folder: make it, or leave it out for the current one.")
    for file in (zoo.policy_file(args.name), zoo.card_file(args.name)):
        target = Path(args.folder) / file.name
        if target.exists() and files.contents(target, 1 << 28) != file.read_bytes():
            raise UserError(f"{target} exists and is another file: remove it, or name another folder.")
        put(target, file.read_bytes())
        print(f"written: {target}")
    return 0


def _line(name: str) -> list[str]:
    """Returns a policy in the list: its name, game, decisions of training, and the bot it wins against least often."""
    told = zoo.figures(name)
    least = min(told["evaluation"]["rows"], key=lambda row: row["wins"] / row["games"])
    won = f"{least['wins'] / least['games']:.1%} against {least['opponent']}"
    size = f"{zoo.policy_file(name).stat().st_size / 1e6:.2f}"
    return [f"{zoo.PREFIX}{name}", told["game"], f"{count(told['decisions'])} decisions", won, size]
