"""Who takes part in a tournament: bots, runs, and checkpoints of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from envs.core import Env, PyTree
from envs.errors import UserError
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.matches.evaluate import bot_players, game_of
from jaxrl.matches.match import BOT_PREFIX, Act
from jaxrl.networks.factory import kind_of
from jaxrl.runs.directory import TrainedRun, find_run, load_run, make_act, seed_names
from jaxrl.runs.games import make_games

ALL_BOTS = "bots"


@dataclasses.dataclass(frozen=True)
class Entrant:
    """One player: a bot, or a network with parameters.

    Attributes:
      name: in tables.
      act: (params, state, key) -> action; None for a bot. Entrants with the same function are one network.
      params: for it.
    """

    name: str
    act: Act | None = None
    params: PyTree = None


@dataclasses.dataclass(frozen=True)
class Field:
    """All entrants and their game."""

    env: Env
    config: Config  # of the game: a run's, or the one given for bots
    entrants: list[Entrant]


def find_entrants(texts: Sequence[str], config: str | None = None, *, sampled: bool = False) -> Field:
    """The players named on the command line.

    Args:
      texts: each "bots" (all of the game), "bot:NAME", "RUN", "RUN@UPDATE", "RUN@best", "RUN@all", or a configuration
        key "a.b=v" of the game if only bots play.
      config: the configuration that names the game if only bots play.
      sampled: sample from the policies even where evaluate.greedy is true.

    Raises:
      UserError: unknown players, runs of different games, the same player twice, or nobody.
    """
    overrides = [text for text in texts if "=" in text]
    names = [text for text in texts if "=" not in text]
    runs = [run for name in names if not _is_bot(name) for run in _load(name)]
    for run in runs:
        if game_of(run) != game_of(runs[0]):
            raise UserError(f"runs {run.name!r} and {runs[0].name!r} play different games: they cannot meet.")
    if runs and (overrides or config):
        what = overrides[0] if overrides else "--config"
        raise UserError(f"runs play the game that they were trained on: {what} is for bots alone.")
    settings = runs[0].config if runs else configs.load(config, overrides)
    env = runs[0].env if runs else make_games(settings).evaluation
    entrants: list[Entrant] = []
    acts: dict[Any, Act] = {}
    for name in names:
        if name == ALL_BOTS:
            entrants += [Entrant(bot) for bot in env.bots]
        elif _is_bot(name):
            entrants += [Entrant(player.name) for player in bot_players(env, [name.removeprefix(BOT_PREFIX)])]
    for run in runs:
        greedy = run.config.evaluate.greedy and not sampled
        act = acts.setdefault((kind_of(run.config), greedy), make_act(run.config, run.env, greedy=greedy))
        names_of_run = seed_names(f"{run.name}@{run.update}", len(run.params))
        entrants += [Entrant(name, act, params) for name, params in zip(names_of_run, run.params, strict=True)]
    known: dict[str, Entrant] = {}
    for entrant in entrants:
        if entrant.name in known:
            raise UserError(f"{entrant.name!r} takes part twice: name it once.")
        known[entrant.name] = entrant
    return Field(env, settings, entrants)


def _is_bot(name: str) -> bool:
    return name == ALL_BOTS or name.startswith(BOT_PREFIX)


def _load(text: str) -> list[TrainedRun]:
    """The checkpoints that "RUN", "RUN@UPDATE", "RUN@best" or "RUN@all" stands for."""
    name, _, checkpoint = text.partition("@")
    if checkpoint != "all":
        return [load_run(name, checkpoint or "newest")]
    steps = find_run(name).checkpoints().steps()
    if not steps:
        raise UserError(f"run {name!r} has no checkpoint yet.")
    return [load_run(name, str(step)) for step in steps]


class Groups:
    """Entrants by what plays them: all bots are one group, and all parameters of one network another.

    Attributes:
      bots: names of the bots; their group is 0.
      acts: of the networks; the group of ``acts[g]`` is g + 1.
      params: for each network its entrants' parameters, stacked.
      group, slot: i32[M], an entrant's group, and its number in it.
    """

    def __init__(self, entrants: Sequence[Entrant]):
        """Stacks parameters of the same network; M entrants."""
        self.bots = [entrant.name for entrant in entrants if entrant.act is None]
        self.acts: list[Act] = list(dict.fromkeys(entrant.act for entrant in entrants if entrant.act is not None))
        members: list[list[PyTree]] = [[] for _ in self.acts]
        group, slot = [], []
        for entrant in entrants:
            if entrant.act is None:
                group.append(0)
                slot.append(self.bots.index(entrant.name))
            else:
                number = self.acts.index(entrant.act)
                group.append(number + 1)
                slot.append(len(members[number]))
                members[number].append(entrant.params)
        self.params = [jax.tree.map(lambda *xs: np.stack(jax.device_get(xs)), *each) for each in members]
        self.group, self.slot = np.array(group, np.int32), np.array(slot, np.int32)
