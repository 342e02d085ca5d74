"""The stored form of a table."""

from __future__ import annotations

import dataclasses
import secrets

from jaxrl.serve.player_catalog import PERSON
from jaxrl.serve.tables.game import GameRecord


@dataclasses.dataclass
class TableRecord:
    """The stored form of a table.

    Attributes:
      id: of the table.
      record: of its game.
      specs: the players, [P]: PERSON, or as in `jaxrl.serve.player_catalog.PlayerCatalog.agent`.
      names: their names, [P].
      keys: secrets by which people take their seats, [P]; empty for agents.
      people: the people to rate, by name, [P]; empty for seats without one.
      made: when, in seconds of Unix time.
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


def new_keys(specs: list[str]) -> list[str]:
    """Random secrets for the seats of people, "" for the others."""
    return [secrets.token_urlsafe(9) if spec == PERSON else "" for spec in specs]
