"""A game as a moving picture: `jaxrl film RUN --opponents NAME`, `jaxrl film bot:NAME`, or `jaxrl film REPLAY`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.matches.interactive import InteractiveGame
from jaxrl.matches.recording import replays, video
from jaxrl.players.player import Player
from jaxrl.policies.find import Lookup, find_opponents, find_player
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl.runs.logs.console import waiting
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared.display import reward_curves
from jaxrl_envs.shared.errors import UserError


def record(env: Env, players: Sequence[Player], key: jax.Array) -> tuple[list[State], list[int | np.ndarray]]:
    """Plays one game. Returns the states from the first to the last, and the actions between them: ints, or i32[P] in a
    simultaneous game."""
    deal_key, key = jax.random.split(key)
    game = InteractiveGame(env, players)
    states: list[State] = [game.deal(deal_key)]
    actions: list[int | np.ndarray] = []

    def note(_: State, action: int | np.ndarray, after: State) -> None:
        actions.append(action)
        states.append(after)

    game.play(key, game.answer, note)
    return states, actions


def film(
    name: str, lookup: Lookup, *, seat: int, opponents: Sequence[str], seed: int, file: str, rewards: str, pace: float
) -> None:
    """Writes a game as an animated picture. Raises UserError: a player is unknown, the game has no drawings, or a file
    cannot be written.

    Args:
      name: name of the player, see `find_player`; or a file of RUN/replays.
      seat, opponents, seed: settings of a new game: the player's seat, the players of the others, and the seed.
      file: output file; one that ends in .gif or .mp4 is a video.
      rewards: the file for what each component of the rewards has brought; empty: none.
      pace: 2 is twice as fast.
    """
    if replays.is_replay(name):
        of_a_game = {
            "opponents": opponents,
            "seat": seat,
            "seed": seed,
            "sampled": lookup.sampled,
            "config": lookup.config,
        }
        of_a_game["checkpoint"] = lookup.checkpoint != "newest"
        if given := [f"--{option}" for option, value in of_a_game.items() if value]:
            raise UserError(f"a replay is played as it was recorded: leave {' and '.join(given)} out.")
    env, states, actions, names = (
        _replayed(name, lookup) if replays.is_replay(name) else _played(name, lookup, seat, opponents, seed)
    )
    page = env.film(states, actions, pace=pace)
    size = _write_video(file, page) if video.is_video(file) else _write(file, page)
    seats = ", ".join(f"seat {seat}: {name}" for seat, name in enumerate(names))
    count = f"{len(actions)} {'steps' if env.simultaneous else 'decisions'}"
    print(f"{file}: {count} ({seats}), {size / 1000:.0f} kB")
    if rewards:
        _write(rewards, reward_curves.picture(env, states, names))
        print(f"{rewards}: what each component of the rewards has brought")


Game = tuple[Env, list[State], list[Any], list[str]]  # its states, the actions between them, who sat there


def _played(name: str, lookup: Lookup, seat: int, opponents: Sequence[str], seed: int) -> Game:
    """Returns a new game between players."""
    candidate = find_player(name, lookup)
    env = candidate.env
    if not 0 <= seat < env.num_players:
        raise UserError(f"--seat must be between 0 and {env.num_players - 1}, got {seat}.")
    enable_compilation_cache(candidate.config.run.cache_dir)
    _check_drawn(env, candidate.config.env.id, jax.jit(env.init)(jax.random.key(seed)))
    own = candidate.players[0]
    others = find_opponents(opponents, lookup, candidate) if opponents else [own]
    players = [own if side == env.sides[seat] else others[side % len(others)] for side in env.sides]
    with waiting("playing the game, which is compiled first ..."):
        states, actions = record(env, players, jax.random.key(seed))
    return env, states, actions, [player.name for player in players]


def _replayed(name: str, lookup: Lookup) -> Game:
    """Returns a recorded game."""
    found = replays.read(name, lookup.overrides, lookup.allow)
    enable_compilation_cache(found.config.run.cache_dir)
    states, actions = found.play()
    _check_drawn(found.env, found.config.env.id, states[0])
    print(found.replay.title)
    return found.env, states, actions, found.replay.players


def _check_drawn(env: Env, name: str, state: State) -> None:
    try:
        env.render_svg(state)
    except NotImplementedError:
        raise UserError(f"{name} has no drawings: a film needs its render_svg.") from None


def _write_video(file: str, page: str) -> int:
    """Writes a GIF or an MP4; returns its bytes."""
    with _writing(file):
        video.write_video(page, Path(file))
        return Path(file).stat().st_size


def _write(file: str, page: str) -> int:
    """Writes an SVG document; returns its bytes."""
    with _writing(file):
        return Path(file).write_text(page, encoding="utf-8")


@contextlib.contextmanager
def _writing(file: str) -> Iterator[None]:
    """Ends in a sentence where a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}.") from None
