"""Names of reference searchers (`jaxrl.search.searchers`), which stand beside those of bots: "searcher-200"."""

from __future__ import annotations

import re

from jaxrl_envs.shared.errors import UserError

PREFIX = "searcher-"
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
