"""`jaxrl zoo`: the trained policies that come with jaxrl, and those of the Hugging Face hub."""

from __future__ import annotations

import argparse
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from jaxrl import zoo
from jaxrl.config import command_line as arguments
from jaxrl.text_tables import count, table
from jaxrl.zoo import hub
from jaxrl.zoo import names as zoo_names
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl zoo`."""
    help = (
        "list the policies, show the card of one, or get its file and its card (default: list); push one to the hub, "
    )
    choices = ("list", "show", "get", "push", "pull")
    parser.add_argument("what", choices=choices, nargs="?", default="list", help=f"{help}or pull it from there")
    help = "of the policy; to push also a policy file or a run; to pull hf:USER/REPO"
    arguments.completed(parser.add_argument("name", nargs="?", metavar="NAME", help=help), zoo_names)
    help = "where to put them (default: here); to push hf:USER/REPO"
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help=help)
    parser.add_argument("--licence", default="apache-2.0", help="of what is pushed, as the hub calls it")
    arguments.allow(parser)


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl zoo`."""
    if args.what == "list":
        print(table(["policy", "game", "trained", "least won", "MB"], [_line(name) for name in zoo.names()]))
        print("\nplay against one: jaxrl play NAME; its card: jaxrl zoo show NAME")
        return 0
    if args.name is None:
        raise UserError(f"say which one: jaxrl zoo {args.what} NAME, one of {', '.join(zoo.names())}.")
    if args.what == "show":
        print(zoo.card_file(args.name).read_text(encoding="utf-8"), end="")
        return 0
    return (_push if args.what == "push" else _put)(args)


def _push(args: argparse.Namespace) -> int:
    """Pushes a policy of the zoo, a policy file or a run."""
    from jaxrl.players.spec import HUB, parse, policy_file, run_of
    from jaxrl.policies.export import save_policy
    from jaxrl.policies.hub_card import model_card
    from jaxrl.runs.directory import load_run

    target, named = parse(args.folder), parse(args.name)
    if target.kind != HUB:
        raise UserError(f"say where to: jaxrl zoo push {args.name} hf:USER/REPO.")
    with tempfile.TemporaryDirectory() as folder:
        file = zoo.policy_file(args.name) if args.name in zoo.names() else policy_file(named)
        if file is None:
            name, checkpoint = run_of(named)
            file = Path(folder) / hub.POLICY
            save_policy(file, load_run(name, checkpoint or "newest", args.allow))
        card = model_card(file, target.name.partition("@")[0], args.licence)
        print(f"pushed: {hub.push(target.name, file.read_bytes(), card)}")
    print(f"play against it: jaxrl play {args.folder}")
    return 0


def _put(args: argparse.Namespace) -> int:
    """Writes the file and the card of a policy into a folder."""
    if not Path(args.folder).is_dir():
        raise UserError(f"{args.folder} is no folder: make it, or leave it out for the current one.")
    if args.what == "pull":
        name = args.name.removeprefix(hub.PREFIX)
        stem, parts = hub.stem(name), (hub.policy_file(name), hub.card_file(name))
    else:
        stem, parts = args.name, (zoo.policy_file(args.name), zoo.card_file(args.name))
    from jaxrl.policies.export import put  # which starts jax

    for file, target in zip(parts, (f"{stem}.jaxrl", f"{stem}.md"), strict=True):
        path = Path(args.folder) / target
        if path.exists() and files.contents(path, 1 << 28) != file.read_bytes():
            raise UserError(f"{path} exists and is another file: remove it, or name another folder.")
        put(path, file.read_bytes())
        print(f"written: {path}")
    return 0


def _line(name: str) -> list[str]:
    """Returns a policy in the list: its name, game, decisions of training, and the bot it wins against least often."""
    told = zoo.figures(name)
    least = min(told["evaluation"]["rows"], key=lambda row: row["wins"] / row["games"])
    won = f"{least['wins'] / least['games']:.1%} against {least['opponent']}"
    size = f"{zoo.policy_file(name).stat().st_size / 1e6:.2f}"
    return [f"{zoo.PREFIX}{name}", told["game"], f"{count(told['decisions'])} decisions", won, size]
