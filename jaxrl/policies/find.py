"""Finds the players that specifications name (`jaxrl.players.spec`): bots, runs, checkpoints and policy files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import Any

from jaxrl import config as configs
from jaxrl.algorithms.registry import trained_player
from jaxrl.config import Config, presets
from jaxrl.games import make_games
from jaxrl.players.player import Player, agent_player
from jaxrl.players.spec import (
    AGENT,
    ALL_BOTS,
    ALL_CHECKPOINTS,
    BARE,
    BOT,
    HUB,
    RUN,
    PlayerSpec,
    parse,
    policy_file,
    run_of,
)
from jaxrl.policies.export import ExportedPolicy, load_policy
from jaxrl.runs.directory import TrainedRun, find_run, load_run, seed_names
from jaxrl.search.searchers import scripted_player
from jaxrl.zoo import hub
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError


@dataclasses.dataclass(frozen=True)
class FoundPlayers:
    """The players that one or several names stand for, and their game."""

    players: list[Player]  # one, or one for each seed of a run
    config: Config  # their own; where only bots play, the one that names the game
    env: Env
    run: TrainedRun | None = None  # the checkpoint, None for others than runs
    trained: bool = False  # whether it is a run or a policy file
    elsewhere: bool = False  # whether it plays with other options of its game than the run's own evaluations

    @property
    def name(self) -> str:
        """The name of the run, or of the first player."""
        return self.run.name if self.run else self.players[0].name

    @property
    def game(self) -> tuple[str, str, dict[str, Any]]:
        """The game's id, version and options, which all players of a tournament must share."""
        return self.config.env.id, self.env.version, self.config.evaluation_options

    def can_join(self, other: FoundPlayers) -> bool:
        """Returns whether these players can play the game of others, which may differ in `Env.free_options`."""
        mine, theirs = (
            (name, version, {key: value for key, value in options.items() if key not in self.env.free_options})
            for name, version, options in (self.game, other.game)
        )
        return mine == theirs


@dataclasses.dataclass(frozen=True)
class Lookup:
    """Settings for the lookup of players by name."""

    config: str | None = None  # the configuration that names the game of a bot; None: the defaults
    overrides: Sequence[str] = ()  # changes of that configuration, or of the one that a player was trained with
    checkpoint: str = "newest"  # checkpoint of a run that names none
    sampled: bool = False  # sample actions even if the configuration says greedy
    allow: Collection[str] = ()  # modules and paths that files may name, see `jaxrl.config.trust`


def find_player(name: str, lookup: Lookup = Lookup(), like: FoundPlayers | None = None) -> FoundPlayers:
    """Returns the bot, run or policy file called `name`. Raises UserError: there is no such player, or it plays another
    game. `name`: a specification, see `jaxrl.players.spec`; without a prefix, a policy file or a run. `like`: players
    whose game it is going to play."""
    spec = parse(name)
    if spec.kind in (BOT, AGENT):
        config = like.config if like else configs.load(lookup.config, lookup.overrides, lookup.allow)
        env = like.env if like else make_games(config).evaluation
        return FoundPlayers([_untrained(env, spec)], config, env)
    changes = () if like and not like.trained else lookup.overrides  # those of a bot name its game
    found = _trained(spec, lookup.checkpoint, lookup.allow, changes, sampled=lookup.sampled, elsewhere=True)
    if like and not found.can_join(like):
        raise UserError(f"run {name!r} plays another game than {like.name!r}: they cannot be compared.")
    return found


def find_opponents(names: Sequence[str], lookup: Lookup, like: FoundPlayers) -> list[Player]:
    """Returns the bots, searchers, agents, zoo policies and policy files with these names, where a bot needs no prefix;
    arguments and errors as for `find_player`."""
    known, env = like.env.bots, like.env
    return [
        find_player(name, lookup, like).players[0]
        if name not in known and (policy_file(parse(name)) or parse(name).kind == AGENT)
        else scripted_player(env, parse(name).label)
        for name in names
    ]


def find_policy(
    name: str, checkpoint: str = "newest", allow: Collection[str] = (), seed_index: int = 0
) -> tuple[ExportedPolicy, str]:
    """Returns the policy of zoo:NAME, hf:USER/REPO, a policy file or a run, for inference, and a name for files made of
    it. Raises UserError: there is no such policy, or the run has no such seed.

    Args:
      name: a specification, see `jaxrl.players.spec`.
      checkpoint: checkpoint of a run that names none.
      seed_index: number of one seed of a run with several.
    """
    spec = parse(name)
    if (file := policy_file(spec)) is not None:
        return load_policy(file, allow), hub.stem(spec.name) if spec.kind == HUB else file.stem
    name, own = run_of(spec)
    run = load_run(name, own or checkpoint, allow)
    if not 0 <= seed_index < len(run.params):
        raise UserError(f"run {run.name!r} has {len(run.params)} seeds, there is no number {seed_index}.")
    return ExportedPolicy(run.name, run.config, run.env, run.update, run.params[seed_index]), run.name


def _trained(
    spec: PlayerSpec,
    checkpoint: str,
    allow: Collection[str],
    overrides: Sequence[str],
    *,
    sampled: bool,
    update: bool = False,
    elsewhere: bool = False,
) -> FoundPlayers:
    """Returns a run or a policy file; with `update` its players are called NAME@UPDATE, and `elsewhere` allows other
    options of its game, see `FoundPlayers`."""
    said = presets.apply_overrides({}, overrides).get("evaluate", {})
    options = not isinstance(said, dict) or "options" in said
    if options and not elsewhere:
        raise UserError(
            "in a tournament runs play the game that they were trained on: evaluate.options are for bots alone."
        )
    file = policy_file(spec)
    if file is not None:
        policy = load_policy(file, allow, overrides)
        called = file.stem if spec.kind == BARE else spec.text
        players = [policy.player(called, greedy=policy.config.evaluate.greedy and not sampled)]
        found = FoundPlayers(players, policy.config, policy.env, trained=True, elsewhere=options)
    else:
        name, own = run_of(spec)
        run = load_run(name, own or checkpoint, allow, overrides)
        player = trained_player(run.config, run.env, run.name, None, greedy=run.config.evaluate.greedy and not sampled)
        names = seed_names(f"{run.name}@{run.update}" if update else run.name, len(run.params))
        players = [player.named(name, params) for name, params in zip(names, run.params, strict=True)]
        found = FoundPlayers(players, run.config, run.env, run, trained=True, elsewhere=options)
    if options:
        make_games(found.config)  # refuses what changes the seats, the actions or the observation
    return found


def find_players(
    texts: Sequence[str], config: str | None = None, *, sampled: bool = False, allow: Collection[str] = ()
) -> FoundPlayers:
    """Returns all players of a tournament; players of equal networks share one program. Raises UserError: unknown
    players, runs of different games, the same player twice, or no player.

    Args:
      texts: each "bots" (all of the game), "bot:NAME", "agent:package.module:Class", "RUN", "RUN@UPDATE", "RUN@best",
        "RUN@all", "zoo:NAME", "hf:USER/REPO", the path of a policy file, or a configuration key "a.b=v", of the game
        too if only bots play.
      config: the configuration that names the game if only bots play.
      sampled: sample from the policies even where evaluate.greedy is true.
    """
    overrides = [text for text in texts if "=" in text]
    names = [text for text in texts if "=" not in text]
    specs = [parse(name) for name in names]
    trained = [each for spec in specs if not _no_policy(spec) for each in _all_trained(spec, sampled, allow, overrides)]
    for each in trained:
        if each.game != trained[0].game:
            raise UserError(f"runs {each.name!r} and {trained[0].name!r} play different games: they cannot meet.")
    if trained and config:
        raise UserError("runs play the game that they were trained on: --config is for bots alone.")
    settings = trained[0].config if trained else configs.load(config, overrides, allow)
    env = trained[0].env if trained else make_games(settings).evaluation
    players = []
    for spec in specs:
        if _no_policy(spec):
            specs_of = [parse(f"{BOT}{bot}") for bot in env.bots] if spec.text == ALL_BOTS else [spec]
            players += [_untrained(env, each) for each in specs_of]
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


def _no_policy(spec: PlayerSpec) -> bool:
    return spec.text == ALL_BOTS or spec.kind in (BOT, AGENT)


def _untrained(env: Env, spec: PlayerSpec) -> Player:
    """Returns a bot, a searcher or an agent."""
    return agent_player(env, spec.name) if spec.kind == AGENT else scripted_player(env, spec.name)


def _all_trained(
    spec: PlayerSpec, sampled: bool, allow: Collection[str], overrides: Sequence[str]
) -> list[FoundPlayers]:
    """Returns the checkpoints of "RUN", "RUN@UPDATE", "RUN@best" or "RUN@all", or the policy file."""
    name, checkpoint = ("", "") if policy_file(spec) else run_of(spec)
    if checkpoint != ALL_CHECKPOINTS:
        return [_trained(spec, "newest", allow, overrides, sampled=sampled, update=True)]
    steps = find_run(name).checkpoints().steps()
    if not steps:
        raise UserError(f"run {name!r} has no checkpoint yet.")
    each = [PlayerSpec(spec.text, RUN, name, str(step)) for step in steps]
    return [_trained(one, "newest", allow, overrides, sampled=sampled, update=True) for one in each]
