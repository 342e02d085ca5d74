"""Creates the game of a configuration, and deploys its engine if that is a separate program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.players.spec import check_bots
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl_envs.contract.env import Env


class GameForms(NamedTuple):
    """The training and evaluation form of a game; the same object if they do not differ."""

    training: Env  # as it is trained on
    evaluation: Env  # as it is evaluated and played, e.g. whole games where training is on single rounds


Stages = Sequence[tuple[Stage, GameForms]]


def make_games(config: Config) -> GameForms:
    """Makes the game of a configuration, and checks the configuration against it. Raises UserError if there is no such
    game, or the configuration asks for something it does not have."""
    made: list[Env] = []
    for key, options in (("env", config.env.options), ("evaluate.options", config.evaluation_options)):
        if made and options == config.env.options:
            break
        try:
            made.append(_make(config, options))
            if len(made) == 1 and registry.permissions(config.env.id):  # a user's own
                _check_form(config.env.id, made[0])
        except UserError as error:
            raise UserError(f"{key}: {error}") from error
    games = GameForms(made[0], made[-1])
    compare(config, games)
    return games


def compare(config: Config, games: GameForms) -> None:
    """Raises UserError if the configuration asks for what the game does not have."""
    one, other = games
    own, played = config.env.options, config.evaluation_options
    others = {name for name in own | played if own.get(name) != played.get(name)}
    sides = () if others <= {*one.free_options} else ("sides",)  # a policy may be free to sit at larger tables
    sizes = (*sides, "num_actions", "num_features")  # the last one is traced: not where there is one game
    if one is not other and any(getattr(one, size) != getattr(other, size) for size in sizes):
        raise UserError("evaluate.options change the seats, actions or observation of the game: leave those as in env.")
    config.check_game(games.training)


def make_stages(config: Config) -> Stages:
    """Returns all stages of a training with their games; one without a curriculum. Raises UserError as `make_games`, or
    if the stages do not fit together."""
    stages: list[tuple[Stage, GameForms]] = []
    for stage in configs.stages(config):
        try:
            stages.append((stage, make_games(stage.config)))
        except UserError as error:
            if not stage.name:
                raise
            raise UserError(f"{stage}: {error}") from error
    _check_stages(stages)
    return stages


def _check_stages(stages: Stages) -> None:
    """Compares the stages with their games, in the form in which they are evaluated. Raises UserError if a stage's game
    does not fit the network of the first stage, has one side only, or lacks an opponent."""
    first, games = stages[0]
    for stage, (_, game) in stages:
        sizes = [(each.num_features, each.num_actions) for each in (game, games.evaluation)]
        if sizes[0] != sizes[1]:
            raise UserError(
                f"{stage}: its game has {sizes[0][0]} features and {sizes[0][1]} actions, that of stage "
                f"{first.name!r} {sizes[1][0]} and {sizes[1][1]}: one network plays all stages, so pad them."
            )
        if stage.until is None or not stage.until.earned:
            continue
        if game.num_sides < 2:
            raise UserError(
                f"{stage}: its game has one {game.side_name} only, so no side wins: give until.steps alone."
            )
        against, evaluated = stage.until.against, stage.config.evaluate.opponents
        check_bots(against, game, f"{stage}: until.against", searchers=bool(evaluated))
        if evaluated and (strange := [name for name in against if name not in evaluated]):
            raise UserError(f"{stage}: until.against: {strange[0]!r} is not among evaluate.opponents: add it there.")


def _check_form(id: str, env: Env) -> None:
    """Raises UserError for a user's game that breaks the contract; traces it, computes nothing."""
    from jaxrl_envs import conformance  # here, because the commands of this room import no jax

    for sentence in conformance.check(env, only=("attributes", conformance.FORM)).failures.values():
        raise UserError(f"{id}: {sentence} (`jaxrl check {id}` says more)")


def make_env(config: Config) -> Env:
    """Returns the game as it is trained on."""
    return _make(config, config.env.options)


def make_evaluation_env(config: Config) -> Env:
    """Returns the game as it is evaluated and played, e.g. whole games where training is on single rounds."""
    return _make(config, config.evaluation_options)


def _make(config: Config, options: dict[str, Any]) -> Env:
    settings = deployment(config)
    xla.prepare_game(config.env.id)
    env = registry.make(config.env.id, **options)
    if hasattr(env, "deploy"):
        env.deploy(**settings)
    return env


def deployment(config: Config) -> dict[str, Any]:
    """Returns the arguments of a game's `deploy`: its section; without a folder for logs (`log_dir`) they
    are kept in the directory of the run, if there is one."""
    run, section = config.run.path, config.game
    settings = dict(vars(section)) if section is not None else {}
    if settings.get("log_dir") == "" and config.run.name and run.is_dir():
        settings["log_dir"] = str(run.absolute())
    return settings
