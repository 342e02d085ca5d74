"""Specifications of players, as texts: one grammar for configurations, the command line, Python and browsers.

    bot:NAME                       a scripted player of the game
    bot:searcher-N                 its reference searcher with N worlds, see `jaxrl.search.searchers`
    zoo:NAME                       a policy that comes with jaxrl
    run:NAME, run:NAME@CHECKPOINT  a trained run: its newest checkpoint, "best", or a number of updates
    search:SECONDS                 a search with a time limit, at the tables of `jaxrl serve`
    NAME, NAME@CHECKPOINT          without a prefix: among opponents a bot, elsewhere a policy file or a run

`parse` reads a text and looks at no file; `jaxrl.players.find` makes players of what it found.
"""

from __future__ import annotations

from typing import NamedTuple

BOT, ZOO, RUN, SEARCH = "bot:", "zoo:", "run:", "search:"  # the kinds, which are also the prefixes
BARE = ""  # without a prefix


class PlayerSpec(NamedTuple):
    """A parsed specification."""

    text: str  # as it was given
    kind: str  # BOT, ZOO, RUN, SEARCH or BARE
    name: str  # without the prefix and the checkpoint
    checkpoint: str = ""  # of a run; empty: the newest

    @property
    def label(self) -> str:
        """The player's name in tables: of a bot the bare name, of others the text."""
        return self.name if self.kind == BOT else self.text


def parse(text: str) -> PlayerSpec:
    """Reads the specification of a player."""
    for kind in (BOT, ZOO, RUN, SEARCH):
        if text.startswith(kind):
            name = text.removeprefix(kind)
            return PlayerSpec(text, kind, *split_checkpoint(name)) if kind == RUN else PlayerSpec(text, kind, name)
    return PlayerSpec(text, BARE, text)


def split_checkpoint(text: str) -> tuple[str, str]:
    """Splits "RUN@CHECKPOINT" into the run, by name or path, and its checkpoint, "" if the text names none."""
    name, at, checkpoint = text.rpartition("@")
    return (name, checkpoint) if at and not {"/", "\\"} & set(checkpoint) else (text, "")
