"""Elo ratings of people from their finished games, to find opponents of about their strength.

Agents have the known ratings of their game (ratings/GAME.yaml); a person begins in the middle of them and moves by
Elo's rule, against each agent at the table that is rated.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np

from jaxrl.league.elo import expected_score
from jaxrl.matches.tournaments.known_ratings import of_game
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

STEP = 40.0  # the most that a game moves a rating
FARTHEST = 10_000.0  # rating points from 0, beyond any that games lead to
MOST = 10_000  # people and games that are remembered


class PeopleRatings:
    """A file of ratings, by person and game."""

    def __init__(self, file: Path):
        """Reads the file, if there is one."""
        self._file, self._lock = file, threading.Lock()
        self._known: dict[str, float] = {}
        try:
            found = files.read(file)
            numbers = {key: value for key, value in found.items() if type(value) in (int, float)}
            self._known = {key: float(value) for key, value in numbers.items() if abs(value) <= FARTHEST}
        except (UserError, AttributeError):
            pass  # no game has been finished yet, or the file is damaged: ratings start again

    def of(self, person: str, game: str) -> float:
        """Returns the rating of a person in a game."""
        agents = list(of_game(game).values())
        return self._known.get(f"{person} {game}", float(np.median(agents)) if agents else 0.0)

    def nearest(self, person: str, game: str, among: Container[str] | None = None) -> str:
        """Returns an agent near a person's rating, drawn at random among those that are about as near as the nearest.

        Raises:
          UserError: no agent of this game is rated.
        """
        agents = {name: each for name, each in of_game(game).items() if among is None or name in among}
        if not agents:
            raise UserError(f"no agent of {game} is rated: choose an opponent, or put known ratings into ratings/.")
        own = self.of(person, game)
        order = sorted(agents, key=lambda name: abs(agents[name] - own))
        near = [name for name in order if abs(agents[name] - own) <= abs(agents[order[0]] - own) + STEP / 2]
        return random.choice(near)

    def add(self, person: str, game: str, points: Sequence[tuple[str, float]]) -> None:
        """Counts a finished game: the person's points, 0, 0.5 or 1, against the agents of this name."""
        agents = of_game(game)
        rated = [each for each in points if each[0] in agents]
        if not rated:
            return
        with self._lock:
            mine = self.of(person, game)
            moved = 0.0
            for name, won in rated:
                moved += won - expected_score(mine, agents[name])
            self._known[f"{person} {game}"] = round(mine + STEP * moved / len(rated), 1)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]
            files.write(self._file, json.dumps(self._known).encode())
