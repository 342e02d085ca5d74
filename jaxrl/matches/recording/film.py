"""A game as a moving picture: `jaxrl film RUN --opponents NAME`, `jaxrl film bot:NAME`, or `jaxrl film REPLAY`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.matches.host_loop import KeyChain, play_host_game
from jaxrl.matches.interactive import InteractiveGame
from jaxrl.matches.recording import replays
from jaxrl.players.find import find_opponents, find_player
from jaxrl.players.player import Player
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared.display import reward_curves
from jaxrl_envs.shared.errors import UserError, printable


def record(env: Env, players: Sequence[Player], key: jax.Array) -> tuple[list[State], list[int | np.ndarray]]:
    """Plays one game.

    Args:
      env: the game.
      players: of its seats.
      key: of the deal and of everything random.

    Returns:
      The states from the first to the last, and the actions between them: ints, or i32[P] in a simultaneous game.
    """
    deal_key, key = jax.random.split(key)
    game = InteractiveGame(env, players)
    states: list[State] = [game.deal(deal_key)]
    actions: list[int | np.ndarray] = []

    def note(_: State, action: int | np.ndarray, after: State) -> None:
        actions.append(action)
        states.append(after)

    play_host_game(game, KeyChain(key), game.answer, note)
    return states, actions


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl film`."""
    for file in filter(None, (args.file, args.rewards)):
        if not Path(file).absolute().parent.is_dir() or Path(file).is_dir():
            raise UserError(f"cannot write {file}: give a file in a folder that exists.")
    if args.rewards and Path(args.rewards).absolute() == Path(args.file).absolute():
        raise UserError(f"--file and --rewards are both {args.file}: give two files.")
    env, states, actions, names = _replayed(args) if replays.is_replay(args.candidate) else _played(args)
    page = env.film(states, actions, pace=args.pace)
    _write(args.file, page)
    seats = ", ".join(f"seat {seat}: {name}" for seat, name in enumerate(names))
    count = f"{len(actions)} {'steps' if env.simultaneous else 'decisions'}"
    print(printable(f"{args.file}: {count} ({seats}), {len(page.encode()) / 1000:.0f} kB"))
    if args.rewards:
        _write(args.rewards, reward_curves.picture(env, states, names))
        print(printable(f"{args.rewards}: what each component of the rewards has brought"))
    return 0


Game = tuple[Env, list[State], list[Any], list[str]]  # its states, the actions between them, who sat there


def _played(args: argparse.Namespace) -> Game:
    """A new game between players."""
    candidate = find_player(args.candidate, args)
    env = candidate.env
    if not 0 <= args.seat < env.num_players:
        raise UserError(f"--seat must be between 0 and {env.num_players - 1}, got {args.seat}.")
    enable_compilation_cache(candidate.config.run.cache_dir)
    _check_drawn(env, candidate.config.env.id, jax.jit(env.init)(jax.random.key(args.seed)))
    own = candidate.players[0]
    others = find_opponents(args.opponents.split(","), args, candidate) if args.opponents else [own]
    players = [own if side == env.sides[args.seat] else others[side % len(others)] for side in env.sides]
    states, actions = record(env, players, jax.random.key(args.seed))
    return env, states, actions, [player.name for player in players]


def _replayed(args: argparse.Namespace) -> Game:
    """A recorded game."""
    said = [f"--{name}" for name in ("opponents", "seat", "seed", "sampled", "config") if getattr(args, name)]
    said += ["--checkpoint"] if args.checkpoint != "newest" else []
    if said:
        raise UserError(f"a replay is played as it was recorded: leave {' and '.join(said)} out.")
    found = replays.read(args.candidate, args.overrides, args.allow)
    enable_compilation_cache(found.config.run.cache_dir)
    states, actions = found.play()
    _check_drawn(found.env, found.config.env.id, states[0])
    print(printable(found.replay.title))
    return found.env, states, actions, found.replay.players


def _check_drawn(env: Env, name: str, state: State) -> None:
    try:
        env.render_svg(state)
    except NotImplementedError:
        raise UserError(f"{name} has no drawings: a film needs its render_svg.") from None


def _write(file: str, page: str) -> None:
    try:
        Path(file).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}.") from None
