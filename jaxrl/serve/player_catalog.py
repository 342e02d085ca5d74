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
from jaxrl.matches.tournaments import known_ratings
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
        """The programs that replay recorded games."""
        return ReplayLanes(self.env)

    @functools.cached_property
    def search(self) -> TimedSearch:
        """The game's search. Raises UserError: it cannot be searched."""
        return TimedSearch(self.env, self.programs)

    @property
    def id(self) -> str:
        """The game's name."""
        return self.config.env.id


class PlayerCatalog:
    """The games and players of a server; the methods are called in threads."""

    def __init__(self, games: Sequence[str], runs: Path, allow: Sequence[str]):
        """Makes nothing yet; `games` are ids, `runs` is a folder, whose files may name the modules `allow`."""
        self.games, self._runs, self._allow = tuple(games), runs, tuple(allow)
        self._contexts: dict[str, GameContext] = {}
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
            number = isinstance(value, (bool, int, float)) and abs(value) <= LARGEST
            if not number and not (isinstance(value, str) and _choices(known[name].type)):
                raise UserError(f"the option {name!r} must be one of those offered, or a number up to {LARGEST}.")
        return self._context(game, options)

    def recorded(self, game: str, options: Mapping[str, Any]) -> GameContext:
        """Returns the game of a recording, whose options a stranger may have written; those that change nothing that
        is seen or done keep their defaults. Raises UserError: it is not offered, or no such game can be made."""
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
        elif named.kind == ZOO and zoo.figures(named.name)["game"] == game:
            config = policy_game(zoo.policy_file(named.name))[0]
        else:
            raise UserError(f"{spec[:60]} plays another game, or is no player here.")
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
            return _kept(self._contexts, key, lambda: make_context(game, options))

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
        env, opponent = context.env, ""
        if driving:  # the zoo's policy of the game, whatever its options, see `DrivingRoutes`
            opponent = next((ZOO + name for name in zoo.names() if zoo.figures(name)["game"] == game), "")
        opponent = opponent or self.usual(context)
        return found | {
            "about": found["about"] or (type(env).__doc__ or game).strip().splitlines()[0],
            "seats": env.num_players,
            "people": not env.simultaneous,
            "opponent": opponent,
            "ladder": described(
                list(dict.fromkeys([*_bots(context), opponent, *_searches(env)[-1:]])), game
            ),  # upwards
            "matches": list(driving.MATCHES) if driving else [],
            "options": [
                {"name": name, "default": option.default, "about": option.doc, "choices": _choices(option.type)}
                for name, option in offered_options(game).items()
            ],
        }

    # ---- players ----------------------------------------------------------------------------------------------------

    def offered(self, context: GameContext) -> list[list[str]]:
        """Returns [specification, words] of all players who can sit at a table, the strongest kinds first."""
        return described([*self.trained(context), *_searches(context.env), *reversed(_bots(context))], context.id)

    def trained(self, context: GameContext) -> list[str]:
        """Returns the zoo policies and runs that can play this game."""
        return [each for each in self.known() if self.fits(context, each)]

    def known(self) -> list[str]:
        """Returns all zoo policies, and the runs that have a checkpoint, the newest first."""
        return [*self.of_the_zoo(), *self._saved_runs()]

    @staticmethod
    def of_the_zoo() -> list[str]:
        """Returns all zoo policies."""
        return [ZOO + name for name in zoo.names()]

    def _saved_runs(self) -> list[str]:
        folders = [(name, self._runs.expanduser() / name / "checkpoints") for name in self.run_names()]
        runs = {RUN + name: _modified(folder) for name, folder in folders if files.numbered(folder)}
        return sorted(runs, key=runs.__getitem__, reverse=True)

    def run_names(self) -> list[str]:
        """Returns the names of the runs in the server's folder."""
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
        """Returns the update of a run's newest checkpoint, from file names; -1 for players that are not runs."""
        named = parse(spec)
        if not self._is_run(named):
            return -1
        return max(files.numbered(self._runs.expanduser() / named.name / "checkpoints"), default=-1)

    def usual(self, context: GameContext) -> str:
        """Returns the default opponent: the zoo's policy, else the run with the newest checkpoint, else the strongest
        bot, which is the reference bot, or where that is random play the last that the game names."""
        bots, reference = list(context.env.bots), context.env.reference_bot
        strongest = reference if reference in bots and reference != "random" else bots[-1]
        places = (self.of_the_zoo, self._saved_runs)  # runs are looked at only where the zoo has no policy
        return next((each for names in places for each in names() if self.fits(context, each)), BOT + strongest)

    def seats(self, context: GameContext) -> list[str]:
        """Returns the default players of a table: a person, where people can play, and default opponents."""
        others = [self.usual(context)] * context.env.num_players
        return others if context.env.simultaneous else [PERSON, *others[1:]]

    def adviser(self, context: GameContext, specs: Sequence[str]) -> Agent | None:
        """Returns the agent that gives hints at a table of these players: a trained policy that sits there, else the
        default opponent."""
        spec = next((spec for spec in specs if parse(spec).kind in (ZOO, RUN)), self.usual(context))
        return None if parse(spec).kind == BOT and context.env.delegated else self.agent(context, spec)

    def _make(self, context: GameContext, spec: PlayerSpec) -> Agent:
        if spec.kind == SEARCH:
            with contextlib.suppress(ValueError):
                if SHORTEST <= (seconds := float(spec.name)) <= LONGEST:
                    return Agent(player_name(spec), None, context.search, seconds)
            raise UserError(f"a search takes {SHORTEST:g} to {LONGEST:g} seconds.")
        if spec.kind == BOT:
            if spec.name not in context.env.bots:
                raise UserError(f"{context.id} has no bot {spec.name[:60]!r}.")
            return Agent(player_name(spec), bot_player(context.env, spec.name))
        name, config, env, player = self._trained(spec)
        if not _fit(context, config, env):
            raise UserError(f"{name} plays another game than this table's.")
        return Agent(player_name(spec), player, env=env)

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


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):  # it has vanished
        return path.stat().st_mtime
    return 0.0


def _fit(context: GameContext, config: Config, env: Env) -> bool:
    """Returns whether a policy trained in `env` can play here: same form and meaning of observations and actions."""
    known = registry.options_of(context.config.env.id)
    mine, theirs = context.config.env.options, config.env.options
    others = {
        name for name, each in known.items() if not _same(mine.get(name, each.default), theirs.get(name, each.default))
    } - set(env.free_options)
    # Options that no browser chooses and that may change what is seen or done: two views of one shape can differ.
    if others - offered_options(context.config.env.id).keys():
        return False  # before the observations are traced
    one, other = (
        (each.id, each.version, each.num_players if others else 0, each.num_actions, str(each.observation_spec))
        for each in (context.env, env)
    )
    return one == other


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, default=str) == json.dumps(other, default=str)


def _plain(value: Any) -> bool:
    """Returns whether a value is a number, or a word that names no file."""
    if isinstance(value, (list, tuple)):
        return len(value) <= LISTED and all(map(_plain, value))
    if isinstance(value, str):
        return value.isidentifier()
    return isinstance(value, (bool, int, float)) and abs(value) <= LARGEST


def _searches(env: Env) -> list[str]:
    """Returns the searches of a game, if one is likely to be possible; tracing would tell for sure but takes
    seconds."""
    knows = env.perfect_information or type(env).permute_hidden is not Env.permute_hidden
    possible = knows and not env.simultaneous and env.num_sides == env.num_players
    return [f"{SEARCH}{seconds}" for seconds in SECONDS] if possible else []


def _bots(context: GameContext) -> list[str]:
    """Returns the bots of a game, the weakest first, by their known ratings or else as the game lists them."""
    names, known = list(context.env.bots), known_ratings.of_game(context.id)
    return [BOT + name for name in (sorted(names, key=known.__getitem__) if known.keys() >= set(names) else names)]


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


def described(specs: Sequence[str], game: str) -> list[list[str]]:
    """Returns [specification, words] of players of a game to choose from, with known ratings, and with the own names of
    policies of the zoo that are not called as the game."""
    known, found = known_ratings.of_game(game), []
    for each in map(parse, specs):
        rating = zoo.figures(each.name).get("rating", {}).get("value") if each.kind == ZOO else known.get(each.label)
        about = [] if rating is None else [f"{rating:.0f} Elo"]
        about = [each.name, *about] if each.kind == ZOO and each.name != game else about
        found.append([each.text, player_name(each) + (f" ({', '.join(about)})" if about else "")])
    return found


def offered_options(game: str) -> dict[str, registry.Option]:
    """Returns the options of a game that a browser may choose: numbers, truth values and words of a list; never names
    of files or code."""
    found = registry.options_of(game)
    return {name: each for name, each in found.items() if each.type in (bool, int) or _choices(each.type)}


def _choices(kind: Any) -> list[Any]:
    return list(typing.get_args(kind)) if typing.get_origin(kind) is Literal else []


def make_context(game: str, options: Mapping[str, Any], *, quick: bool = False) -> GameContext:
    """Makes a game with any options; `quick` as in `Programs`. Raises UserError: it cannot be played at a table."""
    config = configs.from_dict({"env": {"id": game, "options": dict(options)}})
    env = make_games(config).evaluation
    if is_remote(env):
        raise RemoteGameError(f"{game} is played by an engine that tables cannot hold: watch it by its own stories.")
    return GameContext(config, env, Programs(env, quick=quick))


def _kept(store: dict[str, T], key: str, make: Callable[[], T]) -> T:
    """Returns the stored value, made at its first use; a least-recently-used cache."""
    store[key] = store.pop(key) if key in store else make()
    while len(store) > KEPT:
        del store[next(iter(store))]
    return store[key]
