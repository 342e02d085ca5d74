"""Creates the game of a configuration, and deploys its engine if that is a separate program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl_envs import conformance
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl_envs.contract.env import Env


class GameForms(NamedTuple):
    """The training and evaluation form of a game; the same object if they do not differ."""

    training: Env  # as it is trained on
    evaluation: Env  # as it is evaluated and played, e.g. whole games where training is on single rounds


def make_games(config: Config) -> GameForms:
    """Makes the game of a configuration, and checks the configuration against it.

    Raises:
      UserError: there is no such game, or the configuration asks for something it does not have.
    """
    try:
        training = evaluation = make_env(config)
        if registry.permissions(config.env.id):
            _check_form(config.env.id, training)
    except UserError as error:
        raise UserError(f"env: {error}") from error
    if config.evaluation_options != config.env.options:
        try:
            evaluation = make_evaluation_env(config)
        except UserError as error:
            raise UserError(f"evaluate.options: {error}") from error
    games = GameForms(training, evaluation)
    compare(config, games)
    return games


def compare(config: Config, games: GameForms) -> None:
    """Raises UserError if the configuration asks for what the game does not have."""
    sizes = [(game.sides, game.num_actions, game.num_features) for game in games]
    if sizes[0] != sizes[1]:
        raise UserError("evaluate.options change the seats, actions or observation of the game: leave those as in env.")
    config.check_game(games.training)


def make_stages(config: Config) -> list[tuple[Stage, GameForms]]:
    """All stages of a training with their games; one without a curriculum.

    Raises:
      UserError: as `make_games`, or the stages do not fit together.
    """
    stages = configs.stages(config)
    games = [_of_stage(stage) for stage in stages] if config.curriculum else [make_games(config)]
    configs.check_stages(stages, [each.evaluation for each in games])
    return list(zip(stages, games, strict=True))


def _of_stage(stage: Stage) -> GameForms:
    try:
        return make_games(stage.config)
    except UserError as error:
        raise UserError(f"{stage}: {error}") from error


def _check_form(id: str, env: Env) -> None:
    """Raises UserError for a user's game that breaks the contract; traces it, computes nothing."""
    for sentence in conformance.check(env, only=("attributes", conformance.FORM)).failures.values():
        raise UserError(f"{id}: {sentence} (`jaxrl check {id}` says more)")


def make_env(config: Config) -> Env:
    """The game as it is trained on."""
    return _make(config, config.env.options)


def make_evaluation_env(config: Config) -> Env:
    """The game as it is evaluated and played, e.g. whole games where training is on single rounds."""
    return _make(config, config.evaluation_options)


def _make(config: Config, options: dict[str, Any]) -> Env:
    xla.prepare_game(config.env.id)
    env = registry.make(config.env.id, **options)
    if hasattr(env, "deploy"):
        env.deploy(**deployment(config))
    return env


def deployment(config: Config) -> dict[str, Any]:
    """The arguments of a game's `deploy`: its section of the configuration; without a folder for logs (`log_dir`) they
    are kept in the directory of the run, if there is one."""
    game, run = config.env.id, config.run.path
    section = registry.section_of(game)
    settings = dict(vars(getattr(config, game, None) or section())) if section is not None else {}
    if settings.get("log_dir") == "" and config.run.name and run.is_dir():
        settings["log_dir"] = str(run.absolute())
    return settings
