"""The configuration: a frozen dataclass with one field for each section, whose classes lie with what they configure.

`jaxrl config` prints its keys as a table. `Config(ppo=PPOConfig(epochs=4))` is a valid way to make one in code;
`jaxrl.config.load` reads one from YAML.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, ClassVar

from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.hierarchical.config import HierarchicalConfig
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.matches.config import EvaluateConfig
from jaxrl.networks.config import NetworkConfig
from jaxrl.runs.config import MetricsConfig, RunConfig
from jaxrl.training.config import ExploitConfig, TrainConfig
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl.training.sebulba.remote.config import FleetConfig
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section

if TYPE_CHECKING:  # reading a configuration imports no jax
    from jaxrl_envs.contract.env import Env


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


def _section(cls: type[Section]) -> Any:
    """Returns a field that holds a section; the first line of the docstring of its class is its text."""
    return option(cls(), _text(cls))


def _text(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


@dataclasses.dataclass(frozen=True)
class Config:
    """A complete configuration."""

    run: RunConfig = _section(RunConfig)
    env: EnvConfig = _section(EnvConfig)
    train: TrainConfig = _section(TrainConfig)
    evaluate: EvaluateConfig = _section(EvaluateConfig)
    seats: tuple[SeatMix, ...] = option((SeatMix(),), _text(SeatMix))
    league: LeagueConfig = _section(LeagueConfig)
    network: NetworkConfig = _section(NetworkConfig)
    ppo: PPOConfig = _section(PPOConfig)
    dqn: DQNConfig = _section(DQNConfig)
    hierarchical: HierarchicalConfig = _section(HierarchicalConfig)
    exploit: ExploitConfig = _section(ExploitConfig)
    sebulba: SebulbaConfig = _section(SebulbaConfig)
    fleet: FleetConfig = _section(FleetConfig)
    metrics: MetricsConfig = _section(MetricsConfig)
    curriculum: list[dict[str, Any]] = option([], "stages in order: name, the keys that differ, until")
    algorithm: dict[str, Any] = option({}, "settings of an algorithm of your own, see train.algorithm")
    callbacks: tuple[str, ...] = option((), "classes of your own that are told how a training goes", **user_code.OPTION)

    @property
    def game(self) -> object | None:
        """The section of the game's own (`jaxrl_envs.contract.registry.section_of`); its key is the game's name."""
        return getattr(self, self.env.id, None) if registry.section_of(self.env.id) is not None else None

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
        """Yields the sections by name, in order."""
        for field in dataclasses.fields(self):
            if isinstance(section := getattr(self, field.name), Section):
                yield field.name, section

    def sized(self, given: Set[str]) -> Config:
        """Returns the configuration with the defaults that follow other keys, see `Section.sized`."""
        config = self
        for name, section in self.sections():
            config = dataclasses.replace(config, **{name: section.sized(config, given)})
        return config

    def check(self) -> None:
        """Checks all sections; raises UserError with the keys to change."""
        for _, section in self.sections():
            section.check(self)

    def check_game(self, env: Env) -> None:
        """Compares all sections with the game that is trained on; raises UserError with the keys to change."""
        for _, section in self.sections():
            section.check_game(self, env)


@functools.cache
def config_for(game: str) -> type[Config]:
    """Returns `Config`, with the section of the game's own if it has one."""
    section = registry.section_of(game)
    if section is None:
        return Config
    field = (game, section, option(section(), _text(section)))
    return dataclasses.make_dataclass(f"ConfigOf_{game}", [field], bases=(Config,), frozen=True)
