"""What a file holds of a table."""

from __future__ import annotations

import dataclasses
import secrets

from jaxrl.serve.player_catalog import PERSON
from jaxrl.serve.tables.game import GameRecord


@dataclasses.dataclass
class TableRecord:
    """What a file holds of a table.

    Attributes:
      id: of the table.
      record: of its game.
      specs: who sits there, [P]: PERSON, or as in `jaxrl.serve.player_catalog.PlayerCatalog.agent`.
      names: what they are called, [P].
      keys: secrets by which people take their seats, [P]; empty for agents.
      people: whom to rate, [P]; empty for nobody.
      made: when, in seconds of Unix time.
      pace: seconds between two moves of agents.
      rated: whether the finished game has been counted.
      undone: whether a move was taken back: such a game rates nobody.
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
    """Secrets for the seats of people."""
    return [secrets.token_urlsafe(9) if spec == PERSON else "" for spec in specs]
