"""A game as a moving picture: `jaxrl film RUN --opponents NAME`, or `jaxrl film bot:NAME`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax

from jaxrl.commands.options import FASTEST, SLOWEST
from jaxrl.envs.core import Env, State, is_over
from jaxrl.envs.errors import UserError
from jaxrl.matches.entrants import find_entrant
from jaxrl.matches.single import SingleGame
from jaxrl.players import Player, bot_player
from jaxrl.runs.directory import enable_compilation_cache


def record(env: Env, players: Sequence[Player], key: jax.Array) -> tuple[list[State], list[int]]:
    """Plays one game.

    Args:
      env: a turn-based game.
      players: of its seats.
      key: of the deal and of everything random.

    Returns:
      The states from the first to the last, and the actions between them.
    """
    deal_key, key = jax.random.split(key)
    game = SingleGame(env, players)
    states: list[State] = [game.deal(deal_key)]
    actions: list[int] = []
    while not bool(is_over(game.state)):
        key, act_key, step_key = jax.random.split(key, 3)
        actions.append(game.answer(act_key))
        states.append(game.step(actions[-1], step_key))
    return states, actions


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl film`."""
    candidate = find_entrant(args.candidate, args)
    env = candidate.env
    if env.simultaneous:
        raise UserError(f"{candidate.config.env.id} asks all seats at once: only games in turns are filmed.")
    if not 0 <= args.seat < env.num_players:
        raise UserError(f"--seat must be between 0 and {env.num_players - 1}, got {args.seat}.")
    if not SLOWEST <= args.pace <= FASTEST:
        raise UserError(f"--pace must be from {SLOWEST:g} to {FASTEST:g}, got {args.pace:g}.")
    if not Path(args.file).absolute().parent.is_dir() or Path(args.file).is_dir():
        raise UserError(f"cannot write {args.file}: give a file in a folder that exists.")
    enable_compilation_cache(candidate.config.run.cache_dir)
    try:
        env.render_svg(jax.jit(env.init)(jax.random.key(args.seed)))
    except NotImplementedError:
        raise UserError(f"{candidate.config.env.id} has no drawings: a film needs its render_svg.") from None
    own = candidate.players[0]
    others = [bot_player(env, name) for name in args.opponents.split(",")] if args.opponents else [own]
    players = [own if seat == args.seat else others[seat % len(others)] for seat in range(env.num_players)]
    states, actions = record(env, players, jax.random.key(args.seed))
    page = env.film(states, actions, pace=args.pace)
    try:
        Path(args.file).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {args.file}: {error.strerror or error}.") from None
    seats = ", ".join(f"seat {seat}: {player.name}" for seat, player in enumerate(players))
    print(f"{args.file}: {len(actions)} decisions ({seats}), {len(page.encode()) / 1000:.0f} kB")
    return 0
