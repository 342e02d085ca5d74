"""Who is named on the command line: bots, runs, checkpoints of runs, and policy files, as players of one game."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.algorithms.registry import trained_player
from jaxrl.config import Config, presets
from jaxrl.players.export import load_policy
from jaxrl.players.player import Player
from jaxrl.runs.directory import TrainedRun, find_run, load_run, seed_names
from jaxrl.runs.games import make_games
from jaxrl.search.searchers import scripted_player
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

BOT_PREFIX = "bot:"  # "bot:NAME" is a scripted player, "bot:searcher-N" a reference searcher
ALL_BOTS = "bots"


@dataclasses.dataclass(frozen=True)
class FoundPlayers:
    """What one or several names stand for.

    Attributes:
      players: one, or one for each seed of a run.
      config: their own; where only bots play, the one that names the game.
      env: the game.
      run: the checkpoint, None for others than runs.
      trained: whether it is a run or a policy file.
      elsewhere: whether it plays with other options of its game than it was trained to be measured with.
    """

    players: list[Player]
    config: Config
    env: Env
    run: TrainedRun | None = None
    trained: bool = False
    elsewhere: bool = False

    @property
    def name(self) -> str:
        """Of the run, or of the first player."""
        return self.run.name if self.run else self.players[0].name

    @property
    def game(self) -> tuple[str, str, dict[str, Any]]:
        """What all of a tournament have in common."""
        return self.config.env.id, self.env.version, self.config.evaluation_options

    def can_join(self, other: FoundPlayers) -> bool:
        """Whether it can play the game of another one, which may differ in `Env.free_options`."""
        mine, theirs = (
            (name, version, {key: value for key, value in options.items() if key not in self.env.free_options})
            for name, version, options in (self.game, other.game)
        )
        return mine == theirs


def find_player(name: str, args: argparse.Namespace, like: FoundPlayers | None = None) -> FoundPlayers:
    """The bot, run or policy file called `name`.

    Args:
      name: "bot:NAME", "zoo:NAME", a run, or the path of a policy file.
      args: config, which names the game of a bot; overrides, of that or of what a trained player was trained with;
        checkpoint, of a run; sampled; allow, what files may name.
      like: whose game it is going to play.

    Raises:
      UserError: there is none, or it plays another game.
    """
    if name.startswith(BOT_PREFIX):
        config = like.config if like else configs.load(args.config, args.overrides, args.allow)
        env = like.env if like else make_games(config).evaluation
        return FoundPlayers([scripted_player(env, name.removeprefix(BOT_PREFIX))], config, env)
    changes = () if like and not like.trained else args.overrides  # those of a bot name its game
    found = _trained(name, args.checkpoint, args.allow, changes, sampled=args.sampled, elsewhere=True)
    if like and not found.can_join(like):
        raise UserError(f"run {name!r} plays another game than {args.candidate!r}: they cannot be compared.")
    return found


def find_opponents(names: Sequence[str], args: argparse.Namespace, like: FoundPlayers) -> list[Player]:
    """The bots, searchers, policies of the zoo ("zoo:NAME") and policy files with these names; arguments and errors as
    for `find_player`."""
    known, env = like.env.bots, like.env
    return [
        find_player(name, args, like).players[0]
        if name not in known and _policy_file(name)
        else scripted_player(env, name)
        for name in names
    ]


def default_to_zoo(name: str) -> str:
    """`name`; "zoo:NAME" if it is no run and no file of the user but a policy that comes with us."""
    if name not in zoo.names() or _policy_file(name):
        return name
    try:
        find_run(name)
    except UserError:
        return zoo.PREFIX + name
    return name


def _policy_file(name: str) -> Path | None:
    """The policy file that a name means; None if it means something else."""
    if name.startswith(zoo.PREFIX):
        return zoo.policy_file(name.removeprefix(zoo.PREFIX))
    return Path(name) if Path(name).is_file() else None


def _trained(
    name: str,
    checkpoint: str,
    allow: Collection[str],
    overrides: Sequence[str],
    *,
    sampled: bool,
    update: bool = False,
    elsewhere: bool = False,
) -> FoundPlayers:
    """A run or a policy file; with `update` its players are called NAME@UPDATE, and `elsewhere` allows what is said of
    it in `FoundPlayers`."""
    said = presets.apply_overrides({}, overrides).get("evaluate", {})
    options = not isinstance(said, dict) or "options" in said
    if options and not elsewhere:
        raise UserError(
            "in a tournament runs play the game that they were trained on: evaluate.options are for bots alone."
        )
    found = _loaded(name, checkpoint, allow, overrides, sampled=sampled, update=update)
    if options:
        make_games(found.config)  # refuses what changes the seats, the actions or the observation
    return dataclasses.replace(found, elsewhere=options)


def _loaded(
    name: str,
    checkpoint: str,
    allow: Collection[str],
    overrides: Sequence[str],
    *,
    sampled: bool,
    update: bool,
) -> FoundPlayers:
    suffix = "@{}" if update else ""
    file = _policy_file(name)
    if file is not None:
        policy = load_policy(file, allow, overrides)
        greedy = policy.config.evaluate.greedy and not sampled
        called = name if name.startswith(zoo.PREFIX) else file.stem
        return FoundPlayers([policy.player(called, greedy=greedy)], policy.config, policy.env, trained=True)
    run = load_run(name, checkpoint, allow, overrides)
    player = trained_player(run.config, run.env, run.name, None, greedy=run.config.evaluate.greedy and not sampled)
    names = seed_names(run.name + suffix.format(run.update), len(run.params))
    players = [player.named(name, params) for name, params in zip(names, run.params, strict=True)]
    return FoundPlayers(players, run.config, run.env, run, trained=True)


def find_players(
    texts: Sequence[str], config: str | None = None, *, sampled: bool = False, allow: Collection[str] = ()
) -> FoundPlayers:
    """All players of a tournament as one; players of equal networks are one program.

    Args:
      texts: each "bots" (all of the game), "bot:NAME", "RUN", "RUN@UPDATE", "RUN@best", "RUN@all", "zoo:NAME", the
        path of a policy file, or a configuration key "a.b=v", of the game too if only bots play.
      config: the configuration that names the game if only bots play.
      sampled: sample from the policies even where evaluate.greedy is true.
      allow: what the files may name, see `jaxrl.config.trust`.

    Raises:
      UserError: unknown players, runs of different games, the same player twice, or nobody.
    """
    overrides = [text for text in texts if "=" in text]
    names = [text for text in texts if "=" not in text]
    trained = [each for name in names if not _is_bot(name) for each in _all_trained(name, sampled, allow, overrides)]
    for each in trained:
        if each.game != trained[0].game:
            raise UserError(f"runs {each.name!r} and {trained[0].name!r} play different games: they cannot meet.")
    if trained and config:
        raise UserError("runs play the game that they were trained on: --config is for bots alone.")
    settings = trained[0].config if trained else configs.load(config, overrides, allow)
    env = trained[0].env if trained else make_games(settings).evaluation
    players = []
    for name in names:
        if _is_bot(name):
            bots = list(env.bots) if name == ALL_BOTS else [name.removeprefix(BOT_PREFIX)]
            players += [scripted_player(env, bot) for bot in bots]
    programs: dict[Any, Player] = {}
    for each in trained:
        tree = configs.to_dict(each.config)  # what differs in settings of an algorithm may differ in its network
        named = (each.config.train.algorithm, "algorithm", "network")
        kind = json.dumps([named[0], each.config.evaluate.greedy, *(tree.get(name) for name in named)], sort_keys=True)
        program = programs.setdefault(kind, each.players[0])
        players += [program.named(player.name, player.params) for player in each.players]
    known: set[str] = set()
    for player in players:
        if player.name in known:
            raise UserError(f"{player.name!r} takes part twice: name it once.")
        known.add(player.name)
    return FoundPlayers(players, settings, env)


def _is_bot(name: str) -> bool:
    return name == ALL_BOTS or name.startswith(BOT_PREFIX)


def _all_trained(text: str, sampled: bool, allow: Collection[str], overrides: Sequence[str]) -> list[FoundPlayers]:
    """What "RUN", "RUN@UPDATE", "RUN@best", "RUN@all" or a policy file stands for."""
    name, _, checkpoint = (text, "", "") if _policy_file(text) else text.partition("@")
    if checkpoint != "all":
        return [_trained(name, checkpoint or "newest", allow, overrides, sampled=sampled, update=True)]
    steps = find_run(name).checkpoints().steps()
    if not steps:
        raise UserError(f"run {name!r} has no checkpoint yet.")
    return [_trained(name, str(step), allow, overrides, sampled=sampled, update=True) for step in steps]
