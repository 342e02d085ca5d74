"""`jaxrl rate`: runs and policy files on one rating scale per game, which is kept in a file."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

import jax

import jaxrl
from jaxrl.matches.tournaments import rating_scale as scales
from jaxrl.matches.tournaments.rating_scale import FOLDER, RatedPlayer, RatingScale
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.round_robin_report import play_all
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.find import FoundPlayers, find_players
from jaxrl.players.player import Player
from jaxrl.runs.checkpoints.checkpoint import params_hash
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl_envs.shared.errors import UserError

DEALS = 1000  # of a new scale, by default


def show_scales(file: str | None) -> None:
    """Prints the scale in a file, or all scales."""
    for path in [Path(file)] if file else _all():
        _show(path, scales.read(path))


def rate_players(
    players: Sequence[str],
    config: str | None,
    *,
    sampled: bool,
    allow: Collection[str],
    file: str | None,
    anchors: Sequence[str],
    deals: int | None,
) -> None:
    """Adds players to the rating scale of their game, and prints it.

    Args:
      players, config, sampled, allow: see `find_players`.
      file: of the scale, if it is not ratings/GAME.yaml.
      anchors: bots that define a new scale; empty: all of the game.
      deals: with every anchor; None: as the scale.

    Raises:
      UserError: a player is unknown, or does not fit the scale.
    """
    field = find_players(players, config, sampled=sampled, allow=allow)
    enable_compilation_cache(field.config.run.cache_dir)
    path = Path(file) if file else scales.file_of(field.config.env.id)
    stamp = {"code": code(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    scale = _scale(field, path, anchors, deals, stamp)
    known = [each.name for each in scale.anchors]
    played = dataclasses.replace(scale, deals=deals if deals is not None else scale.deals)
    new = [_called(player, sampled) for player in field.players if not (player.bot and player.name in known)]
    if taken := [player.name for player in new if player.name in known]:
        raise UserError(f"{taken[0]!r} is an anchor of {path}: give the run another name.")
    for group in scales.by_program(new):
        hashes = ["" if _scripted(player) else params_hash(player.params) for player in group]
        _add(path, scales.rate(played, field.env, group, hashes, _played, stamp))
    _show(path, scales.read(path))


def _scale(
    field: FoundPlayers, path: Path, anchors: Sequence[str], deals: int | None, stamp: dict[str, str]
) -> RatingScale:
    """The scale in the file. Without a file it begins with the one that comes with the project, or with the anchors.

    Raises:
      UserError: it is of another game, or the command line asks for another one.
    """
    shipped = scales.shipped(field.config.env.id)
    if path.exists():
        if anchors:
            raise UserError(f"{path} has its anchors already: leave --anchors out, or begin another one with --file.")
        scale = scales.read(path)
        if wrong := scales.misfit(scale, field):
            raise UserError(f"{path} {wrong}: name another one with --file.")
        return scale
    if not anchors and shipped.is_file() and not scales.misfit(scale := scales.read(shipped), field):
        scales.write(path, scale)
        return scale
    names = list(anchors or field.env.bots)
    if len(set(names)) < len(names):
        raise UserError(f"--anchors names a bot twice, {','.join(names)}: name each once.")
    scale = scales.begin(field, names, deals if deals is not None else DEALS, _played, stamp)
    scales.write(path, scale)
    return scale


def _add(path: Path, found: Sequence[RatedPlayer]) -> None:
    """Adds lines to a file, which may have got others since it was read."""
    scales.write(path, scales.read(path).add(found))


def _called(player: Player, sampled: bool) -> Player:
    """A player as it is called on a scale: one that draws its actions is another player."""
    return player.named(f"{player.name} (sampled)", player.params) if sampled and not _scripted(player) else player


def _scripted(player: Player) -> bool:
    """Whether it is a bot or a searcher, which have no parameters."""
    return not jax.tree.leaves(player.params)


def _played(tournament: Tournament) -> RoundRobin:
    return play_all(tournament)[1]


def _all() -> list[Path]:
    found = sorted(Path(FOLDER).glob("*.yaml")) or sorted(scales.shipped("any").parent.glob("*.yaml"))
    if not found:
        raise UserError(f"there is no scale in {FOLDER}: `jaxrl rate RUN` begins one.")
    return found


def _show(path: Path, scale: RatingScale) -> None:
    """Prints a scale."""
    options = ", ".join(f"{name}={value}" for name, value in scale.options.items())
    lines = [
        f"{path}: {scale.game}, version {scale.version}{f' ({options})' if options else ''}",
        f"{scale.deals} deals with every anchor, each from all sides; 95 % half widths on this scale",
        "",
        *scale.table().splitlines(),
        *scale.over_seeds(),
    ]
    print("\n".join(lines), end="\n\n")


def code() -> str:
    """The version of jaxrl, with the commit in a clone."""
    root = Path(jaxrl.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return jaxrl.__version__
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return jaxrl.__version__
    return f"{jaxrl.__version__}+{commit}"
