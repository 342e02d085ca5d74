"""`jaxrl site`: a page without a server on which one plays a policy."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path

from jaxrl import zoo
from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.serve.site import NETWORK, PAGE
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

HELP = "write a static page on which one plays a policy in the browser alone"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl site`."""
    help = "where to write the page: a new or empty folder, or an earlier page"
    parser.add_argument("folder", type=_folder, metavar="FOLDER", help=help)
    help = "the opponent: zoo:NAME, a run or a policy file (default: of the zoo)"
    names.add_player(parser, "--policy", metavar="POLICY", help=help)
    arguments.checkpoint(parser)
    arguments.allow(parser)


def _folder(text: str) -> Path:
    """Returns the type of the argument FOLDER."""
    folder = Path(text)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / NETWORK).is_file())):
        raise UserError(f"{folder} exists and is no page of `jaxrl site`: name a new folder, or an empty one.")
    files.check_folder(folder)
    return folder


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl site`."""
    from jaxrl.policies.find import find_policy
    from jaxrl.serve.site.build import build

    text = args.policy or zoo.PREFIX + next(name for name in zoo.names() if name in registry.games_with(PAGE))
    policy, _ = find_policy(text, args.checkpoint, args.allow)
    written = build(args.folder, policy, text)
    size = sum(path.stat().st_size for path in written)
    print(f"{args.folder}: {len(written)} files, {size / 1e6:.1f} MB; play against {text} on index.html")
    print(f"any web server can show them, e.g. python3 -m http.server -d {args.folder} (http://localhost:8000)")
    return 0
