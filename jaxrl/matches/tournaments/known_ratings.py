"""Files of known ratings: they anchor the scale of a tournament, and name a person's opponent in the browser."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from jaxrl.config import presets
from jaxrl.league.elo import Ratings
from jaxrl.policies.find import FoundPlayers
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import Place, build, option, required, to_tree

HEAD = "# Ratings on the Elo scale, for `jaxrl tournament --anchor FILE`.\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownRatings:
    """Ratings of players of one game."""

    game: str = required("its id")
    version: str = required("of the game")
    options: dict[str, Any] = option({}, "of the game, which all players have played; those left out may differ")
    ratings: dict[str, float] = required("on the Elo scale, by name", minimum=-20_000, maximum=20_000)


def read(path: Path) -> KnownRatings:
    """Returns the ratings in a file. Raises UserError: it cannot be read, or holds something else."""
    known: KnownRatings = build(KnownRatings, files.read(path), Place(f"the ratings {path}"))
    return known


def write(path: Path, field: FoundPlayers, fit: Ratings) -> None:
    """Writes the ratings of a tournament for `read`."""
    ratings = {fit.names[i]: round(float(fit.rating[i]), 1) for i in fit.order()}
    known = KnownRatings(
        game=field.config.env.id, version=field.env.version, options=_options_of(field), ratings=ratings
    )
    files.write(path, (HEAD + files.dump(to_tree(known), default_flow_style=None, allow_unicode=True)).encode())


def fitting(path: Path, field: FoundPlayers) -> dict[str, float]:
    """Returns the ratings in a file, or one that comes with the project, of those players who take part. Raises
    UserError: it cannot be read, is of another game, or rates none of the players."""
    known, names = read(path if path.exists() else presets.shipped_directory() / path), [p.name for p in field.players]
    theirs = {"game": known.game, "version": known.version, **known.options}
    ours = {"game": field.config.env.id, "version": field.env.version, **_options_of(field)}
    for name, value in theirs.items():
        if ours.get(name) != value:
            raise UserError(f"--anchor {path} is of {name} {value!r}, not {ours.get(name)!r}: choose another file.")
    if not known.ratings.keys() & set(names):
        raise UserError(f"--anchor {path} rates none of the players: add one of {', '.join(known.ratings)}.")
    return {name: known.ratings[name] for name in names if name in known.ratings}


def of_game(game: str) -> dict[str, float]:
    """Returns the ratings in ratings/GAME.yaml, else those that come with the project, else nothing."""
    path = Path("ratings") / (re.sub(r"[^\w.-]", "_", game) + ".yaml")
    found = next((file for file in (path, presets.shipped_directory() / path) if file.is_file()), None)
    return read(found).ratings if found else {}


def _options_of(field: FoundPlayers) -> dict[str, Any]:
    """Returns all options of the evaluated game, as a file holds them."""
    known = registry.options_of(field.config.env.id)
    given = {name: each.default for name, each in known.items()} | field.config.evaluation_options
    return json.loads(json.dumps(given, default=repr))  # tuples become lists
