"""The configuration: a frozen dataclass with one field for each section.

`jaxrl config` prints its keys as a table. `Config(ppo=PPOConfig(epochs=4))` is a valid way to make one in code;
`jaxrl.config.load` reads one from YAML.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, ClassVar

from jaxrl_envs.contract import registry
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section

SECTIONS = {  # name -> the class with its keys and checks, with the code that it configures; [] stands for a list
    "run": "jaxrl.runs.config:RunConfig",
    "env": "jaxrl.config.schema:EnvConfig",
    "train": "jaxrl.training.config:TrainConfig",
    "evaluate": "jaxrl.matches.config:EvaluateConfig",
    "seats": "jaxrl.league.config:SeatMix[]",
    "league": "jaxrl.league.config:LeagueConfig",
    "network": "jaxrl.networks.config:NetworkConfig",
    "ppo": "jaxrl.algorithms.ppo.config:PPOConfig",
    "dqn": "jaxrl.algorithms.dqn.config:DQNConfig",
    "hierarchical": "jaxrl.algorithms.hierarchical.config:HierarchicalConfig",
    "exploit": "jaxrl.training.config:ExploitConfig",
    "sebulba": "jaxrl.training.sebulba.config:SebulbaConfig",
    "fleet": "jaxrl.training.sebulba.remote.config:FleetConfig",
    "metrics": "jaxrl.runs.config:MetricsConfig",
}


@dataclasses.dataclass(frozen=True)
class EnvConfig(Section):
    """The game."""

    fixed: ClassVar[tuple[str, ...]] = ("",)

    id: str = option(
        "skull_king",
        "a registered name, pgx:GAME, gymnax:GAME, openspiel:GAME, or package.module:Class",
        runs=registry.permissions,
    )
    options: dict[str, Any] = option({}, "options of the game, e.g. players; `jaxrl config --env ID` lists them")


class BaseConfig:
    """What a configuration computes from its sections, and the checks of all of them."""

    if TYPE_CHECKING:  # the fields are made from `SECTIONS`
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **sections: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    @property
    def evaluation_options(self) -> dict[str, Any]:
        """Options of the game that evaluation, play and export use."""
        return {**self.env.options, **self.evaluate.options}

    @property
    def batch_size(self) -> int:
        """Environment steps per update and seed."""
        return self.train.num_envs * self.train.num_steps

    @property
    def num_calls(self) -> int:
        """Compiled calls in the whole run."""
        return -(-self.train.total_steps // (self.batch_size * self.train.updates_per_call))

    @property
    def num_updates(self) -> int:
        """Updates in the whole run: `train.total_steps` rounded up to whole calls."""
        return self.num_calls * self.train.updates_per_call

    def sections(self) -> Iterator[tuple[str, Section]]:
        """The sections by name, in order."""
        for field in dataclasses.fields(self):
            if isinstance(section := getattr(self, field.name), Section):
                yield field.name, section

    def sized(self, given: Set[str]) -> Any:
        """The configuration with the defaults that follow other keys, see `Section.sized`."""
        config = self
        for name, section in self.sections():
            config = dataclasses.replace(config, **{name: section.sized(config, given)})
        return config

    def check(self) -> None:
        """Checks all sections; raises UserError with the keys to change."""
        for _, section in self.sections():
            section.check(self)

    def check_game(self, env: Any) -> None:
        """Compares all sections with the game that is trained on; raises UserError with the keys to change."""
        for _, section in self.sections():
            section.check_game(self, env)


def _field(name: str, target: str) -> tuple[str, Any, Any]:
    """A field of the configuration from a line of `SECTIONS`; the first line of the class's docstring is its text."""
    place = target.removesuffix("[]")
    module, _, cls = place.partition(":")
    section = EnvConfig if name == "env" else getattr(importlib.import_module(module), cls)
    text = (section.__doc__ or "").partition("\n")[0]
    if place != target:
        return name, tuple[section, ...], option((section(),), text)  # type: ignore[valid-type]
    return name, section, option(section(), text)


def _make() -> type:
    """The class `Config`: the sections, and keys that are no section."""
    more: list[tuple[str, Any, Any]] = [
        ("curriculum", list[dict[str, Any]], option([], "stages in order: name, the keys that differ, until")),
        ("algorithm", dict[str, Any], option({}, "settings of an algorithm of your own, see train.algorithm")),
        (
            "callbacks",
            tuple[str, ...],
            option((), "classes of your own that are told how a training goes", **user_code.OPTION),
        ),
    ]
    fields = [_field(name, target) for name, target in SECTIONS.items()]
    made = dataclasses.make_dataclass("Config", fields + more, bases=(BaseConfig,), frozen=True)
    made.__doc__ = "A complete configuration."
    return made


if TYPE_CHECKING:

    class Config(BaseConfig):
        """A complete configuration."""

else:
    Config = _make()


@functools.cache
def config_for(game: str) -> type[Config]:
    """`Config`, with the section of the game's own if it has one."""
    section = registry.section_of(game)
    if section is None:
        return Config
    field = (game, section, option(section(), (section.__doc__ or "").partition("\n")[0]))
    return dataclasses.make_dataclass(f"ConfigOf_{game}", [field], bases=(Config,), frozen=True)
