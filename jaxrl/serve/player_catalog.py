"""The games that a server offers and the players for their seats: bots, searches, zoo policies, runs.

Only what is listed here can be named by a browser: no path, no module. Games and players are made once and shared by
all tables, with their compiled programs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.config import Config
from jaxrl.games import make_games
from jaxrl.matches.interactive import Programs
from jaxrl.matches.recording.replays import ReplayLanes
from jaxrl.matches.remote import is_remote
from jaxrl.players.player import Player, bot_player
from jaxrl.players.spec import BOT, RUN, SEARCH, ZOO, PlayerSpec, parse
from jaxrl.policies.export import load_policy, policy_game
from jaxrl.policies.find import Lookup, find_player
from jaxrl.runs.directory import RunDirectory
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.tables.game import Agent
from jaxrl.serve.tables.timed_search import LONGEST, SHORTEST, TimedSearch
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

PERSON = "person"
KEPT = 16  # games, and players of each, that are kept
MOST = 1000  # answers to who fits where that are kept
LARGEST, LISTED = 10_000, 64  # bound of a numeric game option; bound of a list's length
SECONDS = (1, 3)  # of the searches that are offered
T = TypeVar("T")


class RemoteGameError(UserError):
    """The engine of a game is another process, which no table can hold."""


@dataclasses.dataclass
class GameContext:
    """A game with its options, compiled programs and the players made for it so far."""

    config: Config
    env: Env
    programs: Programs
    agents: dict[str, Agent] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def lanes(self) -> ReplayLanes:
        """The programs that replay recorded games, made once."""
        return ReplayLanes(self.env)

    @property
    def id(self) -> str:
        """The game's name."""
        return self.config.env.id


class PlayerCatalog:
    """The games and players of a server; the methods are called in threads."""

    def __init__(self, games: Sequence[str], runs: Path, allow: Sequence[str]):
        """Makes nothing yet.

        Args:
          games: ids.
          runs: the folder of runs.
          allow: modules that files of runs may name.
        """
        self.games, self._runs, self._allow = tuple(games), runs, tuple(allow)
        self._halls: dict[str, GameContext] = {}
        self._fits: dict[tuple[str, str], bool] = {}
        self._lock = threading.RLock()

    # ---- games ------------------------------------------------------------------------------------------------------

    def context(self, game: str, options: Mapping[str, Any]) -> GameContext:
        """Returns the game with these options. Raises UserError: it is not offered, or has no such options."""
        if game not in self.games:
            raise UserError(f"this server does not offer the game {game[:60]!r}.")
        known = offered_options(game)
        for name, value in options.items():
            if name not in known:
                raise UserError(f"{game} has no option {name[:60]!r} that can be chosen here.")
            if not isinstance(value, (bool, int, float, str)) or isinstance(value, str) and name not in _literals(game):
                raise UserError(f"the option {name!r} must be a number, a truth value or one of those offered.")
            if isinstance(value, (int, float)) and not abs(value) <= LARGEST:
                raise UserError(f"the option {name!r} must be at most {LARGEST}.")
        return self._context(game, options)

    def recorded(self, game: str, options: Mapping[str, Any]) -> GameContext:
        """The game of a recording, whose options a stranger may have written; those that change nothing that is seen or
        done are left at what they are by default. Raises UserError: it is not offered, or no such game can be made."""
        changed = self._view(game, options)
        if not all(_plain(each) for each in changed.values()):
            raise UserError("the options of this recording are not such that a game is made of them here.")
        return self._context(game, changed)

    def view(self, game: str, spec: str) -> dict[str, Any]:
        """Returns the options that change what a trained player observes or does. Raises UserError: it plays
        another game."""
        named = parse(spec)
        if self._is_run(named):
            config = RunDirectory(self._runs / named.name).config(self._allow)
        else:
            config = self._trained(named)[1]
        if config.env.id != game:
            raise UserError(f"{spec[:60]} plays another game.")
        return self._view(game, config.env.options)

    def _view(self, game: str, options: Mapping[str, Any]) -> dict[str, Any]:
        if game not in self.games:
            raise UserError(f"this server does not offer the game {game[:60]!r}.")
        free, known = self._context(game, {}).env.free_options, registry.options_of(game)
        wanted = {name: each for name, each in options.items() if name in known and name not in free}
        return {name: each for name, each in wanted.items() if not _same(each, known[name].default)}

    def _context(self, game: str, options: Mapping[str, Any]) -> GameContext:
        key = json.dumps([game, dict(sorted(options.items()))])
        with self._lock:
            return _kept(self._halls, key, lambda: make_context(game, options))

    def describe(self) -> list[dict[str, Any]]:
        """Returns all games that are offered, for the page that opens tables."""
        found = []
        for game in self.games:
            with contextlib.suppress(UserError):  # what it needs is not installed
                found.append(self._described(game))
        return found

    def _described(self, game: str) -> dict[str, Any]:
        cover, driving = (registry.find_module(game, name) for name in ("cover", "driving"))
        found = {"id": game, "title": game_title(game), "about": "", "picture": "", "options": [], "seats": 0}
        if cover:
            found |= {"about": cover.ABOUT, "picture": cover.picture()}
        try:
            context = self.context(game, {})
        except RemoteGameError:  # its recorded games can be looked at
            return found
        env, opponent = context.env, self._driver(game) if driving else None
        return found | {
            "about": found["about"] or (type(env).__doc__ or game).strip().splitlines()[0],
            "seats": env.num_players,
            "people": not env.simultaneous,
            "opponent": player_name(parse(opponent or self.usual(context))),
            "matches": list(driving.MATCHES) if driving else [],
            "options": [
                {"name": name, "default": option.default, "about": option.doc, "choices": _choices(option.type)}
                for name, option in offered_options(game).items()
            ],
        }

    def _driver(self, game: str) -> str | None:
        """The zoo's policy of a game that a person drives in; it needs no fitting options, see `DrivingRoutes`."""
        return next((ZOO + name for name in zoo.names() if zoo.figures(name)["game"] == game), None)

    # ---- players ----------------------------------------------------------------------------------------------------

    def offered(self, context: GameContext) -> list[list[str]]:
        """[specification, words] of all players who can sit at a table, the strongest kinds first."""
        found = self.trained(context)
        if _may_be_searched(context.env):
            found += [f"{SEARCH}{seconds}" for seconds in SECONDS]
        return described([*found, *(BOT + name for name in reversed(list(context.env.bots)))])

    def trained(self, context: GameContext) -> list[str]:
        """The zoo policies and runs that can play this game."""
        return [each for each in self.known() if self.fits(context, each)]

    def known(self) -> list[str]:
        """Returns all zoo policies, and the runs that have a checkpoint."""
        runs = [RUN + name for name in self.run_names()]
        return [ZOO + name for name in zoo.names()] + [run for run in runs if self.newest(run) >= 0]

    def run_names(self) -> list[str]:
        """The names of the runs in the server's folder."""
        names = (path.parent.name for path in self._runs.expanduser().glob("*/config.yaml"))
        return sorted(filter(str.isprintable, names))  # no page could name the others

    def agent(self, context: GameContext, spec: str) -> Agent:
        """Returns the player called "bot:NAME", "zoo:NAME", "run:NAME", "run:NAME@UPDATE" or "search:SECONDS".

        Raises:
          UserError: there is no such player, or it plays another game.
        """
        key = f"{spec} {self.newest(spec)}"
        with self._lock:
            for old in [each for each in context.agents if each.rpartition(" ")[0] == spec and each != key]:
                del context.agents[old]  # its training has gone on
            return _kept(context.agents, key, lambda: self._make(context, parse(spec)))

    def newest(self, spec: str) -> int:
        """The update of a run's newest checkpoint, from file names; -1 for players that are not runs."""
        named = parse(spec)
        if not self._is_run(named):
            return -1
        return max(files.numbered(self._runs.expanduser() / named.name / "checkpoints"), default=-1)

    def search(self, context: GameContext) -> TimedSearch | None:
        """Returns the game's search, or None if it cannot be searched."""
        with contextlib.suppress(UserError):
            return self.agent(context, f"{SEARCH}{SECONDS[0]}").search
        return None

    def usual(self, context: GameContext) -> str:
        """The specification of the opponent for a stranger: the zoo's policy, else the strongest bot, which is the
        reference bot, or where that is random play the last that the game names."""
        zoo_names = [ZOO + name for name in zoo.names()]
        bots, reference = list(context.env.bots), context.env.reference_bot
        strongest = reference if reference in bots and reference != "random" else bots[-1]
        return next((each for each in zoo_names if self.fits(context, each)), BOT + strongest)

    def seats(self, context: GameContext) -> list[str]:
        """Returns the specifications of a table at once: a person, where people can play, and usual opponents."""
        others = [self.usual(context)] * context.env.num_players
        return others if context.env.simultaneous else [PERSON, *others[1:]]

    def adviser(self, context: GameContext, specs: Sequence[str]) -> Agent | None:
        """The agent that gives hints at a table of these players: a trained policy that sits there, else the usual
        opponent."""
        spec = next((spec for spec in specs if parse(spec).kind in (ZOO, RUN)), self.usual(context))
        return None if parse(spec).kind == BOT and context.env.delegated else self.agent(context, spec)

    def _make(self, context: GameContext, spec: PlayerSpec) -> Agent:
        if spec.kind == SEARCH:
            seconds = _seconds(spec.name)
            first = next((each.search for each in context.agents.values() if each.search), None)
            return Agent(player_name(spec), None, first or TimedSearch(context.env, context.programs), seconds)
        if spec.kind == BOT:
            if spec.name not in context.env.bots:
                raise UserError(f"{context.id} has no bot {spec.name[:60]!r}.")
            return Agent(player_name(spec), bot_player(context.env, spec.name))
        name, config, env, player = self._trained(spec)
        if not _fit(context, config, env):
            raise UserError(f"{name} plays another game than this table's.")
        return Agent(player_name(spec), player)

    def _is_run(self, spec: PlayerSpec) -> bool:
        """Returns whether a specification names a run of the server's folder."""
        return spec.kind == RUN and spec.name in self.run_names()

    def _trained(self, spec: PlayerSpec) -> tuple[str, Config, Env, Player]:
        if spec.kind == ZOO:
            policy = load_policy(zoo.policy_file(spec.name))
            return spec.text, policy.config, policy.env, policy.player(spec.text, greedy=policy.config.evaluate.greedy)
        if not self._is_run(spec):
            raise UserError(f"there is no player {spec.text[:60]!r} here.")
        checkpoint = spec.checkpoint or "newest"
        found = find_player(str(self._runs / spec.name), Lookup(checkpoint=checkpoint, allow=self._allow))
        return spec.text.removeprefix(RUN), found.config, found.env, found.players[0]

    def fits(self, context: GameContext, spec: str) -> bool:
        """Returns whether a trained player can sit at this game's tables; without reading its parameters."""
        key = spec, f"{context.id} {context.config.env.options}"
        with self._lock:
            if key not in self._fits:
                if len(self._fits) > MOST:
                    self._fits.clear()
                self._fits[key] = self._game_fits(context, parse(spec))
            return self._fits[key]

    def _game_fits(self, context: GameContext, spec: PlayerSpec) -> bool:
        try:
            if spec.kind == RUN:
                config = RunDirectory(self._runs / spec.name).config(self._allow)
                return config.env.id == context.id and _fit(context, config, make_games(config).evaluation)
            if zoo.figures(spec.name)["game"] != context.id:
                return False
            return _fit(context, *policy_game(zoo.policy_file(spec.name)))
        except UserError:
            return False
        except Exception:  # of a game's own code: one run that breaks takes no other with it
            LOG.exception("whether %s fits %s", spec.text, context.id)
            return False


def _fit(context: GameContext, config: Config, env: Env) -> bool:
    """Returns whether a policy trained in `env` can play here: same form and meaning of observations and actions."""
    kinds = [
        (each.id, each.version, each.num_players, each.num_actions, str(each.observation_spec))
        for each in (context.env, env)
    ]
    known = registry.options_of(context.config.env.id)
    # Options that no browser chooses and that may change what is seen or done: two views of one shape can differ.
    views = known.keys() - offered_options(context.config.env.id).keys() - set(env.free_options)
    mine, theirs = context.config.env.options, config.env.options
    return kinds[0] == kinds[1] and all(
        _same(mine.get(name, known[name].default), theirs.get(name, known[name].default)) for name in views
    )


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, default=str) == json.dumps(other, default=str)


def _plain(value: Any) -> bool:
    """Returns whether a value is a number, or a word that names no file."""
    if isinstance(value, (list, tuple)):
        return len(value) <= LISTED and all(map(_plain, value))
    if isinstance(value, str):
        return value.isidentifier()
    return isinstance(value, (bool, int, float)) and abs(value) <= LARGEST


def _may_be_searched(env: Env) -> bool:
    """Returns whether a search is likely to be possible; tracing would tell for sure but takes seconds."""
    knows = env.perfect_information or type(env).permute_hidden is not Env.permute_hidden
    return knows and not env.simultaneous and env.num_sides == env.num_players


def game_title(game: str) -> str:
    """Returns a game's title for people, by its id: "Skull King"; "High Card" for "my_file:HighCard"."""
    if cover := registry.find_module(game, "cover"):
        return str(cover.TITLE)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", game.rpartition(":")[2].replace("_", " ")).strip().title()


def player_name(spec: PlayerSpec) -> str:
    """Returns a player's name for people, e.g. "Zoo policy", "Hard bot"."""
    words = spec.name.replace("_", " ")
    if spec.kind == BOT:
        return f"{words[:1].upper()}{words[1:]} bot"
    return {ZOO: "Zoo policy", SEARCH: f"Search of {words} s"}.get(spec.kind, spec.text.removeprefix(RUN))


def described(specs: Sequence[str]) -> list[list[str]]:
    """[specification, words] of players to choose from, with the own names of policies of the zoo."""
    parsed = [parse(spec) for spec in specs]
    return [[each.text, player_name(each) + f" ({each.name})" * (each.kind == ZOO)] for each in parsed]


def offered_options(game: str) -> dict[str, registry.Option]:
    """The options of a game that a browser may choose: numbers, truth values and words of a list; never names of files
    or code."""
    found = registry.options_of(game)
    return {name: each for name, each in found.items() if each.type in (bool, int) or _choices(each.type)}


def _choices(kind: Any) -> list[Any]:
    return list(typing.get_args(kind)) if typing.get_origin(kind) is Literal else []


def _literals(game: str) -> set[str]:
    return {name for name, each in offered_options(game).items() if _choices(each.type)}


def make_context(game: str, options: Mapping[str, Any]) -> GameContext:
    """Makes a game with any options. Raises UserError: it cannot be played at a table."""
    config = configs.from_dict({"env": {"id": game, "options": dict(options)}})
    env = make_games(config).evaluation
    if is_remote(env):
        raise RemoteGameError(f"{game} is played by an engine that tables cannot hold: watch it by its own stories.")
    return GameContext(config, env, Programs(env))


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if SHORTEST <= (seconds := float(text)) <= LONGEST:
            return seconds
    raise UserError(f"a search takes {SHORTEST:g} to {LONGEST:g} seconds.")


def _kept(store: dict[str, T], key: str, make: Callable[[], T]) -> T:
    """Returns the stored value, made at its first use; a least-recently-used cache."""
    store[key] = store.pop(key) if key in store else make()
    while len(store) > KEPT:
        del store[next(iter(store))]
    return store[key]
