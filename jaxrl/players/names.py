"""Arguments of commands that name players (`jaxrl.players.spec`): unknown names are refused before jax is imported."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from typing import Any

from jaxrl import zoo
from jaxrl.config import command_line, presets
from jaxrl.players.spec import AGENT, ALL_BOTS, BOT, ZOO, parse, policy_file, run_of, worlds_of
from jaxrl.runs.folder import find_folder
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError, nearest


def run(text: str) -> str:
    """Returns the type of an argument that names a run."""
    find_folder(text)
    return text


def player(text: str) -> str:
    """Returns the type of an argument that names a player; a key to change (a.b=value) may stand in its place."""
    spec = parse(text)
    if not (spec.kind in (BOT, AGENT) or text == ALL_BOTS or "=" in text or policy_file(spec)):
        find_folder(run_of(spec)[0], others=_of_the_zoo())
    return text


def _of_the_zoo() -> list[str]:
    return [f"{zoo.PREFIX}{name}" for name in zoo.names()]


def player_or_zoo(text: str) -> str:
    """The type of an argument that names a player; NAME alone is zoo:NAME if no run and no file is called so."""
    if text in zoo.names() and policy_file(parse(text)) is None:
        with contextlib.suppress(UserError):
            return run(text)
        return zoo.PREFIX + text
    return player(text)


def add_player(parser: ArgumentParser, argument: str, **more: Any) -> None:
    """Adds an argument that names one or several players."""
    action = parser.add_argument(argument, **{"type": player} | more)
    command_line.completed(action, lambda: [*command_line.run_names(), *_of_the_zoo()])


def add_candidate(
    parser: ArgumentParser,
    help: str = "a run, a policy file, zoo:NAME, hf:USER/REPO, or a bot as bot:NAME, bot:searcher-200",
    type: Callable[[str], str] = player,
) -> None:
    """Adds who plays, and the game of a bot; see `jaxrl.policies.find.find_player`."""
    add_player(parser, "candidate", type=type, metavar="RUN", help=help)
    parser.add_argument("--sampled", action="store_true", help="sample from the policy instead of playing greedily")
    command_line.checkpoint(parser)
    command_line.allow(parser)
    command_line.config(parser, "for bots: the configuration that names the game (default: its defaults)")
    help = "configuration keys to change, of a bot its game: env.id=battle env.options.x=v"
    command_line.overrides(parser, help)


def add_table(parser: ArgumentParser, seat: str, help: str, type: Callable[[str], str] = player) -> None:
    """Adds one game between a candidate, in its `seat`, and others."""
    add_candidate(parser, help, type)
    parser.add_argument("--seat", type=command_line.whole, default=0, help=f"{seat} (default: 0)")
    help = "bots, zoo:NAME or policy files for the other seats, in turn (default: RUN itself)"
    parser.add_argument("--opponents", type=command_line.names, metavar="A,B", help=help)


def check_opponents(texts: Iterable[str], candidate: str) -> None:
    """Raises UserError for opponents that do not exist, as far as that is known without the game of `candidate`."""
    spec = parse(candidate)
    if spec.kind in (BOT, AGENT):
        return
    file = policy_file(spec)
    game = zoo.figures(spec.name)["game"] if spec.kind == ZOO else None
    if file is None:
        game = presets.game_of(presets.read(find_folder(run_of(spec)[0]) / "config.yaml"))
    known = registry.bot_names(str(game))
    for each in map(parse, texts):
        if each.kind == AGENT or not known or each.label in known:
            continue
        if worlds_of(each.label) is None and policy_file(each) is None:
            raise UserError(f"there is no bot {each.label!r} in this game: {nearest(each.label, known)}")
