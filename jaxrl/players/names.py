"""Names of bots and reference searchers (`jaxrl.search.searchers`) in a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jaxrl_envs.shared.errors import UserError, nearest

PREFIX = "searcher-"  # of a reference searcher, e.g. "searcher-200"
FEWEST, MOST = 1, 100_000  # worlds


def worlds_of(name: str) -> int | None:
    """How many worlds a searcher of this name draws for each of its decisions; None if it is no name of a searcher.

    Raises:
      UserError: it begins like one.
    """
    if not name.startswith(PREFIX):
        return None
    number = name.removeprefix(PREFIX)
    if not re.fullmatch(r"[1-9]\d{0,5}", number) or not FEWEST <= int(number) <= MOST:
        raise UserError(f"{name!r}: a searcher is named after its worlds, {FEWEST} to {MOST}, e.g. searcher-200.")
    return int(number)


def refuse_searcher(name: str, where: str) -> None:
    """Raises UserError for the name of a searcher where only bots can be named."""
    if worlds_of(name) is not None:
        raise UserError(
            f"{where}: {name} plays whole games ahead at every move, which would cost most of the time: name a bot, or "
            "name it in evaluate.opponents, evaluate, tournament, film or play."
        )


def check_bots(names: Iterable[str], env: Any, path: str, *, searchers: bool = False) -> None:
    """Raises UserError if the game has not all of these bots; names of searchers pass where they are allowed."""
    for name in names:
        if searchers and worlds_of(name) is not None:
            continue
        refuse_searcher(name, path)
        if name not in env.bots:
            raise UserError(f"{path}: there is no bot {name!r}; {nearest(name, env.bots)}")
