"""Rating scales: one file for each game, to which `jaxrl rate` adds players.

A scale is defined by *anchors*, scripted bots that have met each other in a round robin: one of them has a fixed
rating, and the others' were fitted to the round robin once (`bradley_terry`). A player that is added later meets the
anchors alone, always on the same deals, and its rating is fitted with theirs held fixed. So the order in which players
are added changes nothing, and intervals are relative to this scale: they cover the chance in the player's own games,
not in the anchors'.

The file is YAML, a line for each player. It holds text and numbers only; nothing in it is run.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.config import presets
from jaxrl.league.elo import rating_against
from jaxrl.matches.tables import align
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.find import FoundPlayers
from jaxrl.players.player import Player, bot_player
from jaxrl.statistics import student_interval
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import Place, build, option, required, to_tree

SEED = 0  # of the deals, the same for all players of all scales
FOLDER = "ratings"
HEAD = "# Ratings on the Elo scale with half widths of 95 % intervals: `jaxrl rate RUN` adds a line.\n"
OF_SEED = re.compile(r"(.*)/seed_\d+(.*)", re.DOTALL)  # what policies of one run with several seeds are called

Play = Callable[[Tournament], RoundRobin]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RatedPlayer:
    """A player on a scale."""

    name: str = required("as in a tournament: RUN@UPDATE, or that of a bot")
    rating: float = required("on the Elo scale", minimum=-20_000, maximum=20_000)
    half_width_95: float = required("of its 95 % interval; 0: fixed", minimum=0)
    games: int = required("that it was fitted to", minimum=1)
    params_hash: str = option("", "of the policy; empty for a bot")
    code: str = required("version of jaxrl that played them")
    date: str = required("when, in UTC")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RatingScale:
    """A rating scale and the players on it."""

    game: str = required("its id")
    version: str = required("of the game")
    options: dict[str, Any] = required("of the game, which all players have played; those left out may differ")
    deals: int = required("of every player with every anchor, each from all sides, by default", minimum=2)
    anchor: str = required("the anchor whose rating is fixed")
    anchors: tuple[RatedPlayer, ...] = required("the bots that define the scale")
    players: tuple[RatedPlayer, ...] = required("all others")

    def add(self, found: Sequence[RatedPlayer]) -> RatingScale:
        """The scale with these players; they replace players of the same name."""
        players = {each.name: each for each in (*self.players, *found)}
        return dataclasses.replace(self, players=tuple(players[name] for name in sorted(players)))

    def table(self) -> str:
        """All players in Markdown, strongest first."""
        cells = [["player", "rating", "95 %", "games", "date"]]
        for each in sorted((*self.anchors, *self.players), key=lambda each: -each.rating):
            half = "fixed" if each.name == self.anchor else f"± {each.half_width_95:.1f}"
            mark = " (anchor)" if each in self.anchors else ""
            cells.append([each.name + mark, f"{each.rating:+.1f}", half, str(each.games), each.date])
        return align(cells)

    def over_seeds(self) -> list[str]:
        """A line for every run with several seeds on the scale: their mean, with an interval over seeds."""
        ratings: dict[str, list[float]] = {}
        for each in self.players:
            if match := OF_SEED.fullmatch(each.name):
                ratings.setdefault("".join(match.groups()), []).append(each.rating)
        lines = []
        for name, values in ratings.items():
            if len(values) > 1:
                mean, low, high = student_interval(np.array(values))
                lines.append(f"{name}: mean of {len(values)} seeds {mean:+.1f} ({low:+.1f} to {high:+.1f}, over seeds)")
        return lines


# ---- the file -----------------------------------------------------------------------------------------------------


def file_of(game: str) -> Path:
    """The default file of a game's scale."""
    return Path(FOLDER) / (re.sub(r"[^\w.-]", "_", game) + ".yaml")


def shipped(game: str) -> Path:
    """The file of a game's scale that comes with the project."""
    return presets.shipped_directory() / file_of(game)


def read(path: Path) -> RatingScale:
    """The scale in a file.

    Raises:
      UserError: it cannot be read, or holds something else.
    """
    scale: RatingScale = build(RatingScale, files.read(path), Place(f"the rating scale {path}"))
    names = [each.name for each in (*scale.anchors, *scale.players)]
    if scale.anchor not in [each.name for each in scale.anchors] or len(set(names)) < len(names):
        raise UserError(
            f"{path} is no rating scale: a name stands there twice, or its anchor is not among the anchors."
        )
    return scale


def write(path: Path, scale: RatingScale) -> None:
    """Writes a scale, whole or not at all, for `read`; a line for each player."""
    tree = to_tree(scale)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, (HEAD + files.dump(tree, default_flow_style=None, width=10_000, allow_unicode=True)).encode())


def misfit(scale: RatingScale, field: FoundPlayers) -> str:
    """How a scale differs from the game that the players of `field` play, in words; "" if they fit."""
    if scale.game != field.config.env.id:
        return f"is of {scale.game}, not {field.config.env.id}"
    if scale.version != field.env.version:
        return f"is of version {scale.version} of {scale.game}, not {field.env.version}"
    own = options_of(field)
    for name, value in scale.options.items():
        if own.get(name) != value:
            return f"is of {scale.game} with {name} {value!r}, not {own.get(name)!r}"
    missing = [each.name for each in scale.anchors if each.name not in field.env.bots]
    return f"has an anchor {missing[0]!r}, which is no bot of {scale.game}" if missing else ""


def options_of(field: FoundPlayers) -> dict[str, Any]:
    """All options of the game as it is evaluated, as a file holds them."""
    known = registry.options_of(field.config.env.id)
    given = {name: each.default for name, each in known.items()} | field.config.evaluation_options
    return json.loads(json.dumps(given, default=repr))  # tuples become lists


# ---- playing ------------------------------------------------------------------------------------------------------


def begin(field: FoundPlayers, names: Sequence[str], deals: int, play: Play, stamp: Mapping[str, Any]) -> RatingScale:
    """A new scale.

    Args:
      field: players of the game.
      names: of the anchors; that of the bot "random" if it is one of them, else the first, stands at 0.
      deals: of every pair of them.
      play: plays a tournament to its end.
      stamp: `code` and `date` of the ratings.

    Raises:
      UserError: unknown bots, fewer than two, or the game is for one side.
    """
    env, anchor = field.env, "random" if "random" in names else names[0] if names else ""
    results = play(Tournament(env, [bot_player(env, name) for name in names], deals=deals, seed=SEED))
    fit, games = results.ratings(anchor), results.games_of_players()
    anchors = [
        RatedPlayer(name=name, rating=float(rating), half_width_95=float(half), games=int(count), **stamp)
        for name, rating, half, count in zip(names, fit.rating, fit.half, games, strict=True)
    ]
    rounded = tuple(map(_rounded, anchors))
    return RatingScale(
        game=field.config.env.id,
        version=env.version,
        options=options_of(field),
        deals=deals,
        anchor=anchor,
        anchors=rounded,
        players=(),
    )


def rate(
    scale: RatingScale, env: Env, players: Sequence[Player], hashes: Sequence[str], play: Play, stamp: Mapping[str, Any]
) -> list[RatedPlayer]:
    """Rates players of one program.

    Args:
      scale: with the anchors that they meet.
      env: the game.
      players, hashes: with the hash of the parameters of each.
      play, stamp: as for `begin`.
    """
    anchors = [bot_player(env, each.name) for each in scale.anchors]
    tournament = Tournament(env, [*anchors, *players], deals=scale.deals, seed=SEED, newcomers=len(players))
    results, known = play(tournament), np.array([each.rating for each in scale.anchors])
    count, found = len(anchors), []
    for number, (player, digest) in enumerate(zip(players, hashes, strict=True), start=count):
        rating, half = rating_against(results.totals[number, :count], results.totals[:count, number], known)
        games = int(results.games_of_players()[number])
        found.append(
            _rounded(
                RatedPlayer(
                    name=player.name, rating=rating, half_width_95=half, games=games, params_hash=digest, **stamp
                )
            )
        )
    return found


def _rounded(each: RatedPlayer) -> RatedPlayer:
    """The player with rounded numbers, as files hold it."""
    return dataclasses.replace(each, rating=round(each.rating, 1), half_width_95=round(each.half_width_95, 1))


def by_program(players: Sequence[Player]) -> list[list[Player]]:
    """Players in groups that one compiled program plays, so that a rating does not depend on the other players."""
    groups: dict[Any, list[Player]] = {}
    for player in players:
        groups.setdefault("bots" if player.bot else player.act, []).append(player)
    return list(groups.values())
