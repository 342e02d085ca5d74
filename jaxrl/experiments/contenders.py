"""Contenders and their trainings: those that differ in traced numbers alone train side by side in one program."""

from __future__ import annotations

import itertools
import json
import re
import string
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.experiments.results import Trained
from jaxrl.games import make_stages
from jaxrl.runs.directory import RunDirectory, read_json_list
from jaxrl.runs.presence import FINISHED, read_presence
from jaxrl.text_tables import flat
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching import start
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

NAMES = string.ascii_lowercase


class Contender(NamedTuple):
    """One configuration of a comparison, as the command line gives it."""

    name: str  # a, b, ...
    text: str  # as it was written
    words: tuple[str, ...]  # path, overrides
    allow: Collection[str]  # what the file may name

    def load(self, *more: str) -> Config:
        """Returns the configuration with further overrides; raises UserError where it is wrong."""
        return configs.load(self.words[0], [*self.words[1:], *more], self.allow)


def parse(texts: Sequence[str], vary: Sequence[str], allow: Collection[str]) -> list[Contender]:
    """Returns the contenders of a command line.

    Args:
      texts: configurations with keys to change, "PATH a.b=v ...", and keys for all of them, "a.b=v".
      vary: keys with the values of a grid, "a.b=v,w", of which each contender has one point.
      allow: modules and paths that files may name, see `jaxrl.config.trust`.

    Raises:
      UserError: they are not 1 to 26, or values are no list.
    """
    each = [tuple(re.split(r"\s+(?=[\w.]+=)", text.strip())) for text in texts]  # values may have spaces
    common = [word for words in each for word in words if "=" in words[0]]
    own = [(text, words) for text, words in zip(texts, each, strict=True) if words[0] and "=" not in words[0]]
    grid = list(itertools.product(*([f"{key}={value}" for value in values] for key, values in map(choices, vary))))
    if not 0 < len(own) * len(grid) <= len(NAMES):
        raise UserError(f"give 1 to {len(NAMES)} configurations to compare, got {len(own) * len(grid)}.")
    made = [(" ".join((text, *point)), (*words, *common, *point)) for text, words in own for point in grid]
    return [Contender(name, text, words, allow) for name, (text, words) in zip(NAMES, made, strict=False)]


def choices(text: str) -> tuple[str, list[str]]:
    """Returns the key and the values, as JSON, of "KEY=A,B,C", which are separated by commas outside brackets. Raises
    UserError if the text has another form."""
    key, equals, values = text.partition("=")
    found = files.parse(f"[{values}]", f"the values of {key}") if key and values else None
    if not equals or not isinstance(found, list):
        raise UserError(f"{text!r} must be a key with its values, KEY=A,B.")
    return key, [json.dumps(each) for each in found]


class Population(NamedTuple):
    """Contenders that train side by side in one program; or a single one, whose seeds train one after the other."""

    contenders: list[Contender]
    seeds: int  # of each contender
    folder: Path  # of the runs

    @property
    def members(self) -> int:
        """Number of trainings side by side."""
        return 1 if len(self.contenders) == 1 else len(self.contenders) * self.seeds

    @property
    def name(self) -> str:
        """The letters of the contenders."""
        return "".join(contender.name for contender in self.contenders)

    def words(self, *more: str) -> list[str]:
        """Returns the overrides of a training: those given, and how the contenders differ."""
        if self.members == 1:
            return [*more, "run.seeds=1"]
        vary = varied([contender.load(*more) for contender in self.contenders])
        return [*more, f"run.seeds={self.members}", f"run.vary={json.dumps(vary)}"]

    def train(self, name: str, words: Sequence[str]) -> RunDirectory:
        """Trains what is not trained yet, in a process of its own. Raises UserError if it fails, which it explains
        itself, or is stopped."""
        first = self.contenders[0]
        allowed = [word for each in first.allow for word in ("--allow", each)]
        command = ["train", "--continue", "--config", first.words[0], "--name", name, *allowed, *first.words[1:]]
        told = " | ".join(contender.text for contender in self.contenders)
        print(f"{name}: {told}", flush=True)
        command = [sys.executable, "-m", "jaxrl", *command, *words, f"run.directory={self.folder}"]
        if code := subprocess.run(command, check=False).returncode:
            raise UserError(f"the training {name} ({told}) has ended with exit code {code}: see above.")
        return RunDirectory(self.folder / name)

    def trainings(self, words: Sequence[str]) -> Iterator[list[tuple[str, Trained]]]:
        """Trains seed by seed; yields the trainings of each run by the name of their contender."""
        if self.members > 1:
            run = self.train(self.name, words)
            names = [contender.name for contender in self.contenders for _ in range(self.seeds)]
            yield [(name, Trained(run, number, self.members)) for number, name in enumerate(names)]
            return
        for seed in range(self.seeds):
            yield [(self.name, Trained(self.train(f"{self.name}-{seed}", [*words, f"run.seed={seed}"])))]


def grouped(contenders: Sequence[Contender], seeds: int, folder: Path) -> list[Population]:
    """Returns the contenders by the program that trains them; a game on the host trains one at a time."""
    found: list[tuple[Config | None, Population]] = []
    for contender in contenders:
        config = contender.load()
        games = [games.training for _, games in make_stages(config)]
        weights = [name for name in games[0].weight_options if isinstance(config.env.options.get(name), dict)]
        program = None if games[0].host else configs.program_of(config, weights)
        same = next((group for key, group in found if key is not None and key == program), None)
        if same is None:
            found.append((program, Population([contender], seeds, folder)))
        else:
            same.contenders.append(contender)
    return [group for _, group in found]


def varied(each: Sequence[Config]) -> dict[str, list[Any]]:
    """Returns the keys in which configurations of one program differ, with their values: `run.vary`."""
    trees = [flat(configs.to_dict(config)) for config in each]
    return {key: [tree[key] for tree in trees] for key in trees[0] if any(tree[key] != trees[0][key] for tree in trees)}


def together(each: Sequence[Config], name: str) -> Config:
    """Returns the configuration that trains those of one program side by side, as the run of that name."""
    seeds = each[0].run.seeds * len(each)
    changes: dict[str, Any] = {"name": name} | ({"vary": varied(each), "seeds": seeds} if len(each) > 1 else {})
    return configs.changed(each[0], {"run": changes})


def train(config: Config, callbacks: Sequence[Callback] = ()) -> int:
    """Trains a run, or what is left of it, in this process, and tells `callbacks`; returns the exit code. Raises
    UserError if it was begun with other settings."""
    run = RunDirectory(config.run.path)
    if run.checkpoints().saved():
        start.begun_config(run, config, "give these trainings a --name of their own.")
        who, newest = read_presence(run.path), max(run.checkpoints().steps(), default=-1)
        evaluated = any(each.get("update") == newest for each in read_json_list(run.evaluation_file))
        if who is not None and who.how == FINISHED and evaluated:  # perhaps before its last update, by `train.stop`
            return 0
    return start.train(config, goes_on=True, callbacks=callbacks)
