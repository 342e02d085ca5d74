"""Specifications of players, as texts: one grammar for configurations, the command line, Python and browsers.

    bot:NAME                       a scripted player of the game
    bot:searcher-N                 its reference searcher with N worlds, see `jaxrl.search.searchers`
    zoo:NAME                       a policy that comes with jaxrl
    hf:USER/REPO, hf:USER/REPO@REVISION  a policy of the Hugging Face hub, see `jaxrl.zoo.hub`
    run:NAME, run:NAME@CHECKPOINT  a trained run: its newest checkpoint, "best", or a number of updates
    agent:package.module:Class     a program of the user's own, see `jaxrl_envs.contract.outside_agent`
    search:SECONDS                 a search with a time limit, at the tables of `jaxrl serve`
    NAME, NAME@CHECKPOINT          without a prefix: among opponents a bot, elsewhere a policy file or a run

`parse` reads a text and looks at no file, `policy_file` at most whether there is one, and fetches one of the hub;
`jaxrl.policies.find` makes the players. Nothing here imports jax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl import zoo
from jaxrl.zoo import hub
from jaxrl_envs.shared.errors import UserError, nearest

BOT, ZOO, RUN, AGENT, SEARCH = "bot:", "zoo:", "run:", "agent:", "search:"  # the kinds, which are also the prefixes
HUB = hub.PREFIX
BARE = ""  # without a prefix
ALL_BOTS, ALL_CHECKPOINTS = "bots", "all"  # where several players are named: all of the game, RUN@all


class PlayerSpec(NamedTuple):
    """A parsed specification."""

    text: str  # as it was given
    kind: str  # BOT, ZOO, HUB, RUN, AGENT, SEARCH or BARE
    name: str  # without the prefix and the checkpoint
    checkpoint: str = ""  # of a run; empty: the newest

    @property
    def label(self) -> str:
        """The player's name in tables: of a bot the bare name, of others the text."""
        return self.name if self.kind == BOT else self.text


def parse(text: str) -> PlayerSpec:
    """Reads the specification of a player."""
    for kind in (BOT, ZOO, HUB, RUN, AGENT, SEARCH):
        if text.startswith(kind):
            name = text.removeprefix(kind)
            return PlayerSpec(text, kind, *split_checkpoint(name)) if kind == RUN else PlayerSpec(text, kind, name)
    return PlayerSpec(text, BARE, text)


def split_checkpoint(text: str) -> tuple[str, str]:
    """Splits "RUN@CHECKPOINT" into the run, by name or path, and its checkpoint, "" if the text names none."""
    name, at, checkpoint = text.rpartition("@")
    return (name, checkpoint) if at and not {"/", "\\"} & set(checkpoint) else (text, "")


def policy_file(spec: PlayerSpec) -> Path | None:
    """Returns the policy file that a specification names; None if it names something else. Raises UserError for a
    policy that the zoo or the hub does not have."""
    if spec.kind in (ZOO, HUB):
        return zoo.policy_file(spec.name) if spec.kind == ZOO else hub.policy_file(spec.name)
    return Path(spec.name) if spec.kind == BARE and Path(spec.name).is_file() else None


def run_of(spec: PlayerSpec) -> tuple[str, str]:
    """The run that a specification names, and its checkpoint, "" for the newest. Raises UserError for other kinds."""
    if spec.kind not in (RUN, BARE):
        raise UserError(f"{spec.text!r} plays at the tables of `jaxrl serve` alone: name a run, zoo:NAME or bot:NAME.")
    return (spec.name, spec.checkpoint) if spec.kind == RUN else split_checkpoint(spec.name)


# ---- names in a configuration: bots, and searchers beside them -----------------------------------------------------

SEARCHER = "searcher-"  # of a reference searcher, e.g. "searcher-200"
FEWEST, MOST = 1, 100_000  # worlds


def worlds_of(name: str) -> int | None:
    """Returns the number of worlds in the name of a reference searcher, such as "searcher-200"; None for other names.
    Raises UserError: the name begins like that of a searcher, but its number is missing or out of range."""
    if not name.startswith(SEARCHER):
        return None
    number = name.removeprefix(SEARCHER)
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


def check_bots(names: Iterable[str], env: Any, path: str, *, searchers: bool = False, also: Sequence[str] = ()) -> None:
    """Raises UserError if the game has not all of these bots; `also` and, where they are allowed, searchers pass."""
    for name in names:
        if name in also or searchers and worlds_of(name) is not None:
            continue
        refuse_searcher(name, path)
        if name not in env.bots:
            raise UserError(f"{path}: there is no bot {name!r}; {nearest(name, [*also, *env.bots])}")
