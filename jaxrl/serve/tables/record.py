"""The stored form of a table, and the one reader of its file, which trusts nothing that the file says."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from jaxrl.config import trust
from jaxrl.players.spec import parse
from jaxrl.serve.player_catalog import PERSON, player_name
from jaxrl.serve.tables.game import GameRecord
from jaxrl_envs.shared import files, golden
from jaxrl_envs.shared.errors import UserError

SUFFIX = ".table"
NAME = 24  # letters of a person's name
SLOWEST = 10.0  # seconds between two moves of agents
ID = 6  # bytes of a table's name
MOST_SEATS, WORD, PERSON_ID = 64, 300, 40  # seats; letters of a name, and of the number of a browser
_WORDS = (range(1 << 32),) * 2
_SHAPE: dict[str, Any] = {
    "id": str,
    "record": {"game": str, "options": {}, "deal": _WORDS, "step": _WORDS, "actions": list},
    "specs": [str],
    "names": [str],
    "keys": [str],
    "people": [str],
    "made": float,
    "pace": float,
    "rated": bool,
    "beside": str,
    "undone": bool,
}


@dataclasses.dataclass
class TableRecord:
    """The stored form of a table.

    Attributes:
      id: id of the table.
      record: record of its game.
      specs: the players, [P]: PERSON, or as in `jaxrl.serve.player_catalog.PlayerCatalog.agent`.
      names: their names, [P].
      keys: secrets by which people take their seats, [P]; empty for agents.
      people: numbers of the people to rate, [P]; empty for seats without one.
      made: time, in seconds of Unix time.
      pace: seconds between two moves of agents.
      rated: whether the finished game has been counted.
      undone: whether a move was taken back: such a game is not rated.
      beside: the table with the same deal, if there is one.
    """

    id: str
    record: GameRecord
    specs: list[str]
    names: list[str]
    keys: list[str]
    people: list[str]
    made: float
    pace: float = 1.0
    rated: bool = False
    beside: str = ""
    undone: bool = False

    @property
    def shown_names(self) -> list[str]:
        """Names to show, [P]: "Anna", "Zoo policy"."""
        pairs = zip(self.names, self.specs, strict=True)
        return [name if spec == PERSON else player_name(parse(spec)) for name, spec in pairs]


def read_table(path: Path, allow: Collection[str] = ()) -> TableRecord:
    """Reads a table's file.

    Args:
      path: path of the file.
      allow: games and modules that it may name, see `jaxrl.config.trust`.

    Raises:
      UserError: it is no regular file, is damaged, names code that is not allowed, or says what no table of a server
        says.
    """
    try:
        found = files.parse(files.contents(path, follow=False).decode(), path.name, json_text=True)
        golden.fit(found, _SHAPE)
        golden.require(found.keys() == _SHAPE.keys(), "it has other entries than a table")
        game = found["record"]
        golden.require(game.keys() == _SHAPE["record"].keys(), "its game has other entries than one")
        kept = TableRecord(**{**found, "record": GameRecord(**game)})
        golden.require(kept.id == path.name.removesuffix(SUFFIX), "its id is not the name of the file")
        _check(kept)
        trust.check_game(kept.record.game, path.name, allow)
        return kept
    except OSError as error:
        raise UserError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    except (ValueError, TypeError, KeyError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(f"{path.name} is no table: {what}.") from None


def _check(kept: TableRecord) -> None:
    """Raises ValueError for what a table of a server never says."""
    seats = len(kept.specs)
    golden.require(0 < seats <= MOST_SEATS, f"it has {seats} seats")
    golden.require({len(kept.names), len(kept.keys), len(kept.people)} == {seats}, "its lists differ in length")
    words = [kept.record.game, *kept.specs, *kept.names, *kept.keys, *kept.people, *kept.record.options]
    golden.require(all(len(each) <= WORD and each.isprintable() for each in words), "a name is too long or no text")
    golden.require(
        all(bool(key) == (spec == PERSON) for key, spec in zip(kept.keys, kept.specs, strict=True)),
        "the keys are not those of its people",
    )
    golden.require(all(is_person(each) for each in kept.people if each), "a person has no number")
    golden.require(all(map(_is_option, kept.record.options.values())), "an option is no number and no word")
    golden.require(all(map(_is_action, kept.record.actions)), "an action is no number")
    for id in filter(None, [kept.id, kept.beside]):
        golden.require(re.fullmatch(f"[0-9a-f]{{{2 * ID}}}", id) is not None, f"{id[:40]!r} is no name of a table")
    golden.require(kept.id != "" and kept.made >= 0 and 0 <= kept.pace <= SLOWEST, "its times are impossible")


def _is_option(value: Any) -> bool:
    return isinstance(value, (bool, int, str)) or isinstance(value, float) and math.isfinite(value)


def _is_action(value: Any) -> bool:
    each = value if isinstance(value, list) else [value]
    return all(type(one) is int for one in each)


def checked_pace(seconds: Any) -> float:
    """Returns the seconds between two moves of agents. Raises UserError: they are no such number."""
    if type(seconds) not in (int, float) or not 0.0 <= seconds <= SLOWEST:
        raise UserError(f"the pace is 0 to {SLOWEST:g} seconds.")
    return float(seconds)


def is_person(word: Any) -> bool:
    """Returns whether this is the random number by which a browser identifies its person."""
    return isinstance(word, str) and word.isalnum() and word.isascii() and len(word) <= PERSON_ID
